// Package nomad translates what a Nomad cluster tells into what a RecommendRequest holds: the
// policy of a task group's scaling block into a spec, allocations into pods, and statistics of
// allocations into samples. It decides nothing and asks nobody.
//
//	policy, hold := nomad.ParsePolicy(scaling)     // of GET /v1/scaling/policy/:id
//	pods := health.Pods("web", true, allocations)  // of GET /v1/allocations?resources=true
//	metrics := nomad.Usage(allocation, statistics) // of GET /v1/client/allocation/:id/stats
//
// # Units
//
// The resource cpu is in MHz, as resources.cpu of a task is: "300" is 300 MHz, and a request
// of 500 with a usage of 300 is a utilization of 60 %. The resource memory is in bytes.
//
// There is no program yet that scales task groups with it.
package nomad
