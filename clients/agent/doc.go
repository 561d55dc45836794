// Package agent is the loop of every platform's agent: for each object, at its pace, it
// reads, asks the service, applies the count, reports what became of it, and has the
// platform tell people. It decides nothing itself: while the service is away it changes no
// count.
//
//	driver, err := agent.NewDriver(platform, agent.Service{Calls: client, Stream: client.Stream(0)},
//		agent.Options{Cluster: "demo"}, agent.DriverOptions{})
//	// …
//	err = driver.Run(ctx) // until the context ends and rounds in flight are done
//
// What is particular to a platform is behind the interfaces [Platform] and [Watched], and
// [Teller] where it has a place to tell people something. Package agenttest has the suite
// that each adapter passes.
//
// A platform that brings a queue of its own, as Kubernetes does with controller-runtime's,
// calls [Loop.Round] itself: never twice at once for one object, again after the wait that
// it returns, and at once for objects that Options.Wake names.
package agent
