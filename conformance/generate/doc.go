// Package generate makes random scenarios in the format of recordings: one
// autoscaler, its target and a row of evaluations, aimed at the rules and traps of
// the HorizontalPodAutoscaler controller. The same seed makes the same scenario.
//
//	scenario, err := generate.Scenario(seed, generate.Parameters{Version: "v1.36"}, decider)
//
// A cluster follows what is decided for it: a [Decider] says after each step what
// came of it, and the next step begins there. Whose answers those are does not
// matter, only that the scenario stays plausible; a scenario holds no expectations.
//
// What the API server would refuse is left out, save for a scenario in some
// thousands. What comes out differently on different processors happens only in
// the scenarios that carry [TagExtreme]. What the API of a Kubernetes version does
// not have is absent, or rare where that API drops it without a word.
package generate
