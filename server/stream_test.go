package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/store"
)

type recommendStream = setpointv1.RecommendationService_StreamRecommendClient

// stream opens a stream that ends with the test.
func (s *service) stream(tb testing.TB) recommendStream {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	tb.Cleanup(cancel)
	stream, err := s.recommendations.StreamRecommend(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return stream
}

func send(tb testing.TB, stream recommendStream, id string, req *setpointv1.RecommendRequest) {
	tb.Helper()
	if err := stream.Send(&setpointv1.StreamRecommendRequest{Id: id, Request: req}); err != nil {
		tb.Fatalf("send %s: %v", id, err)
	}
}

func receive(tb testing.TB, stream recommendStream) *setpointv1.StreamRecommendResponse {
	tb.Helper()
	resp, err := stream.Recv()
	if err != nil {
		tb.Fatalf("receive: %v", err)
	}
	return resp
}

// receiveAll receives until the stream ends, by id.
func receiveAll(tb testing.TB, stream recommendStream) (map[string]*setpointv1.StreamRecommendResponse, error) {
	tb.Helper()
	all := map[string]*setpointv1.StreamRecommendResponse{}
	for {
		resp, err := stream.Recv()
		if err != nil {
			return all, err
		}
		if all[resp.GetId()] != nil {
			tb.Errorf("%q is answered twice", resp.GetId())
		}
		all[resp.GetId()] = resp
	}
}

func TestAStreamMatchesManyAnswersByID(t *testing.T) {
	t.Parallel()
	const n = 300 // more than may be in flight
	s := start(t, func(su *setup) { su.options.MaxStreamInFlight = 8 })
	stream := s.stream(t)
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := range n {
			req := queue(fmt.Sprintf("clusters/c/namespaces/n/targets/t%d", i), 3, int32(10*(i+1)))
			if err := stream.Send(&setpointv1.StreamRecommendRequest{Id: fmt.Sprint(i), Request: req}); err != nil {
				t.Errorf("send %d: %v", i, err)
				return
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Error(err)
		}
	})
	all, err := receiveAll(t, stream)
	sending.Wait()
	if !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	if len(all) != n {
		t.Errorf("got %d answers, want %d", len(all), n)
	}
	for i := range n {
		if got := all[fmt.Sprint(i)].GetResponse().GetDesiredReplicas(); got != int32(i+1) {
			t.Errorf("answer %d has %d replicas, want %d", i, got, i+1)
		}
	}
}

// Requests beyond those in flight wait; they are neither lost nor started.
func TestAStreamIsReadNoFurtherThanItsLimit(t *testing.T) {
	t.Parallel()
	const limit, n = 4, 20
	var running, most atomic.Int32
	loading, release := make(chan struct{}, n), make(chan struct{})
	s := start(t, func(su *setup) {
		su.options.MaxStreamInFlight = limit
		su.store.load = func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
			now := running.Add(1)
			defer running.Add(-1)
			for {
				if before := most.Load(); now <= before || most.CompareAndSwap(before, now) {
					break
				}
			}
			loading <- struct{}{}
			<-release
			return load(ctx, key)
		}
	})
	stream := s.stream(t)
	for i := range n {
		send(t, stream, fmt.Sprint(i), queue(fmt.Sprintf("clusters/c/namespaces/n/targets/t%d", i), 3, 50))
	}
	for range limit {
		<-loading
	}
	close(release)
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	all, err := receiveAll(t, stream)
	if !errors.Is(err, io.EOF) || len(all) != n {
		t.Errorf("got %d answers and %v, want %d and the end", len(all), err, n)
	}
	if most.Load() > limit {
		t.Errorf("%d requests were in flight, want at most %d", most.Load(), limit)
	}
}

func TestAnswersOfAStreamComeAsTheyFinish(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := start(t, func(su *setup) {
		su.store.load = func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
			if key.Target == "slow" {
				<-release
			}
			return load(ctx, key)
		}
	})
	stream := s.stream(t)
	send(t, stream, "slow", queue("clusters/c/namespaces/n/targets/slow", 3, 50))
	send(t, stream, "quick", queue("clusters/c/namespaces/n/targets/quick", 3, 50))
	if got := receive(t, stream).GetId(); got != "quick" {
		t.Errorf("the first answer is of %s, want the quick one's", got)
	}
	close(release)
	if got := receive(t, stream).GetId(); got != "slow" {
		t.Errorf("the second answer is of %s, want the slow one's", got)
	}
}

func TestErrorsDoNotEndAStream(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.options.MaxPods = 3 })
	stream := s.stream(t)
	for _, tt := range []struct {
		id     string
		req    *setpointv1.RecommendRequest
		code   codes.Code
		reason string
		fields string
	}{
		{"bad", queue(web, -1, 50), codes.InvalidArgument, "INVALID_REQUEST", "scale.specReplicas"},
		{"nowhere", queue("nowhere", 3, 50), codes.InvalidArgument, "INVALID_REQUEST", "target"},
		{"", queue(web, 3, 50), codes.InvalidArgument, "INVALID_REQUEST", "id"},
		{strings.Repeat("x", 129), queue(web, 3, 50), codes.InvalidArgument, "INVALID_REQUEST", "id"},
		{"no request", nil, codes.InvalidArgument, "INVALID_REQUEST", "request"},
		{"too many pods", webRequest(t, func(r *setpointv1.RecommendRequest) { r.Pods = append(r.Pods, &setpointv1.Pod{Name: "d"}) }), codes.ResourceExhausted, "LIMIT_EXCEEDED", ""},
	} {
		send(t, stream, tt.id, tt.req)
		resp := receive(t, stream)
		got := problemOf(resp.GetError())
		wantProblem(t, got, tt.code, tt.reason)
		if fields := strings.Join(got.fields, " "); fields != tt.fields || resp.GetId() != tt.id {
			t.Errorf("got violations of %q under the id %q, want %q under %q", fields, resp.GetId(), tt.fields, tt.id)
		}
	}
	send(t, stream, "good", queue(web, 3, 50))
	if resp := receive(t, stream); resp.GetId() != "good" || resp.GetResponse().GetDesiredReplicas() != 5 {
		t.Errorf("got %v, want 5 replicas", resp)
	}
	if got := recommendations(s.target(t, web)); got != 1 {
		t.Errorf("%d recommendations are recorded, want the good one", got)
	}
}

func TestHalfAClosedStreamIsAnsweredToItsEnd(t *testing.T) {
	t.Parallel()
	loading, release := make(chan struct{}, 3), make(chan struct{})
	s := start(t, func(su *setup) {
		su.store.load = func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
			loading <- struct{}{}
			<-release
			return load(ctx, key)
		}
	})
	stream := s.stream(t)
	for i := range 3 {
		send(t, stream, fmt.Sprint(i), queue(fmt.Sprint(web, i), 3, 50))
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-loading
	}
	close(release)
	all, err := receiveAll(t, stream)
	if !errors.Is(err, io.EOF) || len(all) != 3 {
		t.Errorf("got %d answers and %v, want 3 and the end", len(all), err)
	}
}

func TestAStreamWithoutRequestsEndsCleanly(t *testing.T) {
	t.Parallel()
	stream := start(t).stream(t)
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if all, err := receiveAll(t, stream); !errors.Is(err, io.EOF) || len(all) != 0 {
		t.Errorf("got %d answers and %v, want the end", len(all), err)
	}
}

// A stop responds to requests in flight, then sends the caller elsewhere.
func TestADrainEndsStreams(t *testing.T) {
	t.Parallel()
	loading, release := make(chan struct{}), make(chan struct{})
	s := start(t, func(su *setup) {
		su.store.load = func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
			if key.Target == "slow" {
				close(loading)
				<-release
			}
			return load(ctx, key)
		}
	})
	idle, busy := s.stream(t), s.stream(t)
	send(t, idle, "1", queue(web, 3, 50))
	receive(t, idle)
	send(t, busy, "slow", queue("clusters/c/namespaces/n/targets/slow", 3, 50))
	<-loading
	s.stop()
	_, err := receiveAll(t, idle)
	wantProblem(t, rpcProblem(err), codes.Unavailable, "SHUTTING_DOWN")
	close(release)
	all, err := receiveAll(t, busy)
	wantProblem(t, rpcProblem(err), codes.Unavailable, "SHUTTING_DOWN")
	if all["slow"].GetResponse().GetDesiredReplicas() != 5 {
		t.Errorf("what was in flight is not answered: %v", all)
	}
	s.stopAndWait(t)
}

func TestAStreamThatIsCancelledEnds(t *testing.T) {
	t.Parallel()
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := s.recommendations.StreamRecommend(ctx)
	if err != nil {
		t.Fatal(err)
	}
	send(t, stream, "1", queue(web, 3, 50))
	receive(t, stream)
	cancel()
	if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("got %v, want CANCELLED", err)
	}
	// The leak check sees to it that nothing of it is left.
	s.stopAndWait(t)
}

// A stream is held back where calls would be refused for overload.
func TestStreamsWaitUnderOverload(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) {
		su.options.Limits = limit.DefaultOptions()
		began := time.Now()
		su.options.Limits.Shedding = limit.Shedding{
			Processors: 1, MinRunning: 1,
			// Ever more goroutines wait: a hundred at a time.
			Waited: func() time.Duration { return 100 * time.Since(began) },
		}
	})
	stream := s.stream(t)
	var sent atomic.Int64
	go func() {
		defer func() { _ = stream.CloseSend() }()
		for began := time.Now(); time.Since(began) < time.Second; sent.Add(1) {
			if stream.Send(&setpointv1.StreamRecommendRequest{Id: "m", Request: queue(web, 3, 30)}) != nil {
				return
			}
		}
	}()
	var answered int64
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		answered++
		if failed := resp.GetError(); failed != nil && codes.Code(failed.GetCode()) == codes.ResourceExhausted {
			t.Fatalf("refused after %d: %v", answered, failed)
		}
	}
	if answered == 0 || answered != sent.Load() {
		t.Errorf("%d answered of %d", answered, sent.Load())
	}
}
