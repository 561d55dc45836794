//go:build race

package explain

// fuzzScenarios is how many fuzzed scenarios are read: with the race detector,
// which slows this down by much, the first hundred.
const fuzzScenarios = 100
