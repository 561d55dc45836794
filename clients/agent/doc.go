// Package agent is the reconcile loop of every platform's agent. For each object, once per
// period, it observes, asks the service, applies the count, reports the outcome to the service
// and has the platform show it to people. It decides nothing itself: while the service is away
// it changes no count.
//
//	driver, err := agent.NewDriver(platform, agent.Service{Calls: client, Stream: client.Stream(0)},
//		agent.Options{Cluster: "demo"}, agent.DriverOptions{})
//	// …
//	err = driver.Run(ctx) // until the context ends and reconciles in flight are done
//
// An adapter implements [Platform] and [Watched] for its platform, and [Teller] if the platform
// can show something to people. Package agenttest has the suite that each adapter passes;
// examples/platform is a whole agent.
//
// A platform with a queue of its own, as Kubernetes has controller-runtime's, calls
// [Loop.Reconcile] itself to reconcile an object: never concurrently for one object, again after
// the returned wait, and at once for objects that QueueOptions.Wake names.
package agent
