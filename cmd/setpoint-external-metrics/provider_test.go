package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	metrics "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixed is a provider with one answer of the service, and the requested target.
func fixed(answer *setpointv1.Recommendation, err error) (p *provider, asked *string) {
	asked = new(string)
	return &provider{cluster: "east", timeout: time.Minute, now: func() time.Time { return now }, recommend: func(_ context.Context, target string) (*setpointv1.Recommendation, error) {
		*asked = target
		return answer, err
	}}, asked
}

// seven is a recommendation of 7 for 4 replicas of 2 to 10.
func seven() *setpointv1.Recommendation {
	return &setpointv1.Recommendation{DesiredReplicas: 7, CurrentReplicas: 4, Action: "SCALE_UP", MinReplicas: 2, MaxReplicas: 10, EvaluationTime: timestamppb.New(now.Add(-time.Second))}
}

func selector(t *testing.T, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	fatal.If(t, err)
	return s
}

var recommended = metrics.ExternalMetricInfo{Metric: metricName}

func TestTheCountIsTheValue(t *testing.T) {
	t.Parallel()
	p, asked := fixed(seven(), nil)
	list, err := p.GetExternalMetric(t.Context(), "shop", selector(t, "target=web"), recommended)
	fatal.If(t, err)
	if *asked != "clusters/east/namespaces/shop/targets/web" {
		t.Errorf("it asked about %s", *asked)
	}
	if len(list.Items) != 1 {
		t.Fatalf("got %v", list.Items)
	}
	if got := list.Items[0]; got.Value.MilliValue() != 7000 || !got.Timestamp.Time.Equal(now.Add(-time.Second)) || got.MetricLabels["target"] != "web" || got.MetricName != metricName {
		t.Errorf("got %+v", got)
	}
}

// A selector must name one target of the namespace: anything else is a bad request and never
// leads to another target.
func TestSelectors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ selector, target string }{
		{"target=web", "web"},
		{"target==web.v2_1-a", "web.v2_1-a"},
		{"target in (web)", "web"},
		{"", ""},
		{"target", ""},
		{"target!=web", ""},
		{"target in (web,api)", ""},
		{"target notin (web)", ""},
		{"target=web,cluster=west", ""},
		{"cluster=west", ""},
		{"target=", ""},
		{"target=web,target=api", ""},
	} {
		p, asked := fixed(seven(), nil)
		_, err := p.GetExternalMetric(t.Context(), "shop", selector(t, tt.selector), recommended)
		switch {
		case tt.target != "" && (err != nil || *asked != "clusters/east/namespaces/shop/targets/"+tt.target):
			t.Errorf("%s: asked about %s, %v", tt.selector, *asked, err)
		case tt.target == "" && (!apierrors.IsBadRequest(err) || *asked != ""):
			t.Errorf("%s: asked about %q, %v, want a bad request", tt.selector, *asked, err)
		}
	}
	for _, s := range []labels.Selector{labels.Everything(), labels.Nothing()} {
		p, _ := fixed(seven(), nil)
		if _, err := p.GetExternalMetric(t.Context(), "shop", s, recommended); !apierrors.IsBadRequest(err) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// Errors stay errors: never a number.
func TestErrors(t *testing.T) {
	t.Parallel()
	detailed, err := status.New(codes.NotFound, "no spec is stored").WithDetails(&errdetails.ErrorInfo{Domain: "setpoint.dev", Reason: "SPEC_NOT_FOUND"})
	fatal.If(t, err)
	for _, tt := range []struct {
		name string
		err  error
		code int32
		says string
	}{
		{"no spec", detailed.Err(), http.StatusNotFound, "clusters/east/namespaces/shop/targets/web: SPEC_NOT_FOUND: no spec is stored"},
		{"not computed", status.Error(codes.FailedPrecondition, "no metric"), http.StatusServiceUnavailable, "FailedPrecondition: no metric"},
		{"away", status.Error(codes.Unavailable, "refused"), http.StatusServiceUnavailable, "Unavailable"},
		{"too slow", status.Error(codes.DeadlineExceeded, "slow"), http.StatusGatewayTimeout, "in time"},
		{"not allowed", status.Error(codes.PermissionDenied, "token:x may not"), http.StatusServiceUnavailable, "refuses this program: PermissionDenied"},
		{"a long story", status.Error(codes.Internal, strings.Repeat("x", 1<<20)), http.StatusServiceUnavailable, "Internal"},
	} {
		p, _ := fixed(nil, tt.err)
		list, err := p.GetExternalMetric(t.Context(), "shop", selector(t, "target=web"), recommended)
		s, ok := err.(apierrors.APIStatus)
		if list != nil || !ok || s.Status().Code != tt.code || !strings.Contains(err.Error(), tt.says) || len(err.Error()) > 1000 {
			t.Errorf("%s: %v, %.300v", tt.name, list, err)
		}
		if strings.Contains(err.Error(), "token:x") {
			t.Errorf("%s names whose token it is: %v", tt.name, err)
		}
	}
	p, asked := fixed(seven(), nil)
	if _, err := p.GetExternalMetric(t.Context(), "shop", selector(t, "target=web"), metrics.ExternalMetricInfo{Metric: "queue"}); !apierrors.IsNotFound(err) || *asked != "" {
		t.Errorf("of another metric: %v", err)
	}
}

// An invalid recommendation is no value: a lost field reads as zero, and an HPA would scale to
// its minimum.
func TestAnswersAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*setpointv1.Recommendation)
		ok     bool
	}{
		{"as it is", func(*setpointv1.Recommendation) {}, true},
		{"no change outside the bounds", func(r *setpointv1.Recommendation) { r.DesiredReplicas, r.CurrentReplicas, r.Action = 12, 12, "NONE" }, true},
		{"to zero where that is the minimum", func(r *setpointv1.Recommendation) { r.DesiredReplicas, r.MinReplicas, r.Action = 0, 0, "SCALE_DOWN" }, true},
		{"empty", func(r *setpointv1.Recommendation) { *r = setpointv1.Recommendation{} }, false},
		{"a count that is lost", func(r *setpointv1.Recommendation) { r.DesiredReplicas = 0 }, false},
		{"below the minimum", func(r *setpointv1.Recommendation) { r.DesiredReplicas, r.Action = 1, "SCALE_DOWN" }, false},
		{"above the maximum", func(r *setpointv1.Recommendation) { r.DesiredReplicas = 11 }, false},
		{"negative", func(r *setpointv1.Recommendation) { r.DesiredReplicas, r.Action = -7, "SCALE_DOWN" }, false},
		{"another action", func(r *setpointv1.Recommendation) { r.Action = "NONE" }, false},
		{"no instant", func(r *setpointv1.Recommendation) { r.EvaluationTime = nil }, false},
		{"of the longest period", func(r *setpointv1.Recommendation) { r.EvaluationTime = timestamppb.New(now.Add(-time.Hour)) }, true},
		{"two hours old", func(r *setpointv1.Recommendation) { r.EvaluationTime = timestamppb.New(now.Add(-2 * time.Hour)) }, false},
		{"of tomorrow", func(r *setpointv1.Recommendation) { r.EvaluationTime = timestamppb.New(now.Add(24 * time.Hour)) }, false},
	} {
		r := seven()
		tt.change(r)
		p, _ := fixed(r, nil)
		list, err := p.GetExternalMetric(t.Context(), "shop", selector(t, "target=web"), recommended)
		if (err == nil) != tt.ok || (list != nil) != tt.ok {
			t.Errorf("%s: %v, %v", tt.name, list, err)
		}
	}
}

// A cluster, a Service and a server have to be named.
func TestFlagsAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, says string }{
		{"--cluster=east", "--server: is required"},
		{"--server=s:1 --server-insecure", "--cluster"},
		{"--server=s:1 --cluster=-", "--cluster"},
		{"--server=s:1 --cluster=a/b", "--cluster"},
		{"--server=s:1 --cluster=east --service=x", "--service"},
		{"--server=s:1 --cluster=east --request-timeout=0s", "--request-timeout"},
		{"--server=s:1 --cluster=east --server-tls-cert-file=x", "--server-tls-cert-file: must be given together with --server-tls-key-file"},
		{"--server=s:1 --cluster=east --server-insecure --server-tls-ca-file=x", "--server-insecure: contradicts the --server-tls flags"},
		{"--server=s:1 --cluster=east --server-insecure --server-token-file=x", "--server-insecure: would send the token of --server-token-file"},
	} {
		root := newRoot()
		root.SetArgs(strings.Fields(tt.args))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", tt.args, err, tt.says)
		}
	}
}
