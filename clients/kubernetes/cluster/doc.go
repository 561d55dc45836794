// Package cluster reads the input of one evaluation of a HorizontalPodAutoscaler from a real
// cluster, and writes the decided scale.
//
//	client, err := apiserver.New(config)
//	reader := cluster.NewReader(cluster.Sources{
//		Mapper: client.Mapper(), Scales: client, Pods: client, Metrics: client,
//	}, cluster.Options{})
//	snapshot, err := reader.Snapshot(ctx, autoscaler, nil)
//	request, err := snapshot.Request("demo")         // ask with it
//	scale, err := reader.Apply(ctx, snapshot, 5)     // apply the answer
//
// It reads what the upstream controller reads, in its order and with its error messages. A
// failing metrics API is recorded in the snapshot and affects only the autoscalers that need
// it.
//
// To evaluate many autoscalers, take pods from an informer (package podcache) and scales from a
// cache (package scalecache). A [Reader] shares readings of metrics between simultaneous
// evaluations.
//
// It decides nothing and does not read autoscalers themselves.
package cluster
