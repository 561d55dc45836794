// Package recording reads, writes and replays recordings of a HorizontalPodAutoscaler
// controller: the input and the outcome of each evaluation. A recording is a file of JSON
// lines, optionally compressed with gzip, with one scenario a line, made of real Kubernetes API
// objects.
//
//	reader := recording.NewReader("curated.jsonl.gz", file)
//	for scenario, err := range reader.All() {
//		...
//		player := recording.NewPlayer(scenario)
//		for i := range scenario.Steps {
//			step := &scenario.Steps[i]
//			request, err := player.Request(step, "replay") // nil: the autoscaler is deleted
//			...                                            // request; applying fails with step.ScaleUpdateError; report
//			outcome := recording.OutcomeOf(answer, report, applied)
//			differences := step.Differences(outcome)
//		}
//	}
//
// The player stands in for the cluster: it answers the controller's calls as the metrics APIs
// would have. It decides nothing and keeps no history.
package recording
