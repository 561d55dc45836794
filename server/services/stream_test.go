package services_test

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
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

func TestAStreamMatchesManyAnswersByID(t *testing.T) {
	t.Parallel()
	const n = 300 // more than may be in flight
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxStreamInFlight = 8 })
	stream := s.Stream(t)
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := range n {
			req := servertest.Queue(fmt.Sprintf("clusters/c/namespaces/n/targets/t%d", i), 3, int32(10*(i+1)))
			if err := stream.Send(&setpointv1.StreamRecommendRequest{Id: fmt.Sprint(i), Request: req}); err != nil {
				t.Errorf("send %d: %v", i, err)
				return
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Error(err)
		}
	})
	all, err := servertest.ReceiveAll(t, stream)
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
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.MaxStreamInFlight = limit
		su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
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
	stream := s.Stream(t)
	for i := range n {
		servertest.Send(t, stream, fmt.Sprint(i), servertest.Queue(fmt.Sprintf("clusters/c/namespaces/n/targets/t%d", i), 3, 50))
	}
	for range limit {
		<-loading
	}
	close(release)
	fatal.If(t, stream.CloseSend())
	all, err := servertest.ReceiveAll(t, stream)
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
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
			if key.Target == "slow" {
				<-release
			}
			return load(ctx, key)
		}
	})
	stream := s.Stream(t)
	servertest.Send(t, stream, "slow", servertest.Queue("clusters/c/namespaces/n/targets/slow", 3, 50))
	servertest.Send(t, stream, "quick", servertest.Queue("clusters/c/namespaces/n/targets/quick", 3, 50))
	if got := servertest.Receive(t, stream).GetId(); got != "quick" {
		t.Errorf("the first answer is of %s, want the quick one's", got)
	}
	close(release)
	if got := servertest.Receive(t, stream).GetId(); got != "slow" {
		t.Errorf("the second answer is of %s, want the slow one's", got)
	}
}

func TestErrorsDoNotEndAStream(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxPods = 3 })
	stream := s.Stream(t)
	for _, tt := range []struct {
		id     string
		req    *setpointv1.RecommendRequest
		code   codes.Code
		reason string
		fields string
	}{
		{"bad", servertest.Queue(servertest.Web, -1, 50), codes.InvalidArgument, "INVALID_REQUEST", "scale.specReplicas"},
		{"nowhere", servertest.Queue("nowhere", 3, 50), codes.InvalidArgument, "INVALID_REQUEST", "target"},
		{"", servertest.Queue(servertest.Web, 3, 50), codes.InvalidArgument, "INVALID_REQUEST", "id"},
		{strings.Repeat("x", 129), servertest.Queue(servertest.Web, 3, 50), codes.InvalidArgument, "INVALID_REQUEST", "id"},
		{"no request", nil, codes.InvalidArgument, "INVALID_REQUEST", "request"},
		{"too many pods", servertest.WebRequest(t, func(r *setpointv1.RecommendRequest) { r.Pods = append(r.Pods, &setpointv1.Pod{Name: "d"}) }), codes.ResourceExhausted, "LIMIT_EXCEEDED", ""},
	} {
		servertest.Send(t, stream, tt.id, tt.req)
		resp := servertest.Receive(t, stream)
		got := servertest.ProblemOf(resp.GetError())
		servertest.WantProblem(t, got, tt.code, tt.reason)
		if fields := strings.Join(got.Fields, " "); fields != tt.fields || resp.GetId() != tt.id {
			t.Errorf("got violations of %q under the id %q, want %q under %q", fields, resp.GetId(), tt.fields, tt.id)
		}
	}
	servertest.Send(t, stream, "good", servertest.Queue(servertest.Web, 3, 50))
	if resp := servertest.Receive(t, stream); resp.GetId() != "good" || resp.GetResponse().GetDesiredReplicas() != 5 {
		t.Errorf("got %v, want 5 replicas", resp)
	}
	if got := servertest.Recommendations(s.Target(t, servertest.Web)); got != 1 {
		t.Errorf("%d recommendations are recorded, want the good one", got)
	}
}

func TestHalfAClosedStreamIsAnsweredToItsEnd(t *testing.T) {
	t.Parallel()
	loading, release := make(chan struct{}, 3), make(chan struct{})
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
			loading <- struct{}{}
			<-release
			return load(ctx, key)
		}
	})
	stream := s.Stream(t)
	for i := range 3 {
		servertest.Send(t, stream, fmt.Sprint(i), servertest.Queue(fmt.Sprint(servertest.Web, i), 3, 50))
	}
	fatal.If(t, stream.CloseSend())
	for range 3 {
		<-loading
	}
	close(release)
	all, err := servertest.ReceiveAll(t, stream)
	if !errors.Is(err, io.EOF) || len(all) != 3 {
		t.Errorf("got %d answers and %v, want 3 and the end", len(all), err)
	}
}

func TestAStreamWithoutRequestsEndsCleanly(t *testing.T) {
	t.Parallel()
	stream := servertest.Start(t).Stream(t)
	fatal.If(t, stream.CloseSend())
	if all, err := servertest.ReceiveAll(t, stream); !errors.Is(err, io.EOF) || len(all) != 0 {
		t.Errorf("got %d answers and %v, want the end", len(all), err)
	}
}

// A stop responds to requests in flight, then sends the caller elsewhere.
func TestADrainEndsStreams(t *testing.T) {
	t.Parallel()
	loading, release := make(chan struct{}), make(chan struct{})
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
			if key.Target == "slow" {
				close(loading)
				<-release
			}
			return load(ctx, key)
		}
	})
	idle, busy := s.Stream(t), s.Stream(t)
	servertest.Send(t, idle, "1", servertest.Queue(servertest.Web, 3, 50))
	servertest.Receive(t, idle)
	servertest.Send(t, busy, "slow", servertest.Queue("clusters/c/namespaces/n/targets/slow", 3, 50))
	<-loading
	s.Stop()
	_, err := servertest.ReceiveAll(t, idle)
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Unavailable, "SHUTTING_DOWN")
	close(release)
	all, err := servertest.ReceiveAll(t, busy)
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Unavailable, "SHUTTING_DOWN")
	if all["slow"].GetResponse().GetDesiredReplicas() != 5 {
		t.Errorf("what was in flight is not answered: %v", all)
	}
	s.StopAndWait(t)
}

func TestAStreamThatIsCancelledEnds(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := s.Recommendations.StreamRecommend(ctx)
	fatal.If(t, err)
	servertest.Send(t, stream, "1", servertest.Queue(servertest.Web, 3, 50))
	servertest.Receive(t, stream)
	cancel()
	if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("got %v, want CANCELLED", err)
	}
	// The leak check sees to it that nothing of it is left.
	s.StopAndWait(t)
}

// A stream is held back where calls would be refused for overload.
func TestStreamsWaitUnderOverload(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.Limits = limit.DefaultOptions()
		began := time.Now()
		su.Options.Limits.Shedding = limit.Shedding{
			Processors: 1, MinRunning: 1,
			// Ever more goroutines wait: a hundred at a time.
			Waited: func() time.Duration { return 100 * time.Since(began) },
		}
	})
	stream := s.Stream(t)
	var sent atomic.Int64
	go func() {
		defer func() { _ = stream.CloseSend() }()
		for began := time.Now(); time.Since(began) < time.Second; sent.Add(1) {
			if stream.Send(&setpointv1.StreamRecommendRequest{Id: "m", Request: servertest.Queue(servertest.Web, 3, 30)}) != nil {
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
		fatal.If(t, err)
		answered++
		if failed := resp.GetError(); failed != nil && codes.Code(failed.GetCode()) == codes.ResourceExhausted {
			t.Fatalf("refused after %d: %v", answered, failed)
		}
	}
	if answered == 0 || answered != sent.Load() {
		t.Errorf("%d answered of %d", answered, sent.Load())
	}
}
