// Package swarm scales the services of a Docker Swarm: it is the Swarm adapter for package
// agent's loop.
//
//	engine, err := swarm.Connect(client.FromEnv)
//	platform := swarm.New(engine, swarm.Options{Sources: set})
//	driver, err := agent.NewDriver(platform, service, agent.Options{Cluster: "demo"}, agent.DriverOptions{})
//
// A service opts in, and sets its spec, with labels of the service, not of its containers
// ([ParseLabels]). A task is a pod with the task's id as its name; it has one container.
// Requests are the reservations, or else the limits. The adapter writes a count together with
// the whole spec, under the version at which it read both.
//
// Swarm has no metrics API: all values, even usage, come from the sources of package samples.
// The agent needs a manager's engine.
package swarm
