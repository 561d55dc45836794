package wire_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// full is a request that has every field there is.
func full() *setpointv1.RecommendRequest {
	at := timestamppb.New(t0)
	seconds := durationpb.New(60e9)
	selector := &setpointv1.LabelSelector{
		MatchLabels:      map[string]string{"a": "b"},
		MatchExpressions: []*setpointv1.LabelSelectorRequirement{{Key: "c", Operator: "In", Values: []string{"d"}}},
	}
	identifier := &setpointv1.MetricIdentifier{Name: "qps", Selector: selector}
	former := proto.CloneOf(identifier)
	object := &setpointv1.CrossVersionObjectReference{Kind: "Ingress", Name: "web", ApiVersion: "networking.k8s.io/v1"}
	average := &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("1")}
	both := &setpointv1.MetricTarget{Type: "Value", Value: new("1"), AverageValue: new("1")}
	utilization := &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(60))}
	rules := &setpointv1.HPAScalingRules{
		StabilizationWindowSeconds: new(int32(60)), SelectPolicy: new("Max"), Tolerance: new("0.1"),
		Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 1, PeriodSeconds: 60}},
	}
	value := &setpointv1.MetricValueStatus{Value: new("1"), AverageValue: new("2"), AverageUtilization: new(int32(3))}
	requests := map[string]string{"cpu": "500m"}
	return &setpointv1.RecommendRequest{
		Target: "clusters/demo/namespaces/shop/targets/web",
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web", ApiVersion: "apps/v1"},
			MinReplicas:    new(int32(1)), MaxReplicas: 10,
			Metrics: []*setpointv1.MetricSpec{
				{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{Name: "cpu", Target: utilization}},
				{Type: "ContainerResource", ContainerResource: &setpointv1.ContainerResourceMetricSource{Name: "cpu", Container: "app", Target: average}},
				{Type: "Pods", Pods: &setpointv1.PodsMetricSource{Metric: identifier, Target: average}},
				{Type: "Object", Object: &setpointv1.ObjectMetricSource{Metric: identifier, DescribedObject: object, Target: both}},
				{Type: "External", External: &setpointv1.ExternalMetricSource{Metric: identifier, Target: average}},
			},
			Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: rules, ScaleDown: rules},
		},
		Scale:           &setpointv1.Scale{SpecReplicas: 3, StatusReplicas: new(int32(3)), Selector: "app=web"},
		ScaleError:      &setpointv1.ScaleError{Reason: "FailedGet", Message: "away"},
		SelectorProblem: &setpointv1.SelectorProblem{Reason: "AmbiguousSelector", Message: "m", Autoscalers: []string{"a/b"}},
		Pods: []*setpointv1.Pod{{
			Name: "web-1", Phase: "Running", StartTime: at, Deleting: true,
			Ready:          &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: at},
			Resources:      &setpointv1.ResourceRequirements{Requests: requests},
			Containers:     []*setpointv1.Container{{Name: "app", Requests: requests}},
			InitContainers: []*setpointv1.InitContainer{{Name: "side", Restartable: true, Requests: requests}},
			Overhead:       requests,
		}},
		PodMetrics: []*setpointv1.PodMetrics{{
			Pod: "web-1", Timestamp: at, WindowSeconds: 15,
			Containers: []*setpointv1.ContainerMetrics{{Name: "app", Usage: requests}},
		}},
		CustomMetrics: []*setpointv1.CustomMetric{{Metric: identifier, DescribedObject: object, Timestamp: at, Value: "1", WindowSeconds: new(60.0)}},
		ExternalMetrics: []*setpointv1.ExternalMetric{{
			Metric: identifier, Labels: map[string]string{"a": "b"}, Timestamp: at, Value: "1",
		}},
		MetricErrors: []*setpointv1.MetricError{{Metric: "qps", Message: "away", Selector: selector, DescribedObject: object}},
		Options: &setpointv1.RecommendOptions{
			Profile: "v1.36", Tolerance: new("0.1"), CpuInitializationPeriod: seconds, InitialReadinessDelay: seconds,
			DownscaleStabilization: seconds, UpscaleDelay: seconds, DownscaleDelay: seconds, ScaleToZero: new(true),
		},
		EvaluationTime: at, RequestId: "1", TargetUid: "2", ClusterUid: "3", DryRun: true, Explain: true, RestartAfterPause: true, Generation: new(int64(4)),
		PreviousStatus: &setpointv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: new(int64(1)), LastScaleTime: at, CurrentReplicas: 3, DesiredReplicas: 3,
			CurrentMetrics: []*setpointv1.MetricStatus{
				{Type: "Resource", Resource: &setpointv1.ResourceMetricStatus{Name: "cpu", Current: value}},
				{Type: "ContainerResource", ContainerResource: &setpointv1.ContainerResourceMetricStatus{Name: "cpu", Container: "app", Current: value}},
				{Type: "Pods", Pods: &setpointv1.PodsMetricStatus{Metric: former, Current: value}},
				{Type: "Object", Object: &setpointv1.ObjectMetricStatus{Metric: former, DescribedObject: object, Current: value}},
				{Type: "External", External: &setpointv1.ExternalMetricStatus{Metric: former, Current: value}},
			},
			Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{{Type: "AbleToScale", Status: "True", LastTransitionTime: at, Reason: "r", Message: "m"}},
		},
	}
}

// walk calls f for the message and every message in it, with what leads there.
func walk(m protoreflect.Message, path string, f func(path string, m protoreflect.Message)) {
	f(path, m)
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		switch {
		case fd.Message() == nil || fd.IsMap() || !m.Has(fd):
		case fd.IsList():
			list := m.Mutable(fd).List()
			for j := range list.Len() {
				walk(list.Get(j).Message(), fmt.Sprintf("%s.%s[%d]", path, fd.Name(), j), f)
			}
		default:
			walk(m.Mutable(fd).Message(), path+"."+string(fd.Name()), f)
		}
	}
}

// staged are the fields of stages, which the slow path reads, and of fleets, which it reads with series.
var staged = map[protoreflect.FullName]bool{
	"setpoint.v1.RecommendRequest.stages": true, "setpoint.v1.RecommendRequest.proposals": true, "setpoint.v1.ExternalMetricSource.fallback": true,
	"setpoint.v1.RecommendRequest.fleet": true,
}

// A request with stages or proposals is the slow path's.
func TestStagesAreNotUsual(t *testing.T) {
	decoder := wire.NewDecoder(recommender.DefaultOptions())
	for what, change := range map[string]func(*setpointv1.RecommendRequest){
		"nothing":   func(*setpointv1.RecommendRequest) {},
		"stages":    func(r *setpointv1.RecommendRequest) { r.Stages = &setpointv1.Stages{} },
		"proposals": func(r *setpointv1.RecommendRequest) { r.Proposals = []*setpointv1.Proposal{{}} },
		"a metric's fallback": func(r *setpointv1.RecommendRequest) {
			for _, m := range r.GetSpec().GetMetrics() {
				if m.GetExternal() != nil {
					m.External.Fallback = &setpointv1.ExternalMetricFallback{Replicas: 2}
				}
			}
		},
	} {
		req := full()
		req.Explain = false
		change(req)
		data := encode(t, req)
		if _, ok := decoder.Decode(data, cost.BudgetOf(len(data))); ok != (what == "nothing") {
			t.Errorf("with %s it is taken: %t", what, ok)
		}
	}
}

// A request of a fleet's member is usual, unless it has series or no fleet has that name.
func TestMembersOfFleetsAreUsual(t *testing.T) {
	decoder := wire.NewDecoder(recommender.DefaultOptions())
	const fleet = "clusters/all/namespaces/shop/targets/web"
	var seen soundness
	for what, test := range map[string]struct {
		change func(*setpointv1.RecommendRequest)
		taken  bool
	}{
		"a fleet":      {func(r *setpointv1.RecommendRequest) { r.Fleet = fleet }, true},
		"an empty one": {func(r *setpointv1.RecommendRequest) { r.Fleet = "" }, true},
		"no name":      {func(r *setpointv1.RecommendRequest) { r.Fleet = "web" }, false},
		"itself":       {func(r *setpointv1.RecommendRequest) { r.Fleet = r.GetTarget() }, false},
		"series": {func(r *setpointv1.RecommendRequest) {
			r.Fleet, r.ExternalMetrics = fleet, full().GetExternalMetrics()
		}, false},
	} {
		req := full()
		req.Explain, req.CustomMetrics, req.ExternalMetrics = false, nil, nil
		test.change(req)
		if taken := seen.check(t, decoder, encode(t, req), recommender.DefaultOptions()); taken != test.taken {
			t.Errorf("%s: taken: %t", what, taken)
		}
	}
}

// The full request really has every field, so that no rule is left out below.
func TestFullRequestIsFull(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	req := full()
	missing := map[protoreflect.FullName]bool{}
	walk(req.ProtoReflect(), "", func(_ string, m protoreflect.Message) {
		fields := m.Descriptor().Fields()
		for i := range fields.Len() {
			if fd := fields.Get(i); m.Has(fd) {
				seen[fd.FullName()] = true
			} else {
				missing[fd.FullName()] = true
			}
		}
	})
	for name := range missing {
		if !seen[name] && !staged[name] && !strings.HasPrefix(string(name), "google.") {
			t.Errorf("no field %s is set", name)
		}
	}
	if !new(soundness).check(t, wire.NewDecoder(recommender.DefaultOptions()), encode(t, req), recommender.DefaultOptions()) {
		t.Error("the full request is not taken")
	}
}

// try is a value of a field, and whether the rules allow it.
type try struct {
	what  string
	value protoreflect.Value
	// items is the length of a list instead, -1 leaves the field out.
	items int
	valid bool
	// long says that the fast path may leave it, although it is valid.
	long bool
}

func value(what string, v any, valid bool) try {
	return try{what: what, value: protoreflect.ValueOf(v), valid: valid}
}

// tries returns values at the bounds of a field's rules.
func tries(t *testing.T, fd protoreflect.FieldDescriptor) (out []try) {
	rules, _ := proto.GetExtension(fd.Options(), validate.E_Field).(*validate.FieldRules)
	if rules == nil {
		return nil
	}
	known := &validate.FieldRules{}
	if rules.GetIgnore() == validate.Ignore_IGNORE_ALWAYS {
		known.SetIgnore(rules.GetIgnore())
	}
	if rules.GetRequired() {
		out = append(out, try{what: "absent", items: -1})
		known.SetRequired(true)
	}
	if s := rules.GetString(); s != nil {
		out = append(out, stringTries(t, fd, s)...)
		known.SetString(s)
	}
	if n := rules.GetInt32(); n != nil {
		if !proto.Equal(n, validate.Int32Rules_builder{Gte: new(n.GetGte())}.Build()) {
			t.Fatalf("%s: unknown rules %v", fd.FullName(), n)
		}
		out = append(out, value("least", n.GetGte(), true), value("too small", n.GetGte()-1, false), value("largest", int32(math.MaxInt32), true))
		known.SetInt32(n)
	}
	if n := rules.GetInt64(); n != nil {
		if !proto.Equal(n, validate.Int64Rules_builder{Gte: new(n.GetGte())}.Build()) {
			t.Fatalf("%s: unknown rules %v", fd.FullName(), n)
		}
		out = append(out, value("least", n.GetGte(), true), value("too small", n.GetGte()-1, false), value("largest", int64(math.MaxInt64), true))
		known.SetInt64(n)
	}
	if n := rules.GetDouble(); n != nil {
		if !proto.Equal(n, validate.DoubleRules_builder{Finite: new(true)}.Build()) {
			t.Fatalf("%s: unknown rules %v", fd.FullName(), n)
		}
		out = append(out, value("least", -math.MaxFloat64, true), value("largest", math.MaxFloat64, true), value("minus zero", math.Copysign(0, -1), true),
			value("infinite", math.Inf(1), false), value("less than any", math.Inf(-1), false), value("NaN", math.NaN(), false))
		known.SetDouble(n)
	}
	if l := rules.GetRepeated(); l != nil {
		if !proto.Equal(l, validate.RepeatedRules_builder{MaxItems: new(l.GetMaxItems())}.Build()) {
			t.Fatalf("%s: unknown rules %v", fd.FullName(), l)
		}
		known.SetRepeated(l)
		// Very long lists take too long here; a test of the server has them.
		if n := int(l.GetMaxItems()); n <= 1000 {
			most := try{what: "most items", items: n, valid: true}
			switch fd.FullName() { // of which fewer are read here
			case "setpoint.v1.RecommendRequest.metric_errors", "setpoint.v1.LabelSelectorRequirement.values":
				most.long = true
			}
			out = append(out, most, try{what: "too many items", items: n + 1})
		}
	}
	if m := rules.GetMap(); m != nil {
		n := int(m.GetMaxPairs())
		known.SetMap(validate.MapRules_builder{MaxPairs: new(m.GetMaxPairs())}.Build())
		most := try{what: "most pairs", items: n, valid: true}
		most.long = n > 32 // this package takes fewer resources
		out = append(out, most, try{what: "too many pairs", items: n + 1})
	}
	if d := rules.GetDuration(); d != nil {
		if !proto.Equal(d, validate.DurationRules_builder{Gte: &durationpb.Duration{}}.Build()) {
			t.Fatalf("%s: unknown rules %v", fd.FullName(), d)
		}
		out = append(out,
			try{what: "least", value: protoreflect.ValueOfMessage((&durationpb.Duration{}).ProtoReflect()), valid: true},
			try{what: "too small", value: protoreflect.ValueOfMessage((&durationpb.Duration{Nanos: -1}).ProtoReflect())})
		known.SetDuration(d)
	}
	if cel := rules.GetCel(); len(cel) > 0 {
		if fd.FullName() != "setpoint.v1.RecommendRequest.target" {
			t.Fatalf("%s: unknown rules %v", fd.FullName(), cel)
		}
		out = append(out, targetTries()...)
		known.SetCel(cel)
	}
	if !proto.Equal(known, rules) {
		t.Fatalf("%s: unknown rules %v", fd.FullName(), rules)
	}
	return out
}

func stringTries(t *testing.T, fd protoreflect.FieldDescriptor, s *validate.StringRules) (out []try) {
	known := &validate.StringRules{}
	if s.HasMinLen() {
		n := int(s.GetMinLen())
		out = append(out, value("shortest", strings.Repeat("c", n), true), value("too short", strings.Repeat("c", n-1), false))
		known.SetMinLen(s.GetMinLen())
	}
	if s.HasMaxLen() {
		n := int(s.GetMaxLen())
		// What is long by characters may be left to the slow path, by bytes too.
		long := value("longest in characters", strings.Repeat("é", n), !s.HasPattern())
		long.long = true
		most := value("longest", strings.Repeat("c", n), true)
		most.long = n > 1024
		out = append(out, most, long, value("too long", strings.Repeat("c", n+1), false), value("too long in characters", strings.Repeat("é", n+1), false))
		known.SetMaxLen(s.GetMaxLen())
	}
	if s.HasPattern() {
		if s.GetPattern() != "^[A-Za-z0-9._-]*$" {
			t.Fatalf("%s: unknown pattern %s", fd.FullName(), s.GetPattern())
		}
		out = append(out, value("every kind of character", "aZ09._-", true), value("a slash", "a/b", false),
			value("a space", "a b", false), value("a line's end", "a\n", false), value("no ASCII", "é", false))
		known.SetPattern(s.GetPattern())
	}
	if len(s.GetIn()) > 0 {
		for _, word := range s.GetIn() {
			out = append(out, value("word "+word, word, true))
		}
		out = append(out, value("no word", "x", false), value("other case", strings.ToUpper(s.GetIn()[len(s.GetIn())-1]), false))
		if s.GetIn()[0] != "" {
			out = append(out, value("no text", "", false))
		}
		known.SetIn(s.GetIn())
	}
	if !proto.Equal(known, s) {
		t.Fatalf("%s: unknown rules %v", fd.FullName(), s)
	}
	return out
}

func targetTries() (out []try) {
	longest := strings.Repeat("x", 253)
	for _, segment := range []struct {
		text  string
		valid bool
	}{
		{"a", true}, {"-a", true}, {"...", true}, {"a.b_c-D9", true}, {longest, true}, {"--", true}, {".-", true},
		{"", false}, {".", false}, {"..", false}, {"-", false}, {longest + "x", false}, {"a b", false}, {"é", false}, {"a\n", false}, {"a/b", false}, {"*", false},
	} {
		for _, form := range []string{"clusters/%s/namespaces/n/targets/t", "clusters/c/namespaces/%s/targets/t", "clusters/c/namespaces/n/targets/%s"} {
			target := fmt.Sprintf(form, segment.text)
			out = append(out, value(target, target, segment.valid))
		}
	}
	for _, target := range []string{
		"", "clusters", "clusters/c/namespaces/n/targets", "clusters/c/namespaces/n/targets/t/", "/clusters/c/namespaces/n/targets/t",
		"cluster/c/namespaces/n/targets/t", "clusters/c/namespace/n/targets/t", "clusters/c/namespaces/n/target/t", "Clusters/c/namespaces/n/targets/t",
		"clusters/c/namespaces/n/targets/t\n", "x clusters/c/namespaces/n/targets/t", "clusters/c/namespaces/n/targets/t/targets/t",
	} {
		out = append(out, value(target, target, false))
	}
	return out
}

// apply sets a field of a message to what is to be tried.
func (v try) apply(m protoreflect.Message, fd protoreflect.FieldDescriptor) {
	switch {
	case v.items < 0:
		m.Clear(fd)
	case v.items > 0:
		if fd.IsMap() {
			pairs := m.Mutable(fd).Map()
			for i := 0; pairs.Len() < v.items; i++ {
				pairs.Set(protoreflect.ValueOfString(fmt.Sprintf("a%d", i)).MapKey(), protoreflect.ValueOfString("1"))
			}
			return
		}
		list := m.Mutable(fd).List()
		one := list.Get(0)
		list.Truncate(0)
		for range v.items {
			list.Append(one)
		}
	default:
		m.Set(fd, v.value)
	}
}

// elsewhere are fields of which other rules refuse what their own allows. None of
// them is read by code of this package.
var elsewhere = map[protoreflect.FullName]bool{
	"setpoint.v1.HorizontalPodAutoscalerSpec.metrics": true,
	"setpoint.v1.MetricError.metric":                  true,
	"setpoint.v1.RecommendOptions.profile":            true,
	"setpoint.v1.RecommendOptions.tolerance":          true,
}

// Every rule of the .proto files holds for what the fast path takes, and it takes
// what is just inside of it.
func TestRulesOfTheContractHold(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	decoder := wire.NewDecoder(recommender.DefaultOptions())
	type place struct {
		path string
		fd   protoreflect.FieldDescriptor
	}
	var places []place
	walk(full().ProtoReflect(), "", func(path string, m protoreflect.Message) {
		for i := range m.Descriptor().Fields().Len() {
			if fd := m.Descriptor().Fields().Get(i); !staged[fd.FullName()] {
				places = append(places, place{path, fd})
			}
		}
	})
	var seen soundness
	rules := 0
	for _, p := range places {
		for _, v := range tries(t, p.fd) {
			rules++
			req := full()
			// An explanation tells of readings that belong to no metric.
			req.Explain = false
			walk(req.ProtoReflect(), "", func(path string, m protoreflect.Message) {
				if path == p.path && m.Descriptor() == p.fd.ContainingMessage() {
					v.apply(m, p.fd)
				}
			})
			name := fmt.Sprintf("%s.%s: %.60s", p.path, p.fd.Name(), v.what)
			data := encode(t, req)
			_, _, violations := long(data, recommender.DefaultOptions())
			taken := seen.check(t, decoder, data, recommender.DefaultOptions())
			// Of a previous status nothing is refused, and all is taken but what is very large.
			clipped := strings.HasPrefix(p.path, ".previous_status")
			switch {
			case clipped && len(violations) > 0:
				t.Errorf("%s: refused: %v", name, violations)
			case len(violations) == 0 != v.valid && !elsewhere[p.fd.FullName()] && !clipped:
				t.Errorf("%s: the rules allow it: %t; the slow path: %v", name, v.valid, violations)
			case clipped && !taken && len(data) < 30_000 && !p.fd.IsList():
				t.Errorf("%s: not taken", name)
			case elsewhere[p.fd.FullName()], clipped:
			case v.valid && !v.long && !taken:
				t.Errorf("%s: not taken", name)
			}
		}
	}
	t.Logf("%d values of %d fields: %+v", rules, len(places), seen)
}
