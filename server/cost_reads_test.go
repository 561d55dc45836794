package server_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// labelled gives a request so many external metrics, each with a series, with selectors of so many labels.
func labelled(metrics, labels int) func(*setpointv1.RecommendRequest) {
	return func(req *setpointv1.RecommendRequest) {
		req.Spec.Metrics, req.ExternalMetrics = nil, nil
		for i := range metrics {
			id := &setpointv1.MetricIdentifier{Name: fmt.Sprint("m", i)}
			if labels > 0 {
				id.Selector = &setpointv1.LabelSelector{MatchLabels: make(map[string]string)}
			}
			for k := range labels {
				id.Selector.MatchLabels[fmt.Sprint("k", k)] = "v"
			}
			req.Spec.Metrics = append(req.Spec.Metrics, &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: id, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("10")},
			}})
			req.ExternalMetrics = append(req.ExternalMetrics, &setpointv1.ExternalMetric{Metric: id, Value: "50"})
		}
	}
}

// A call of a few bytes costs no more than they allow, however much it reads: over gRPC and REST.
func TestCostOfReads(t *testing.T) {
	measures(t)
	s := servertest.Start(t)
	const many = 1000
	in := func(namespace string, i int) string {
		return fmt.Sprintf("clusters/c/namespaces/%s/targets/t%04d", namespace, i)
	}
	// fill has many targets begin like the first one.
	fill := func(namespace string, decisions int, change func(*setpointv1.RecommendRequest)) {
		for i := range decisions {
			s.Recommend(t, servertest.With(servertest.Queue(in(namespace, 0), int32(1+i%50), 50), change, servertest.WithID(fmt.Sprint(i))))
			s.Clock.Advance(time.Second)
		}
		value := s.Stored(t, in(namespace, 0))
		for i := 1; i < many; i++ {
			s.Put(t, in(namespace, i), value)
		}
	}
	fill("labels", 1, labelled(5, 20))
	fill("answers", 32, labelled(10, 20))
	fill("decisions", 700, labelled(100, 0))
	spec := servertest.QueueSpec(1, 9)
	spec.Spec = servertest.With(servertest.Queue(servertest.Web, 1, 1), labelled(100, 100)).Spec
	for i := range 40 {
		_, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: in("specs", i), TargetSpec: spec})
		fatal.If(t, err)
	}
	for path, read := range map[string]struct {
		method string
		req    proto.Message
	}{
		"namespaces/labels/targets?pageSize=1000&withSpecInUse=true": {
			setpointv1.TargetService_ListTargets_FullMethodName,
			&setpointv1.ListTargetsRequest{Parent: "clusters/c/namespaces/labels", PageSize: many, WithSpecInUse: true},
		},
		"namespaces/answers/targets?pageSize=1000": {
			setpointv1.TargetService_ListTargets_FullMethodName,
			&setpointv1.ListTargetsRequest{Parent: "clusters/c/namespaces/answers", PageSize: many},
		},
		"namespaces/specs/targetSpecs?pageSize=1000": {
			setpointv1.TargetService_ListTargetSpecs_FullMethodName,
			&setpointv1.ListTargetSpecsRequest{Parent: "clusters/c/namespaces/specs", PageSize: many},
		},
		"namespaces/decisions/targets/t0000/decisions?pageSize=1000": {
			setpointv1.TargetService_ListDecisions_FullMethodName,
			&setpointv1.ListDecisionsRequest{Parent: in("decisions", 0), PageSize: many},
		},
		"namespaces/decisions/targets/t0000": {
			setpointv1.TargetService_GetTarget_FullMethodName, &setpointv1.GetTargetRequest{Name: in("decisions", 0)},
		},
		"namespaces/specs/targets/t0000/spec": {
			setpointv1.TargetService_GetTargetSpec_FullMethodName, &setpointv1.GetTargetSpecRequest{Name: in("specs", 0)},
		},
	} {
		t.Run(path, func(t *testing.T) {
			data := servertest.Encoded(t, read.req)
			checkCost(t, len(data), func() bool {
				_, err := s.SendRaw(t.Context(), read.method, data)
				fatal.If(t, err)
				return true
			})
			checkCost(t, len(path), func() bool {
				resp, err := s.HTTP.Get(s.URL + "/v1/clusters/c/" + path)
				fatal.If(t, err)
				defer func() { _ = resp.Body.Close() }()
				_, err = io.Copy(io.Discard, resp.Body)
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("HTTP %d, %v", resp.StatusCode, err)
				}
				return true
			})
		})
	}
}
