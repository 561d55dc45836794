// Package agent scales the autoscalers of a Kubernetes cluster as a Setpoint service
// recommends: it reads the input of each evaluation, requests a recommendation, writes the
// count, reports the outcome, and writes the status and events that the upstream controller
// would. It decides nothing itself: while the service is away it changes no count.
//
//	kube, err := agent.New(config, agent.Options{Cluster: "demo", Sources: []agent.Source{agent.Autoscaler}, …})
//	loop, err := loop.New(kube.Platform(), service, options, kube.Queue()) // of package clients/agent
//	err = kube.Run(ctx, loop) // until the context ends, or the leadership is lost
//
// It serves HorizontalPodAutoscalers, in place of the built-in controller, which must be
// switched off (otherwise the agent gives way to it); Autoscalers of its own API group, beside
// that controller; and shadows of either, for which it decides but applies nothing. Several
// agents of a cluster elect the one that acts.
package agent
