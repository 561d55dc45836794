package nomad_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/nomad/api"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/clients/nomad/nomadtest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// The examples of docs/guides/nomad.md, as parsed by Nomad 1.10.5.
func TestExamplesOfTheDocs(t *testing.T) {
	for _, text := range []string{
		`{"setpoint":[{"cpu":60}]}`,
		`{"setpoint":[{"behavior":[{"scaleDown":[{"policies":[{"periodSeconds":60,"type":"Percent","value":50}],"stabilizationWindowSeconds":120}]}],"cpu":60,"memory":80,"metric":[{"queue":[{"average":30,"query":"sum(queue_depth{job=\"web\"})","source":"prometheus"}]}],"period":"10s"}]}`,
		`{"setpoint":[{"cpu":60,"stages":[{"schedules":[{"cron":"0 8 * * 1-5","duration":"43200s","minReplicas":8,"name":"office","timeZone":"Europe/Berlin"}],"windowThroughFailures":true}]}]}`,
		`{"setpoint":"cpu: 60\nbehavior: {scaleDown: {stabilizationWindowSeconds: 120}}\n"}`,
	} {
		scaling := &api.ScalingPolicy{Min: new(int64(2)), Max: new(int64(10))}
		fatal.If(t, json.Unmarshal([]byte(text), &scaling.Policy))
		if policy, hold := nomad.ParsePolicy(scaling); policy == nil || hold != nil || len(policy.Spec.GetMetrics()) == 0 {
			t.Errorf("%s: %+v", text, hold)
		}
	}
}

// scaling is a policy as a server sends it.
func scaling(t *testing.T, minimum, maximum int64, policy string) *api.ScalingPolicy {
	t.Helper()
	out := &api.ScalingPolicy{Min: &minimum, Max: &maximum, Enabled: new(true), Type: "horizontal"}
	fatal.If(t, json.Unmarshal([]byte(policy), &out.Policy))
	return out
}

func checkSpec(t *testing.T, p *nomad.Policy, hold *agent.Hold, want string) {
	t.Helper()
	if hold != nil {
		t.Fatalf("held: %s: %s", hold.Reason, hold.Message)
	}
	if p == nil {
		t.Fatal("it is not taken for one of Setpoint's")
	}
	wanted := &setpointv1.HorizontalPodAutoscalerSpec{}
	fatal.If(t, protojson.Unmarshal([]byte(want), wanted))
	if !proto.Equal(p.Spec, wanted) {
		t.Errorf("got  %s\nwant %s", protojson.Format(p.Spec), protojson.Format(wanted))
	}
}

const cpu80 = `{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}`

const cpu60 = `{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}`

func TestPolicies(t *testing.T) {
	for _, tt := range []struct{ name, policy, want string }{
		{"the shortest that works", `{"setpoint": [{"cpu": 60.0}]}`,
			`{"minReplicas": 1, "maxReplicas": 10, "metrics": [` + cpu60 + `]}`},
		{"an empty block means cpu at 80 %, as with the HorizontalPodAutoscaler", `{"setpoint": [{}]}`,
			`{"minReplicas": 1, "maxReplicas": 10, "metrics": [` + cpu80 + `]}`},
		{"nested blocks, each a list with one map", `{"setpoint": [{"behavior": [{"scaleDown": [{"stabilizationWindowSeconds": 120.0, "tolerance": 0.05,
				"policies": [{"type": "Percent", "value": 10.0, "periodSeconds": 60.0}, {"type": "Pods", "value": 4.0, "periodSeconds": 60.0}]}]}]}]}`,
			`{"minReplicas": 1, "maxReplicas": 10, "metrics": [` + cpu80 + `], "behavior": {"scaleDown": {"stabilizationWindowSeconds": 120, "tolerance": "0.05",
				"policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}, {"type": "Pods", "value": 4, "periodSeconds": 60}]}}}`},
		{"one block where there may be several", `{"setpoint": [{"behavior": [{"scaleUp": [{"policies": [{"type": "Pods", "value": 1.0, "periodSeconds": 60.0}]}]}]}]}`,
			`{"minReplicas": 1, "maxReplicas": 10, "metrics": [` + cpu80 + `], "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}}`},
		{"a job registered as JSON has maps as they are", `{"setpoint": {"metrics": [` + cpu60 + `], "behavior": {"scaleDown": {"selectPolicy": "Disabled"}}, "shadow": null}}`,
			`{"minReplicas": 1, "maxReplicas": 10, "metrics": [` + cpu60 + `], "behavior": {"scaleDown": {"selectPolicy": "Disabled"}}}`},
		{"a heredoc in YAML", `{"setpoint": "cpu: 60\nbehavior:\n  scaleDown: {stabilizationWindowSeconds: 60}\n"}`,
			`{"minReplicas": 1, "maxReplicas": 10, "metrics": [` + cpu60 + `], "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}`},
		{"what jsonencode makes", `{"setpoint": "{\"cpu\":60}"}`,
			`{"minReplicas": 1, "maxReplicas": 10, "metrics": [` + cpu60 + `]}`},
		{"a quantity is a text or a number", `{"setpoint": [{"metrics": [{"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "64Mi"}}},
				{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app", "target": {"type": "AverageValue", "averageValue": 300.0}}}]}]}`,
			`{"minReplicas": 1, "maxReplicas": 10, "metrics": [{"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "64Mi"}}},
				{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app", "target": {"type": "AverageValue", "averageValue": "300"}}}]}`},
		{"metrics of sources, as blocks with names", `{"setpoint": [{"memory": 80.0, "metric": [
				{"queue": [{"source": "prom", "query": "sum(queue)", "average": 30.0}]}, {"rate": [{"source": "prom", "query": "rate", "podLabel": "alloc_id", "average": "1500m"}]}]}]}`,
			`{"minReplicas": 1, "maxReplicas": 10, "metrics": [{"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 80}}},
				{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "30"}}},
				{"type": "Pods", "pods": {"metric": {"name": "rate"}, "target": {"type": "AverageValue", "averageValue": "1500m"}}}]}`},
		{"metrics of sources, as a map", `{"setpoint": [{"metric": {"queue": {"source": "prom", "query": "sum(queue)", "value": 100.0}}}]}`,
			`{"minReplicas": 1, "maxReplicas": 10, "metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "100"}}}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, hold := nomad.ParsePolicy(scaling(t, 1, 10, tt.policy))
			checkSpec(t, p, hold, tt.want)
		})
	}
}

func TestPoliciesOfOthersAreLeftAlone(t *testing.T) {
	for name, policy := range map[string]*api.ScalingPolicy{
		"no policy block":        {},
		"the Nomad Autoscaler's": scaling(t, 1, 10, `{"check": [{"cpu": [{}]}]}`),
		"not enabled, or a stopped job": func() *api.ScalingPolicy {
			p := scaling(t, 1, 10, `{"setpoint": [{"cpu": 60.0}]}`)
			p.Enabled = new(false)
			return p
		}(),
	} {
		if p, hold := nomad.ParsePolicy(policy); p != nil || hold != nil {
			t.Errorf("%s: got %v, %v", name, p, hold)
		}
	}
}

func TestGroupsOfTheNomadAutoscalerAreRefused(t *testing.T) {
	recorded := nomadtest.RecordedBody[*api.ScalingPolicy](t, "policies", "policies-0008")
	p, hold := nomad.ParsePolicy(recorded)
	if p != nil || hold == nil || hold.Reason != agent.ReasonConflictingAutoscaler || !strings.Contains(hold.Message, "Nomad Autoscaler") {
		t.Fatalf("got %v, %v", p, hold)
	}
	delete(recorded.Policy, "check")
	p, hold = nomad.ParsePolicy(recorded)
	checkSpec(t, p, hold, `{"minReplicas": 1, "maxReplicas": 10, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 120}},
		"metrics": [`+cpu60+`, {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "64Mi"}}}]}`)
}

func TestABlockWithoutKeysAndTwoBlocks(t *testing.T) {
	for policy, want := range map[string]string{
		`{"setpoint": ""}`: "setpoint: must be one block with keys, or a text with them, in YAML or JSON", `{"setpoint": [{"cpu": 60.0}, {"cpu": 70.0}]}`: "setpoint: stands 2 times: write one block with all keys",
	} {
		if _, hold := nomad.ParsePolicy(scaling(t, 1, 10, policy)); hold == nil || hold.Message != want {
			t.Errorf("%s: %+v, want %s", policy, hold, want)
		}
	}
}

func TestRecordedPolicyWithUnknownKeys(t *testing.T) {
	_, hold := nomad.ParsePolicy(nomadtest.RecordedBody[*api.ScalingPolicy](t, "policies", "policies-0018"))
	if hold == nil || hold.Reason != agent.ReasonInvalidObject {
		t.Fatalf("got %v", hold)
	}
	for _, key := range []string{"setpoint.f:", "setpoint.n:", "setpoint.none:"} {
		if !strings.Contains(hold.Message, key) {
			t.Errorf("it does not tell of %s %s", key, hold.Message)
		}
	}
}

// The vocabulary's own problems are those of package settings.
func TestProblemsOfBothBlocksAreReported(t *testing.T) {
	_, hold := nomad.ParsePolicy(scaling(t, 1, 1<<40, `{"setpoint": [{"memroy": 80.0, "min": 2.0, "behavior": [{"scaleUp": 3.0}]}]}`))
	if hold == nil {
		t.Fatal("it is not held")
	}
	for _, want := range []string{
		"scaling.max: must be between 0 and 2^31-1", "setpoint.memroy: there is no such key; did you mean memory?",
		"setpoint.min: belongs to the scaling block", "setpoint.behavior.scaleUp: must be a mapping of keys to values",
	} {
		if !strings.Contains(hold.Message, want) {
			t.Errorf("it does not tell %q: %s", want, hold.Message)
		}
	}
}

func TestSettingsOfAPolicy(t *testing.T) {
	p, hold := nomad.ParsePolicy(scaling(t, 0, 10, `{"setpoint": [{"period": "30s", "shadow": true, "metric": [{"queue": [{"source": "prom", "query": "q", "average": 5.0}]}]}]}`))
	if hold != nil {
		t.Fatal(hold.Message)
	}
	if p.Period != 30*time.Second || !p.Shadow || !p.Options.GetScaleToZero() || len(p.Metrics) != 1 || p.Metrics[0].Query.Query != "q" {
		t.Errorf("got %+v", p)
	}
}

// With zero allocations there are no statistics to scale up by.
func TestAMinimumOfZeroNeedsASource(t *testing.T) {
	_, hold := nomad.ParsePolicy(scaling(t, 0, 10, `{"setpoint": [{"cpu": 60.0}]}`))
	if hold == nil || !strings.Contains(hold.Message, "scaling.min") {
		t.Errorf("got %v", hold)
	}
}

// The fleet is a key of the block, and a group with a wrong one is not decided alone.
func TestFleetOfPolicies(t *testing.T) {
	t.Parallel()
	_, hold := nomad.ParsePolicy(scaling(t, 2, 10, `{"setpoint": [{"cpu": 60, "fleet": "web"}]}`))
	if hold == nil || !strings.HasPrefix(hold.Message, "setpoint.fleet: must be the whole name of a fleet") {
		t.Errorf("held: %+v", hold)
	}
	synctest.Test(t, func(t *testing.T) {
		_, p := start(t, func(w *world) {
			w.register(job{name: "web", count: 2, policy: queue("web", "fleet: clusters/f/namespaces/shop/targets/web\n")})
		})
		if o := agenttest.Object(t, p, keyOf("web")); o.Fleet != "clusters/f/namespaces/shop/targets/web" {
			t.Errorf("the object has the fleet %q", o.Fleet)
		}
	})
}

// Stages are a key of the block.
func TestStagesOfPolicies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, p := start(t, func(w *world) {
			w.register(job{name: "web", count: 2, policy: queue("web", "stages: {windowThroughFailures: true}\n")})
		})
		if o := agenttest.Object(t, p, keyOf("web")); !o.Stages.GetWindowThroughFailures() {
			t.Errorf("the object has the stages %v", o.Stages)
		}
	})
}
