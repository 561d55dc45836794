package services_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// wantInUse checks the spec in use of a target, and returns its hash.
func wantInUse(t *testing.T, s *servertest.Service, req *setpointv1.RecommendRequest) string {
	t.Helper()
	target := s.Target(t, req.GetTarget())
	got, want := target.GetSpecInUse(), conversion.SpecInUse(req.GetSpec(), req.GetOptions(), req.GetStages())
	if want.SinceTime = got.GetSinceTime(); !proto.Equal(got, want) || got.GetHash() != target.GetLastDecision().GetSpecHash() {
		t.Fatalf("the spec in use is %v, that of the last decision %q, want %v", got, target.GetLastDecision().GetSpecHash(), want)
	}
	return got.GetHash()
}

// A spec is the same whether it comes by gRPC, by REST, in a batch, on the slow path, or from the store.
func TestTheSpecInUseIsThatOfTheLastDecision(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	req := servertest.Queue(servertest.Web, 3, 10)
	s.Recommend(t, req)
	hash := wantInUse(t, s, req)
	since := s.Target(t, servertest.Web).GetSpecInUse().GetSinceTime()
	if !since.AsTime().Equal(servertest.T0) {
		t.Errorf("in use since %v", since)
	}
	for name, call := range map[string]func() error{
		"REST": func() error {
			resp, err := s.HTTP.Post(s.URL+"/v1/"+servertest.Web+":recommend", "application/json", bytes.NewBufferString(servertest.JSON(t, req)))
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode != http.StatusOK {
				return errors.New(resp.Status)
			}
			return nil
		},
		"batch": func() error {
			_, err := s.Recommendations.BatchRecommend(t.Context(), &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{req, req}})
			return err
		},
		"the slow path": func() error {
			slow := proto.Clone(req).(*setpointv1.RecommendRequest)
			// More than the fast path remembers.
			slow.MetricErrors = []*setpointv1.MetricError{{Metric: "External:queue-depth", Message: strings.Repeat("x", 8192)}}
			_, err := s.Recommendations.Recommend(t.Context(), slow)
			return err
		},
	} {
		s.Clock.Advance(servertest.Period)
		if err := call(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := wantInUse(t, s, req); got != hash {
			t.Errorf("%s: the hash is %s, want %s", name, got, hash)
		}
		if got := s.Target(t, servertest.Web).GetSpecInUse().GetSinceTime(); !proto.Equal(got, since) {
			t.Errorf("%s: in use since %v, want %v", name, got, since)
		}
	}
	stored, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: servertest.Web, TargetSpec: &setpointv1.TargetSpec{Spec: req.GetSpec()}})
	if err != nil || stored.GetTargetSpec().GetHash() != hash {
		t.Errorf("the stored spec has the hash %q, want %s: %v", stored.GetTargetSpec().GetHash(), hash, err)
	}

	// Any difference is another spec.
	hashes := map[string]bool{hash: true}
	for _, change := range []func(*setpointv1.RecommendRequest){
		func(r *setpointv1.RecommendRequest) { r.Spec.MaxReplicas++ },
		func(r *setpointv1.RecommendRequest) { r.Spec.MinReplicas = new(int32(2)) },
		func(r *setpointv1.RecommendRequest) {
			r.Spec.ScaleTargetRef = &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: "a", ApiVersion: "apps/v1"}
		},
		func(r *setpointv1.RecommendRequest) { r.Spec.ScaleTargetRef.Name = "b" },
		func(r *setpointv1.RecommendRequest) { r.Options = &setpointv1.RecommendOptions{Profile: "v1.28"} },
		func(r *setpointv1.RecommendRequest) {
			r.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(60))}}
		},
		func(r *setpointv1.RecommendRequest) { r.Stages = &setpointv1.Stages{WindowThroughFailures: true} },
	} {
		s.Clock.Advance(servertest.Period)
		change(req)
		s.Recommend(t, req)
		got := wantInUse(t, s, req)
		if hashes[got] {
			t.Errorf("another spec has the hash %s, too: %v", got, req.GetSpec())
		}
		hashes[got] = true
		if since := s.Target(t, servertest.Web).GetSpecInUse().GetSinceTime(); !proto.Equal(since, timestamppb.New(s.Clock.Now())) {
			t.Errorf("in use since %v, want %v", since, s.Clock.Now())
		}
	}
	dry := proto.Clone(req).(*setpointv1.RecommendRequest)
	dry.Spec.MaxReplicas, dry.DryRun = 77, true
	s.Recommend(t, dry)
	wantInUse(t, s, req)
}

// A list has the specs in use if it is asked for them.
func TestSpecsInUseInLists(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	one, other := servertest.Queue("clusters/a/namespaces/n/targets/one", 3, 10), servertest.Queue("clusters/b/namespaces/n/targets/other", 3, 10)
	other.Spec.MaxReplicas = 77
	s.Recommend(t, one)
	s.Recommend(t, other)
	list := func(with bool) []*setpointv1.Target {
		resp, err := s.Targets.ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/-", WithSpecInUse: with})
		if err != nil || len(resp.GetTargets()) != 2 {
			t.Fatalf("%v, %v", resp, err)
		}
		return resp.GetTargets()
	}
	for _, target := range list(false) {
		if target.GetSpecInUse() != nil {
			t.Errorf("%s has a spec in use without being asked", target.GetName())
		}
	}
	for i, target := range list(true) {
		if want := []*setpointv1.RecommendRequest{one, other}[i].GetSpec().GetMaxReplicas(); target.GetSpecInUse().GetSpec().GetMaxReplicas() != want {
			t.Errorf("%s: %v, want the maximum %d", target.GetName(), target.GetSpecInUse(), want)
		}
	}
}

// A text of more than 8 KiB is not kept: the decision is made, its hash is known, and lists have no
// text. The next usual spec is known again.
func TestALongSpecIsNotKept(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	usual := servertest.Queue(servertest.Web, 3, 10)
	s.Recommend(t, usual)
	wantInUse(t, s, usual)
	long := proto.Clone(usual).(*setpointv1.RecommendRequest)
	for i := range 3 {
		m := proto.Clone(usual.GetSpec().GetMetrics()[0]).(*setpointv1.MetricSpec)
		m.External.Metric.Selector = &setpointv1.LabelSelector{MatchLabels: map[string]string{}}
		for j := range 30 {
			m.External.Metric.Selector.MatchLabels[fmt.Sprintf("%s-%d-%d", strings.Repeat("l", 50), i, j)] = strings.Repeat("v", 60)
		}
		long.Spec.Metrics = append(long.Spec.Metrics, m)
	}
	if size := proto.Size(long.GetSpec()); size <= 8<<10 {
		t.Fatalf("the spec has %d bytes", size)
	}
	s.Clock.Advance(servertest.Period)
	s.Recommend(t, long)
	target := s.Target(t, servertest.Web)
	if want := conversion.SpecHash(conversion.HashOfSpec(long.GetSpec(), nil, nil)); target.GetSpecInUse() != nil || target.GetLastDecision().GetSpecHash() != want {
		t.Errorf("in use is a spec of %d bytes, the hash is %q, want none and %q", proto.Size(target.GetSpecInUse()), target.GetLastDecision().GetSpecHash(), want)
	}
	s.Clock.Advance(servertest.Period)
	s.Recommend(t, usual)
	wantInUse(t, s, usual)
}
