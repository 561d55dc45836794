// Package apiserver reads and writes a cluster over its API server, each call a request of its own.
//
//	client, err := apiserver.New(config)
//	reader := cluster.NewReader(cluster.Sources{
//		Mapper: client.Mapper(), Scales: client, Pods: client, Metrics: client,
//	}, cluster.Options{})
//
// Errors are the API's own.
package apiserver
