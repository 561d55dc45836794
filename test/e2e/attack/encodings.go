//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

// jsonAttacks are texts that no encoder makes.
func jsonAttacks() []*attack {
	const most = 12 << 20
	with := func(member string) []byte { return joined(base().json, []byte("{"+member+"}")) }
	texts := []struct {
		name  string
		short bool
		make  func() []byte
	}{
		{"too-large", true, func() []byte { return with(`"requestId":"` + strings.Repeat("a", 17<<20) + `"`) }},
		{"many-pods", true, func() []byte {
			return with(`"pods":[` + list(190_000, `{"name":"web","phase":"Running","startTime":"2026-01-01T00:00:00Z","ready":{}}`) + "]")
		}},
		{"deep-closed", true, func() []byte {
			return []byte(strings.Repeat(`{"spec":`, 100_000) + "1" + strings.Repeat("}", 100_000))
		}},
		{"deep-objects", true, func() []byte { return []byte(strings.Repeat(`{"spec":`, 1_000_000)) }},
		{"deep-arrays", true, func() []byte { return with(`"pods":` + strings.Repeat("[", 5_000_000)) }},
		{"deep-unknown", true, func() []byte {
			return with(`"x":` + strings.Repeat(`{"a":`, 500_000) + "1" + strings.Repeat("}", 500_000))
		}},
		{"long-number", true, func() []byte { return with(`"spec":{"maxReplicas":` + strings.Repeat("9", most) + "}") }},
		{"long-fraction", false, func() []byte { return with(`"spec":{"maxReplicas":1.` + strings.Repeat("0", most) + "}") }},
		{"huge-exponent", true, func() []byte { return with(`"spec":{"maxReplicas":1e1000000000}`) }},
		{"number-quantity", true, func() []byte {
			return with(`"externalMetrics":[{"metric":{"name":"queue-depth"},"value":` + strings.Repeat("9", most) + "}]")
		}},
		{"exponent-quantity", false, func() []byte {
			return with(`"externalMetrics":[{"metric":{"name":"queue-depth"},"value":1e999999999},{"metric":{"name":"queue-depth"},"value":1e-999999999}]`)
		}},
		{"keys-again", true, func() []byte { return with(strings.TrimSuffix(strings.Repeat(`"pods":[],`, 1_000_000), ",")) }},
		{"unknown-keys", true, func() []byte {
			var b bytes.Buffer
			for i := range 500_000 {
				fmt.Fprintf(&b, `"x%d":{},`, i)
			}
			return with(strings.TrimSuffix(b.String(), ","))
		}},
		{"escapes", true, func() []byte { return with(`"requestId":"` + strings.Repeat(`\u00e9`, most/6) + `"`) }},
		{"escaped-keys", false, func() []byte { return with(strings.TrimSuffix(strings.Repeat(`"\u0070ods":[],`, 500_000), ",")) }},
		{"surrogates", false, func() []byte { return with(`"requestId":"` + strings.Repeat(`\ud800`, most/6) + `"`) }},
		{"nulls", true, func() []byte {
			return with(`"pods":[` + strings.TrimSuffix(strings.Repeat("null,", 2_000_000), ",") + "]")
		}},
		{"blanks", false, func() []byte { return append(bytes.Repeat([]byte(" "), most), base().json...) }},
		{"commas", false, func() []byte { return with(`"pods":[` + strings.Repeat(",", most) + "]") }},
		{"wrong-types", false, func() []byte {
			return with(`"pods":[` + strings.TrimSuffix(strings.Repeat(`{"name":1},`, 1_000_000), ",") + "]")
		}},
		{"long-string", false, func() []byte { return with(`"requestId":"` + strings.Repeat("a", most) + `"`) }},
		{"unclosed", false, func() []byte { return with(`"requestId":"` + strings.Repeat("a", most)) }},
		{"labels", false, func() []byte {
			var b bytes.Buffer
			for i := range 700_000 {
				fmt.Fprintf(&b, `"%x":"",`, i)
			}
			return with(`"externalMetrics":[{"metric":{"name":"queue-depth"},"value":"1","labels":{` + strings.TrimSuffix(b.String(), ",") + "}}]")
		}},
		{"utf-16", false, func() []byte { return append([]byte("\xff\xfe{"), bytes.Repeat([]byte("\x00a"), most/2)...) }},
	}
	// A connection may break before an answer is read that comes before all is sent.
	early := []codes.Code{codes.ResourceExhausted, codes.Unavailable}
	a := &attack{name: "json", about: "texts that no encoder makes"}
	for _, t := range texts {
		for _, c := range carriers()[3:] {
			only := map[string][]codes.Code{"too-large": early, "many-pods": early, "deep-closed": {codes.InvalidArgument}, "deep-objects": {codes.InvalidArgument}}[t.name]
			if t.name == "many-pods" && c.name == "rest-batch" {
				only = []codes.Code{codes.OK} // the refusal is the result of the request in the batch
			}
			a.steps = append(a.steps, step{
				only: only,
				name: t.name + "/" + c.name, short: t.short && c.name == "rest", bounds: bounds{property: true},
				run: wave(c, func() body { return body{json: t.make()} }),
			})
		}
	}
	return []*attack{a}
}

// productAttacks send what is allowed, many times at once.
func productAttacks() []*attack {
	return []*attack{
		{name: "batch-of-explained", item: "1", about: "a batch of 60 requests of 20,000 pods × 10 metrics, to be explained", steps: []step{
			{name: "grpc", short: true, run: batchOf(func() []byte { return explained(20_000, 10).wire }, 60), bounds: bounds{limit: 40 * time.Second}},
		}},
		{name: "stream-of-explained", item: "1", about: "64 requests of 20,000 pods × 100 metrics in flight on a stream, to be explained, the answers not read", steps: []step{
			// By its bytes it may take 4.3 s, and takes 2.8 to 4.2; beside other work on two processors up to 5.3.
			{name: "grpc", short: true, run: streamOf(func() []byte { return explained(20_000, 100).wire }, 64, false), bounds: bounds{limit: 10 * time.Second, processor: 6 * time.Second}},
			{name: "read", run: streamOf(func() []byte { return explained(20_000, 100).wire }, 64, true), bounds: bounds{limit: 40 * time.Second}},
		}},
		{name: "batch-of-empties", item: "1", about: "a batch of seven million empty requests", steps: []step{
			{name: "grpc", short: true, run: rawWave(batchMethod, func() []byte { return bytes.Repeat([]byte{0x0a, 0}, 7_000_000) }), bounds: bounds{property: true}},
			{name: "rest", run: restWave("/v1/targets:batchRecommend", func() []byte {
				return []byte(`{"requests":[` + strings.TrimSuffix(strings.Repeat("{},", 5_000_000), ",") + "]}")
			}), bounds: bounds{property: true}},
		}},
		{name: "batch-of-one-target", about: "batches of 1,000 requests for one target, ten at once", steps: []step{
			{name: "grpc", run: together(10, func(ctx context.Context, s *scene) error {
				return batchOf(func() []byte { return base().wire }, 1000)(ctx, s)
			})},
		}},
		{name: "large-at-once", about: "ten requests of 16 MiB at once, which are allowed but for their pods", steps: []step{
			{name: "grpc", run: together(10, wave(carriers()[0], largePods)), bounds: bounds{limit: 40 * time.Second, worst: 5 * time.Second}},
			{name: "rest", run: together(10, wave(carriers()[3], largePods)), bounds: bounds{limit: 40 * time.Second, worst: 5 * time.Second}},
		}},
		{name: "flood", item: "4", about: "one caller has 400 small calls in flight, and 32 streams of 64; honest callers have another token", prepare: asksWho("mallory"), steps: []step{
			{name: "grpc", short: true, run: floodOf(400), bounds: bounds{processor: 12 * time.Second, limit: 10 * time.Second}},
			{name: "streams", run: floodOfStreams(32), bounds: bounds{processor: 12 * time.Second, limit: 10 * time.Second}},
		}},
		{name: "lists", about: "20 callers list 10,000 targets, 1,000 a page", steps: []step{
			// The targets that are listed stay.
			{name: "pages", run: listing, bounds: bounds{processor: 30 * time.Second, limit: 30 * time.Second, keeps: 64}},
		}},
	}
}

func largePods() body {
	r := requestFor(hostileTarget)
	b := bodyOf(r)
	pods := bytes.Repeat(field(7, []byte("\x0a\x08pod-name")), 1_000_000)
	text := slices.Concat([]byte(`{"pods":[`), []byte(list(1_000_000, `{"name":"p"}`)), []byte("]}"))
	return body{append(b.wire, pods...), joined(b.json, text)}
}

// together runs as many at once.
func together(n int, run func(context.Context, *scene) error) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		errs := make(chan error, n)
		for range n {
			go func() { errs <- run(ctx, s) }()
		}
		for range n {
			if err := <-errs; err != nil {
				return err
			}
		}
		return nil
	}
}

// rawWave sends a message to a method.
func rawWave(method string, make func() []byte) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		data := make()
		for range s.times {
			sent, err := invoke(ctx, s.site, method, data)
			s.sent(1, sent)
			s.met.Add(codeOf(err))
		}
		return nil
	}
}

func restWave(path string, make func() []byte) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		text := make()
		for range s.times {
			sent, err := post(ctx, s.site, path, text)
			s.sent(1, sent)
			s.met.Add(codeOf(err))
		}
		return nil
	}
}

// batchOf sends batches of so many requests.
func batchOf(request func() []byte, n int) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		data := bytes.Repeat(field(1, request()), n)
		for range s.times {
			sent, answer, err := batch(ctx, s.site, data)
			s.sent(n, sent/n)
			s.together.atLeast(int64(sent))
			s.met.Add(codeOf(err))
			s.met.AddAll("answered bytes", len(answer))
			if ctx.Err() != nil {
				break
			}
		}
		return nil
	}
}

// streamOf sends so many messages on a stream and reads the answers, or does not.
func streamOf(request func() []byte, n int, read bool) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		conn, err := s.dial(grpc.WithInitialWindowSize(1<<16), grpc.WithInitialConnWindowSize(1<<16))
		if err != nil {
			return err
		}
		defer conn.Close()
		stream, err := conn.NewStream(ctx, bothWays, streamMethod, grpc.ForceCodec(hostile.RawCodec{}))
		if err != nil {
			return err
		}
		data := request()
		go func() {
			for i := range n {
				if stream.SendMsg(&hostile.Raw{Data: streamed(fmt.Sprint(i), data)}) != nil {
					return
				}
				s.sentTogether(1, len(data))
			}
			_ = stream.CloseSend()
		}()
		if !read {
			<-ctx.Done()
			return nil
		}
		for {
			var answer hostile.Raw
			if err := stream.RecvMsg(&answer); err != nil {
				s.met.Add(codeOf(err))
				return nil
			}
			s.met.Add("answers")
		}
	}
}

// mallory is a caller of its own, where honest ones have tokens.
func mallory(ctx context.Context) context.Context { return withToken(ctx, tokenOf("mallory")) }

// floodOf has so many calls in flight for 4 s.
func floodOf(n int) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		conn, err := s.dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		data := base().wire
		return together(n, func(ctx context.Context, s *scene) error {
			for ctx.Err() == nil {
				err := conn.Invoke(mallory(ctx), recommendMethod, &hostile.Raw{Data: data}, &hostile.Raw{}, grpc.ForceCodec(hostile.RawCodec{}))
				s.sent(1, len(data))
				s.met.Add(codeOf(err))
				if err != nil {
					pause(ctx, 10*time.Millisecond)
				}
			}
			return nil
		})(ctx, s)
	}
}

// floodOfStreams keeps streams as full as may be for 4 s.
func floodOfStreams(n int) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		conn, err := s.dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		data := streamed("1", base().wire)
		return together(n, func(ctx context.Context, s *scene) error {
			stream, err := conn.NewStream(mallory(ctx), bothWays, streamMethod, grpc.ForceCodec(hostile.RawCodec{}))
			if err != nil {
				s.met.Add(codeOf(err))
				return nil
			}
			go func() {
				for stream.SendMsg(&hostile.Raw{Data: data}) == nil {
					s.sent(1, len(data))
				}
			}()
			for stream.RecvMsg(&hostile.Raw{}) == nil {
				s.met.Add("answers")
			}
			return nil
		})(ctx, s)
	}
}

// listing lists many targets again and again.
func listing(ctx context.Context, s *scene) error {
	if err := manyTargets(10_000)(ctx, s); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	return together(20, func(ctx context.Context, s *scene) error {
		for ctx.Err() == nil {
			s.met.Add("list " + codeOf(s.rested(ctx, http.MethodGet, "/v1/clusters/-/namespaces/-/targets?pageSize=1000", nil)))
			s.sent(1, 100)
		}
		return nil
	})(ctx, s)
}
