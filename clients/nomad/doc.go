// Package nomad scales task groups of Nomad: it is the adapter of Nomad for package agent's loop.
//
//	client, err := nomad.Connect(nomad.Config{Address: "https://nomad:4646", TokenFile: "/secrets/token"})
//	platform, err := nomad.New(client, nomad.Options{Sources: set})
//	driver, err := agent.NewDriver(platform, service, agent.Options{Cluster: "demo"}, agent.DriverOptions{})
//
// A group opts in, and sets its spec, with the block setpoint in the policy of its scaling block
// ([ParsePolicy]). An allocation is a pod with the allocation's id as its name; its tasks are
// containers.
// A count is written with the JobModifyIndex of the job as it was read.
//
// # Units
//
// The resource cpu is in MHz, as resources.cpu of a task is: "300" is 300 MHz, and a request
// of 500 with a usage of 300 is a utilization of 60 %. The resource memory is in bytes.
//
// # Polling
//
// The adapter uses a blocking query only for the list of policies. The index of a scale status goes
// back when an allocation fails, and a restored snapshot wakes no query, so that each reconcile
// reads counts and allocations. It does not use the event stream: without rights that stays silent,
// without an error.
package nomad
