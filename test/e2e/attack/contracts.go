//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/api/externalscaler"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

// datadogPath is where the hostile cluster's callers of Datadog's contract ask.
const datadogPath = "/v1/integrations/datadog/clusters/hostile"

// contractAttacks attack other systems' contracts, and the data stored for callers that only
// poll.
func contractAttacks() []*attack {
	// Each body is bounded in bytes, and so is its cost.
	small := bounds{processor: 5 * time.Second, memory: 256}
	return []*attack{
		{name: "keda-metadata", about: "triggers' metadata of 6,000 entries that differ", steps: []step{
			{name: "distinct", bounds: bounds{property: true}, run: rawWave(externalscaler.ExternalScaler_IsActive_FullMethodName, func() []byte { return metadataOf(6000) })},
		}},
		{name: "keda-unknown", about: "callers without credentials, whose metadata may hold a token, send 60 kB of it", prepare: func(s *site) error {
			if err := asksWho()(s); err != nil {
				return err
			}
			s.flags = append(s.flags, "--keda-metadata-tokens")
			return nil
		}, steps: []step{
			{name: "calls", bounds: bounds{processor: 10 * time.Second, memory: 256}, run: together(16, unknownScaler)},
			{name: "withheld", bounds: bounds{memory: 256, processor: 15 * time.Second}, run: streams(15, 1000, externalscaler.ExternalScaler_StreamIsActive_FullMethodName, nil)},
		}},
		{name: "datadog-targets", about: "bodies of Datadog's contract with thousands of targets, and of 10 MB", steps: []step{
			{name: "targets", bounds: small, run: restWave(datadogPath, func() []byte { return workload(`"targets":[` + list(10_000, `{"type":"cpu","upperBound":1e-9}`) + `]`) })},
			{name: "settings", bounds: small, run: restWave(datadogPath, func() []byte {
				var b strings.Builder
				for i := range 20_000 {
					fmt.Fprintf(&b, `"%d":"",`, i)
				}
				return workload(`"settings":{` + strings.TrimSuffix(b.String(), ",") + `}`)
			})},
			{name: "deep", bounds: small, run: restWave(datadogPath, func() []byte { return workload(`"x":` + strings.Repeat("[", 250_000)) })},
			{name: "large", bounds: small, run: restWave(datadogPath, func() []byte { return workload(`"x":"` + strings.Repeat("x", 10<<20) + `"`) })},
			{name: "slow", bounds: small, run: connections(2000, onREST, "POST "+datadogPath+" HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{", " ", 5*time.Second)},
		}},
		{name: "unknown-targets", about: "thousands of targets that there are not, asked for by every contract, over Redis", redis: true, steps: []step{
			{name: "polls", bounds: bounds{processor: 10 * time.Second, keeps: 8}, run: unknownTargets},
		}},
		{name: "small-reports", about: "2,000 reports of a few bytes on an observation of nearly 1 MiB, over Redis", redis: true, steps: []step{
			{name: "scale", bounds: bounds{processor: 10 * time.Second, limit: 40 * time.Second, memory: 320}, run: smallReports(&setpointv1.ReportObservationRequest{Scale: &setpointv1.Scale{SpecReplicas: 3}})},
			{name: "series", bounds: bounds{processor: 10 * time.Second, limit: 40 * time.Second, memory: 320}, run: smallReports(&setpointv1.ReportObservationRequest{
				ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "other"}, Value: "1"}},
			})},
		}},
		{name: "large-reports", about: "20 reports of nearly 1 MiB at once, on observations as large, with deadlines of an hour: others' large requests go on", redis: true, steps: []step{
			{name: "together", short: true, bounds: bounds{processor: 40 * time.Second, limit: time.Minute}, run: largeReports},
		}},
	}
}

// metadataOf is a reference with so many entries of metadata that differ.
func metadataOf(entries int) []byte {
	var b bytes.Buffer
	for i := range entries {
		b.Write(field(3, field(1, fmt.Append(nil, i))))
	}
	return b.Bytes()
}

// workload is a body of Datadog's contract about the hostile target, with something added.
func workload(added string) []byte {
	return []byte(`{"targetRef":{"namespace":"shop","name":"web"},"state":{"desiredReplicas":3},` + added + `}`)
}

// list is a text so many times, with commas between.
func list(n int, text string) string { return strings.TrimSuffix(strings.Repeat(text+",", n), ",") }

// unknownScaler is a caller of KEDA's contract without credentials.
func unknownScaler(ctx context.Context, s *scene) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	data := append(metadataOf(6000), field(3, append(field(1, []byte("token")), field(2, []byte("guessed"))...))...)
	for range 100 {
		if ctx.Err() != nil {
			return nil
		}
		err := conn.Invoke(ctx, externalscaler.ExternalScaler_IsActive_FullMethodName, &hostile.Raw{Data: data}, &hostile.Raw{}, grpc.ForceCodec(hostile.RawCodec{}))
		s.sent(1, len(data))
		s.met.Add(codeOf(err))
		if code := status.Code(err); code != codes.Unauthenticated && code != codes.ResourceExhausted && code != codes.Unavailable && ctx.Err() == nil {
			return fmt.Errorf("a guessed token was answered with %s", code)
		}
	}
	return nil
}

// unknownTargets requests unknown targets.
func unknownTargets(ctx context.Context, s *scene) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	scaler, client := externalscaler.NewExternalScalerClient(conn), setpointv1.NewRecommendationServiceClient(conn)
	for i := range 3000 {
		if ctx.Err() != nil {
			return nil
		}
		name, sent := fmt.Sprint("unknown-", i), 0
		switch i % 3 {
		case 0:
			ref := &externalscaler.ScaledObjectRef{Name: name, Namespace: "shop", ScalerMetadata: map[string]string{"cluster": "hostile"}}
			_, err = scaler.IsActive(s.asHonest(ctx), ref)
			sent = proto.Size(ref)
		case 1:
			request := &setpointv1.GetRecommendationRequest{Target: "clusters/hostile/namespaces/shop/targets/" + name}
			_, err = client.GetRecommendation(s.asHonest(ctx), request)
			sent = proto.Size(request)
		case 2:
			sent, err = post(ctx, s.site, datadogPath, []byte(`{"targetRef":{"namespace":"shop","name":"`+name+`"},"state":{"desiredReplicas":3}}`))
		}
		s.sent(1, sent)
		s.met.Add(codeOf(err))
		if i%3 < 2 && status.Code(err) != codes.NotFound && ctx.Err() == nil {
			return fmt.Errorf("a target that there is not was answered with %s", codeOf(err))
		}
	}
	return nil
}

// smallReports fills an observation, and has small reports change it.
func smallReports(small *setpointv1.ReportObservationRequest) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		conn, err := s.dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		client := setpointv1.NewRecommendationServiceClient(conn)
		large := largeReport(hostileTarget)
		filled, err := client.ReportObservation(s.asHonest(ctx), large)
		s.sent(1, proto.Size(large))
		if err != nil {
			return fmt.Errorf("the large report: %w", err)
		}
		s.met.AddAll("kB stored", int(filled.GetStoredBytes()>>10))
		report := proto.Clone(small).(*setpointv1.ReportObservationRequest)
		report.Target = hostileTarget
		for range 2000 {
			if ctx.Err() != nil {
				return fmt.Errorf("the reports took longer than the step may: %w", ctx.Err())
			}
			_, err := client.ReportObservation(s.asHonest(ctx), report)
			s.sent(1, proto.Size(report))
			s.met.Add(codeOf(err))
		}
		return nil
	}
}

// largeReport is a report of nearly 1 MiB.
func largeReport(target string) *setpointv1.ReportObservationRequest {
	return &setpointv1.ReportObservationRequest{Target: target, ExternalMetrics: seriesOf(9000)}
}

func seriesOf(n int) (all []*setpointv1.ExternalMetric) {
	for i := range n {
		all = append(all, &setpointv1.ExternalMetric{
			Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"}, Value: "35", Labels: map[string]string{"queue": fmt.Sprint("mails-", i), "region": "eu", "app": strings.Repeat("a", 50)},
		})
	}
	return all
}

// largeReports reports on many observations at once, again and again, and wants large requests of another target answered
// meanwhile.
func largeReports(ctx context.Context, s *scene) error {
	const reporters, reports = 20, 4
	report := func(ctx context.Context, target string) error {
		conn, err := s.dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(s.asHonest(ctx), time.Hour)
		defer cancel()
		large := largeReport(target)
		s.sent(1, proto.Size(large))
		_, err = setpointv1.NewRecommendationServiceClient(conn).ReportObservation(ctx, large)
		return err
	}
	for i := range reporters {
		if err := report(ctx, hostileTarget+fmt.Sprint(i)); err != nil {
			return fmt.Errorf("the first report: %w", err)
		}
	}
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	during, end := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	defer reporting.Wait()
	defer end()
	for i := range reporters {
		reporting.Go(func() {
			for range reports {
				s.met.Add("report " + codeOf(report(during, hostileTarget+fmt.Sprint(i))))
			}
		})
	}
	request := requestFor(hostileTarget)
	request.ExternalMetrics = seriesOf(500)
	for range 5 {
		short, stop := context.WithTimeout(s.asHonest(ctx), 20*time.Second)
		_, err := setpointv1.NewRecommendationServiceClient(conn).Recommend(short, request)
		stop()
		s.sent(1, proto.Size(request))
		if s.met.Add("large " + codeOf(err)); err != nil && status.Code(err) != codes.ResourceExhausted {
			return fmt.Errorf("a large request beside the reports: %w", err)
		}
		pause(ctx, 200*time.Millisecond)
	}
	return nil
}
