// Package nomad scales task groups of Nomad: it is the Nomad adapter for package agent's loop.
//
//	client, err := nomad.Connect(nomad.Config{Address: "https://nomad:4646", TokenFile: "/secrets/token"})
//	platform, err := nomad.New(client, nomad.Options{Sources: set})
//	driver, err := agent.NewDriver(platform, service, agent.Options{Cluster: "demo"}, agent.DriverOptions{})
//
// A group opts in, and sets its spec, with the block setpoint in the policy of its scaling
// block ([ParsePolicy]). An allocation is a pod with the allocation's id as its name; its tasks
// are containers. The adapter writes a count conditionally on the JobModifyIndex of the job it
// has read.
//
// # Units
//
// The resource cpu is in MHz, as resources.cpu of a task is: "300" is 300 MHz, and a request of
// 500 with a usage of 300 is a utilization of 60 %. The resource memory is in bytes.
//
// # Polling
//
// The adapter uses a blocking query only for the list of policies. Each reconcile reads counts
// and allocations, because the index of a scale status decreases when an allocation fails, and
// a restored snapshot wakes no query. The adapter does not use the event stream, which stays
// silent, without an error, if the token lacks the capability.
package nomad
