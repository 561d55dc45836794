// Package kubernetes turns what a cluster shows of one HorizontalPodAutoscaler
// into the request that asks Setpoint about it. It holds no scaling rule and does
// no I/O: objects come from package manifest (files of kubectl), from package
// recording, or from a watch of a cluster.
//
//	request, err := snapshot.Request("demo") // ask with it
//
// A [Snapshot] takes the place of the API server's answers: it selects pods and
// samples as the API server would have for the upstream controller's calls. What
// it can't decide alone, such as which kinds the cluster knows or whether an
// apiVersion parses, it reports in the upstream controller's words.
//
// It does not talk to a cluster, apply a recommendation or check the rules for
// the spec's values, which the service checks.
package kubernetes
