// Package cluster reads from a real cluster what one evaluation of one
// HorizontalPodAutoscaler sees, and writes back the scale that was decided.
//
//	client, err := apiserver.New(config)
//	reader := cluster.NewReader(cluster.Sources{
//		Mapper: client.Mapper(), Scales: client, Pods: client, Metrics: client,
//	}, cluster.Options{})
//	snapshot, err := reader.Snapshot(ctx, autoscaler)
//	request, err := snapshot.Request("demo")         // ask with it
//	scale, err := reader.Apply(ctx, snapshot, 5)     // apply the answer
//
// It reads what the upstream controller reads, in its order and with its words
// for what fails. A metrics API that fails is an entry of the snapshot and
// concerns only the autoscalers that need it.
//
// To evaluate many autoscalers, take pods from an informer (package podcache) and scales from a
// cache (package scalecache). A [Reader] shares readings of metrics between evaluations of the
// same moment.
//
// It decides nothing and does not read autoscalers themselves.
package cluster
