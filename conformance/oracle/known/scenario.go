package known

import (
	"encoding/json"
	"fmt"
	"time"
)

type object = map[string]any

// start is the time of the first round.
var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// scenario of the case, in the format of recordings.
func (c Case) scenario() object {
	steps := make([]object, len(c.Rounds))
	for i := range c.Rounds {
		steps[i] = c.Rounds[i].step()
	}
	spec := `{"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, ` + c.Spec + `}`
	return object{
		"config": object{
			"tolerance": 0.1, "cpuInitializationPeriodSeconds": 300, "initialReadinessDelaySeconds": 30,
			"downscaleStabilizationSeconds": c.Window,
		},
		"hpa":   object{"metadata": object{"name": "web", "namespace": "default"}, "spec": json.RawMessage(spec)},
		"steps": steps,
	}
}

// step returns the step of a round: pods that have run for an hour, and their samples.
func (r *Round) step() object {
	now := start.Add(r.After)
	var pods, samples []object
	for i := range r.Replicas {
		metadata := object{"name": fmt.Sprintf("web-%d", i), "labels": object{"app": "web"}}
		pods = append(pods, object{
			"metadata": metadata,
			"spec": object{"containers": []object{
				{"name": "app", "resources": object{"requests": object{"cpu": "1"}}},
			}},
			"status": object{
				"phase":     "Running",
				"startTime": start.Add(-time.Hour),
				"conditions": []object{
					{"type": "Ready", "status": "True", "lastTransitionTime": start.Add(-time.Hour)},
				},
			},
		})
		if i < len(r.Usage) {
			samples = append(samples, object{
				"metadata": metadata, "timestamp": now, "window": "30s",
				"containers": []object{{"name": "app", "usage": object{"cpu": fmt.Sprintf("%dm", r.Usage[i])}}},
			})
		}
	}
	return object{
		"time": now, "pods": pods, "podMetrics": samples,
		"scale": object{
			"spec":   object{"replicas": r.Replicas},
			"status": object{"replicas": r.Replicas, "selector": "app=web"},
		},
	}
}
