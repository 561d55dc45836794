// Package generate makes random scenarios in the format of recordings: one autoscaler, its
// target and a row of evaluations, aimed at the rules and traps of the
// HorizontalPodAutoscaler controller. The same seed makes the same scenario.
//
//	scenario, err := generate.Scenario(seed, generate.Parameters{Version: "v1.36"}, decider)
//
// A simulated cluster follows the decisions: a [Decider] returns the outcome of each step,
// and the next step begins there. Any decider will do that keeps the scenario plausible;
// scenarios contain no expectations.
//
// Specs that the API server would refuse occur only in one of some thousand scenarios.
// Outcomes that depend on the processor occur only in scenarios with [TagExtreme]. Features
// that the API of a Kubernetes version lacks are absent, or rare if that API drops them
// silently.
package generate
