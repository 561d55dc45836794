package server_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// badRequest is a request that is refused with INVALID_ARGUMENT.
type badRequest struct {
	name   string
	change func(*setpointv1.RecommendRequest)
	// fields are all that the violations must name.
	fields []string
}

func spec(r *setpointv1.RecommendRequest) *setpointv1.HorizontalPodAutoscalerSpec { return r.GetSpec() }

func metricTarget(r *setpointv1.RecommendRequest) *setpointv1.MetricTarget {
	return r.GetSpec().GetMetrics()[0].GetResource().GetTarget()
}

func options(r *setpointv1.RecommendRequest) *setpointv1.RecommendOptions { return r.GetOptions() }

// badTargets are names that are none; a slash too many changes which route a REST
// path is.
var badTargets = []string{
	"clusters/demo/namespaces/shop/targets/a/b",
	"clusters/demo/namespaces/shop/targets/a b",
	"clusters/demo/namespaces/shop/targets/ä",
	"clusters/demo/namespaces/shop/targets/a%2Fb",
	"clusters/demo/namespaces/shop/targets/-",
	"clusters/-/namespaces/shop/targets/web",
	"clusters/demo/namespaces/-/targets/web",
	"clusters/demo/namespaces/shop/targets/a:b",
	"clusters/demo/namespaces/shop/targets/a\n",
	"clusters/demo/namespaces/shop/targets/" + strings.Repeat("a", 254),
	"clusters/" + strings.Repeat("a", 254) + "/namespaces/shop/targets/web",
	"clusters/" + strings.Repeat("a", 1<<20) + "/namespaces/shop/targets/web",
}

// unroutableTargets can't be written in a REST path, or mean another one there.
var unroutableTargets = []string{
	"",
	"web",
	"/",
	"clusters/demo/namespaces/shop/targets/",
	"clusters/demo/namespaces/shop/targets/web/",
	"clusters//namespaces/shop/targets/web",
	"clusters/demo/namespaces/shop/targets/..",
	"clusters/demo/namespaces/./targets/web",
	"clusters/../namespaces/shop/targets/web",
	"Clusters/demo/namespaces/shop/targets/web",
	"namespaces/shop/clusters/demo/targets/web",
	"clusters/demo/namespaces/shop/targets/web\x00",
}

// badRequests are refused over both transports.
func badRequests() []badRequest {
	return []badRequest{
		{"without a spec", func(r *setpointv1.RecommendRequest) { r.Spec = nil }, []string{"spec"}},
		{"without a scale", func(r *setpointv1.RecommendRequest) { r.Scale = nil }, []string{"scale"}},
		{"negative replicas", func(r *setpointv1.RecommendRequest) {
			r.Scale = &setpointv1.Scale{SpecReplicas: -1, StatusReplicas: new(int32(-2))}
		}, []string{"scale.specReplicas", "scale.statusReplicas"}},

		{"unreadable quantities of the spec", func(r *setpointv1.RecommendRequest) {
			spec(r).Metrics = []*setpointv1.MetricSpec{
				{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{Name: "cpu", Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("lots")}}},
				{Type: "External", External: &setpointv1.ExternalMetricSource{Metric: &setpointv1.MetricIdentifier{Name: "q"}, Target: &setpointv1.MetricTarget{Type: "Value", Value: new("1 Gi")}}},
			}
			spec(r).Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{
				ScaleUp:   &setpointv1.HPAScalingRules{Tolerance: new("")},
				ScaleDown: &setpointv1.HPAScalingRules{Tolerance: new("5%")},
			}
		}, []string{
			"spec.metrics[0].resource.target.averageValue", "spec.metrics[1].external.target.value",
			"spec.behavior.scaleUp.tolerance", "spec.behavior.scaleDown.tolerance",
		}},
		{"unreadable quantities of pods", func(r *setpointv1.RecommendRequest) {
			p := r.GetPods()[1]
			p.Containers[0].Requests["cpu"] = "half"
			p.InitContainers = []*setpointv1.InitContainer{{Name: "proxy", Requests: map[string]string{"memory": "1GiB"}}}
			p.Resources = &setpointv1.ResourceRequirements{Requests: map[string]string{"cpu": ""}}
			p.Overhead = map[string]string{"cpu": "1,5"}
		}, []string{
			`pods[1].containers[0].requests["cpu"]`, `pods[1].initContainers[0].requests["memory"]`,
			`pods[1].resources.requests["cpu"]`, `pods[1].overhead["cpu"]`,
		}},
		{"unreadable quantities of samples", func(r *setpointv1.RecommendRequest) {
			r.PodMetrics[2].Containers[0].Usage["cpu"] = "0x10"
			r.CustomMetrics = []*setpointv1.CustomMetric{{Metric: &setpointv1.MetricIdentifier{Name: "a"}, DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: "web-a"}, Value: "many"}}
			r.ExternalMetrics = []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "b"}, Value: "1e"}}
		}, []string{`podMetrics[2].containers[0].usage["cpu"]`, "customMetrics[0].value", "externalMetrics[0].value"}},
		{"values without a quantity", func(r *setpointv1.RecommendRequest) {
			r.CustomMetrics = []*setpointv1.CustomMetric{{Metric: &setpointv1.MetricIdentifier{Name: "a"}, DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: "web-a"}}}
			r.ExternalMetrics = []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "b"}}}
		}, []string{"customMetrics[0].value", "externalMetrics[0].value"}},
		{"readings without an identity", func(r *setpointv1.RecommendRequest) {
			r.CustomMetrics = []*setpointv1.CustomMetric{{Value: "1"}}
			r.ExternalMetrics = []*setpointv1.ExternalMetric{{Value: "1"}}
		}, []string{"customMetrics[0].metric", "customMetrics[0].describedObject", "externalMetrics[0].metric"}},
		{"readings with a malformed selector", func(r *setpointv1.RecommendRequest) {
			bad := &setpointv1.MetricIdentifier{Name: "a", Selector: &setpointv1.LabelSelector{MatchExpressions: []*setpointv1.LabelSelectorRequirement{{Key: "k", Operator: "Like"}}}}
			r.CustomMetrics = []*setpointv1.CustomMetric{{Metric: bad, DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: "web-a"}, Value: "1"}}
			r.ExternalMetrics = []*setpointv1.ExternalMetric{{Metric: bad, Value: "1"}}
		}, []string{"customMetrics[0].metric.selector", "externalMetrics[0].metric.selector"}},
		{"quantities that are too long", func(r *setpointv1.RecommendRequest) {
			metricTarget(r).AverageUtilization, metricTarget(r).Type = nil, "AverageValue"
			metricTarget(r).AverageValue = new(strings.Repeat("1", 1<<16))
		}, []string{"spec.metrics[0].resource.target.averageValue"}},

		{"min above max", func(r *setpointv1.RecommendRequest) { spec(r).MinReplicas = new(int32(21)) }, []string{"spec.maxReplicas"}},
		{"no max", func(r *setpointv1.RecommendRequest) { spec(r).MaxReplicas = 0 }, []string{"spec.maxReplicas"}},
		{"min 0 without scaleToZero", func(r *setpointv1.RecommendRequest) { spec(r).MinReplicas = new(int32(0)) }, []string{"spec.minReplicas", "spec.metrics"}},
		{"min 0 without a metric that needs no pods", func(r *setpointv1.RecommendRequest) {
			spec(r).MinReplicas, r.Options.ScaleToZero = new(int32(0)), new(true)
		}, []string{"spec.metrics"}},
		{"an unknown kind of metric", func(r *setpointv1.RecommendRequest) { spec(r).Metrics[0].Type = "Gauge" }, []string{"spec.metrics[0].type"}},
		{"a metric without a kind", func(r *setpointv1.RecommendRequest) { spec(r).Metrics[0].Type = "" }, []string{"spec.metrics[0].type"}},
		{"a metric without its source", func(r *setpointv1.RecommendRequest) { spec(r).Metrics[0].Resource = nil }, []string{"spec.metrics[0].resource"}},
		{"an unknown kind of target", func(r *setpointv1.RecommendRequest) { metricTarget(r).Type = "Rate" }, []string{"spec.metrics[0].resource.target.type"}},
		{"a target of nothing", func(r *setpointv1.RecommendRequest) { metricTarget(r).AverageUtilization = new(int32(0)) }, []string{"spec.metrics[0].resource.target.averageUtilization"}},
		{"policies out of range", func(r *setpointv1.RecommendRequest) {
			spec(r).Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(3601))
			spec(r).Behavior.ScaleDown.SelectPolicy = new("Best")
			spec(r).Behavior.ScaleDown.Policies = []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 0, PeriodSeconds: 15}, {Type: "Share", Value: 1, PeriodSeconds: 1801}}
		}, []string{
			"spec.behavior.scaleDown.stabilizationWindowSeconds", "spec.behavior.scaleDown.selectPolicy",
			"spec.behavior.scaleDown.policies[0].value", "spec.behavior.scaleDown.policies[1].type", "spec.behavior.scaleDown.policies[1].periodSeconds",
		}},

		{"two pods of one name", func(r *setpointv1.RecommendRequest) { r.Pods[2].Name = "web-a" }, []string{"pods[2].name"}},
		{"pods without what they must have", func(r *setpointv1.RecommendRequest) {
			r.Pods[0].Name, r.Pods[1].Phase, r.Pods[2].Ready.Status = "", "Runing", "Yes"
		}, []string{"pods[0].name", "pods[1].phase", "pods[2].ready.status"}},
		{"windows of no length", func(r *setpointv1.RecommendRequest) {
			r.PodMetrics[0].WindowSeconds = math.NaN()
			r.PodMetrics[1].WindowSeconds = math.Inf(1)
			r.PodMetrics[2].WindowSeconds = math.Inf(-1)
		}, []string{"podMetrics[0].windowSeconds", "podMetrics[1].windowSeconds", "podMetrics[2].windowSeconds"}},
		{"a negative generation", func(r *setpointv1.RecommendRequest) { r.Generation = new(int64(-1)) }, []string{"generation"}},
		{"errors that name no metric of the spec", func(r *setpointv1.RecommendRequest) {
			r.MetricErrors = []*setpointv1.MetricError{{Metric: "cpu", Message: "m"}, {Metric: "memory", Message: "m"}, {Metric: "external.metrics.k8s.io", Message: "m"}}
		}, []string{"metricErrors[1].metric", "metricErrors[2].metric"}},
		{"an error without words", func(r *setpointv1.RecommendRequest) { r.MetricErrors = []*setpointv1.MetricError{{Metric: "cpu"}} }, []string{"metricErrors[0].message"}},
		{"reasons that are none", func(r *setpointv1.RecommendRequest) {
			r.ScaleError = &setpointv1.ScaleError{Reason: "Because", Message: "m"}
			r.SelectorProblem = &setpointv1.SelectorProblem{Reason: "Because"}
		}, []string{"scaleError.reason", "selectorProblem.reason"}},
		{"a request id that is too long", func(r *setpointv1.RecommendRequest) { r.RequestId = strings.Repeat("i", 129) }, []string{"requestId"}},

		{"an unknown profile", func(r *setpointv1.RecommendRequest) { options(r).Profile = "v1.5" }, []string{"options.profile"}},
		{"tolerances that are none", func(r *setpointv1.RecommendRequest) { options(r).Tolerance = new("some") }, []string{"options.tolerance"}},
		{"a negative tolerance", func(r *setpointv1.RecommendRequest) { options(r).Tolerance = new("-0.1") }, []string{"options.tolerance"}},
		{"an infinite tolerance", func(r *setpointv1.RecommendRequest) { options(r).Tolerance = new("Inf") }, []string{"options.tolerance"}},
		{"negative durations", func(r *setpointv1.RecommendRequest) {
			options(r).CpuInitializationPeriod = durationpb.New(-time.Second)
			options(r).InitialReadinessDelay = durationpb.New(-1)
			options(r).DownscaleStabilization = durationpb.New(-time.Hour)
			options(r).UpscaleDelay, options(r).DownscaleDelay = durationpb.New(-1), durationpb.New(-time.Minute)
		}, []string{
			"options.cpuInitializationPeriod", "options.initialReadinessDelay", "options.downscaleStabilization",
			"options.upscaleDelay", "options.downscaleDelay",
		}},
		{"durations longer than any", func(r *setpointv1.RecommendRequest) {
			options(r).CpuInitializationPeriod = &durationpb.Duration{Seconds: 315576000000}
		}, []string{"options.cpuInitializationPeriod"}},

		{"an instant before there is any", func(r *setpointv1.RecommendRequest) {
			r.EvaluationTime = timestamppb.New(time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC))
		}, []string{"evaluationTime"}},
		{"an instant after all", func(r *setpointv1.RecommendRequest) {
			r.EvaluationTime = timestamppb.New(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
		}, []string{"evaluationTime"}},

		{"many things at once", func(r *setpointv1.RecommendRequest) {
			r.Target = "nowhere"
			spec(r).MaxReplicas = -1
			r.Pods[0].Containers[0].Requests["cpu"] = "?"
			r.Pods[1].Name = "web-a"
			options(r).Profile = "none"
			r.MetricErrors = []*setpointv1.MetricError{{Metric: "memory", Message: "m"}}
			r.EvaluationTime = timestamppb.New(time.Unix(0, 0))
		}, []string{
			"target", "spec.maxReplicas", `pods[0].containers[0].requests["cpu"]`, "pods[1].name", "options.profile", "metricErrors[0].metric", "evaluationTime",
		}},
	}
}

// onlyGRPC are requests that JSON can't spell.
func onlyGRPC() []badRequest {
	var all []badRequest
	for _, target := range slices.Concat(badTargets, unroutableTargets) {
		all = append(all, badRequest{fmt.Sprintf("the target %.60q", target), withTarget(target), []string{"target"}})
	}
	outOfRange := &timestamppb.Timestamp{Seconds: 1 << 62}
	return append(all,
		badRequest{"instants out of range", func(r *setpointv1.RecommendRequest) {
			r.Pods[0].StartTime, r.Pods[1].Ready.LastTransitionTime = outOfRange, &timestamppb.Timestamp{Nanos: -1}
			r.PodMetrics[0].Timestamp = &timestamppb.Timestamp{Seconds: math.MinInt64}
			r.EvaluationTime = outOfRange
		}, []string{
			"pods[0].startTime", "pods[1].ready.lastTransitionTime", "podMetrics[0].timestamp", "evaluationTime",
		}},
		badRequest{"durations out of range", func(r *setpointv1.RecommendRequest) {
			options(r).CpuInitializationPeriod = &durationpb.Duration{Seconds: 1 << 62}
			options(r).InitialReadinessDelay = &durationpb.Duration{Seconds: math.MinInt64}
			options(r).DownscaleStabilization = &durationpb.Duration{Seconds: 1, Nanos: -1}
		}, []string{"options.cpuInitializationPeriod", "options.initialReadinessDelay", "options.downscaleStabilization"}},
		badRequest{"instants of values out of range", func(r *setpointv1.RecommendRequest) {
			r.CustomMetrics = []*setpointv1.CustomMetric{{Metric: &setpointv1.MetricIdentifier{Name: "a"}, DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: "web-a"}, Value: "1", Timestamp: outOfRange, WindowSeconds: new(math.NaN())}}
			r.ExternalMetrics = []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "b"}, Value: "1", Timestamp: outOfRange}}
		}, []string{"customMetrics[0].timestamp", "customMetrics[0].windowSeconds", "externalMetrics[0].timestamp"}},
	)
}

// A refused request changes nothing: neither a target that is unknown nor one
// that has a history.
func TestInvalidRequestsAreRefusedAndRecordNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.recommend(t, webRequest(t))
	before := s.target(t, web)
	refused := func(t *testing.T, target string) {
		t.Helper()
		if target == web {
			sameMessage(t, s.target(t, web), before)
		} else if len(target) < 600 {
			s.ask(t, http.MethodGet, "/v1/"+target, nil).expect(t, http.StatusNotFound)
		}
	}
	for _, target := range []string{web, "clusters/demo/namespaces/shop/targets/fresh"} {
		for _, tt := range badRequests() {
			t.Run(tt.name, func(t *testing.T) {
				req := webRequest(t, withTarget(target), tt.change)
				_, err := s.recommendations.Recommend(t.Context(), req)
				wantViolations(t, err, tt.fields...)

				// A path sets the target.
				fields := slices.DeleteFunc(slices.Clone(tt.fields), func(f string) bool { return f == "target" })
				a := s.ask(t, http.MethodPost, recommendPath(target), req)
				a.expect(t, http.StatusBadRequest)
				got := a.problem(t)
				wantProblem(t, got, codes.InvalidArgument, "INVALID_REQUEST")
				slices.Sort(fields)
				if !slices.Equal(got.fields, fields) {
					t.Errorf("REST: got violations of %q, want %q: %s", got.fields, fields, got.message)
				}
				refused(t, target)
			})
		}
	}
	for _, tt := range onlyGRPC() {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.recommendations.Recommend(t.Context(), webRequest(t, tt.change))
			wantViolations(t, err, tt.fields...)
			refused(t, web)
		})
	}
}

// Whoever asks for 0 replicas is told of the option that allows them, wherever a spec is sent.
func TestZeroReplicasAreToldTheirOption(t *testing.T) {
	t.Parallel()
	s := start(t)
	zero := webRequest(t, func(r *setpointv1.RecommendRequest) { r.Spec.MinReplicas = proto.Int32(0) })
	_, overGRPC := s.recommendations.Recommend(t.Context(), zero)
	answers := map[string]string{"gRPC": rpcProblem(overGRPC).message}
	for path, body := range map[string]any{
		"POST " + recommendPath(web):      zero,
		"POST /v1/targets:batchRecommend": &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{zero}},
		"PUT /v1/" + web + "/spec":        map[string]any{"spec": json.RawMessage(jsonOf(t, zero.GetSpec()))},
		"POST /v1/simulations:run":        map[string]any{"spec": json.RawMessage(jsonOf(t, zero.GetSpec()))},
	} {
		method, at, _ := strings.Cut(path, " ")
		answers[path] = string(s.ask(t, method, at, body).raw)
	}
	for way, told := range answers {
		if !strings.Contains(told, "must be greater than or equal to 1; 0 needs options.scaleToZero") {
			t.Errorf("%s: told %s", way, told)
		}
	}
}

func TestBadTargetsAreRefusedInPaths(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, target := range badTargets {
		if len(target) > 1<<16 {
			continue // longer than a request's line may be
		}
		path := "/v1/" + escaped(target)
		for _, call := range []struct {
			method, path string
			body         any
			field        string
		}{
			{"POST", path + ":recommend", webBody, "target"},
			{"POST", path + ":reportScale", `{"recommendationId": "x", "outcome": "APPLIED"}`, "target"},
			{"GET", path, nil, "name"},
			{"DELETE", path, nil, "name"},
			{"GET", path + "/decisions", nil, "parent"},
		} {
			a := s.ask(t, call.method, call.path, call.body)
			if a.code != http.StatusBadRequest {
				t.Errorf("%s %.100s: got HTTP %d %s, want 400", call.method, call.path, a.code, a.raw)
				continue
			}
			got := a.problem(t)
			wantProblem(t, got, codes.InvalidArgument, "INVALID_REQUEST")
			// Where a slash turns the path into no route, the field is unknown.
			if !slices.Equal(got.fields, []string{call.field}) && !slices.Equal(got.fields, []string{"target"}) {
				t.Errorf("%s %.100s: got violations of %q, want %q", call.method, call.path, got.fields, call.field)
			}
		}
	}
	list := s.ask(t, http.MethodGet, "/v1/clusters/-/namespaces/-/targets", nil).expect(t, http.StatusOK)
	if got := names(list); len(got) != 0 {
		t.Errorf("targets were made: %v", got)
	}
}

// escaped percent-encodes what a path can't contain; slashes stay.
func escaped(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if c <= ' ' || c == '%' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

func TestBadBodiesAreRefusedAndRecordNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	deep := strings.Repeat(`{"spec":`, 50_000) + strings.Repeat("}", 50_000)
	for _, tt := range []struct{ name, body, field string }{
		{"an unknown field", `{"spec": {"maxReplicas": 3, "minReplica": 1}, "scale": {"specReplicas": 3}}`, "spec.minReplica"},
		{"nothing", "", ""},
		{"white space", " \n\t", ""},
		{"no object", `[1, 2]`, ""},
		{"null", `null`, ""},
		{"cut in the middle", webBody[:len(webBody)/2], ""},
		{"cut before the last brace", strings.TrimSpace(webBody)[:len(webBody)-2], ""},
		{"two objects", webBody + webBody, ""},
		{"no JSON", "spec: {}", ""},
		{"invalid UTF-8", strings.Replace(webBody, "web-a", "web-\xff", 1), ""},
		{"half a surrogate pair", strings.Replace(webBody, "web-a", `web-\ud800`, 1), "pods[0].name"},
		{"nested without end", deep, ""},
		{"lists nested without end", `{"pods":` + strings.Repeat("[", 100_000), ""},
		{"a word for a number", strings.Replace(webBody, `"maxReplicas": 20`, `"maxReplicas": "twenty"`, 1), "spec.maxReplicas"},
		{"a number out of range", strings.Replace(webBody, `"maxReplicas": 20`, `"maxReplicas": 2147483648`, 1), "spec.maxReplicas"},
		{"half a replica", strings.Replace(webBody, `"maxReplicas": 20`, `"maxReplicas": 2.5`, 1), "spec.maxReplicas"},
		{"a date that is none", strings.Replace(webBody, "2026-01-01T00:00:00Z", "2026-02-30T00:00:00Z", 1), "pods[0].startTime"},
		{"a duration without a unit", strings.Replace(webBody, `"300s"`, `"300"`, 1), "options.cpuInitializationPeriod"},
		{"an endless duration", strings.Replace(webBody, `"300s"`, `"4611686018427387904s"`, 1), "options.cpuInitializationPeriod"},
		{"NaN without quotes", strings.Replace(webBody, `"windowSeconds": 30`, `"windowSeconds": NaN`, 1), ""},
		{"NaN in quotes", strings.Replace(webBody, `"windowSeconds": 30`, `"windowSeconds": "NaN"`, 1), "podMetrics[0].windowSeconds"},
		{"Infinity in quotes", strings.Replace(webBody, `"windowSeconds": 30`, `"windowSeconds": "Infinity"`, 1), "podMetrics[0].windowSeconds"},
		{"a number beyond any", strings.Replace(webBody, `"windowSeconds": 30`, `"windowSeconds": 1e999`, 1), "podMetrics[0].windowSeconds"},
		{"no policies", strings.Replace(webBody, `"stabilizationWindowSeconds": 120`, `"policies": []`, 1), "spec.behavior.scaleDown.policies"},
		{"a boolean for a quantity", strings.Replace(webBody, `"500m"`, `true`, 1), "pods[1].containers[0].requests[cpu]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := s.ask(t, http.MethodPost, recommendPath(web), tt.body)
			a.expect(t, http.StatusBadRequest)
			got := a.problem(t)
			wantProblem(t, got, codes.InvalidArgument, "INVALID_REQUEST")
			if !slices.Equal(got.fields, []string{tt.field}) {
				t.Errorf("got violations of %q, want %q: %s", got.fields, tt.field, got.message)
			}
			s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusNotFound)
		})
	}
}

func TestInvalidMessagesAreRefusedOverGRPC(t *testing.T) {
	t.Parallel()
	s := start(t)
	raw, err := proto.Marshal(webRequest(t))
	if err != nil {
		t.Fatal(err)
	}
	bad := []byte(strings.ReplaceAll(string(raw), "web-a", "web-\xff"))
	for name, body := range map[string][]byte{"invalid UTF-8": bad, "a message that is cut off": raw[:len(raw)/2], "no message": []byte("\xff\xff\xff")} {
		_, err := s.callRaw(t, "/setpoint.v1.RecommendationService/Recommend", body)
		if got := rpcProblem(err); got.code != codes.InvalidArgument || !strings.Contains(got.message, "protobuf") {
			t.Errorf("%s: got %v, want INVALID_ARGUMENT: %s", name, got.code, got.message)
		}
	}
	s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusNotFound)
}

func TestReportsAreValidated(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, tt := range []struct {
		req    *setpointv1.ReportScaleRequest
		fields []string
	}{
		{&setpointv1.ReportScaleRequest{}, []string{"target", "recommendationId", "outcome"}},
		{&setpointv1.ReportScaleRequest{Target: web, RecommendationId: "x", Outcome: "DONE"}, []string{"outcome"}},
		{&setpointv1.ReportScaleRequest{Target: web, RecommendationId: strings.Repeat("x", 129), Outcome: "APPLIED"}, []string{"recommendationId"}},
		{&setpointv1.ReportScaleRequest{Target: web, RecommendationId: "x", Outcome: "FAILED", Message: strings.Repeat("x", 8193)}, []string{"message"}},
	} {
		_, err := s.recommendations.ReportScale(t.Context(), tt.req)
		wantViolations(t, err, tt.fields...)
	}
}

func TestNoViolationIsListedTwice(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, tt := range badRequests() {
		a := s.ask(t, http.MethodPost, recommendPath(web), webRequest(t, tt.change))
		seen := map[string]bool{}
		for _, v := range at(a.body, "details", 0, "fieldViolations").([]any) {
			text := fmt.Sprint(at(v, "field"), ": ", at(v, "description"))
			if seen[text] {
				t.Errorf("%s: twice: %s", tt.name, text)
			}
			seen[text] = true
		}
	}
}

func TestEvaluationTimeIsRefusedUnlessAllowed(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.options.AllowEvaluationTime = false })
	_, err := s.recommendations.Recommend(t.Context(), webRequest(t, evaluatedAt(t0)))
	wantViolations(t, err, "evaluationTime")
	s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusNotFound)
	if got := s.recommend(t, webRequest(t)).GetEvaluationTime().AsTime(); !got.Equal(t0) {
		t.Errorf("without one it was decided for %v, want the clock's %v", got, t0)
	}
}

func TestEvaluationTimeMustNotLieBeforeTheNewestRecord(t *testing.T) {
	t.Parallel()
	s := start(t)
	newest := t0.Add(time.Hour)
	s.recommend(t, webRequest(t, evaluatedAt(newest)))
	before := s.target(t, web)
	for _, dry := range []bool{false, true} {
		req := webRequest(t, evaluatedAt(newest.Add(-1)), func(r *setpointv1.RecommendRequest) { r.DryRun = dry })
		_, err := s.recommendations.Recommend(t.Context(), req)
		got := rpcProblem(err)
		wantProblem(t, got, codes.FailedPrecondition, "EVALUATION_TIME_PAST")
		if got.metadata["target"] != web || got.metadata["newestRecord"] != newest.Format(time.RFC3339Nano) {
			t.Errorf("metadata are %v, want the target and %v", got.metadata, newest)
		}
		a := s.ask(t, http.MethodPost, recommendPath(web), req)
		a.expect(t, http.StatusBadRequest)
		wantProblem(t, a.problem(t), codes.FailedPrecondition, "EVALUATION_TIME_PAST")
	}
	sameMessage(t, s.target(t, web), before)
	// At the newest record itself, and by the server's clock, which is lifted to it.
	s.recommend(t, webRequest(t, evaluatedAt(newest)))
	if got := s.recommend(t, webRequest(t)).GetEvaluationTime().AsTime(); !got.Equal(newest) {
		t.Errorf("a clock that is behind decided for %v, want it lifted to %v", got, newest)
	}
}

// protojson would hide it if the table above were not what it seems.
func TestBadRequestsDifferFromAGoodOne(t *testing.T) {
	t.Parallel()
	for _, tt := range badRequests() {
		if proto.Equal(webRequest(t, tt.change), webRequest(t)) {
			t.Errorf("%s: changes nothing", tt.name)
		}
		if _, err := protojson.Marshal(webRequest(t, tt.change)); err != nil {
			t.Errorf("%s: can't be asked over REST: %v", tt.name, err)
		}
	}
}
