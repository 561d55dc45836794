package manifest

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	autoscalingv1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

// keys are the JSON names of a struct's fields.
func keys(of any) []string {
	all := make(map[string]bool)
	for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// What is written out here has every field of the real types, and the fallback.
func TestStrictTypesHaveEveryField(t *testing.T) {
	for _, c := range []struct {
		strict, real any
		more         []string
	}{
		{strictSpec{}, autoscalingv2.HorizontalPodAutoscalerSpec{}, nil},
		{strictMetric{}, autoscalingv2.MetricSpec{}, nil},
		{strictExternal{}, autoscalingv2.ExternalMetricSource{}, []string{"fallback"}},
		{strictOwn{}, autoscalingv1.AutoscalerSpec{}, nil},
	} {
		want := append(keys(c.real), c.more...)
		slices.Sort(want)
		if got := keys(c.strict); !slices.Equal(got, want) {
			t.Errorf("%T has %q, want %q", c.strict, got, want)
		}
	}
}
