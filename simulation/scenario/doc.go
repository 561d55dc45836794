// Package scenario reads the description of a simulation's world: load, workload, loop and
// events, in YAML, with the files of recorded load that it names.
//
//	s, err := scenario.Read(ctx, "web.yaml", data, nil, open)
//	result, err := simulation.Run(s, &autoscaler, nil)
package scenario
