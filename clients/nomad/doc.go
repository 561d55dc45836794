// Package nomad scales task groups of Nomad: it is the adapter of Nomad for package agent's loop.
//
//	client, err := nomad.Connect(nomad.Config{Address: "https://nomad:4646", TokenFile: "/secrets/token"})
//	platform, err := nomad.New(client, nomad.Options{Sources: set})
//	driver, err := agent.NewDriver(platform, service, agent.Options{Cluster: "demo"}, agent.DriverOptions{})
//
// A group opts in and says what it wants by the block setpoint in the policy of its scaling block
// ([ParsePolicy]). An allocation is a pod whose name is the allocation's id; its tasks are containers.
// A count is written with the JobModifyIndex of the job as it was read.
//
// # Units
//
// The resource cpu is in MHz, as resources.cpu of a task is: "300" is 300 MHz, and a request
// of 500 with a usage of 300 is a utilization of 60 %. The resource memory is in bytes.
//
// # What is not waited for
//
// Of Nomad's blocking queries only the list of policies is waited for. The index of a scale status
// goes back when an allocation fails, and a restored snapshot wakes nobody, so that counts and
// allocations are read in each reconcile. The event stream is left alone: without rights it stays
// silent, which is no error.
package nomad
