// Package nodes provides the usage of a swarm's tasks to the agent, without a metrics API: on
// each node a [Sampler] reads the container statistics of tasks from the node's own engine, and
// a [Sender] reports them; at the agent a [Handler] puts reports into a [Store].
//
// A reading is a rate over the time between two reads of a container's counters, with the
// instant of the second one. A task without two is not reported: it is missing, not idle.
//
// A node authenticates with a certificate whose common name is the node's id, as the swarm
// itself issues one to each node, or with a secret that all nodes share. A task's usage counts
// only if it comes from the node that runs the task. With certificates a node can therefore lie
// only about its own tasks; with a shared secret every holder of the secret can speak for any
// node.
package nodes
