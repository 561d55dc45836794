// Package manifest reads the output of kubectl and hand-written manifests: autoscalers of all
// five versions, scales, workloads, pods and metrics, in JSON or YAML, single, in lists or in
// several documents.
//
//	var dump manifest.Dump
//	err := dump.Read("dump.yaml", file)         // hpa, deployment, pods, metrics
//	snapshot, err := dump.Snapshot("shop/web")  // the input of this autoscaler
//	request, err := snapshot.Request("demo")    // send it
package manifest
