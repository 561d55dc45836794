//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

// readAttacks ask, in a few bytes, for much that is stored.
func readAttacks() []*attack {
	// Records are as large as Redis hands them out: how long others wait for it depends on the machine.
	much := bounds{processor: 30 * time.Second, limit: 40 * time.Second, deaf: true}
	const place = "clusters/hostile/namespaces/shop"
	return []*attack{{name: "reads", about: "400 callers at once that read the largest records there may be, over Redis", redis: true, steps: []step{
		{name: "polls", short: true, bounds: much, run: readers(storeLarge, setpointv1.RecommendationService_GetRecommendation_FullMethodName, &setpointv1.GetRecommendationRequest{Target: hostileTarget})},
		{name: "reports", bounds: much, run: readers(storeLarge, setpointv1.RecommendationService_ReportObservation_FullMethodName, &setpointv1.ReportObservationRequest{Target: hostileTarget, Scale: &setpointv1.Scale{SpecReplicas: 3}})},
		{name: "specs", bounds: much, run: readers(storeSpecs, setpointv1.TargetService_ListTargetSpecs_FullMethodName, &setpointv1.ListTargetSpecsRequest{Parent: place, PageSize: 1000})},
		{name: "spec", bounds: much, run: readers(storeLarge, setpointv1.TargetService_GetTargetSpec_FullMethodName, &setpointv1.GetTargetSpecRequest{Name: hostileTarget})},
		{name: "decisions", bounds: much, run: readers(storeDecisions, setpointv1.TargetService_ListDecisions_FullMethodName, &setpointv1.ListDecisionsRequest{Parent: hostileTarget, PageSize: 1000})},
	}}}
}

// readers stores something, and has many callers ask for it again and again.
func readers(store func(context.Context, *scene, *grpc.ClientConn) error, method string, message proto.Message) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		conn, err := s.dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := store(ctx, s, conn); err != nil {
			return err
		}
		data, err := proto.Marshal(message)
		if err != nil {
			return err
		}
		return together(10, func(ctx context.Context, s *scene) error {
			conn, err := s.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			return together(40, func(ctx context.Context, s *scene) error {
				for range 4 {
					err := conn.Invoke(s.asHonest(ctx), method, &hostile.Raw{Data: data}, &hostile.Raw{}, grpc.ForceCodec(hostile.RawCodec{}))
					s.sent(1, len(data))
					s.met.Add(codeOf(err))
				}
				return nil
			})(ctx, s)
		})(ctx, s)
	}
}

// largeSpec is a spec of nearly 256 KiB, with as many metrics and labels as there may be.
func largeSpec() *setpointv1.TargetSpec {
	spec := &setpointv1.TargetSpec{
		Spec:   &setpointv1.HorizontalPodAutoscalerSpec{MinReplicas: proto.Int32(1), MaxReplicas: 1000},
		Period: durationpb.New(time.Second), AssumeApplied: true, ObservationMaxAge: durationpb.New(time.Hour),
	}
	for i := range 95 {
		labels := make(map[string]string)
		for k := range 35 {
			labels[fmt.Sprint("k", k)] = fmt.Sprint(i, strings.Repeat("v", 60))
		}
		spec.Spec.Metrics = append(spec.Spec.Metrics, &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{
			Metric: &setpointv1.MetricIdentifier{Name: fmt.Sprint("m", i), Selector: &setpointv1.LabelSelector{MatchLabels: labels}},
			Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("10")},
		}})
	}
	return spec
}

// storeLarge stores a large spec and a large observation of one target.
func storeLarge(ctx context.Context, s *scene, conn *grpc.ClientConn) error {
	if _, err := setpointv1.NewTargetServiceClient(conn).SetTargetSpec(s.asHonest(ctx), &setpointv1.SetTargetSpecRequest{Name: hostileTarget, TargetSpec: largeSpec()}); err != nil {
		return fmt.Errorf("a spec: %w", err)
	}
	if _, err := setpointv1.NewRecommendationServiceClient(conn).ReportObservation(s.asHonest(ctx), largeReport(hostileTarget)); err != nil {
		return fmt.Errorf("a report: %w", err)
	}
	return nil
}

// storeSpecs stores large specs of many targets.
func storeSpecs(ctx context.Context, s *scene, conn *grpc.ClientConn) error {
	for i := range 50 {
		if _, err := setpointv1.NewTargetServiceClient(conn).SetTargetSpec(s.asHonest(ctx), &setpointv1.SetTargetSpecRequest{Name: hostileTarget + fmt.Sprint(i), TargetSpec: largeSpec()}); err != nil {
			return fmt.Errorf("a spec: %w", err)
		}
	}
	return nil
}

// storeDecisions fills the decision log of a target.
func storeDecisions(ctx context.Context, s *scene, conn *grpc.ClientConn) error {
	for i := range 6 {
		batch := &setpointv1.BatchRecommendRequest{}
		for k := range 150 {
			n := int32(5 + k%2*5)
			r := &setpointv1.RecommendRequest{Target: hostileTarget, Scale: &setpointv1.Scale{SpecReplicas: n}, Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 1000}}
			for m := range 100 {
				name := &setpointv1.MetricIdentifier{Name: fmt.Sprint("m", m)}
				r.Spec.Metrics = append(r.Spec.Metrics, &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{
					Metric: name, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("10")},
				}})
				r.ExternalMetrics = append(r.ExternalMetrics, &setpointv1.ExternalMetric{Metric: name, Value: fmt.Sprint(50 + (k*17+i)%90)})
			}
			batch.Requests = append(batch.Requests, r)
		}
		if _, err := setpointv1.NewRecommendationServiceClient(conn).BatchRecommend(s.asHonest(ctx), batch); err != nil {
			return fmt.Errorf("decisions: %w", err)
		}
	}
	return nil
}
