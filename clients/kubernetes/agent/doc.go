// Package agent scales the autoscalers of a Kubernetes cluster as a Setpoint service
// recommends: it reads the input of each evaluation, requests a recommendation, writes the
// count, reports the outcome, and writes the status and events that the upstream controller
// would. It decides nothing itself: while the service is away it changes no count.
//
//	client, err := setpoint.New("setpoint:9090", setpoint.WithTokenFile(file))
//	// …
//	agent, err := agent.New(config, agent.Service{Calls: client, Stream: client.Stream(0)},
//		agent.Options{Cluster: "demo", Sources: []agent.Source{agent.Autoscaler}, Election: &agent.Election{Namespace: "setpoint", Name: "setpoint-agent"}})
//	// …
//	err = agent.Run(ctx) // until the context ends, or the leadership is lost
//
// It serves HorizontalPodAutoscalers, in place of the built-in controller, which must be
// switched off (otherwise the agent gives way to it); Autoscalers of its own API group, beside
// that controller; and shadows of either, for which it decides but applies nothing. Several
// agents of a cluster elect the one that acts.
package agent
