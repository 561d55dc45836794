package apierror_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func TestAnUnreachableStoreIs503OverREST(t *testing.T) {
	t.Parallel()
	var f servertest.Faults
	s := servertest.Start(t, f.FailLoads(store.ErrUnavailable))
	f.On.Store(true)
	a := s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.WebBody)
	a.Expect(t, http.StatusServiceUnavailable)
	servertest.WantProblem(t, a.Problem(t), codes.Unavailable, "STORE_UNAVAILABLE")
}

func TestAContendedTargetIs409OverREST(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.MaxAttempts = 2
		su.Store.OnSwap = func(context.Context, store.Swap, servertest.SwapFunc) (store.SwapResult, error) {
			return store.SwapResult{}, nil
		}
	})
	a := s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.WebBody)
	a.Expect(t, http.StatusConflict)
	servertest.WantProblem(t, a.Problem(t), codes.Aborted, "TARGET_CONTENDED")
}

func TestADeadlineThatIsOverIsGatewayTimeoutOverREST(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnLoad = func(ctx context.Context, _ store.Key, _ servertest.LoadFunc) (store.Record, error) {
			<-ctx.Done()
			return store.Record{}, ctx.Err()
		}
	})
	req := s.Request(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.WebBody)
	req.Header.Set("Grpc-Timeout", "10m") // milliseconds
	a := s.MustSend(t, req)
	a.Expect(t, http.StatusGatewayTimeout)
	if a.Body["code"] != float64(codes.DeadlineExceeded) {
		t.Errorf("got %s", a.Raw)
	}
}

// What an error's details say must be JSON over REST whatever the message.
func TestErrorsOfTheStoreAreJSONOverREST(t *testing.T) {
	t.Parallel()
	var f servertest.Faults
	s := servertest.Start(t, f.FailLoads(errors.New("\xff\x00 not text")))
	f.On.Store(true)
	a := s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil)
	a.Expect(t, http.StatusInternalServerError)
	if !json.Valid(a.Raw) {
		t.Errorf("got %q, which is no JSON", a.Raw)
	}
}
