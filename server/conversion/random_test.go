package conversion_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// words are what fields are set to by their names, so that parts of a random
// request often refer to each other.
var words = map[string][]string{
	"type":        {"Resource", "ContainerResource", "Pods", "Object", "External", "Utilization", "Value", "AverageValue", "Percent", "ScaledToZero", ""},
	"name":        {"cpu", "memory", "a", "b", "app"},
	"container":   {"app", "proxy"},
	"pod":         {"a", "b", "c"},
	"kind":        {"Pod", "Namespace", "Service", ""},
	"api_version": {"v1", "apps/v1", "a/b/c", ""},
	"phase":       {"Running", "Running", "Pending", "Failed", ""},
	"status":      {"True", "True", "False", "Unknown", ""},
	"operator":    {"In", "NotIn", "Exists", "DoesNotExist"},
	"select_policy": {
		"Max", "Min", "Disabled", "",
	},
	"metric":    {"cpu", "metrics.k8s.io", "Pods:a"},
	"profile":   {"v1.36", ""},
	"selector":  {"", "a=b", "a in"},
	"reason":    {"", "UnknownKind", "SelectorRequired", "AmbiguousSelector"},
	"tolerance": {"0", "0.1", "100m", "9E"},
}

var (
	quantities = []string{"0", "1", "500m", "1", "250m", "1Gi", "123456789n", "-1", "9223372036854775807", "9223372036854775807m", "1E", "8Ei", "1n"}
	numbers    = []int64{0, 1, 2, 3, 3, 5, 10, 50, 100, -1, math.MaxInt32, math.MinInt32}
)

// randomMessage fills a message at random, down to its last part.
func randomMessage(r *rand.Rand, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if r.IntN(4) == 0 {
			continue
		}
		switch {
		case fd.IsMap():
			entries := m.Mutable(fd).Map()
			for range r.IntN(3) {
				key := []string{"cpu", "memory", "a"}[r.IntN(3)]
				value := quantities[r.IntN(len(quantities))]
				entries.Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfString(value))
			}
		case fd.IsList():
			list := m.Mutable(fd).List()
			for range r.IntN(4) {
				if fd.Message() == nil {
					list.Append(randomValue(r, fd))
					continue
				}
				randomMessage(r, list.AppendMutable().Message())
			}
		case fd.Message() == nil:
			m.Set(fd, randomValue(r, fd))
		case fd.Message().FullName() == "google.protobuf.Timestamp":
			at := m.Mutable(fd).Message()
			at.Set(at.Descriptor().Fields().ByName("seconds"), protoreflect.ValueOfInt64(decided.Unix()-int64(r.IntN(900))+60))
		case fd.Message().FullName() == "google.protobuf.Duration":
			d := m.Mutable(fd).Message()
			d.Set(d.Descriptor().Fields().ByName("seconds"), protoreflect.ValueOfInt64(int64(r.IntN(900))))
		default:
			randomMessage(r, m.Mutable(fd).Message())
		}
	}
}

// randomValue returns a value for a field that is no message.
func randomValue(r *rand.Rand, fd protoreflect.FieldDescriptor) protoreflect.Value {
	n := numbers[r.IntN(len(numbers))]
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(4) == 0)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n) / 2)
	}
	choices := words[string(fd.Name())]
	if choices == nil {
		choices = quantities
	}
	return protoreflect.ValueOfString(choices[r.IntN(len(choices))])
}

// decided is the instant that the tests decide for.
var decided = time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC)

// What can be read is decided without a panic, whatever the API would say of it,
// and can be sent, stored, and read again. A run of requests shares a history.
func TestRandomRequestsAreDecided(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	var history *recommender.History
	paths, read := map[recommender.Path]int{}, 0
	for i := range 4000 {
		req := &setpointv1.RecommendRequest{}
		randomMessage(r, req.ProtoReflect())
		req.Target = "clusters/c/namespaces/n/targets/t"
		if i%20 != 0 {
			// Most random requests would be refused for their names.
			for j, pod := range req.GetPods() {
				pod.Name = string(rune('a' + j))
			}
			req.MetricErrors = nil
			req.CustomMetrics = slices.DeleteFunc(req.CustomMetrics, func(v *setpointv1.CustomMetric) bool {
				return len(conversion.Unidentified(v.GetMetric(), v.GetDescribedObject())) > 0
			})
			req.ExternalMetrics = slices.DeleteFunc(req.ExternalMetrics, func(v *setpointv1.ExternalMetric) bool {
				return len(conversion.Unidentified(v.GetMetric(), nil)) > 0
			})
		}
		if i%8 != 0 {
			req.ScaleError, req.SelectorProblem = nil, nil
			req.Scale = &setpointv1.Scale{SpecReplicas: 3}
		}
		if i%4 == 1 && req.GetSpec() != nil {
			// Nor do all random requests lead to a count.
			req.Spec.MinReplicas, req.Spec.MaxReplicas = new(int32(1)), 10
			req.Spec.Metrics = []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "q"}, Target: &setpointv1.MetricTarget{AverageValue: new("1")},
			}}}
			req.ExternalMetrics = append(req.GetExternalMetrics(), &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: "q"}, Value: quantities[r.IntN(5)]})
		}
		in, violations := conversion.Input(req, recommender.DefaultOptions())
		if len(violations) > 0 {
			continue
		}
		read++
		in.ID = recommender.ID{byte(i), byte(i >> 8), 1}
		if i%10 == 0 {
			history = nil
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Fatalf("%v\nof %s", p, protojson.Format(req))
				}
			}()
			decision, next := recommender.Recommend(decided.Add(time.Duration(i%10)*time.Minute), in, history)
			checkAnswer(t, &decision, &next)
			paths[decision.Path]++
			history = &next
		}()
	}
	if read < 400 {
		t.Errorf("only %d of 4000 requests could be read", read)
	}
	for _, path := range []recommender.Path{
		recommender.PathMetrics, recommender.PathMetricsFailed, recommender.PathSelectorFailed, recommender.PathScaleUnavailable, recommender.PathScalingDisabled, recommender.PathAboveMax, recommender.PathBelowMin,
	} {
		if paths[path] == 0 {
			t.Errorf("no request took the path %d: %v", path, paths)
		}
	}
}
