// Package recording reads, writes and replays recordings: what a
// HorizontalPodAutoscaler controller saw of its cluster, evaluation by evaluation,
// and what came of it. A recording is a file of JSON lines, optionally compressed
// with gzip, one scenario a line, made of real Kubernetes API objects.
//
//	reader := recording.NewReader("curated.jsonl.gz", file)
//	for scenario, err := range reader.All() {
//		...
//		player := recording.NewPlayer(scenario)
//		for i := range scenario.Steps {
//			step := &scenario.Steps[i]
//			request, err := player.Request(step, "replay") // nil: the autoscaler is deleted
//			...                                            // ask; to apply fails with step.ScaleUpdateError; report
//			outcome := recording.OutcomeOf(answer, report, applied)
//			differences := step.Differences(outcome)
//		}
//	}
//
// The player stands in for the cluster: it answers as the metrics APIs would have
// for the controller's calls. It does not decide anything and keeps no history.
package recording
