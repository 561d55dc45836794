package conversion_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

func TestExplanationsShowEveryStep(t *testing.T) {
	t.Parallel()
	at := func(seconds int) int64 { return decided.Add(time.Duration(seconds) * time.Second).UnixNano() }
	for _, tt := range []struct {
		name    string
		request string
		history *recommender.History
		want    string
	}{
		{
			// 90 of 10 each wants 9; +2 of 3 were added 20 s ago, so that 5 - 2 + 3 = 6 are allowed.
			name: "a scale-up that its policies limit",
			request: `{"explain": true, "scale": {"specReplicas": 5}, "spec": {"minReplicas": 2, "maxReplicas": 20,
				"metrics": [{"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "10"}}}],
				"behavior": {"scaleUp": {"selectPolicy": "Min", "policies": [{"type": "Pods", "value": 3, "periodSeconds": 60}, {"type": "Percent", "value": 200, "periodSeconds": 30}]}}},
				"externalMetrics": [{"metric": {"name": "q"}, "value": "60"}, {"metric": {"name": "q"}, "value": "30"}]}`,
			history: &recommender.History{
				Seen: true, Initialized: true, Updated: decided.Add(-15 * time.Second),
				Recommendations: []recommender.TimedRecommendation{{Replicas: 3, At: at(-60)}, {Replicas: 5, At: at(-20)}},
				ScaleUps:        []recommender.ScaleEvent{{Change: 2, At: at(-20)}},
			},
			want: `{
				"profile": "v1.36", "path": "Metrics", "evaluationTime": "2026-01-01T00:10:00Z", "desiredReplicas": 6,
				"metrics": [{"type": "External", "name": "external metric q(nil)", "calculation": "AverageValuePerReplica",
					"current": {"averageValue": "18"}, "target": {"type": "AverageValue", "averageValue": "10"}, "totalUsage": "90", "usageRatio": 1.8,
					"tolerance": {"scaleUp": 0.1, "scaleDown": 0.1}, "rule": "Proportional", "proposal": 9, "series": 2}],
				"proposal": {"replicas": 9, "metric": "external metric q(nil)", "metricIndex": 0},
				"stabilization": {"proposedReplicas": 9, "stabilizedReplicas": 9, "reason": "ReadyForNewScale", "windows": [
					{"direction": "Up", "replicas": 9},
					{"direction": "Down", "windowSeconds": 300, "recommendations": 2, "replicas": 9}]},
				"rateLimit": {"direction": "Up", "selectPolicy": "Min", "limit": 6, "limited": true, "policies": [
					{"type": "Pods", "value": 3, "periodSeconds": 60, "periodStart": "2026-01-01T00:09:00Z", "scaledUp": 2, "periodStartReplicas": 3, "limit": 6, "selected": true, "releaseTime": "2026-01-01T00:10:40Z"},
					{"type": "Percent", "value": 200, "periodSeconds": 30, "periodStart": "2026-01-01T00:09:30Z", "scaledUp": 2, "periodStartReplicas": 3, "limit": 9, "releaseTime": "2026-01-01T00:10:10Z"}]},
				"bounds": {"minReplicas": 2, "maxReplicas": 20, "wantedReplicas": 9, "boundedReplicas": 6, "reason": "ScaleUpLimit"}
			}`,
		},
		{
			// 50Mi of 100Mi each need only 2 of 4; 4 were recommended 100 s ago.
			name: "a scale-down that its window holds, in binary quantities",
			request: `{"explain": true, "scale": {"specReplicas": 4}, "spec": {"maxReplicas": 20,
				"metrics": [{"type": "ContainerResource", "containerResource": {"name": "memory", "container": "app", "target": {"type": "AverageValue", "averageValue": "100Mi"}}}],
				"behavior": {"scaleDown": {"stabilizationWindowSeconds": 120}}},
				"pods": [
					{"name": "a", "phase": "Running"}, {"name": "b", "phase": "Running"},
					{"name": "c", "phase": "Failed"}, {"name": "d", "phase": "Running", "deleting": true}],
				"podMetrics": [
					{"pod": "a", "containers": [{"name": "app", "usage": {"memory": "50Mi"}}]},
					{"pod": "b", "containers": [{"name": "app", "usage": {"memory": "50Mi"}}]}]}`,
			history: &recommender.History{
				Seen: true, Initialized: true, Updated: decided.Add(-15 * time.Second),
				Recommendations: []recommender.TimedRecommendation{{Replicas: 4, At: at(-200)}, {Replicas: 4, At: at(-100)}, {Replicas: 3, At: at(-50)}},
			},
			want: `{
				"profile": "v1.36", "path": "Metrics", "evaluationTime": "2026-01-01T00:10:00Z", "desiredReplicas": 4,
				"metrics": [{"type": "ContainerResource", "name": "memory resource", "calculation": "AverageValue",
					"current": {"averageValue": "50Mi"}, "target": {"type": "AverageValue", "averageValue": "100Mi"}, "totalUsage": "100Mi", "usageRatio": 0.5,
					"tolerance": {"scaleUp": 0.1, "scaleDown": 0.1}, "replicasBase": 2, "rule": "Proportional", "proposal": 1,
					"podCounts": {"ready": 2, "ignored": 2}, "pods": [
						{"name": "a", "group": "Ready", "reason": "has a sample", "usage": "50Mi"},
						{"name": "b", "group": "Ready", "reason": "has a sample", "usage": "50Mi"},
						{"name": "c", "group": "Ignored", "reason": "phase Failed"},
						{"name": "d", "group": "Ignored", "reason": "being deleted"}]}],
				"proposal": {"replicas": 1, "metric": "memory resource", "metricIndex": 0},
				"stabilization": {"proposedReplicas": 1, "stabilizedReplicas": 4, "reason": "ScaleDownStabilized", "windows": [
					{"direction": "Up", "replicas": 1},
					{"direction": "Down", "windowSeconds": 120, "recommendations": 2, "replicas": 4,
					 "recommendationTime": "2026-01-01T00:08:20Z", "releaseTime": "2026-01-01T00:10:20Z", "fullReleaseTime": "2026-01-01T00:11:10Z"}]},
				"rateLimit": {"direction": "None", "selectPolicy": ""},
				"bounds": {"minReplicas": 1, "maxReplicas": 20, "wantedReplicas": 4, "boundedReplicas": 4, "reason": "DesiredWithinRange"}
			}`,
		},
		{
			// 90 % is far above 50 %, but with two more pods at nothing it is 30 %: neither up nor down.
			name: "missing and unready pods that are filled in",
			request: `{"explain": true, "scale": {"specReplicas": 3}, "spec": {"maxReplicas": 20,
				"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}], "behavior": {}},
				"pods": [
					{"name": "a", "phase": "Running", "startTime": "2025-01-01T00:00:00Z", "ready": {"status": "True"}, "containers": [{"name": "app", "requests": {"cpu": "500m"}}]},
					{"name": "b", "phase": "Running", "startTime": "2025-01-01T00:00:00Z", "ready": {"status": "True"}, "containers": [{"name": "app", "requests": {"cpu": "500m"}}]},
					{"name": "c", "phase": "Pending", "containers": [{"name": "app", "requests": {"cpu": "500m"}}]}],
				"podMetrics": [{"pod": "a", "timestamp": "2026-01-01T00:09:50Z", "containers": [{"name": "app", "usage": {"cpu": "450m"}}]}]}`,
			want: `{
				"profile": "v1.36", "path": "Metrics", "evaluationTime": "2026-01-01T00:10:00Z", "desiredReplicas": 3,
				"metrics": [{"type": "Resource", "name": "cpu resource utilization (percentage of request)", "calculation": "Utilization",
					"current": {"averageUtilization": 90, "averageValue": "450m"}, "target": {"type": "Utilization", "averageUtilization": 50},
					"totalUsage": "450m", "totalRequests": "500m", "usageRatio": 1.8, "dampenedUsageRatio": 0.6,
					"tolerance": {"scaleUp": 0.1, "scaleDown": 0.1}, "rule": "DampenedReversed", "proposal": 3,
					"podCounts": {"ready": 1, "unready": 1, "missing": 1}, "pods": [
						{"name": "a", "group": "Ready", "reason": "has a sample", "usage": "450m", "request": "500m"},
						{"name": "b", "group": "Missing", "reason": "no sample", "request": "500m", "assumedUsage": "0"},
						{"name": "c", "group": "Unready", "reason": "phase Pending", "request": "500m", "assumedUsage": "0"}]}],
				"proposal": {"replicas": 3, "metric": "cpu resource utilization (percentage of request)", "metricIndex": 0},
				"stabilization": {"proposedReplicas": 3, "stabilizedReplicas": 3, "reason": "ReadyForNewScale", "windows": [
					{"direction": "Up", "replicas": 3},
					{"direction": "Down", "windowSeconds": 300, "recommendations": 1, "replicas": 3}]},
				"rateLimit": {"direction": "None"},
				"bounds": {"minReplicas": 1, "maxReplicas": 20, "wantedReplicas": 3, "boundedReplicas": 3, "reason": "DesiredWithinRange"}
			}`,
		},
		{
			name: "a metric that could not be read",
			request: `{"explain": true, "scale": {"specReplicas": 3}, "spec": {"maxReplicas": 20, "metrics": [{"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "10"}}}]},
				"metricErrors": [{"metric": "q", "message": "503"}]}`,
			want: `{
				"profile": "v1.36", "path": "MetricsFailed", "evaluationTime": "2026-01-01T00:10:00Z", "desiredReplicas": 3,
				"metrics": [{"type": "External", "name": "external metric q(nil)", "calculation": "Value", "target": {"type": "Value", "value": "10"},
					"tolerance": {"scaleUp": 0.1, "scaleDown": 0.1}, "error": "unable to get external metric shop/q/nil: unable to fetch metrics from external metrics API: 503"}]
			}`,
		},
		{
			name:    "a bound that is enforced at once",
			request: `{"explain": true, "scale": {"specReplicas": 30}, "spec": {"maxReplicas": 20}}`,
			want: `{
				"profile": "v1.36", "path": "AboveMax", "evaluationTime": "2026-01-01T00:10:00Z", "desiredReplicas": 20,
				"bounds": {"minReplicas": 1, "maxReplicas": 20, "wantedReplicas": 30, "boundedReplicas": 20, "reason": "TooManyReplicas"}
			}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := input(t, request(t, tt.request))
			decision, _ := recommender.Recommend(decided, in, tt.history)
			got := conversion.Response(&decision).GetExplanation()
			got.History = nil // its own test
			want := &setpointv1.Explanation{}
			fatal.If(t, protojson.Unmarshal([]byte(tt.want), want))
			if !proto.Equal(got, want) {
				t.Errorf("got %s\nwant %s", protojson.Format(got), protojson.Format(want))
			}
		})
	}
}

func TestExplanationsTellOfTheHistoryBefore(t *testing.T) {
	t.Parallel()
	const text = `{"explain": true, "scale": {"specReplicas": 3}, "spec": {"maxReplicas": 20}}`
	history := &recommender.History{
		Seen: true, Initialized: true, Updated: decided.Add(-time.Minute),
		Recommendations: []recommender.TimedRecommendation{{Replicas: 4, At: decided.Add(-time.Minute).UnixNano()}, {Replicas: 4, At: decided.Add(-time.Hour).UnixNano()}},
		ScaleUps:        []recommender.ScaleEvent{{Change: 1, At: 1}},
		ScaleDowns:      []recommender.ScaleEvent{{Change: 1, At: 1}, {Change: 1, At: 1}},
	}
	decision, _ := recommender.Recommend(decided, input(t, request(t, text)), history)
	got := conversion.Response(&decision).GetExplanation().GetHistory()
	if got.GetRecommendations() != 2 || got.GetScaleUps() != 1 || got.GetScaleDowns() != 2 || !got.GetOldestRecommendationTime().AsTime().Equal(decided.Add(-time.Hour)) {
		t.Errorf("the history is explained as %v", got)
	}
	decision, _ = recommender.Recommend(decided, input(t, request(t, text)), nil)
	if got := conversion.Response(&decision).GetExplanation().GetHistory(); got.GetRecommendations() != 0 || got.GetOldestRecommendationTime() != nil || !got.GetYoungerThanWindow() {
		t.Errorf("no history is explained as %v", got)
	}
}
