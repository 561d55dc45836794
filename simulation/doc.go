// Package simulation runs a workload and its autoscaler in virtual time: load arrives,
// pods serve it, metrics are measured late and coarsely as in a cluster, the production
// engine decides, and the platform follows.
//
//	result, err := simulation.Run(&scenario, &autoscaler, nil)
//	fmt.Println(result.Figures.ShortTime, result.Figures.ReplicaHours)
//
// Package scenario reads the first argument, package hpa the second one; hpa has examples.
//
// The decisions are not modelled: each is package recommender's, with the input that the
// service builds and a history kept from step to step. Only the world around it is
// modelled, with the behavior of a plain cluster as default.
//
// A run is a pure function of its arguments: no clock, no goroutine, no random source but
// the seed. It gives the same bits on every processor. Go may fuse x*y+z into one rounding
// on some architectures (arm64) and not on others (amd64), so every product of floats is
// rounded by itself (mul), and functions that package math implements in assembly are not
// used (number.go).
//
// Load is a fluid: it has a volume and no requests. Between two changes the rate is linear
// and the capacity constant, so volumes are exact.
package simulation
