// Package cluster reads from a real cluster what one evaluation of one
// HorizontalPodAutoscaler sees, and writes back the scale that was decided.
//
//	clients, err := cluster.NewClients(config)
//	reader := cluster.NewReader(cluster.Sources{
//		Mapper: clients.Mapper(), Scales: clients, Pods: clients, Metrics: clients,
//	}, cluster.Options{})
//	snapshot, err := reader.Snapshot(ctx, autoscaler)
//	request, err := snapshot.Request("demo")         // ask with it
//	scale, err := reader.Apply(ctx, snapshot, 5)     // apply the answer
//
// It reads what the upstream controller reads, in its order and with its words
// for what fails. A metrics API that fails is an entry of the snapshot and
// concerns only the autoscalers that need it.
//
// Who evaluates many autoscalers takes pods from an informer ([InformerPods]) and
// reads a scale again only when its object changed ([ScaleCache]). Readings of
// metrics are shared by a [Reader] between evaluations of the same moment.
//
// It decides nothing and does not read autoscalers themselves.
package cluster
