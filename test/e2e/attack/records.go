//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// recordAttacks attack the records of targets.
func recordAttacks() []*attack {
	keepShort := func(s *site) error {
		s.flags = append(s.flags, "--request-id-retention=2s")
		return nil
	}
	work := bounds{processor: 20 * time.Second, limit: 40 * time.Second}
	return []*attack{
		{name: "request-ids", item: "5", about: "answers of 1,000 pods remembered by request id fill a record; small requests move it through Redis", redis: true, prepare: keepShort, steps: []step{
			{name: "single", short: true, bounds: work, run: filledRecord},
		}},
		{name: "targets", item: "5", about: "one tenant makes 50,000 targets with as much in each as goes", redis: true, steps: []step{
			{name: "batch", bounds: bounds{processor: 60 * time.Second, limit: 60 * time.Second, keeps: 128}, run: manyTargets(50_000)},
		}},
		{name: "targets-in-memory", item: "5", about: "the same with the embedded store", steps: []step{
			{name: "batch", bounds: bounds{processor: 60 * time.Second, limit: 60 * time.Second, keeps: 384}, run: manyTargets(50_000)},
		}},
		{name: "names-to-store", item: "5", about: "names of metrics, selectors and errors of 500 kB, for the record, the log and metrics", redis: true, steps: []step{
			{name: "names", short: true, bounds: work, run: longToStore},
		}},
		{name: "decision-log", item: "5", about: "decisions of 30 kB each, while Redis stands still", redis: true, steps: []step{
			{name: "paused", bounds: bounds{processor: 30 * time.Second, limit: 30 * time.Second, deaf: true, memory: 384}, run: pausedLog},
		}},
		{name: "one-target", about: "64 callers of one target at once, over Redis", redis: true, steps: []step{
			{name: "grpc", short: true, bounds: work, run: together(64, func(ctx context.Context, s *scene) error {
				for range 10 {
					sent, err := sendUnary(ctx, s.site, base())
					s.sent(1, sent)
					s.met.Add(codeOf(err))
				}
				return nil
			})},
		}},
	}
}

// counters returns Redis' counters.
func (s *site) counters(ctx context.Context, names ...string) (map[string]int64, error) {
	client := goredis.NewClient(&goredis.Options{Addr: s.redis})
	defer client.Close()
	text, err := client.Info(ctx, "stats", "memory").Result()
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int64)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		for _, want := range names {
			if name == want {
				if counts[name], err = strconv.ParseInt(value, 10, 64); err != nil {
					return nil, err
				}
			}
		}
	}
	return counts, nil
}

// moved is how many bytes have gone through Redis.
func (s *site) moved(ctx context.Context) (int64, error) {
	counts, err := s.counters(ctx, "total_net_input_bytes", "total_net_output_bytes")
	return counts["total_net_input_bytes"] + counts["total_net_output_bytes"], err
}

const (
	// mostMoved bounds the Redis traffic of a small request after answers have expired, bytes;
	// mostMovedFilled before.
	mostMoved, mostMovedFilled = 16 << 10, 256 << 10
)

func filledRecord(ctx context.Context, s *scene) error {
	large := requestFor(hostileTarget)
	large.Explain = true
	for i := range 1000 {
		large.Pods = append(large.Pods, &setpointv1.Pod{Name: shortName(i)})
	}
	for i := range 20 {
		large.Spec.Metrics = append(large.Spec.Metrics, &setpointv1.MetricSpec{Type: "Pods", Pods: &setpointv1.PodsMetricSource{
			Metric: &setpointv1.MetricIdentifier{Name: fmt.Sprint("m", i)}, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("1")},
		}})
	}
	for i := range 40 {
		large.RequestId = fmt.Sprint("fill-", i)
		sent, err := sendUnary(ctx, s.site, bodyOf(large))
		s.sent(1, sent)
		s.met.Add("fill " + codeOf(err))
	}
	small := func(what string, most int64) error {
		const n = 50
		before, err := s.moved(ctx)
		if err != nil {
			return err
		}
		for range n {
			sent, err := sendUnary(ctx, s.site, base())
			s.sent(1, sent)
			if err != nil {
				s.met.Add(what + " " + codeOf(err))
			}
		}
		after, err := s.moved(ctx)
		if err != nil {
			return err
		}
		each := (after - before) / n
		s.met.AddAll("bytes a small request "+what, int(each))
		if each > most {
			return fmt.Errorf("a small request moves %d bytes through Redis %s, want at most %d", each, what, most)
		}
		return nil
	}
	filled := small("while answers are remembered", mostMovedFilled)
	pause(ctx, 3*time.Second)
	// The first one may take them out.
	_, _ = sendUnary(ctx, s.site, base())
	if err := small("after their retention", mostMoved); err != nil {
		return err
	}
	return filled
}

// manyTargets makes many of them, with batches.
func manyTargets(n int) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		const each = 500
		long := strings.Repeat("n", 200)
		for k := 0; k < n && ctx.Err() == nil; k += each {
			var data bytes.Buffer
			for i := range each {
				r := requestFor(fmt.Sprintf("clusters/%s/namespaces/%s/targets/%s%d", long, long, long, k+i))
				r.RequestId = strings.Repeat("r", 100)
				r.Spec.Metrics[0].External.Metric.Name = long
				r.ExternalMetrics[0].Metric.Name = long
				data.Write(field(1, bodyOf(r).wire))
			}
			sent, _, err := batch(ctx, s.site, data.Bytes())
			s.sent(each, sent/each)
			s.met.Add(codeOf(err))
		}
		if s.redis != "" {
			counts, err := s.counters(context.WithoutCancel(ctx), "used_memory")
			s.met.AddAll("MiB of Redis", int(counts["used_memory"]>>20))
			return err
		}
		return nil
	}
}

func longToStore(ctx context.Context, s *scene) error {
	long := strings.Repeat("n", 500_000)
	before, err := s.counters(ctx, "used_memory")
	if err != nil {
		return err
	}
	for i := range 20 {
		target := fmt.Sprintf("clusters/hostile/namespaces/shop/targets/long%d", i)
		named, chosen, failed, of := requestFor(target), requestFor(target), requestFor(target), requestFor(target)
		named.Spec.Metrics[0].External.Metric.Name = long
		named.ExternalMetrics[0].Metric.Name = long
		selector := &setpointv1.LabelSelector{MatchLabels: map[string]string{}}
		for k := range 5000 {
			selector.MatchLabels[fmt.Sprint("label-", k)] = "value"
		}
		chosen.Spec.Metrics[0].External.Metric.Selector = selector
		chosen.ExternalMetrics[0].Metric.Selector = selector
		failed.ExternalMetrics = nil
		failed.MetricErrors = []*setpointv1.MetricError{{Metric: "queue-depth", Message: strings.Repeat("m", 8000)}}
		of.Spec.ScaleTargetRef = &setpointv1.CrossVersionObjectReference{Kind: long, Name: long, ApiVersion: "v1"}
		for _, r := range []*setpointv1.RecommendRequest{named, chosen, failed, of} {
			r.RequestId = fmt.Sprint("id-", i)
			sent, err := sendUnary(ctx, s.site, bodyOf(r))
			s.sent(1, sent)
			s.met.Add(codeOf(err))
		}
	}
	after, err := s.counters(ctx, "used_memory")
	if err != nil {
		return err
	}
	more := (after["used_memory"] - before["used_memory"]) >> 20
	s.met.AddAll("MiB more of Redis", int(more))
	if more > mostRedis {
		return fmt.Errorf("20 targets take %d MiB of Redis, want at most %d", more, mostRedis)
	}
	text, err := s.ask("/metrics")
	if err == nil && strings.Contains(text, "nnnnnnnnnn") {
		return fmt.Errorf("metrics have a caller's name of a metric")
	}
	return err
}

// mostRedis bounds the memory of twenty targets with their logs, MiB.
const mostRedis = 8

// pausedLog makes decisions with large log entries while Redis is paused.
func pausedLog(ctx context.Context, s *scene) error {
	client := goredis.NewClient(&goredis.Options{Addr: s.redis})
	defer client.Close()
	until := time.Now().Add(12 * time.Second)
	for k := 0; time.Now().Before(until) && ctx.Err() == nil; k++ {
		if k%10 == 5 {
			if err := client.Do(ctx, "CLIENT", "PAUSE", "400", "WRITE").Err(); err != nil {
				return err
			}
		}
		var data bytes.Buffer
		for i := range 100 {
			r := requestFor(fmt.Sprintf("clusters/hostile/namespaces/shop/targets/log%d", (k*100+i)%2000))
			r.MetricErrors = []*setpointv1.MetricError{{Metric: "queue-depth", Message: fmt.Sprint(k, strings.Repeat("m", 8000))}}
			r.ExternalMetrics = nil
			data.Write(field(1, bodyOf(r).wire))
		}
		sent, _, err := batch(ctx, s.site, data.Bytes())
		s.sent(100, sent/100)
		s.met.Add(codeOf(err))
	}
	return nil
}
