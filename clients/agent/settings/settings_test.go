package settings_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/settings"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// form offers all settings, without a prefix.
var form = settings.Form{Measured: settings.Usage(true)}

// tree is a JSON document as encoding/json decodes it, numbers as floats, as Nomad's do.
func tree(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	fatal.If(t, json.Unmarshal([]byte(text), &out))
	return out
}

func read(t *testing.T, f settings.Form, from map[string]any) *settings.Settings {
	t.Helper()
	got, err := f.Read(from)
	fatal.If(t, err)
	return got
}

// Labels, blocks of HCL and JSON say the same in their own forms.
func TestOneVocabularyInEachForm(t *testing.T) {
	t.Parallel()
	labels := map[string]string{
		"x.min": "2", "x.max": "10", "x.cpu": "60%", "x.period": "30s", "x.shadow": "true",
		"x.behavior":            "scaleDown: {stabilizationWindowSeconds: 60, tolerance: 0.05}",
		"x.metric.queue.source": "prom", "x.metric.queue.query": "sum(q)", "x.metric.queue.average": "30",
		"x.metric.rate.source": "prom", "x.metric.rate.query": "rate", "x.metric.rate.podLabel": "pod", "x.metric.rate.average": "1500m", "x.metric.rate.window": "1m",
		"other": "1",
	}
	blocks := tree(t, `{"min": 2.0, "max": 10.0, "cpu": 60.0, "period": "30s", "shadow": true,
		"behavior": [{"scaleDown": [{"stabilizationWindowSeconds": 60.0, "tolerance": 0.05}]}],
		"metric": [{"queue": [{"source": "prom", "query": "sum(q)", "average": 30.0}]}, {"rate": [{"source": "prom", "query": "rate", "podLabel": "pod", "average": "1500m", "window": "1m"}]}]}`)
	document, err := typed.Document(`
min: 2
max: 10
cpu: 60
period: 30s
shadow: true
behavior: {scaleDown: {stabilizationWindowSeconds: 60, tolerance: "0.05"}}
metric:
  queue: {source: prom, query: sum(q), average: 30}
  rate: {source: prom, query: rate, podLabel: pod, average: 1500m, window: 1m}
`, 1<<16)
	fatal.If(t, err)
	want := &setpointv1.HorizontalPodAutoscalerSpec{}
	fatal.If(t, protojson.Unmarshal([]byte(`{"minReplicas": 2, "maxReplicas": 10, "metrics": [
		{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}},
		{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "30"}}},
		{"type": "Pods", "pods": {"metric": {"name": "rate"}, "target": {"type": "AverageValue", "averageValue": "1500m"}}}],
		"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60, "tolerance": "0.05"}}}`), want))
	prefixed := form
	prefixed.Prefix = "x."
	for name, got := range map[string]*settings.Settings{
		"labels": read(t, prefixed, settings.Nested(labels, "x.")), "blocks of HCL": read(t, form, blocks), "a document": read(t, form, document.(map[string]any)),
	} {
		if !proto.Equal(got.Spec, want) {
			t.Errorf("%s: got  %v\nwant %v", name, got.Spec, want)
		}
		var queries []samples.Query
		for _, m := range got.Metrics {
			queries = append(queries, m.Query)
		}
		if wanted := []samples.Query{{Source: "prom", Query: "sum(q)"}, {Source: "prom", Query: "rate", PodLabel: "pod", Window: samples.Duration(time.Minute)}}; !reflect.DeepEqual(queries, wanted) {
			t.Errorf("%s: queries %+v, want %+v", name, queries, wanted)
		}
		if got.Period != 30*time.Second || !got.Shadow || len(got.Warnings) > 0 {
			t.Errorf("%s: period %s, shadow %t, warnings %q", name, got.Period, got.Shadow, got.Warnings)
		}
	}
}

func TestAllProblemsAreTold(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 101 {
		many = append(many, fmt.Sprintf(`"m%d": {"source": "a"}`, i))
	}
	for name, tt := range map[string]struct {
		tree string
		want []string
	}{
		"an unknown key":                     {`{"max": 3, "cup": 60}`, []string{"p.cup: there is no such key; did you mean cpu?"}},
		"a key that stands elsewhere":        {`{"max": 3, "elsewhere": 1}`, []string{"p.elsewhere: set it there"}},
		"no bound":                           {`{}`, []string{"p.max: is required"}},
		"a wrong bound is not missing, too":  {`{"max": "many"}`, []string{"p.max: must be a whole number of replicas"}},
		"a source's key":                     {`{"max": 3, "metric": {"queue": {"average": 1, "sourc": "a"}}}`, []string{"p.metric.queue.sourc: there is no such key; did you mean source?"}},
		"no target":                          {`{"max": 3, "metric": {"queue": {"source": "a"}}}`, []string{"p.metric.queue.average: is required"}},
		"a wrong target is not missing, too": {`{"max": 3, "metric": {"queue": {"source": "a", "average": -1}}}`, []string{"p.metric.queue.average: must be a quantity above 0"}},
		"a type without a spec":              {`{"max": 3, "metric": {"External:queue": {"source": "a", "average": 1}}}`, []string{"p.metric.External:queue: has a type in its name, as only metrics of a spec have: write p.metric.queue"}},
		"a metric twice":                     {`{"max": 3, "metric": [{"queue": {"source": "a", "average": 1}}, {"queue": {"source": "b", "average": 1}}]}`, []string{"p.metric.queue: is set twice"}},
		"a name with control characters":     {`{"max": 3, "metric": {"a\nb": {}}}`, []string{"p.metric.a b: the name of a metric"}},
		"no metrics":                         {`{"max": 3, "metric": 5}`, []string{"p.metric: must be metrics with their names"}},
		"a fleet's last name":                {`{"max": 3, "fleet": "web"}`, []string{`p.fleet: must be the whole name of a fleet, clusters/CLUSTER/namespaces/NAMESPACE/targets/TARGET, not "web"`}},
		"a fleet of no name":                 {`{"max": 3, "fleet": ""}`, []string{`p.fleet: must be the whole name of a fleet`}},
		"a fleet of places":                  {`{"max": 3, "fleet": "clusters/../namespaces/shop/targets/web"}`, []string{`p.fleet: must be the whole name of a fleet`}},
		"a fleet of megabytes":               {`{"max": 3, "fleet": "` + strings.Repeat("x", 1<<20) + `"}`, []string{`p.fleet: is longer than`}},
		"usage of what nobody measures":      {`{"max": 3, "metrics": [{"type": "Resource", "resource": {"name": "gpu"}}]}`, []string{`p.metrics[0]: usage of "gpu" is not available`}},
		"a spec's metric without a source": {`{"spec": {"maxReplicas": 3, "metrics": [{"type": "External", "external": {"metric": {"name": "queue"}}}]}}`,
			[]string{`p.spec.metrics[0]: "queue" has no source: set p.metric.queue.source`}},
		"a source without a metric of the spec": {`{"spec": {"maxReplicas": 3}, "metric": {"queue": {"source": "a"}}}`, []string{"p.metric.queue: the spec has no such metric"}},
		"usage has no source where the platform measures it": {`{"spec": {"maxReplicas": 3, "metrics": [{"type": "Resource", "resource": {"name": "cpu"}}]}, "metric": {"Resource:cpu": {"source": "a"}}}`,
			[]string{"p.metric.Resource:cpu: the spec has no such metric"}},
		"stages of wrong shapes": {`{"max": 3, "stages": {"schedule": [], "fallbacks": [{"metrc": "a", "replicas": "ten", "failureDuration": "soon"}], "zeroGuards": [{"metric": 5}], "idle": []}}`, []string{
			`p.stages.fallbacks[0].failureDuration: must be a Duration, such as "300s"`, "p.stages.fallbacks[0].metrc: there is no such key; did you mean metric?",
			"p.stages.fallbacks[0].replicas: must be a whole number", "p.stages.idle: must be a mapping", "p.stages.schedule: there is no such key; did you mean schedules?", "p.stages.zeroGuards[0].metric: must be a text",
		}},
		"bounds the wrong way round":             {`{"min": 4, "max": 3}`, []string{"p.min: 4 is above p.max, which is 3"}},
		"numbers that are none, zero or beyond":  {`{"min": -1, "max": 3000000000, "cpu": "+60", "memory": 0.6}`, []string{"p.cpu: must be", "p.max: must be", "p.memory: must be", "p.min: must be"}},
		"a period out of range":                  {`{"max": 3, "period": "100ms"}`, []string{"p.period: must be a duration from 1s to 1h"}},
		"two targets":                            {`{"max": 3, "metric": {"queue": {"source": "a", "average": 1, "value": 1}}}`, []string{"p.metric.queue.value: can't be set beside average"}},
		"a target of all for values of replicas": {`{"max": 3, "metric": {"queue": {"source": "a", "podLabel": "task", "value": 1}}}`, []string{"p.metric.queue.value: has no meaning"}},
		"a target that takes minutes to parse":   {`{"max": 3, "metric": {"queue": {"source": "a", "average": "12345678901234567890e999999999"}}}`, []string{"p.metric.queue.average: must be a quantity"}},
		"all that is wrong in a document": {`{"max": 3, "behavior": "{scaleUpp: {}, scaleDown: {policies: [{type: 3, value: x, periodSeconds: 1.5}]}}"}`, []string{
			"p.behavior.scaleDown.policies[0].periodSeconds: must be a whole number", "p.behavior.scaleDown.policies[0].type: must be a text",
			"p.behavior.scaleDown.policies[0].value: must be a whole number", "p.behavior.scaleUpp: there is no such key; did you mean scaleUp?",
		}},
		"a document that is none":                   {`{"spec": "{"}`, []string{"p.spec: is neither YAML nor JSON"}},
		"a key that is given twice":                 {`{"spec": "{maxReplicas: 3, maxReplicas: 4}"}`, []string{"p.spec: line 1: maxReplicas: is a duplicate key, first in line 1"}},
		"aliases, of which few bytes are gigabytes": {`{"spec": "{maxReplicas: &a 3, minReplicas: *a}"}`, []string{"p.spec: line 1: maxReplicas: YAML anchors and aliases (&name, *name, <<) are not allowed here"}},
		"a document that is a list":                 {`{"spec": "[]"}`, []string{"p.spec: must be a mapping of keys to values"}},
		"a document that is too long":               {`{"spec": "` + strings.Repeat(" ", 1<<17) + `"}`, []string{"p.spec: is longer than 65536 bytes"}},
		"too many metrics":                          {`{"max": 3, "metric": {` + strings.Join(many, ", ") + `}}`, []string{"p.metric: there are 101 metrics; at most 100 are allowed"}},
		"a parser's error about much of a document": {`{"spec": "{maxReplicas: 3, ` + strings.Repeat("k", 20_000) + `: 1, ` + strings.Repeat("k", 20_000) + `: 2}"}`, []string{"p.spec: "}},
		"stages that can't be parsed":               {`{"max": 3, "stages": "{\"schedules\": ["}`, []string{"p.stages: "}},
		"stages that are set twice":                 {`{"max": 3, "stages": "{\"idle\": {}, \"idle\": {}}"}`, []string{"p.stages: "}},
		"stages that are not a document":            {`{"max": 3, "stages": "on"}`, []string{"p.stages: must be a mapping"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := settings.Form{Prefix: "p.", Measured: settings.Usage(true), Without: map[string]string{"elsewhere": "set it there"}}
			_, err := f.Read(tree(t, tt.tree))
			var wrong *typed.Error
			if !errors.As(err, &wrong) || len(wrong.Problems) != len(tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			for i, p := range wrong.Problems {
				if !strings.HasPrefix(p.String(), tt.want[i]) || len(p.String()) > 600 {
					t.Errorf("got  %s\nwant %s", p, tt.want[i])
				}
			}
		})
	}
}

// Stages are the same as a text of a label, as blocks of HCL, and as JSON.
func TestStagesInEachForm(t *testing.T) {
	t.Parallel()
	const text = `{"schedules": [{"name": "office", "timeZone": "Europe/Berlin", "cron": "0 8 * * 1-5", "duration": "43200s", "minReplicas": 8, "suspended": true}],
		"fallbacks": [{"metric": "External:queue", "failureDuration": "180s", "lastGood": {"maxAge": "3600s"}}],
		"combine": {"method": "WEIGHTED", "weights": {"Resource:cpu": "1", "External:queue": "0.5"}}, "windowThroughFailures": true}`
	want := &setpointv1.Stages{}
	fatal.If(t, protojson.Unmarshal([]byte(text), want))
	quoted, err := json.Marshal(text)
	fatal.If(t, err)
	for name, stages := range map[string]string{
		"a document": text, "a text": string(quoted),
		"blocks of HCL": `[{"schedules": [{"name": "office", "timeZone": "Europe/Berlin", "cron": "0 8 * * 1-5", "duration": "43200s", "minReplicas": 8.0, "suspended": true}],
			"fallbacks": [{"metric": "External:queue", "failureDuration": "180s", "lastGood": [{"maxAge": "3600s"}]}],
			"combine": [{"method": "WEIGHTED", "weights": [{"Resource:cpu": "1", "External:queue": "0.5"}]}], "windowThroughFailures": true}]`,
	} {
		got := read(t, form, tree(t, `{"max": 3, "stages": `+stages+`}`))
		if !proto.Equal(got.Stages, want) {
			t.Errorf("%s: got  %v\nwant %v", name, got.Stages, want)
		}
	}
	if got := read(t, form, tree(t, `{"max": 3}`)); got.Stages != nil {
		t.Errorf("without: got %v", got.Stages)
	}
	labels := settings.Nested(map[string]string{"x.max": "3", "x.stages": "windowThroughFailures: true"}, "x.")
	if got := read(t, settings.Form{Prefix: "x."}, labels); !got.Stages.GetWindowThroughFailures() {
		t.Errorf("a label in YAML: got %v", got.Stages)
	}
}

// A member's stages don't count: the fleet has its own.
func TestAFleetIsRead(t *testing.T) {
	t.Parallel()
	const name = "clusters/f/namespaces/shop/targets/web"
	f := settings.Form{Prefix: "p."}
	got := read(t, f, tree(t, `{"max": 3, "fleet": "`+name+`"}`))
	if got.Fleet != name || len(got.Warnings) > 0 {
		t.Errorf("the fleet %q, warnings %q", got.Fleet, got.Warnings)
	}
	got = read(t, f, tree(t, `{"max": 3, "fleet": "`+name+`", "stages": {"windowThroughFailures": true}}`))
	if want := []string{"p.stages has no effect beside p.fleet: the fleet's own count"}; !reflect.DeepEqual(got.Warnings, want) {
		t.Errorf("warnings %q, want %q", got.Warnings, want)
	}
}

// refusing is a source that refuses each query.
type refusing struct{}

func (refusing) Check(metrics []samples.Metric) error {
	var p typed.Problems
	for _, m := range metrics {
		p.Add(samples.Subject(m.Spec)+".query", "is wrong")
	}
	return p.Err()
}

func TestSourcesSpeakOfTheKeys(t *testing.T) {
	t.Parallel()
	f := settings.Form{Prefix: "p."}
	got := read(t, f, tree(t, `{"spec": {"maxReplicas": 3, "metrics": [{"type": "Resource", "resource": {"name": "cpu"}}, {"type": "Object", "object": {"metric": {"name": "hits"}}}]},
		"metric": {"Resource:cpu": {"source": "a"}, "hits": {"source": "a"}}}`))
	if err := f.Check(refusing{}, got.Metrics); err == nil || err.Error() != "p.metric.Resource:cpu.query: is wrong; p.metric.hits.query: is wrong" {
		t.Errorf("got %v", err)
	}
}

func TestEachRowOfTheTablesHasAMeaning(t *testing.T) {
	t.Parallel()
	for _, row := range (settings.Form{Prefix: "p."}).Rows() {
		if !strings.HasPrefix(row.Key, "p.") || row.Meaning == "" {
			t.Errorf("%+v", row)
		}
	}
}

// What anybody writes is read in time that grows with its bytes, and problems are bounded.
func FuzzRead(f *testing.F) {
	f.Add(`{"max": 3, "metric": [{"queue": [{"source": "a", "average": 1.0}]}], "behavior": "scaleDown: {}"}`)
	f.Add(`{"spec": {"maxReplicas": 3, "metrics": [{"type": "Pods", "pods": {"metric": {"name": "a", "selector": {"matchLabels": {"a": "b"}}}}}]}, "metric": {"a": {"source": "b"}}}`)
	f.Add(`{"max": 3, "stages": {"schedules": [{"name": "a", "at": "2026-12-24T08:00:00Z", "duration": "60s"}], "idle": {"activation": {"a": 1}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var from map[string]any
		if json.Unmarshal([]byte(text), &from) != nil {
			return
		}
		got, err := form.Read(from)
		var wrong *typed.Error
		switch {
		case err == nil && got.Spec == nil:
			t.Fatal("neither a spec nor an error")
		case err != nil && !errors.As(err, &wrong):
			t.Fatalf("an error of another kind: %v", err)
		case err != nil && len(err.Error()) > 20*1000:
			t.Fatalf("an error of %d bytes", len(err.Error()))
		}
	})
}
