// Package manifest reads what kubectl prints and people write: autoscalers of all five
// versions, scales, workloads, pods and metrics, in JSON or YAML, alone, in lists or in
// several documents.
//
//	var dump manifest.Dump
//	err := dump.Read("dump.yaml", file)         // hpa, deployment, pods, metrics
//	snapshot, err := dump.Snapshot("shop/web")  // what belongs to this autoscaler
//	request, err := snapshot.Request("demo")    // ask with it
package manifest
