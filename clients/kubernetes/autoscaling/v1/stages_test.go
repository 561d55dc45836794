package v1_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Each message of the stages has the same fields in the CustomResourceDefinition.
func TestStagesHaveTheServicesFields(t *testing.T) {
	t.Parallel()
	var compare func(at string, of reflect.Type, message protoreflect.MessageDescriptor)
	compare = func(at string, of reflect.Type, message protoreflect.MessageDescriptor) {
		names, indexes := typed.Names(of)
		for i := range message.Fields().Len() {
			field := message.Fields().Get(i)
			found := slices.Index(names, field.JSONName())
			if found < 0 {
				t.Errorf("%s.%s is missing", at, field.JSONName())
				continue
			}
			inner := of.FieldByIndex(indexes[found]).Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if m := field.Message(); m != nil && m.ParentFile() == message.ParentFile() && !field.IsMap() {
				compare(at+"."+field.JSONName(), inner, m)
			}
		}
		if message.Fields().Len() != len(names) {
			t.Errorf("%s has %d fields, the service %d", at, len(names), message.Fields().Len())
		}
	}
	compare("stages", reflect.TypeFor[v1.Stages](), (&setpointv1.Stages{}).ProtoReflect().Descriptor())
}

// What the service's JSON says arrives as it is.
func TestStagesToProto(t *testing.T) {
	t.Parallel()
	const text = `{
		"freshness": {"maxSampleAge": "60s", "futureTolerance": "0.5s"},
		"fallbacks": [{"metric": "External:queue", "failureDuration": "0s", "replicas": 10, "direction": "UP_ONLY"},
			{"metric": "Resource:cpu", "lastGood": {"maxAge": "60s"}}, {"metric": "Pods:a", "ignore": true}],
		"zeroGuards": [{"metric": "External:queue", "dropPercent": 90, "confirm": "60s"}],
		"combine": {"method": "QUORUM", "quorum": 2, "weights": {"a": "0.5"}},
		"schedules": [{"name": "a", "timeZone": "UTC", "cron": "0 8 * * *", "endCron": "0 9 * * *", "minReplicas": 0, "maxReplicas": 5, "minPace": "PACED", "maxPace": "AT_ONCE"},
			{"name": "b", "timeZone": "Europe/Berlin", "at": "2026-12-24T08:00:00Z", "duration": "60s", "rampUp": "60s", "rampDown": "30s", "suspended": true}],
		"idle": {"activation": {"External:queue": "5"}, "cooldown": "0s", "initialCooldown": "60s"},
		"guards": {"reversals": {"count": 3, "period": "3600s", "hold": "600s"}, "ignoreSurge": true},
		"windowThroughFailures": true}`
	want := &setpointv1.Stages{}
	fatal.If(t, protojson.Unmarshal([]byte(text), want))
	var stages v1.Stages
	fatal.If(t, json.Unmarshal([]byte(text), &stages))
	got, err := stages.ToProto()
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("got  %v, %v\nwant %v", got, err, want)
	}
	if got, err := (*v1.Stages)(nil).ToProto(); got != nil || err != nil {
		t.Errorf("of none: %v, %v", got, err)
	}
	if got, err := (&v1.Stages{}).ToProto(); got == nil || err != nil {
		t.Errorf("of empty ones: %v, %v", got, err)
	}
}

// Durations that the schema refuses are refused without it, too: in files that no API server has seen.
func TestDurationsOfStagesAreInSeconds(t *testing.T) {
	t.Parallel()
	hours := v1.Duration("12h")
	for field, s := range map[string]*v1.Stages{
		"spec.stages.schedules[1].duration":        {Schedules: []v1.Schedule{{Duration: new(v1.Duration("60s"))}, {Duration: &hours}}},
		"spec.stages.freshness.maxSampleAge":       {Freshness: &v1.Freshness{MaxSampleAge: "1m"}},
		"spec.stages.fallbacks[0].lastGood.maxAge": {Fallbacks: []v1.MetricFallback{{LastGood: &v1.LastGood{MaxAge: "1d"}}}},
		"spec.stages.guards.reversals.hold":        {Guards: &v1.Guards{Reversals: &v1.ReversalBudget{Period: "60s", Hold: &hours}}},
	} {
		if _, err := s.ToProto(); err == nil || !strings.Contains(err.Error(), field+`: must be a number of seconds, such as "300s"`) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
