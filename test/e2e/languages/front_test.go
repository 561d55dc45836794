//go:build linux

package languages

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint/answertest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

var (
	queue    = answertest.Queue
	problem  = answertest.Problem
	comeBack = answertest.ComeBack
)

// attempt is one that reached a front.
type attempt struct {
	number  int // from 1, over all fronts of a test
	front   int
	after   time.Duration // since the first one
	method  string
	ids     []string // of its requests
	targets []string
}

// plan decides about an attempt. It may call forward, which calls the service, at most once,
// and returns the error of the answer.
type plan func(ctx context.Context, a attempt, forward func() error) error

// fronts stand before a service, over gRPC and REST.
type fronts struct {
	t       *testing.T
	service *service.Instance
	plan    plan

	mu      sync.Mutex
	calls   []attempt    // guarded by mu
	began   time.Time    // guarded by mu
	reached map[int]bool // guarded by mu; while it is not nil attempts go to the service, and are not noted
}

type frontOf struct {
	setpointv1.UnimplementedRecommendationServiceServer
	setpointv1.UnimplementedTargetServiceServer
	*fronts
	index int
	// mix changes the results of a batch, and refuse refuses a request of one; nil: neither.
	mix    func([]*setpointv1.BatchRecommendResult) []*setpointv1.BatchRecommendResult
	refuse func(*setpointv1.RecommendRequest) codes.Code
}

// startFronts starts n fronts before a service, and returns the addresses for a client of that
// language. Without a TLS configuration they don't use TLS.
func startFronts(t *testing.T, l language, n int, s *service.Instance, do plan) (*fronts, config) {
	t.Helper()
	f := &fronts{t: t, service: s, plan: do}
	var targets []string
	for i := range n {
		targets = append(targets, f.start(l, &frontOf{fronts: f, index: i}))
	}
	return f, config{Target: strings.Join(targets, ","), Insecure: true}
}

// startBatches starts a front that changes the results of batches, or refuses some requests.
func startBatches(f *fronts, l language, mix func([]*setpointv1.BatchRecommendResult) []*setpointv1.BatchRecommendResult,
	refuse func(*setpointv1.RecommendRequest) codes.Code,
) (target string) {
	f.t.Helper()
	return f.start(l, &frontOf{fronts: f, mix: mix, refuse: refuse})
}

func (f *fronts) start(l language, one *frontOf) (target string) {
	f.t.Helper()
	listener, err := new(net.ListenConfig).Listen(f.t.Context(), "tcp", "127.0.0.1:0")
	fatal.If(f.t, err)
	if !l.rest {
		server := grpc.NewServer()
		setpointv1.RegisterRecommendationServiceServer(server, one)
		setpointv1.RegisterTargetServiceServer(server, one)
		go func() { _ = server.Serve(listener) }()
		f.t.Cleanup(server.Stop)
		return listener.Addr().String()
	}
	mux := runtime.NewServeMux()
	fatal.If(f.t, errors.Join(setpointv1.RegisterRecommendationServiceHandlerServer(f.t.Context(), mux, one),
		setpointv1.RegisterTargetServiceHandlerServer(f.t.Context(), mux, one)))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	f.t.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String()
}

// seen are the attempts so far.
func (f *fronts) seen() []attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]attempt(nil), f.calls...)
}

func (f *fronts) note(index int, method string, requests ...*setpointv1.RecommendRequest) attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reached != nil {
		f.reached[index] = true
		return attempt{}
	}
	if len(f.calls) == 0 {
		f.began = time.Now()
	}
	a := attempt{number: len(f.calls) + 1, front: index, after: time.Since(f.began), method: method}
	for _, r := range requests {
		a.ids, a.targets = append(a.ids, r.GetRequestId()), append(a.targets, r.GetTarget())
	}
	f.calls = append(f.calls, a)
	return a
}

// answer runs the plan for an attempt.
func answer[A any](ctx context.Context, f *frontOf, a attempt, call func(context.Context) (A, error)) (A, error) {
	var made A
	if a.number == 0 {
		return call(ctx)
	}
	err := f.plan(ctx, a, func() (err error) {
		made, err = call(context.WithoutCancel(ctx))
		return err
	})
	return made, err
}

func (f *frontOf) Recommend(ctx context.Context, r *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	return answer(ctx, f, f.note(f.index, "Recommend", r), func(ctx context.Context) (*setpointv1.RecommendResponse, error) {
		return f.service.Recommendations().Recommend(ctx, r)
	})
}

func (f *frontOf) BatchRecommend(ctx context.Context, r *setpointv1.BatchRecommendRequest) (*setpointv1.BatchRecommendResponse, error) {
	return answer(ctx, f, f.note(f.index, "BatchRecommend", r.GetRequests()...), func(ctx context.Context) (*setpointv1.BatchRecommendResponse, error) {
		if f.refuse == nil && f.mix == nil {
			return f.service.Recommendations().BatchRecommend(ctx, r)
		}
		made, err := f.service.Recommendations().BatchRecommend(ctx, r)
		if err != nil {
			return nil, err
		}
		if f.mix != nil {
			made.Results = f.mix(made.GetResults())
		}
		for i, one := range r.GetRequests() {
			if f.refuse == nil {
				break
			}
			if code := f.refuse(one); code != codes.OK {
				made.Results[i] = &setpointv1.BatchRecommendResult{Result: &setpointv1.BatchRecommendResult_Error{Error: status.New(code, "busy").Proto()}}
			}
		}
		return made, nil
	})
}

func (f *frontOf) ReportScale(ctx context.Context, r *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	return answer(ctx, f, f.note(f.index, "ReportScale"), func(ctx context.Context) (*setpointv1.ReportScaleResponse, error) {
		return f.service.Recommendations().ReportScale(ctx, r)
	})
}

func (f *frontOf) GetTarget(ctx context.Context, r *setpointv1.GetTargetRequest) (*setpointv1.GetTargetResponse, error) {
	return answer(ctx, f, f.note(f.index, "GetTarget"), func(ctx context.Context) (*setpointv1.GetTargetResponse, error) {
		return f.service.Targets().GetTarget(ctx, r)
	})
}

func (f *frontOf) ListTargets(ctx context.Context, r *setpointv1.ListTargetsRequest) (*setpointv1.ListTargetsResponse, error) {
	r.PageSize = 2 // to get several pages
	return answer(ctx, f, f.note(f.index, "ListTargets"), func(ctx context.Context) (*setpointv1.ListTargetsResponse, error) {
		return f.service.Targets().ListTargets(ctx, r)
	})
}

func (f *frontOf) DeleteTarget(ctx context.Context, r *setpointv1.DeleteTargetRequest) (*setpointv1.DeleteTargetResponse, error) {
	return answer(ctx, f, f.note(f.index, "DeleteTarget"), func(ctx context.Context) (*setpointv1.DeleteTargetResponse, error) {
		return f.service.Targets().DeleteTarget(ctx, r)
	})
}

func (f *frontOf) SetTargetSpec(ctx context.Context, r *setpointv1.SetTargetSpecRequest) (*setpointv1.SetTargetSpecResponse, error) {
	return answer(ctx, f, f.note(f.index, "SetTargetSpec"), func(ctx context.Context) (*setpointv1.SetTargetSpecResponse, error) {
		return f.service.Targets().SetTargetSpec(ctx, r)
	})
}

// passes forwards everything.
func passes(_ context.Context, _ attempt, forward func() error) error { return forward() }

// hangs answers when the caller has gone.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// target is a test's own target.
func target(t *testing.T, name string) string {
	clean := strings.NewReplacer("/", "-", " ", "-", "#", "-").Replace(t.Name())
	return fmt.Sprintf("clusters/demo/namespaces/%s/targets/%s", clean, name)
}

// recorded is how many decisions the service has made about a target.
func (f *fronts) recorded(name string) int {
	f.t.Helper()
	response, err := f.service.Targets().ListDecisions(f.t.Context(), &setpointv1.ListDecisionsRequest{Parent: name, PageSize: 1000})
	fatal.If(f.t, err)
	return len(response.GetDecisions())
}

// connect has a client call until it has reached all n fronts: some libraries use a connection
// only once it stands.
func (f *fronts) connect(c client, n int) {
	f.t.Helper()
	f.mu.Lock()
	f.reached = map[int]bool{}
	f.mu.Unlock()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, err := recommend(f.t, c, queue(target(f.t, "connect"), 3, 50)); err != nil {
			f.t.Fatal(err)
		}
		f.mu.Lock()
		all := len(f.reached) == n
		f.mu.Unlock()
		if all {
			break
		}
		if time.Now().After(deadline) {
			f.t.Fatal("not all addresses are reached")
		}
	}
	f.mu.Lock()
	f.reached = nil
	f.mu.Unlock()
}
