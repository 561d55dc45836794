// Package kubernetes turns a cluster's objects around one HorizontalPodAutoscaler into a
// request to Setpoint. It has no scaling rule and does no I/O: objects come from package
// manifest (files of kubectl), from package recording, or from a watch of a cluster.
//
//	request, err := snapshot.Request("demo") // send it
//
// A [Snapshot] takes the place of the API server's answers: it selects pods and samples as the
// API server would have for the upstream controller's calls. It words errors as the upstream
// controller does, for example about an unknown kind or an apiVersion that does not parse.
//
// It does not talk to a cluster, apply a recommendation or validate the spec's values, which
// the service does.
package kubernetes
