//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// What is kept of recordings in this attack: so many bytes of a target, of so many targets, for so long.
const (
	recordedBytes, recordedTargets, recordedAge = 18_432, 100, 10 * time.Second
	// attackedTargets is how many are asked, and attackedRounds how often those are that are kept.
	attackedTargets, attackedRounds = 10_000, 60
	// A target has so many entries, and each has entryHeader more bytes, and takes entryRest more in Redis, at most.
	recordedEntries, entryHeader, entryRest = 144, 4, 24
	mostOfOne                               = recordedBytes + recordedEntries*entryHeader
	mostInRedis                             = recordedTargets * (recordedBytes + recordedEntries*entryRest)
)

// recordingAttacks attack what the service keeps of what targets are asked.
func recordingAttacks() []*attack {
	return []*attack{{
		name: "recordings", about: "10,000 targets of long names, with readings, labels and errors that nothing compresses; then those that are kept, again and again", redis: true,
		prepare: func(s *site) error {
			s.flags = append(s.flags, fmt.Sprint("--recording-bytes=", recordedBytes), fmt.Sprint("--recording-total-bytes=", recordedBytes*recordedTargets), fmt.Sprint("--recording-age=", recordedAge))
			return nil
		},
		steps: []step{
			{name: "fill", short: true, bounds: bounds{processor: 120 * time.Second, limit: 120 * time.Second, keeps: 128}, run: fillRecordings},
			{name: "expire", bounds: bounds{processor: 60 * time.Second, limit: 120 * time.Second}, run: expiredRecordings},
		},
	}}
}

// noise is text that can't be compressed, of about n bytes.
func noise(r *rand.ChaCha8, n int) string {
	raw := make([]byte, n*3/4)
	_, _ = r.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// recordedNoise is a request whose readings are noise.
func recordedNoise(r *rand.ChaCha8, target string) *setpointv1.RecommendRequest {
	req := requestFor(target)
	metric := req.Spec.Metrics[0].External.Metric
	metric.Selector = &setpointv1.LabelSelector{MatchLabels: map[string]string{"label": strings.Repeat("l", 60)}}
	reading := req.ExternalMetrics[0]
	reading.Metric = metric
	reading.Value = fmt.Sprint(r.Uint64() >> (1 + r.Uint64()%60))
	const failing = "failing"
	req.Spec.Metrics = append(req.Spec.Metrics, &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{
		Metric: &setpointv1.MetricIdentifier{Name: failing}, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("1")},
	}})
	req.MetricErrors = []*setpointv1.MetricError{{Metric: failing, Message: noise(r, 1000)}}
	return req
}

func fillRecordings(ctx context.Context, s *scene) error {
	r := rand.NewChaCha8([32]byte{33})
	ask := func(targets []string) error {
		const each = 250
		for len(targets) > 0 {
			n := min(each, len(targets))
			var data bytes.Buffer
			for _, target := range targets[:n] {
				data.Write(field(1, bodyOf(recordedNoise(r, target)).wire))
			}
			targets = targets[n:]
			sent, _, err := batch(ctx, s.site, data.Bytes())
			s.sent(n, sent/n)
			s.met.Add(codeOf(err))
		}
		return ctx.Err()
	}
	var all []string
	for i := range attackedTargets {
		all = append(all, fmt.Sprintf("clusters/hostile/namespaces/%s/targets/%s%d", strings.Repeat("n", 100), strings.Repeat("t", 100), i))
	}
	// What was written of targets while there were fewer expires meanwhile.
	for begin := time.Now(); time.Since(begin) < recordedAge+4*time.Second; pause(ctx, time.Second) {
		if err := ask(all); err != nil {
			return err
		}
	}
	kept, _, err := s.recordings(ctx)
	if err != nil {
		return err
	}
	if len(kept) == 0 {
		return fmt.Errorf("nothing is recorded: the attack is in vain")
	}
	var again []string
	for name := range kept {
		cluster, rest, _ := strings.Cut(name, "/")
		namespace, target, _ := strings.Cut(rest, "/")
		again = append(again, fmt.Sprintf("clusters/%s/namespaces/%s/targets/%s", cluster, namespace, target))
	}
	for range attackedRounds {
		if err := ask(again); err != nil {
			return err
		}
	}
	pause(ctx, time.Second) // they are written in the background
	kept, memory, err := s.recordings(ctx)
	if err != nil {
		return err
	}
	var sum, most int64
	for _, n := range kept {
		sum, most = sum+n, max(most, n)
	}
	s.met.AddAll("targets that are recorded", len(kept))
	s.met.AddAll("bytes of the largest recording", int(most))
	s.met.AddAll("KiB of all recordings", int(sum>>10))
	s.met.AddAll("KiB of Redis for them", int(memory>>10))
	switch {
	case most > mostOfOne:
		return fmt.Errorf("a target has %d bytes of recordings, want at most %d", most, mostOfOne)
	case most < recordedBytes/2:
		return fmt.Errorf("the largest recording has %d bytes, which fills none: the attack is in vain", most)
	case len(kept) > recordedTargets:
		return fmt.Errorf("%d targets are recorded, want at most %d", len(kept), recordedTargets)
	case memory > mostInRedis:
		return fmt.Errorf("recordings take %d bytes of Redis, want at most %d", memory, mostInRedis)
	}
	return nil
}

// expiredRecordings waits until nothing is left, when nobody asks any more: what instances have not yet written comes
// within a minute, and expires, too.
func expiredRecordings(ctx context.Context, s *scene) error {
	begin := time.Now()
	pause(ctx, 75*time.Second) // the longest that a chunk is in memory, which is written then and lives for the age
	for {
		kept, _, err := s.recordings(ctx)
		if err != nil {
			return fmt.Errorf("recordings are left %s after the last decision: %w", time.Since(begin).Round(time.Second), err)
		}
		if len(kept) == 0 {
			s.met.AddAll("seconds until all had expired", int(time.Since(begin).Seconds()))
			return nil
		}
		pause(ctx, time.Second)
	}
}

// recordings are the bytes of the recordings of the attacked targets, by cluster/namespace/target, and what they take in Redis.
func (s *site) recordings(ctx context.Context) (of map[string]int64, memory int64, err error) {
	client := goredis.NewClient(&goredis.Options{Addr: s.redis})
	defer client.Close()
	of = make(map[string]int64)
	keys := client.Scan(ctx, 0, "*}r*:hostile/*", 1000).Iterator()
	for keys.Next(ctx) {
		key := keys.Val()
		values, err := client.LRange(ctx, key, 0, -1).Result()
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", key, err)
		}
		_, name, _ := strings.Cut(key, ":hostile/")
		for _, value := range values {
			of["hostile/"+name] += int64(len(value))
		}
		// Redis counts a sample of the elements if it is not told to count all.
		used, err := client.MemoryUsage(ctx, key, 0).Result()
		if err != nil && !errors.Is(err, goredis.Nil) { // expired since
			return nil, 0, err
		}
		memory += used
	}
	return of, memory, keys.Err()
}
