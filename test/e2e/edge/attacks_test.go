//go:build linux

package edge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

const recommendMethod = setpointv1.RecommendationService_Recommend_FullMethodName

func attacks() []*attack {
	hostile.GzipBomb() // making it is work
	return []*attack{
		// Connections and calls that are started and not continued.
		{name: "silence", sends: "500 connections to REST, a byte a second of headers each, and 500 silent ones to gRPC", run: silence, settle: 1, seconds: 11, check: met("closed by the server", 900)},
		{name: "half a frame", sends: "500 connections with half of a frame", run: halfFrames, settle: 1},
		{name: "slow bodies", sends: "500 REST calls, a byte a second each", run: slowBodies(500), settle: 1},
		{name: "very many slow bodies", sends: "5000 REST calls, a byte a second each", run: slowBodies(5000), settle: 3},
		{name: "calls without bodies", sends: "5 connections, 1000 calls each", run: callsWithoutBodies(""), settle: 1},
		{name: "idle streams", sends: "2000 StreamRecommend, 2000 Health/Watch, 1000 connections", run: idleStreams, settle: 3, check: met("stream OK", 2000)},
		// Floods of frames.
		{name: "rapid reset", sends: "5 connections, 1000 calls and resets a second each", run: rapidReset},
		{name: "CONTINUATION flood", sends: "20 connections, 100 frames a second each", run: continuations, check: met("closed by the server", 20)},
		{name: "PING flood", sends: "20 connections, 100 a second each", run: pings, check: met("GOAWAY ENHANCE_YOUR_CALM", 20)},
		{name: "SETTINGS flood", sends: "5 connections, 500 a second each", run: settings},
		{name: "RST_STREAM flood", sends: "5 connections, 500 a second each, of streams that are not", run: resets},
		{name: "huge metadata", sends: "20/s of 1 MiB over gRPC, 50/s of 64 KiB over REST", run: hugeHeaders, check: met("431 Request Header Fields Too Large", 20)},
		{name: "HPACK bomb", sends: "20/s of 42 MB in 16 KiB", run: hpackBomb, check: met("RST_STREAM FRAME_SIZE_ERROR", 3)},
		// Bodies that can't be meant.
		{name: "deep JSON", sends: "5/s, 100,000 levels", run: rest(5, deepJSON), check: only("InvalidArgument")},
		{name: "invalid UTF-8", sends: "100/s over gRPC, 200/s over REST", run: invalidUTF8, check: only("InvalidArgument")},
		{name: "gzip bomb over gRPC", sends: "2/s of 1 GiB of zeros in 1 MiB, which is refused compressed", run: gzipOverGRPC, check: only("Internal")},
		{name: "gzip bomb over REST", sends: "2/s of 1 GiB of zeros in 1 MiB", run: rest(2, hostile.GzipBomb, "Content-Encoding", "gzip"), check: only("InvalidArgument")},
		// Work that admitted callers may request; the test asserts that others are served.
		{name: "many labels", sends: "2/s of 100,000 labels on a series", run: manyLabels, goal: .5, check: only("OK", "ResourceExhausted", "InvalidArgument")},
		{name: "series × metrics, within limits", sends: "one after the other: 100,000 series, 100 metrics", run: manySeries(100_000, 100), goal: .2},
		{name: "series × metrics", sends: "one after the other: 100,000 series, 1,000 metrics", run: manySeries(100_000, 1000), goal: .3},
		{name: "giant JSON", sends: "5/s of 17 MiB", run: rest(5, giantJSON), check: only("ResourceExhausted")},
		{name: "giant but allowed JSON", sends: "1/s of 15 MiB, 170,000 pods", run: rest(1, allowedJSON), goal: .15, check: only("ResourceExhausted")},
		// Memory.
		{name: "withheld giants over REST", sends: "60 connections, 15 of 16 MiB each, then nothing", run: withheldREST, settle: 3},
		{name: "withheld giants over gRPC", sends: "60 connections, 15 of 16 MiB each, then nothing", run: withheldGRPC, settle: 3},
	}
}

// met wants at least so many of something.
func met(what string, least int) func(*hostile.Tally) error {
	return func(y *hostile.Tally) error {
		if n := y.Of(what); n < least {
			return fmt.Errorf("%d %s, want at least %d", n, what, least)
		}
		return nil
	}
}

// only accepts nothing but these results, and requires at least one.
func only(whats ...string) func(*hostile.Tally) error {
	return func(y *hostile.Tally) error {
		known := 0
		for _, what := range whats {
			known += y.Of(what)
		}
		if all := y.All(); known != all || all == 0 {
			return fmt.Errorf("want nothing but %v", whats)
		}
		return nil
	}
}

// connections opens connections, sends something on each, repeats it at a rate, and counts
// those that the server closes.
func connections(ctx context.Context, address string, n int, begin, again string, every time.Duration, seen *hostile.Tally) {
	var running sync.WaitGroup
	for range n {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			seen.Add("not connected")
			continue
		}
		running.Go(func() {
			defer conn.Close()
			go func() {
				if _, err := io.Copy(io.Discard, conn); err == nil || ctx.Err() == nil {
					seen.Add("closed by the server")
				}
			}()
			_, _ = conn.Write([]byte(begin))
			hostile.Paced(ctx, 1/every.Seconds(), func() { _, _ = conn.Write([]byte(again)) })
		})
	}
	running.Wait()
}

func silence(ctx context.Context, p *instance, seen *hostile.Tally) {
	var running sync.WaitGroup
	running.Go(func() {
		connections(ctx, p.rest, 500, "POST /v1/x HTTP/1.1\r\nHost: a\r\nX-Slow: ", "a", time.Second, seen)
	})
	running.Go(func() { connections(ctx, p.grpc, 500, "", "", time.Hour, seen) })
	running.Wait()
}

func slowBodies(n int) func(context.Context, *instance, *hostile.Tally) {
	return func(ctx context.Context, p *instance, seen *hostile.Tally) {
		connections(ctx, p.rest, n, "POST /v1/"+targetIn("slow")+":recommend HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{", " ", time.Second, seen)
	}
}

func halfFrames(ctx context.Context, p *instance, seen *hostile.Tally) {
	connections(ctx, p.grpc, 500, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"+"\x00\x40\x00\x01\x04\x00\x00\x00\x01abc", "a", time.Second, seen)
}

// callsWithoutBodies begins as many calls as one may, and sends no message on them. The
// token may be empty.
func callsWithoutBodies(token string) func(context.Context, *instance, *hostile.Tally) {
	return func(ctx context.Context, p *instance, seen *hostile.Tally) {
		var more []string
		if token != "" {
			more = []string{"authorization", "Bearer " + token}
		}
		for range 5 {
			f, err := hostile.Dial(p.grpc, seen)
			if err != nil {
				seen.Add(err.Error())
				return
			}
			defer f.Conn.Close()
			for range 1000 {
				if _, err := f.Begin(recommendMethod, more...); err != nil {
					seen.Add("broken")
					break
				}
			}
		}
		<-ctx.Done()
	}
}

// unknownStreams begins streams and does not speak on them.
func unknownStreams(ctx context.Context, p *instance, seen *hostile.Tally) {
	for range 5 {
		f, err := hostile.Dial(p.grpc, seen)
		if err != nil {
			seen.Add(err.Error())
			return
		}
		defer f.Conn.Close()
		for range 1000 {
			if _, err := f.Begin(setpointv1.RecommendationService_StreamRecommend_FullMethodName); err != nil {
				break
			}
		}
	}
	<-ctx.Done()
}

// withheldREST sends most of bodies that are as large as they may be.
func withheldREST(ctx context.Context, p *instance, seen *hostile.Tally) {
	const size, sent = 16 << 20, 15 << 20
	connections(ctx, p.rest, 60, fmt.Sprintf("POST /v1/%s:recommend HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{%s", targetIn("giant"), size, strings.Repeat(" ", sent)), "", time.Hour, seen)
}

// withheldGRPC does the same over gRPC.
func withheldGRPC(ctx context.Context, p *instance, seen *hostile.Tally) {
	var running sync.WaitGroup
	for range 60 {
		running.Go(func() {
			conn, err := grpc.NewClient(p.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(hostile.Stingy(15<<20)))
			if err != nil {
				seen.Add(err.Error())
				return
			}
			defer conn.Close()
			_ = conn.Invoke(ctx, recommendMethod, &hostile.Raw{Data: make([]byte, 16<<20-100)}, &hostile.Raw{}, grpc.ForceCodec(hostile.RawCodec{}))
		})
	}
	running.Wait()
}

// rest starts so many REST calls a second, and counts the codes.
func rest(perSecond float64, body func() []byte, headers ...string) func(context.Context, *instance, *hostile.Tally) {
	return func(ctx context.Context, p *instance, seen *hostile.Tally) {
		client := &http.Client{Timeout: 30 * time.Second}
		defer client.CloseIdleConnections()
		text := body()
		var running sync.WaitGroup
		hostile.Paced(ctx, perSecond, func() {
			running.Go(func() {
				c := &caller{http: client, url: "http://" + p.rest}
				_, err := c.callIn(context.WithoutCancel(ctx), http.MethodPost, "/v1/"+targetIn("hostile")+":recommend", text, headers...)
				seen.Add(codeName(err))
			})
		})
		running.Wait()
	}
}

// codeName names an error's code; one that is no status, by its text.
func codeName(err error) string {
	if s, ok := status.FromError(err); ok {
		if s.Code() == codes.Unavailable {
			return "Unavailable: " + s.Message()
		}
		return s.Code().String()
	}
	return err.Error()
}

func giantJSON() []byte {
	return []byte(`{"requestId":"` + strings.Repeat("a", 17<<20) + `"}`)
}

func allowedJSON() []byte {
	var b bytes.Buffer
	b.WriteString(`{"spec":{"maxReplicas":10},"scale":{"specReplicas":3},"pods":[`)
	for i := 0; b.Len() < 15<<20; i++ {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"name":"web-%d","phase":"Running","startTime":"2026-01-01T00:00:00Z","ready":{}}`, i)
	}
	b.WriteString("]}")
	return b.Bytes()
}

func deepJSON() []byte {
	const levels = 100_000
	return []byte(strings.Repeat(`{"spec":`, levels) + "1" + strings.Repeat("}", levels))
}

func gzipOverGRPC(ctx context.Context, p *instance, seen *hostile.Tally) {
	conn, err := grpc.NewClient(p.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		seen.Add(err.Error())
		return
	}
	defer conn.Close()
	hostile.Paced(ctx, 2, func() {
		seen.Add(codeName(conn.Invoke(context.WithoutCancel(ctx), recommendMethod, &hostile.Raw{Data: []byte("a")}, &hostile.Raw{}, grpc.ForceCodec(hostile.RawCodec{}), grpc.UseCompressor("gzip"))))
	})
}

// onFrames keeps connections busy at a rate; it reopens those that the server closes, at most
// once a second.
func onFrames(ctx context.Context, p *instance, n int, perSecond float64, seen *hostile.Tally, do func(*hostile.Frames) error) {
	var running sync.WaitGroup
	for range n {
		running.Go(func() {
			hostile.Paced(ctx, 1, func() {
				f, err := hostile.Dial(p.grpc, seen)
				if err != nil {
					seen.Add("not connected")
					return
				}
				defer f.Conn.Close()
				on, cancel := context.WithCancel(ctx)
				defer cancel()
				hostile.Paced(on, perSecond, func() {
					if err := do(f); err != nil || f.Gone() {
						seen.Add("closed by the server")
						cancel()
					}
				})
			})
		})
	}
	running.Wait()
}

func rapidReset(ctx context.Context, p *instance, seen *hostile.Tally) {
	onFrames(ctx, p, 5, 1000, seen, func(f *hostile.Frames) error {
		stream, err := f.Begin(recommendMethod)
		if err != nil {
			return err
		}
		return f.Framer.WriteRSTStream(stream, http2.ErrCodeCancel)
	})
}

func continuations(ctx context.Context, p *instance, seen *hostile.Tally) {
	onFrames(ctx, p, 20, 100, seen, func(f *hostile.Frames) error {
		if f.Next == 1 {
			f.Next = 3
			return f.Framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.Headers(recommendMethod)})
		}
		return f.Framer.WriteContinuation(1, false, f.Headers(recommendMethod, "x-more", strings.Repeat("a", 1000)))
	})
}

func pings(ctx context.Context, p *instance, seen *hostile.Tally) {
	onFrames(ctx, p, 20, 100, seen, func(f *hostile.Frames) error { return f.Framer.WritePing(false, [8]byte{}) })
}

func settings(ctx context.Context, p *instance, seen *hostile.Tally) {
	onFrames(ctx, p, 5, 500, seen, func(f *hostile.Frames) error {
		return f.Framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16})
	})
}

func resets(ctx context.Context, p *instance, seen *hostile.Tally) {
	onFrames(ctx, p, 5, 500, seen, func(f *hostile.Frames) error {
		f.Next += 2
		return f.Framer.WriteRSTStream(f.Next, http2.ErrCodeCancel)
	})
}

func idleStreams(ctx context.Context, p *instance, seen *hostile.Tally) {
	for range 4 {
		conn, err := grpc.NewClient(p.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			seen.Add(err.Error())
			return
		}
		defer conn.Close()
		for range 500 {
			talk, err := setpointv1.NewRecommendationServiceClient(conn).StreamRecommend(ctx)
			if err == nil {
				err = talk.Send(&setpointv1.StreamRecommendRequest{Id: "1", Request: requestFor(targetIn("idle"))})
			}
			if err == nil {
				_, err = talk.Recv()
			}
			seen.Add("stream " + codeName(err))
			watch, err := healthv1.NewHealthClient(conn).Watch(ctx, &healthv1.HealthCheckRequest{})
			if err == nil {
				_, err = watch.Recv()
			}
			seen.Add("watch " + codeName(err))
			if ctx.Err() != nil {
				return
			}
		}
	}
	connections(ctx, p.rest, 1000, "", "", time.Hour, seen)
}

func invalidUTF8(ctx context.Context, p *instance, seen *hostile.Tally) {
	conn, err := grpc.NewClient(p.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		seen.Add(err.Error())
		return
	}
	defer conn.Close()
	// As raw bytes, for Go's own encoder refuses them.
	request := requestFor(targetIn("utf8"))
	request.RequestId = "SWAP-ME-1"
	request.ExternalMetrics[0].Metric.Name = "SWAP-ME-2"
	data, _ := proto.Marshal(request)
	over := [][]byte{bytes.Replace(data, []byte("SWAP-ME-1"), []byte("\xff\xfeAP-ME-1"), 1), bytes.Replace(data, []byte("SWAP-ME-2"), []byte("\xc0\x80AP-ME-2"), 1)}
	text, _ := protojson.Marshal(request)
	rests := [][]byte{bytes.Replace(text, []byte("SWAP-ME-1"), []byte("\xff\xfe"), 1), bytes.Replace(text, []byte(`"spec"`), []byte("\"\xffspec\""), 1), []byte("\xff\xff")}
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	c := &caller{http: client, url: "http://" + p.rest}
	n := 0
	hostile.Paced(ctx, 100, func() {
		n++
		during := context.WithoutCancel(ctx)
		err := conn.Invoke(during, recommendMethod, &hostile.Raw{Data: over[n%len(over)]}, &hostile.Raw{}, grpc.ForceCodec(hostile.RawCodec{}))
		seen.Add(codeName(err))
		_, err = c.callIn(during, http.MethodPost, "/v1/"+targetIn("utf8")+":recommend", rests[n%len(rests)])
		seen.Add(codeName(err))
		_, err = c.callIn(during, http.MethodGet, "/v1/clusters/%ff/namespaces/%c0%80/targets/web", nil)
		seen.Add(codeName(err))
	})
}

func hugeHeaders(ctx context.Context, p *instance, seen *hostile.Tally) {
	var running sync.WaitGroup
	running.Go(func() {
		var more []string
		for i := range 1000 {
			more = append(more, "x-big", fmt.Sprint(i)+strings.Repeat("a", 1000))
		}
		oversized(ctx, p, 20, more, seen)
	})
	running.Go(func() {
		client := &http.Client{Timeout: 10 * time.Second}
		defer client.CloseIdleConnections()
		big := strings.Repeat("a", 64<<10)
		hostile.Paced(ctx, 50, func() {
			request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, "http://"+p.rest+"/v1/x", nil)
			if err != nil {
				return
			}
			request.Header.Set("X-Big", big)
			response, err := client.Do(request)
			if err != nil {
				seen.Add(err.Error())
				return
			}
			_ = response.Body.Close()
			seen.Add(response.Status)
		})
	})
	running.Wait()
}

// oversized sends headers that are larger than is allowed.
func oversized(ctx context.Context, p *instance, perSecond float64, more []string, seen *hostile.Tally) {
	const frame = 16 << 10
	hostile.Paced(ctx, perSecond, func() {
		f, err := hostile.Dial(p.grpc, seen)
		if err != nil {
			return
		}
		defer f.Conn.Close()
		block := f.Headers(recommendMethod, more...)
		first := min(len(block), frame)
		err = f.Framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:first], EndHeaders: first == len(block)})
		for at := first; at < len(block) && err == nil; at += frame {
			err = f.Framer.WriteContinuation(1, at+frame >= len(block), block[at:min(len(block), at+frame)])
		}
		time.Sleep(10 * time.Millisecond)
	})
}

// hpackBomb refers to one long field as often as fits a frame, a byte each time.
func hpackBomb(ctx context.Context, p *instance, seen *hostile.Tally) {
	var more []string
	for range 12_000 {
		more = append(more, "x-big", strings.Repeat("a", 3500))
	}
	oversized(ctx, p, 20, more, seen)
}

// manySeries requests much work with few bytes.
func manySeries(series, metrics int) func(context.Context, *instance, *hostile.Tally) {
	return func(ctx context.Context, p *instance, seen *hostile.Tally) {
		request := requestFor(targetIn("hostile"))
		one := request.Spec.Metrics[0]
		request.Spec.Metrics = nil
		for i := range metrics {
			metric := proto.CloneOf(one)
			metric.External.Metric.Name = fmt.Sprint("m", i)
			request.Spec.Metrics = append(request.Spec.Metrics, metric)
		}
		request.ExternalMetrics = nil
		for i := range series {
			request.ExternalMetrics = append(request.ExternalMetrics, &setpointv1.ExternalMetric{
				Metric: &setpointv1.MetricIdentifier{Name: fmt.Sprint("m", i%metrics)}, Value: "1",
			})
		}
		oneByOne(ctx, p, request, seen)
	}
}

// oneByOne calls as soon as the last call is answered, and counts by code and tenths of
// a second.
func oneByOne(ctx context.Context, p *instance, request *setpointv1.RecommendRequest, seen *hostile.Tally) {
	conn, err := grpc.NewClient(p.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256<<20)))
	if err != nil {
		seen.Add(err.Error())
		return
	}
	defer conn.Close()
	data, err := proto.Marshal(request)
	if err != nil {
		seen.Add(err.Error())
		return
	}
	var longest time.Duration
	for ctx.Err() == nil {
		began := time.Now()
		err := conn.Invoke(context.WithoutCancel(ctx), recommendMethod, &hostile.Raw{Data: data}, &hostile.Raw{}, grpc.ForceCodec(hostile.RawCodec{}))
		took := time.Since(began)
		longest = max(longest, took)
		seen.Add(codeName(err))
		if err != nil {
			time.Sleep(max(0, 50*time.Millisecond-took)) // no faster than 20 a second
		}
	}
	seen.AddAll("ms at most", int(longest.Milliseconds()))
	seen.AddAll("KiB each", len(data)>>10)
}

func manyLabels(ctx context.Context, p *instance, seen *hostile.Tally) {
	request := requestFor(targetIn("hostile"))
	labels := make(map[string]string)
	for i := range 100_000 {
		labels[fmt.Sprint("label", i)] = "value"
	}
	request.ExternalMetrics[0].Labels = labels
	data, _ := proto.Marshal(request)
	conn, err := grpc.NewClient(p.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		seen.Add(err.Error())
		return
	}
	defer conn.Close()
	hostile.Paced(ctx, 2, func() {
		seen.Add(codeName(conn.Invoke(context.WithoutCancel(ctx), recommendMethod, &hostile.Raw{Data: data}, &hostile.Raw{}, grpc.ForceCodec(hostile.RawCodec{}))))
	})
}
