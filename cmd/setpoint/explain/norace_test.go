//go:build !race

package explain

// fuzzScenarios is how many fuzzed scenarios are read: all.
const fuzzScenarios = 1 << 30
