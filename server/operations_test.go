package server_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/store"
)

func (s *service) operations() setpointv1.OperationsServiceClient {
	return setpointv1.NewOperationsServiceClient(s.conn)
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
	s := guarded(t)
	reader, err := s.operations().GetCaller(as(t.Context(), readerToken), &setpointv1.GetCallerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if skew := time.Since(reader.GetCaller().GetCurrentTime().AsTime()); skew < 0 || skew > time.Hour {
		t.Errorf("the time is %v, off by %v", reader.GetCaller().GetCurrentTime(), skew)
	}
	reader.Caller.CurrentTime = nil
	sameMessage(t, reader.GetCaller(), &setpointv1.Caller{
		Name: "token:reader", Method: "token",
		Permissions: []*setpointv1.Permission{{Verbs: []string{"read"}, Clusters: []string{"demo"}, Namespaces: []string{"*"}}},
	})
	nobody, err := s.operations().GetCaller(as(t.Context(), nobodyToken), &setpointv1.GetCallerRequest{})
	if err != nil || len(nobody.GetCaller().GetPermissions()) != 0 {
		t.Errorf("a caller without grants: %v, %v", nobody, err)
	}
	wantCode(t, "an unknown caller", func() error {
		_, err := s.operations().GetCaller(as(t.Context(), unknownToken), &setpointv1.GetCallerRequest{})
		return err
	}(), codes.Unauthenticated)
	open, err := start(t).operations().GetCaller(t.Context(), &setpointv1.GetCallerRequest{})
	if err != nil || open.GetCaller().GetName() != "" || !slices.Contains(open.GetCaller().GetPermissions()[0].GetVerbs(), "operate") {
		t.Errorf("without authentication: %v, %v", open, err)
	}
}

func TestOnlyOperatorsSeeTheService(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	for token, want := range map[string]codes.Code{adminToken: codes.OK, readerToken: codes.PermissionDenied, nobodyToken: codes.PermissionDenied, "": codes.Unauthenticated} {
		_, err := s.operations().ListInstances(as(t.Context(), token), &setpointv1.ListInstancesRequest{})
		wantCode(t, "ListInstances", err, want)
		_, err = s.operations().GetStore(as(t.Context(), token), &setpointv1.GetStoreRequest{})
		wantCode(t, "GetStore", err, want)
	}
}

// Of others a caller learns neither names nor how many there are.
func TestCallersSeeOnlyThemselves(t *testing.T) {
	t.Parallel()
	s := guarded(t, func(su *setup) {
		su.options.Limits.Identity = limit.Limits{InFlight: 7, Rate: 1000, Burst: 1000, Streams: 3}
	})
	callersOf := func(token string, size int32) *setpointv1.ListCallersResponse {
		t.Helper()
		got, err := s.operations().ListCallers(as(t.Context(), token), &setpointv1.ListCallersRequest{PageSize: size})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	callersOf(adminToken, 0)
	reader := callersOf(readerToken, 0)
	if len(reader.GetCallers()) != 1 || reader.GetTotal() != 1 {
		t.Fatalf("the reader sees %v", reader)
	}
	own := reader.GetCallers()[0]
	if own.GetName() != "token:reader" || own.GetMaxInFlight() != 7 || own.GetMaxStreams() != 3 || own.GetMaxRate() != 1000 || own.GetBurst() != 1000 || own.GetInFlight() != 1 {
		t.Errorf("the reader's own: %v", own)
	}
	admin := callersOf(adminToken, 0)
	var names []string
	for _, c := range admin.GetCallers() {
		names = append(names, c.GetName())
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"token:admin", "token:reader"}) || admin.GetTotal() != 2 {
		t.Errorf("the operator sees %v, want both", admin)
	}
	if one := callersOf(adminToken, 1); len(one.GetCallers()) != 1 || one.GetTotal() != 2 || one.GetCallers()[0].GetName() != "token:admin" {
		t.Errorf("a page of one: %v, want the operator, who uses most now", one)
	}
	s.ask(t, http.MethodGet, "/v1/callers?pageSize=1001", nil).expect(t, http.StatusUnauthorized)
	_, err := s.operations().ListCallers(as(t.Context(), adminToken), &setpointv1.ListCallersRequest{PageSize: 1001})
	wantCode(t, "too large a page", err, codes.InvalidArgument)
}

// shared is the state that the engines of several instances share.
type shared struct {
	store.Store

	mu     *sync.Mutex
	values map[string]bool // guarded by mu
}

func (s shared) Announce(_ context.Context, before, now []byte, _ time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, string(before))
	if len(now) > 0 {
		s.values[string(now)] = true
	}
	return nil
}

func (s shared) Announced(context.Context, int) (values [][]byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values = append(values, []byte("\xffno message"))
	for value := range s.values {
		values = append(values, []byte(value))
	}
	return values, nil
}

func TestInstancesThatShareAStore(t *testing.T) {
	t.Parallel()
	mu, values := new(sync.Mutex), make(map[string]bool)
	on := func(version string) func(*setup) {
		return func(su *setup) {
			su.engine = shared{su.store, mu, values}
			su.options.Version = version
		}
	}
	a, b := start(t, on("1.0")), start(t, on("1.1"))
	a.recommend(t, webRequest(t))
	instances := func() []*setpointv1.Instance {
		t.Helper()
		got, err := a.operations().ListInstances(t.Context(), &setpointv1.ListInstancesRequest{})
		if err != nil {
			t.Fatal(err)
		}
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
	b.stopAndWait(t)
	wait(1) // it said that it goes
	state, err := a.operations().GetStore(t.Context(), &setpointv1.GetStoreRequest{})
	if err != nil || !state.GetStore().GetReachable() || state.GetStore().GetKind() != "memory" {
		t.Errorf("the store: %v, %v", state, err)
	}
}
