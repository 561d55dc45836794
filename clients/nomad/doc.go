// Package nomad has what an agent for Nomad needs of a cluster: the policy of a task group's
// scaling block as a spec, allocations as pods, statistics of allocations as samples, the groups
// to scale as they come, change and go, and the write of a count. It decides nothing.
//
//	policy, hold := nomad.ParsePolicy(scaling)     // of GET /v1/scaling/policy/:id
//	pods := health.Pods("web", true, allocations)  // of GET /v1/allocations?resources=true
//	metrics := nomad.Usage(allocation, statistics) // of GET /v1/client/allocation/:id/stats
//	err := nomad.Watch(ctx, client, "*", changed)
//	err = nomad.Scale(ctx, client, group, nomad.Scaling{Count: &count, JobModifyIndex: index})
//
// # Units
//
// The resource cpu is in MHz, as resources.cpu of a task is: "300" is 300 MHz, and a request
// of 500 with a usage of 300 is a utilization of 60 %. The resource memory is in bytes.
//
// There is no agent.Platform and no program yet that scales task groups with it.
package nomad
