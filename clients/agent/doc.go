// Package agent is the loop of every platform's agent: for each object, at its pace, it
// reads, asks the service, applies the count, reports what became of it, and has the
// platform tell people. It decides nothing itself: while the service is away it changes no
// count.
//
//	loop, err := agent.New(platform, agent.Service{Calls: client, Stream: client.Stream(0)}, agent.Options{Cluster: "demo"})
//	// …
//	wait, again := loop.Round(ctx, key) // has a round of the object if one is due
//
// What is particular to a platform is behind the interface [Platform], and [Teller] where
// it has a place to tell people something. Rounds of one object must not overlap: whoever
// calls Round, which is the queue of controller-runtime for Kubernetes, sees to that, comes
// again after the wait that it returns, and at once for objects that Options.Wake names.
package agent
