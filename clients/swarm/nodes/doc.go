// Package nodes brings the usage of a swarm's tasks to the agent, without a metrics API: on
// each node a [Sampler] reads the statistics of the containers of tasks from the node's own
// engine, and a [Sender] reports them; at the agent a [Handler] takes reports into a [Store].
//
// A reading is a rate over the time between two reads of a container's counters, with the
// instant of the second one. A task without two is not reported: it is missing, not idle.
//
// A node is who it says it is either by a certificate with the node's id as its common name,
// as the swarm itself gives one to each node, or by a secret that all nodes share. A task's
// usage counts only as the node reports it that the swarm has put the task on. With
// certificates a node can therefore lie only about its own tasks; with a shared secret every
// holder of the secret can speak for any node.
package nodes
