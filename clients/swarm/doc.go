// Package swarm scales the services of a Docker Swarm: it is the adapter of Swarm for package
// agent's loop.
//
//	engine, err := swarm.Connect(client.FromEnv)
//	platform, err := swarm.New(engine, swarm.Options{Sources: set})
//	driver, err := agent.NewDriver(platform, service, agent.Options{Cluster: "demo"}, agent.DriverOptions{})
//
// A service opts in, and sets its spec, with labels of the service, not of its containers
// ([ParseLabels]). A task is a pod with the task's id as its name; it has one
// container. Requests are the reservations, or else the limits. The count is
// written with the whole spec as it was read, under the version that it was read with.
//
// Swarm has no metrics API: all values, even usage, come from the sources of package samples.
// The agent needs a manager's engine.
package swarm
