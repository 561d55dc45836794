package operations_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

func operations(s *servertest.Service) setpointv1.OperationsServiceClient {
	return setpointv1.NewOperationsServiceClient(s.Conn)
}

// wantCode checks a call's code.
func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

func TestWhoCalls(t *testing.T) {
	t.Parallel()
	s := servertest.Guarded(t)
	reader, err := operations(s).GetCaller(servertest.As(t.Context(), servertest.ReaderToken), &setpointv1.GetCallerRequest{})
	fatal.If(t, err)
	if skew := time.Since(reader.GetCaller().GetCurrentTime().AsTime()); skew < 0 || skew > time.Hour {
		t.Errorf("the time is %v, off by %v", reader.GetCaller().GetCurrentTime(), skew)
	}
	reader.Caller.CurrentTime = nil
	servertest.SameMessage(t, reader.GetCaller(), &setpointv1.Caller{
		Name: "token:reader", Method: "token",
		Permissions: []*setpointv1.Permission{{Verbs: []string{"read"}, Clusters: []string{"demo"}, Namespaces: []string{"*"}}},
	})
	nobody, err := operations(s).GetCaller(servertest.As(t.Context(), servertest.NobodyToken), &setpointv1.GetCallerRequest{})
	if err != nil || len(nobody.GetCaller().GetPermissions()) != 0 {
		t.Errorf("a caller without grants: %v, %v", nobody, err)
	}
	wantCode(t, "an unknown caller", func() error {
		_, err := operations(s).GetCaller(servertest.As(t.Context(), servertest.UnknownToken), &setpointv1.GetCallerRequest{})
		return err
	}(), codes.Unauthenticated)
	open, err := operations(servertest.Start(t)).GetCaller(t.Context(), &setpointv1.GetCallerRequest{})
	if err != nil || open.GetCaller().GetName() != "" || !slices.Contains(open.GetCaller().GetPermissions()[0].GetVerbs(), "operate") {
		t.Errorf("without authentication: %v, %v", open, err)
	}
}

// A token whose issuer writes milliseconds for seconds expires in a year that no timestamp has: the caller is told all else.
func TestCredentialsThatExpireBeyondTimestamps(t *testing.T) {
	t.Parallel()
	engine := memory.New(memory.Options{})
	srv, err := server.New(engine, engine, server.DefaultOptions())
	fatal.If(t, err)
	defer srv.Close()
	for expires, want := range map[time.Time]bool{time.Unix(1_700_000_000, 0): true, time.UnixMilli(1_700_000_000_000 * 1000): false} {
		identity := &auth.Identity{Name: "oidc:alice", Method: auth.MethodOIDC, Expires: expires}
		session := &access.Session{}
		session.Now.Store(&access.Caller{Identity: identity, Grants: policy.Default(false).For(identity)})
		got, err := srv.Operations().GetCaller(access.WithSession(t.Context(), session), &setpointv1.GetCallerRequest{})
		fatal.If(t, err)
		if _, err := protojson.Marshal(got); err != nil || (got.GetCaller().ExpireTime != nil) != want {
			t.Errorf("credentials that expire at %s: %v, %v", expires, got, err)
		}
	}
}

// Who waits for another caller's count of the store waits no longer than its own call.
func TestACountBoundsNobodyElsesCall(t *testing.T) {
	t.Parallel()
	counting, end := make(chan struct{}), make(chan struct{})
	engine := &servertest.FaultyStore{Store: memory.New(memory.Options{}), OnUsage: func() error {
		close(counting)
		<-end
		return nil
	}}
	srv, err := server.New(engine, nil, server.DefaultOptions())
	fatal.If(t, err)
	defer srv.Close()
	var first sync.WaitGroup
	defer first.Wait()
	first.Go(func() {
		if got, err := srv.Operations().GetStore(t.Context(), &setpointv1.GetStoreRequest{}); err != nil || got.GetStore().CountedTime == nil {
			t.Errorf("who counts: %v, %v", got, err)
		}
	})
	<-counting
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	watchdog := time.AfterFunc(10*time.Second, func() { close(end) })
	_, err = srv.Operations().GetStore(ctx, &setpointv1.GetStoreRequest{})
	if wantCode(t, "who waits", err, codes.DeadlineExceeded); watchdog.Stop() {
		close(end)
	} else {
		t.Error("it waited for the other's count")
	}
}

func TestOnlyOperatorsSeeTheService(t *testing.T) {
	t.Parallel()
	s := servertest.Guarded(t)
	for token, want := range map[string]codes.Code{servertest.AdminToken: codes.OK, servertest.ReaderToken: codes.PermissionDenied, servertest.NobodyToken: codes.PermissionDenied, "": codes.Unauthenticated} {
		_, err := operations(s).ListInstances(servertest.As(t.Context(), token), &setpointv1.ListInstancesRequest{})
		wantCode(t, "ListInstances", err, want)
		_, err = operations(s).GetStore(servertest.As(t.Context(), token), &setpointv1.GetStoreRequest{})
		wantCode(t, "GetStore", err, want)
	}
}

// Of others a caller learns neither names nor how many there are.
func TestCallersSeeOnlyThemselves(t *testing.T) {
	t.Parallel()
	s := servertest.Guarded(t, func(su *servertest.Setup) {
		su.Options.Limits.Identity = limit.Limits{InFlight: 7, Rate: 1000, Burst: 1000, Streams: 3}
	})
	callersOf := func(token string, size int32) *setpointv1.ListCallersResponse {
		t.Helper()
		got, err := operations(s).ListCallers(servertest.As(t.Context(), token), &setpointv1.ListCallersRequest{PageSize: size})
		fatal.If(t, err)
		return got
	}
	callersOf(servertest.AdminToken, 0)
	reader := callersOf(servertest.ReaderToken, 0)
	if len(reader.GetCallers()) != 1 || reader.GetTotal() != 1 {
		t.Fatalf("the reader sees %v", reader)
	}
	own := reader.GetCallers()[0]
	if own.GetName() != "token:reader" || own.GetMaxInFlight() != 7 || own.GetMaxStreams() != 3 || own.GetMaxRate() != 1000 || own.GetBurst() != 1000 || own.GetInFlight() != 1 {
		t.Errorf("the reader's own: %v", own)
	}
	admin := callersOf(servertest.AdminToken, 0)
	var names []string
	for _, c := range admin.GetCallers() {
		names = append(names, c.GetName())
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"token:admin", "token:reader"}) || admin.GetTotal() != 2 {
		t.Errorf("the operator sees %v, want both", admin)
	}
	if one := callersOf(servertest.AdminToken, 1); len(one.GetCallers()) != 1 || one.GetTotal() != 2 || one.GetCallers()[0].GetName() != "token:admin" {
		t.Errorf("a page of one: %v, want the operator, who uses most now", one)
	}
	s.Ask(t, http.MethodGet, "/v1/callers?pageSize=1001", nil).Expect(t, http.StatusUnauthorized)
	_, err := operations(s).ListCallers(servertest.As(t.Context(), servertest.AdminToken), &setpointv1.ListCallersRequest{PageSize: 1001})
	wantCode(t, "too large a page", err, codes.InvalidArgument)
}

// shared is the state that the engines of several instances share.
type shared struct {
	store.Engine

	mu     *sync.Mutex
	values map[string]bool // guarded by mu
}

func (s shared) Announce(_ context.Context, _ string, before, now []byte, _ time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, string(before))
	if len(now) > 0 {
		s.values[string(now)] = true
	}
	return nil
}

func (s shared) Announced(context.Context, string, int) (values [][]byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values = append(values, []byte("\xffno message"))
	for value := range s.values {
		values = append(values, []byte(value))
	}
	return values, nil
}

// lacking is an engine that lacks some of its servers, and counts the targets of the others.
type lacking struct {
	store.Engine
	why atomic.Pointer[error]
}

func (l *lacking) Lacking() error {
	if why := l.why.Load(); why != nil {
		return *why
	}
	return nil
}

// Usage is of two targets, or of one.
func (l *lacking) Usage(context.Context, string) (store.Usage, error) {
	if l.Lacking() != nil {
		return store.Usage{Keys: 1}, nil
	}
	return store.Usage{Keys: 2}, nil
}

// A store that lacks some of its servers is reachable, and why is told. Its count is none of all targets.
func TestAStoreThatLacksSomeServers(t *testing.T) {
	t.Parallel()
	var engine *lacking
	s := servertest.Start(t, func(su *servertest.Setup) {
		engine = &lacking{Engine: su.Store}
		su.Engine = engine
	})
	get := func() *setpointv1.StoreState {
		t.Helper()
		got, err := operations(s).GetStore(t.Context(), &setpointv1.GetStoreRequest{})
		fatal.If(t, err)
		return got.GetStore()
	}
	engine.why.Store(new(errors.New("dial 10.0.0.2:6379")))
	if got := get(); !got.GetReachable() || got.GetProblem() != "in part: dial 10.0.0.2:6379" || got.Targets != nil { //nolint:protogetter // absent is not 0
		t.Errorf("without some servers it is %v", got)
	}
	engine.why.Store(nil)
	if got := get(); !got.GetReachable() || got.GetProblem() != "" || got.GetTargets() != 2 {
		t.Errorf("with all of them it is %v", got)
	}
}

func TestInstancesThatShareAStore(t *testing.T) {
	t.Parallel()
	mu, values := new(sync.Mutex), make(map[string]bool)
	on := func(version string) func(*servertest.Setup) {
		return func(su *servertest.Setup) {
			su.Engine = shared{su.Store, mu, values}
			su.Options.Version = version
		}
	}
	a, b := servertest.Start(t, on("1.0")), servertest.Start(t, on("1.1"))
	a.Recommend(t, servertest.WebRequest(t))
	instances := func() []*setpointv1.Instance {
		t.Helper()
		got, err := operations(a).ListInstances(t.Context(), &setpointv1.ListInstancesRequest{})
		fatal.If(t, err)
		return got.GetInstances()
	}
	until := time.Now().Add(time.Minute)
	wait := func(n int) []*setpointv1.Instance {
		t.Helper()
		for {
			got := instances()
			if len(got) == n {
				return got
			}
			if time.Now().After(until) {
				t.Fatalf("there are %v, want %d", got, n)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	for _, i := range wait(2) {
		if i.GetSelf() != (i.GetVersion() == "1.0") || i.GetState() != "SERVING" || i.GetMemoryBytes() < 1<<20 ||
			i.GetProcessors() < 1 || i.GetMaxInFlight() != 4096 || i.GetConcurrencyLimit() != 4096 || i.GetStartTime() == nil || i.GetHeartbeatTime() == nil {
			t.Errorf("an instance tells %v", i)
		}
	}
	b.StopAndWait(t)
	wait(1) // it said that it goes
	state, err := operations(a).GetStore(t.Context(), &setpointv1.GetStoreRequest{})
	if err != nil || !state.GetStore().GetReachable() || state.GetStore().GetKind() != "memory" {
		t.Errorf("the store: %v, %v", state, err)
	}
}
