package manifest_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

const (
	hpaHead = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\n"
	ownHead = "apiVersion: autoscaling.setpoint.dev/v1\nkind: Autoscaler\n"
)

// manifestOf is an autoscaler with two external metrics, of which the first has a fallback.
func manifestOf(head, metadata, fallback, more string) string {
	return head + "metadata: {name: web" + metadata + `}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 9
  metrics:
  - {type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: "10"}, fallback: ` + fallback + `}}
  - {type: External, external: {metric: {name: load}, target: {type: AverageValue, averageValue: "10"}}}
` + more
}

// KEP-5679's field of both kinds is one of the fallbacks of their stages.
func TestFallbacksOfManifests(t *testing.T) {
	t.Parallel()
	const annotated = `, annotations: {setpoint.dev/stages: '{"windowThroughFailures": true, "fallbacks": [{"metric": "External:load", "ignore": true}]}'}`
	const own = "  stages: {windowThroughFailures: true, fallbacks: [{metric: \"External:load\", ignore: true}]}\n"
	for _, c := range []struct{ name, text, want string }{
		{"an HPA", manifestOf(hpaHead, "", "{replicas: 4}", ""), `{"fallbacks": [{"metric": "External:queue", "failureDuration": "180s", "replicas": 4}]}`},
		{"an Autoscaler", manifestOf(ownHead, "", "{replicas: 4, failureDurationSeconds: 240}", ""), `{"fallbacks": [{"metric": "External:queue", "failureDuration": "240s", "replicas": 4}]}`},
		{"an annotated HPA", manifestOf(hpaHead, annotated, "{replicas: 4}", ""),
			`{"windowThroughFailures": true, "fallbacks": [{"metric": "External:load", "ignore": true}, {"metric": "External:queue", "failureDuration": "180s", "replicas": 4}]}`},
		{"an Autoscaler with stages", manifestOf(ownHead, "", "{replicas: 4}", own),
			`{"windowThroughFailures": true, "fallbacks": [{"metric": "External:load", "ignore": true}, {"metric": "External:queue", "failureDuration": "180s", "replicas": 4}]}`},
	} {
		dump := manifest.Dump{Own: true}
		if err := dump.Read("a.yaml", strings.NewReader(c.text)); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got, err := dump.Stages(dump.Autoscalers[0])
		want := &setpointv1.Stages{}
		fatal.If(t, protojson.Unmarshal([]byte(c.want), want))
		if err != nil || !proto.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, want)
		}
		if m := dump.Autoscalers[0].Spec.Metrics; len(m) != 2 || m[0].External.Metric.Name != "queue" || m[0].External.Target.AverageValue.String() != "10" {
			t.Errorf("%s: metrics %v", c.name, m)
		}
	}
}

// A fleet is named where the agent reads it: by a HorizontalPodAutoscaler's annotation, by an Autoscaler's spec.
func TestFleetsOfManifests(t *testing.T) {
	t.Parallel()
	const fleet = "clusters/all/namespaces/shop/targets/web"
	const annotated = ", annotations: {setpoint.dev/fleet: " + fleet + "}"
	for _, c := range []struct{ name, text, want, err string }{
		{"an annotated HPA", manifestOf(hpaHead, annotated, "{replicas: 4}", ""), fleet, ""},
		{"an Autoscaler", manifestOf(ownHead, "", "{replicas: 4}", "  fleet: "+fleet), fleet, ""},
		{"an annotated Autoscaler", manifestOf(ownHead, annotated, "{replicas: 4}", ""), "", ""},
		{"an Autoscaler whose fleet is no name", manifestOf(ownHead, "", "{replicas: 4}", "  fleet: web"), "", "spec.fleet: "},
	} {
		dump := manifest.Dump{Own: true}
		if err := dump.Read("a.yaml", strings.NewReader(c.text)); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got, err := dump.Fleet(dump.Autoscalers[0])
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func TestFallbacksOfManifestsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, metadata, fallback, want string }{
		{"too soon", "", "{replicas: 4, failureDurationSeconds: 179}", "spec.metrics[0].external.fallback.failureDurationSeconds: Invalid value: 179: must be between 180 and 3600"},
		{"too late", "", "{replicas: 4, failureDurationSeconds: 3601}", "spec.metrics[0].external.fallback.failureDurationSeconds: Invalid value: 3601"},
		{"no replicas", "", "{}", "spec.metrics[0].external.fallback.replicas: Invalid value: 0: must be greater than 0"},
		{"an unknown field", "", "{replicas: 4, failureDuration: 4s}", `metrics[0].external.fallback.failureDuration`},
	} {
		for _, head := range []string{hpaHead, ownHead} {
			dump := manifest.Dump{Own: true}
			err := dump.Read("a.yaml", strings.NewReader(manifestOf(head, c.metadata, c.fallback, "")))
			if err == nil || !strings.Contains(err.Error(), c.want) || len(dump.Autoscalers) != 0 {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
		}
	}
	const twice = "spec.metrics[0].external.fallback: Forbidden: stages.fallbacks has one for External:queue, too"
	stages := `{"fallbacks": [{"metric": "External:queue", "ignore": true}]}`
	for name, text := range map[string]string{
		"an HPA":        manifestOf(hpaHead, ", annotations: {setpoint.dev/stages: '"+stages+"'}", "{replicas: 4}", ""),
		"an Autoscaler": manifestOf(ownHead, "", "{replicas: 4}", "  stages: "+stages+"\n"),
	} {
		dump := manifest.Dump{Own: true}
		if err := dump.Read("a.yaml", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), twice) {
			t.Errorf("%s with both: %v", name, err)
		}
	}
}
