package validation_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/validation"
)

const (
	targetName = "clusters/demo/namespaces/shop/targets/web"
	targetRule = `must be clusters/{cluster}/namespaces/{namespace}/targets/{target}, each segment 1 to 253 characters of [A-Za-z0-9._-] and not ".", ".." or "-"`
	parentRule = `must be clusters/{cluster}/namespaces/{namespace}, each segment 1 to 253 characters of [A-Za-z0-9._-] and not "." or ".." ("-" stands for all)`
)

// request returns a request that breaks no rule, after the change.
func request(change func(*setpointv1.RecommendRequest)) *setpointv1.RecommendRequest {
	req := &setpointv1.RecommendRequest{
		Target: targetName,
		Spec:   &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 5},
		Scale:  &setpointv1.Scale{SpecReplicas: 3},
	}
	change(req)
	return req
}

func TestStructure(t *testing.T) {
	tests := []struct {
		name string
		msg  proto.Message
		want []string
	}{
		{
			name: "a sound request",
			msg:  request(func(*setpointv1.RecommendRequest) {}),
		},
		{
			name: "no message",
		},
		{
			name: "an empty request",
			msg:  &setpointv1.RecommendRequest{},
			want: []string{`target: ` + targetRule + ` (got "")`, "spec: value is required"},
		},
		{
			name: "a nil request is an empty one",
			msg:  (*setpointv1.RecommendRequest)(nil),
			want: []string{`target: ` + targetRule + ` (got "")`, "spec: value is required"},
		},
		{
			name: "negative replicas",
			msg: request(func(r *setpointv1.RecommendRequest) {
				r.Scale = &setpointv1.Scale{SpecReplicas: -1, StatusReplicas: proto.Int32(-2)}
			}),
			want: []string{
				"scale.specReplicas: must be greater than or equal to 0 (got -1)",
				"scale.statusReplicas: must be greater than or equal to 0 (got -2)",
			},
		},
		{
			name: "pods with unknown states",
			msg: request(func(r *setpointv1.RecommendRequest) {
				r.Pods = []*setpointv1.Pod{
					{Name: "web-a", Phase: "Running", Ready: &setpointv1.PodReadyCondition{Status: "True"}},
					{Name: "web-b", Phase: "Runing"},
					{Name: "web-c", Ready: &setpointv1.PodReadyCondition{Status: "yes"}},
				}
			}),
			want: []string{
				`pods[1].phase: must be in list [Pending, Running, Succeeded, Failed, Unknown] (got "Runing")`,
				`pods[2].ready.status: must be in list [True, False, Unknown] (got "yes")`,
			},
		},
		{
			name: "names too short and too long, quoted in part",
			msg: request(func(r *setpointv1.RecommendRequest) {
				r.Pods = []*setpointv1.Pod{
					{},
					{Name: "web", InitContainers: []*setpointv1.InitContainer{{}, {Name: "x" + strings.Repeat("é", 253)}}},
				}
				r.PodMetrics = []*setpointv1.PodMetrics{{Pod: "web", WindowSeconds: 30}, {WindowSeconds: math.Inf(-1)}}
			}),
			want: []string{
				`pods[0].name: must be at least 1 characters (got "")`,
				`pods[1].initContainers[1].name: must be at most 253 characters (got "x` + strings.Repeat("é", 31) + `"…)`,
				`podMetrics[1].windowSeconds: must be finite (got -Inf)`,
			},
		},
		{
			name: "too many containers, counted",
			msg: request(func(r *setpointv1.RecommendRequest) {
				r.Pods = []*setpointv1.Pod{{Name: "web", Containers: make([]*setpointv1.Container, 1001)}}
			}),
			want: []string{"pods[0].containers: must contain no more than 1000 item(s) (got 1001)"},
		},
		{
			name: "samples of nothing",
			msg: request(func(r *setpointv1.RecommendRequest) {
				r.CustomMetrics = []*setpointv1.CustomMetric{{}}
				r.ExternalMetrics = []*setpointv1.ExternalMetric{{}}
			}),
			want: []string{
				"customMetrics[0].metric: value is required",
				"customMetrics[0].describedObject: value is required",
				"externalMetrics[0].metric: value is required",
			},
		},
		{
			name: "negative durations",
			msg: request(func(r *setpointv1.RecommendRequest) {
				r.Options = &setpointv1.RecommendOptions{
					CpuInitializationPeriod: durationpb.New(-5 * time.Second),
					InitialReadinessDelay:   durationpb.New(0),
					DownscaleStabilization:  durationpb.New(-time.Millisecond),
				}
			}),
			want: []string{
				"options.cpuInitializationPeriod: must be greater than or equal to 0s (got -5s)",
				"options.downscaleStabilization: must be greater than or equal to 0s (got -1ms)",
			},
		},
		{
			name: "a report of what is no outcome",
			msg:  &setpointv1.ReportScaleRequest{Target: targetName, Outcome: "DONE"},
			want: []string{
				`recommendationId: must be at least 1 characters (got "")`,
				`outcome: must be in list [APPLIED, FAILED] (got "DONE")`,
			},
		},
		{
			name: "requests of a batch are looked at each by itself",
			msg:  &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{{}}},
		},
		{
			name: "requests of a stream are looked at",
			msg:  &setpointv1.StreamRecommendRequest{Request: request(func(r *setpointv1.RecommendRequest) { r.Target = "web" })},
			want: []string{
				`id: must be at least 1 characters (got "")`,
				`request.target: ` + targetRule + ` (got "web")`,
			},
		},
		{
			name: "page sizes",
			msg:  &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/-", PageSize: 1001},
			want: []string{"pageSize: must be greater than or equal to 0 and less than or equal to 1000 (got 1001)"},
		},
		{
			name: "negative page sizes",
			msg:  &setpointv1.ListDecisionsRequest{Parent: targetName, PageSize: -1},
			want: []string{"pageSize: must be greater than or equal to 0 and less than or equal to 1000 (got -1)"},
		},
		{
			name: "a parent that is none",
			msg:  &setpointv1.ListTargetsRequest{Parent: "clusters/../namespaces/shop"},
			want: []string{`parent: ` + parentRule + ` (got "clusters/../namespaces/shop")`},
		},
		{
			name: "a simulation in no steps, of nothing",
			msg:  &setpointv1.SimulateRequest{SyncPeriod: durationpb.New(0), Specs: []*setpointv1.SimulatedSpec{{}}, Files: []*setpointv1.ScenarioFile{{}}},
			want: []string{
				"syncPeriod: must be greater than 0s (got 0s)",
				"files[0].name: must be at least 1 characters (got \"\")",
				"specs[0].spec: value is required",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := lines(validation.Structure(tt.msg)); !slices.Equal(got, tt.want) {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestStructureOfTargetNames(t *testing.T) {
	segment := strings.Repeat("a", 253)
	tests := []struct {
		name, target string
		sound        bool
	}{
		{"plain", targetName, true},
		{"every kind of character", "clusters/eu-1.example/namespaces/_x/targets/Web.v2_b-3", true},
		{"dots and hyphens in longer segments", "clusters/.../namespaces/--/targets/-.", true},
		{"longest segments", "clusters/" + segment + "/namespaces/" + segment + "/targets/" + segment, true},
		{"too long a segment", "clusters/demo/namespaces/shop/targets/a" + segment, false},
		{"empty", "", false},
		{"too few segments", "clusters/demo/targets/web", false},
		{"too many segments", targetName + "/x", false},
		{"a slash in front", "/" + targetName, false},
		{"a slash behind", targetName + "/", false},
		{"an empty segment", "clusters//namespaces/shop/targets/web", false},
		{"other collections", "clusters/demo/namespace/shop/targets/web", false},
		{"a dot", "clusters/demo/namespaces/./targets/web", false},
		{"two dots", "clusters/demo/namespaces/shop/targets/..", false},
		{"a wildcard", "clusters/-/namespaces/shop/targets/web", false},
		{"a wildcard at the end", "clusters/demo/namespaces/shop/targets/-", false},
		{"a space", "clusters/demo/namespaces/shop/targets/a b", false},
		{"a letter beyond ASCII", "clusters/demo/namespaces/shop/targets/é", false},
		{"a line break at the end", targetName + "\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			violations := validation.Structure(&setpointv1.GetTargetRequest{Name: tt.target})
			if tt.sound != (len(violations) == 0) {
				t.Errorf("%q: got %v", tt.target, violations)
			}
			for _, v := range violations {
				if v.Field != "name" || !strings.HasPrefix(v.Description, targetRule) {
					t.Errorf("%q: got %v", tt.target, v)
				}
			}
		})
	}
}

func TestWarm(t *testing.T) {
	if err := validation.Warm(); err != nil {
		t.Error(err)
	}
}
