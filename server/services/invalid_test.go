package services_test

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
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// badRequest is a request that is refused with INVALID_ARGUMENT.
type badRequest struct {
	name   string
	change func(*setpointv1.RecommendRequest)
	// fields are all that the violations must name.
	fields []string
}

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
		{"a member of itself, with proposals", func(r *setpointv1.RecommendRequest) {
			r.Fleet, r.Proposals = r.GetTarget(), []*setpointv1.Proposal{{Name: "x", Role: "FLOOR", Replicas: 19}}
		}, []string{"fleet", "proposals", "proposals[0].expireTime"}},
		{"unreadable quantities of the spec", func(r *setpointv1.RecommendRequest) {
			r.GetSpec().Metrics = []*setpointv1.MetricSpec{
				{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{Name: "cpu", Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("lots")}}},
				{Type: "External", External: &setpointv1.ExternalMetricSource{Metric: &setpointv1.MetricIdentifier{Name: "q"}, Target: &setpointv1.MetricTarget{Type: "Value", Value: new("1 Gi")}}},
			}
			r.GetSpec().Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{
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
		{"readings with a malformed selector", func(r *setpointv1.RecommendRequest) {
			bad := &setpointv1.MetricIdentifier{Name: "a", Selector: &setpointv1.LabelSelector{MatchExpressions: []*setpointv1.LabelSelectorRequirement{{Key: "k", Operator: "Like"}}}}
			r.CustomMetrics = []*setpointv1.CustomMetric{{Metric: bad, DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: "web-a"}, Value: "1"}}
			r.ExternalMetrics = []*setpointv1.ExternalMetric{{Metric: bad, Value: "1"}}
		}, []string{"customMetrics[0].metric.selector", "externalMetrics[0].metric.selector"}},
		{"min above max", func(r *setpointv1.RecommendRequest) { r.GetSpec().MinReplicas = new(int32(21)) }, []string{"spec.maxReplicas"}},
		{"policies out of range", func(r *setpointv1.RecommendRequest) {
			r.GetSpec().Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(3601))
			r.GetSpec().Behavior.ScaleDown.SelectPolicy = new("Best")
			r.GetSpec().Behavior.ScaleDown.Policies = []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 0, PeriodSeconds: 15}, {Type: "Share", Value: 1, PeriodSeconds: 1801}}
		}, []string{
			"spec.behavior.scaleDown.stabilizationWindowSeconds", "spec.behavior.scaleDown.selectPolicy",
			"spec.behavior.scaleDown.policies[0].value", "spec.behavior.scaleDown.policies[1].type", "spec.behavior.scaleDown.policies[1].periodSeconds",
		}},

		{"two pods of one name", func(r *setpointv1.RecommendRequest) { r.Pods[2].Name = "web-a" }, []string{"pods[2].name"}},
		{"errors that name no metric of the spec", func(r *setpointv1.RecommendRequest) {
			r.MetricErrors = []*setpointv1.MetricError{{Metric: "cpu", Message: "m"}, {Metric: "memory", Message: "m"}, {Metric: "external.metrics.k8s.io", Message: "m"}}
		}, []string{"metricErrors[1].metric", "metricErrors[2].metric"}},
		{"an infinite tolerance", func(r *setpointv1.RecommendRequest) { r.GetOptions().Tolerance = new("Inf") }, []string{"options.tolerance"}},
		{"negative durations", func(r *setpointv1.RecommendRequest) {
			r.GetOptions().CpuInitializationPeriod = durationpb.New(-time.Second)
			r.GetOptions().InitialReadinessDelay = durationpb.New(-1)
			r.GetOptions().DownscaleStabilization = durationpb.New(-time.Hour)
			r.GetOptions().UpscaleDelay, r.GetOptions().DownscaleDelay = durationpb.New(-1), durationpb.New(-time.Minute)
		}, []string{
			"options.cpuInitializationPeriod", "options.initialReadinessDelay", "options.downscaleStabilization",
			"options.upscaleDelay", "options.downscaleDelay",
		}},
		{"an instant before there is any", func(r *setpointv1.RecommendRequest) {
			r.EvaluationTime = timestamppb.New(time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC))
		}, []string{"evaluationTime"}},
		{"many things at once", func(r *setpointv1.RecommendRequest) {
			r.Target = "nowhere"
			r.GetSpec().MaxReplicas = -1
			r.Pods[0].Containers[0].Requests["cpu"] = "?"
			r.Pods[1].Name = "web-a"
			r.GetOptions().Profile = "none"
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
		all = append(all, badRequest{fmt.Sprintf("the target %.60q", target), servertest.WithTarget(target), []string{"target"}})
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
			r.GetOptions().CpuInitializationPeriod = &durationpb.Duration{Seconds: 1 << 62}
			r.GetOptions().InitialReadinessDelay = &durationpb.Duration{Seconds: math.MinInt64}
			r.GetOptions().DownscaleStabilization = &durationpb.Duration{Seconds: 1, Nanos: -1}
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
	s := servertest.Start(t)
	s.Recommend(t, servertest.WebRequest(t))
	before := s.Target(t, servertest.Web)
	refused := func(t *testing.T, target string) {
		t.Helper()
		if target == servertest.Web {
			servertest.SameMessage(t, s.Target(t, servertest.Web), before)
		} else if len(target) < 600 {
			s.Ask(t, http.MethodGet, "/v1/"+target, nil).Expect(t, http.StatusNotFound)
		}
	}
	for _, target := range []string{servertest.Web, "clusters/demo/namespaces/shop/targets/fresh"} {
		for _, tt := range badRequests() {
			t.Run(tt.name, func(t *testing.T) {
				req := servertest.WebRequest(t, servertest.WithTarget(target), tt.change)
				_, err := s.Recommendations.Recommend(t.Context(), req)
				servertest.WantViolations(t, err, tt.fields...)

				// A path sets the target, which a body may not contradict.
				req.Target = target
				fields := slices.DeleteFunc(slices.Clone(tt.fields), func(f string) bool { return f == "target" })
				a := s.Ask(t, http.MethodPost, servertest.RecommendPath(target), req)
				a.Expect(t, http.StatusBadRequest)
				got := a.Problem(t)
				servertest.WantProblem(t, got, codes.InvalidArgument, "INVALID_REQUEST")
				slices.Sort(fields)
				if !slices.Equal(got.Fields, fields) {
					t.Errorf("REST: got violations of %q, want %q: %s", got.Fields, fields, got.Message)
				}
				seen := map[string]bool{}
				for _, v := range servertest.At(a.Body, "details", 0, "fieldViolations").([]any) {
					if text := fmt.Sprint(v); seen[text] {
						t.Errorf("twice: %s", text)
					} else {
						seen[text] = true
					}
				}
				refused(t, target)
			})
		}
	}
	for _, tt := range onlyGRPC() {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.Recommendations.Recommend(t.Context(), servertest.WebRequest(t, tt.change))
			servertest.WantViolations(t, err, tt.fields...)
			refused(t, servertest.Web)
		})
	}
}

// Whoever asks for 0 replicas is told of the option that allows them, wherever a spec is sent.
func TestZeroReplicasAreToldTheirOption(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	zero := servertest.WebRequest(t, func(r *setpointv1.RecommendRequest) { r.Spec.MinReplicas = proto.Int32(0) })
	_, overGRPC := s.Recommendations.Recommend(t.Context(), zero)
	answers := map[string]string{"gRPC": servertest.RPCProblem(overGRPC).Message}
	for path, body := range map[string]any{
		"POST " + servertest.RecommendPath(servertest.Web): zero,
		"POST /v1/targets:batchRecommend":                  &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{zero}},
		"PUT /v1/" + servertest.Web + "/spec":              map[string]any{"spec": json.RawMessage(servertest.JSON(t, zero.GetSpec()))},
		"POST /v1/simulations:run":                         map[string]any{"spec": json.RawMessage(servertest.JSON(t, zero.GetSpec()))},
	} {
		method, at, _ := strings.Cut(path, " ")
		answers[path] = string(s.Ask(t, method, at, body).Raw)
	}
	for way, told := range answers {
		if !strings.Contains(told, "must be greater than or equal to 1; 0 needs the feature HPAScaleToZero: options.scaleToZero, --scale-to-zero or profile v1.37") {
			t.Errorf("%s: told %s", way, told)
		}
	}
}

func TestBadTargetsAreRefusedInPaths(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
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
			{"POST", path + ":recommend", servertest.WebBody, "target"},
			{"POST", path + ":reportScale", `{"recommendationId": "x", "outcome": "APPLIED"}`, "target"},
			{"GET", path, nil, "name"},
			{"DELETE", path, nil, "name"},
			{"GET", path + "/decisions", nil, "parent"},
		} {
			a := s.Ask(t, call.method, call.path, call.body)
			if a.Code != http.StatusBadRequest {
				t.Errorf("%s %.100s: got HTTP %d %s, want 400", call.method, call.path, a.Code, a.Raw)
				continue
			}
			got := a.Problem(t)
			servertest.WantProblem(t, got, codes.InvalidArgument, "INVALID_REQUEST")
			// Where a slash turns the path into no route, the field is unknown.
			if !slices.Equal(got.Fields, []string{call.field}) && !slices.Equal(got.Fields, []string{"target"}) {
				t.Errorf("%s %.100s: got violations of %q, want %q", call.method, call.path, got.Fields, call.field)
			}
		}
	}
	list := s.Ask(t, http.MethodGet, "/v1/clusters/-/namespaces/-/targets", nil).Expect(t, http.StatusOK)
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
	s := servertest.Start(t)
	deep := strings.Repeat(`{"spec":`, 50_000) + strings.Repeat("}", 50_000)
	for _, tt := range []struct{ name, body, field string }{
		{"an unknown field", `{"spec": {"maxReplicas": 3, "minReplica": 1}, "scale": {"specReplicas": 3}}`, "spec.minReplica"},
		{"nothing", "", ""},
		{"white space", " \n\t", ""},
		{"no object", `[1, 2]`, ""},
		{"null", `null`, ""},
		{"cut in the middle", servertest.WebBody[:len(servertest.WebBody)/2], ""},
		{"cut before the last brace", strings.TrimSpace(servertest.WebBody)[:len(servertest.WebBody)-2], ""},
		{"two objects", servertest.WebBody + servertest.WebBody, ""},
		{"no JSON", "spec: {}", ""},
		{"invalid UTF-8", strings.Replace(servertest.WebBody, "web-a", "web-\xff", 1), ""},
		{"half a surrogate pair", strings.Replace(servertest.WebBody, "web-a", `web-\ud800`, 1), "pods[0].name"},
		{"nested without end", deep, ""},
		{"lists nested without end", `{"pods":` + strings.Repeat("[", 100_000), ""},
		{"a word for a number", strings.Replace(servertest.WebBody, `"maxReplicas": 20`, `"maxReplicas": "twenty"`, 1), "spec.maxReplicas"},
		{"a number out of range", strings.Replace(servertest.WebBody, `"maxReplicas": 20`, `"maxReplicas": 2147483648`, 1), "spec.maxReplicas"},
		{"half a replica", strings.Replace(servertest.WebBody, `"maxReplicas": 20`, `"maxReplicas": 2.5`, 1), "spec.maxReplicas"},
		{"a date that is none", strings.Replace(servertest.WebBody, "2026-01-01T00:00:00Z", "2026-02-30T00:00:00Z", 1), "pods[0].startTime"},
		{"a duration without a unit", strings.Replace(servertest.WebBody, `"300s"`, `"300"`, 1), "options.cpuInitializationPeriod"},
		{"an endless duration", strings.Replace(servertest.WebBody, `"300s"`, `"4611686018427387904s"`, 1), "options.cpuInitializationPeriod"},
		{"NaN without quotes", strings.Replace(servertest.WebBody, `"windowSeconds": 30`, `"windowSeconds": NaN`, 1), ""},
		{"NaN in quotes", strings.Replace(servertest.WebBody, `"windowSeconds": 30`, `"windowSeconds": "NaN"`, 1), "podMetrics[0].windowSeconds"},
		{"Infinity in quotes", strings.Replace(servertest.WebBody, `"windowSeconds": 30`, `"windowSeconds": "Infinity"`, 1), "podMetrics[0].windowSeconds"},
		{"a number beyond any", strings.Replace(servertest.WebBody, `"windowSeconds": 30`, `"windowSeconds": 1e999`, 1), "podMetrics[0].windowSeconds"},
		{"no policies", strings.Replace(servertest.WebBody, `"stabilizationWindowSeconds": 120`, `"policies": []`, 1), "spec.behavior.scaleDown.policies"},
		{"a boolean for a quantity", strings.Replace(servertest.WebBody, `"500m"`, `true`, 1), `pods[1].containers[0].requests["cpu"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), tt.body)
			a.Expect(t, http.StatusBadRequest)
			got := a.Problem(t)
			servertest.WantProblem(t, got, codes.InvalidArgument, "INVALID_REQUEST")
			if !slices.Equal(got.Fields, []string{tt.field}) {
				t.Errorf("got violations of %q, want %q: %s", got.Fields, tt.field, got.Message)
			}
			s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil).Expect(t, http.StatusNotFound)
		})
	}
}

func TestReportsAreValidated(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for _, tt := range []struct {
		req    *setpointv1.ReportScaleRequest
		fields []string
	}{
		{&setpointv1.ReportScaleRequest{}, []string{"target", "recommendationId", "outcome"}},
		{&setpointv1.ReportScaleRequest{Target: servertest.Web, RecommendationId: "x", Outcome: "DONE"}, []string{"outcome"}},
		{&setpointv1.ReportScaleRequest{Target: servertest.Web, RecommendationId: strings.Repeat("x", 129), Outcome: "APPLIED"}, []string{"recommendationId"}},
		{&setpointv1.ReportScaleRequest{Target: servertest.Web, RecommendationId: "x", Outcome: "FAILED", Message: strings.Repeat("x", 8193)}, []string{"message"}},
	} {
		_, err := s.Recommendations.ReportScale(t.Context(), tt.req)
		servertest.WantViolations(t, err, tt.fields...)
	}
}

func TestEvaluationTimeIsRefusedUnlessAllowed(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.AllowEvaluationTime = false })
	_, err := s.Recommendations.Recommend(t.Context(), servertest.WebRequest(t, servertest.EvaluatedAt(servertest.T0)))
	servertest.WantViolations(t, err, "evaluationTime")
	s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil).Expect(t, http.StatusNotFound)
	if got := s.Recommend(t, servertest.WebRequest(t)).GetEvaluationTime().AsTime(); !got.Equal(servertest.T0) {
		t.Errorf("without one it was decided for %v, want the clock's %v", got, servertest.T0)
	}
}

func TestEvaluationTimeMustNotLieBeforeTheNewestRecord(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	newest := servertest.T0.Add(time.Hour)
	s.Recommend(t, servertest.WebRequest(t, servertest.EvaluatedAt(newest)))
	before := s.Target(t, servertest.Web)
	for _, dry := range []bool{false, true} {
		req := servertest.WebRequest(t, servertest.EvaluatedAt(newest.Add(-1)), func(r *setpointv1.RecommendRequest) { r.DryRun = dry })
		_, err := s.Recommendations.Recommend(t.Context(), req)
		got := servertest.RPCProblem(err)
		servertest.WantProblem(t, got, codes.FailedPrecondition, "EVALUATION_TIME_PAST")
		if got.Metadata["target"] != servertest.Web || got.Metadata["newestRecord"] != newest.Format(time.RFC3339Nano) {
			t.Errorf("metadata are %v, want the target and %v", got.Metadata, newest)
		}
		a := s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), req)
		a.Expect(t, http.StatusBadRequest)
		servertest.WantProblem(t, a.Problem(t), codes.FailedPrecondition, "EVALUATION_TIME_PAST")
	}
	servertest.SameMessage(t, s.Target(t, servertest.Web), before)
	// At the newest record itself, and by the server's clock, which is lifted to it.
	s.Recommend(t, servertest.WebRequest(t, servertest.EvaluatedAt(newest)))
	if got := s.Recommend(t, servertest.WebRequest(t)).GetEvaluationTime().AsTime(); !got.Equal(newest) {
		t.Errorf("a clock that is behind decided for %v, want it lifted to %v", got, newest)
	}
}
