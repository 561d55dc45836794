package restjson_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

// echo returns its requests.
type echo struct {
	setpointv1.UnimplementedRecommendationServiceServer
}

func (echo) Recommend(_ context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	return &setpointv1.RecommendResponse{RecommendationId: req.GetTarget(), DesiredReplicas: req.GetSpec().GetMaxReplicas()}, nil
}

// gateway serves echo for bodies up to 100 bytes. Its error handler sends what
// DecodeError gave it to decodeErrors.
func gateway(t *testing.T, decodeErrors chan<- error) *httptest.Server {
	t.Helper()
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &restjson.Marshaler{}),
		runtime.WithMiddlewares(restjson.Middleware),
		runtime.WithErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, _ error) {
			decodeErrors <- restjson.DecodeError(r)
			w.WriteHeader(http.StatusBadRequest)
		}),
	)
	fatal.If(t, setpointv1.RegisterRecommendationServiceHandlerServer(t.Context(), mux, echo{}))
	server := httptest.NewServer(http.MaxBytesHandler(mux, 100))
	t.Cleanup(server.Close)
	return server
}

func TestGateway(t *testing.T) {
	decodeErrors := make(chan error, 1)
	url := gateway(t, decodeErrors).URL + "/v1/clusters/demo/namespaces/shop/targets/web:recommend"
	post := func(t *testing.T, body string) (int, string) {
		t.Helper()
		resp, err := http.Post(url, "application/json", strings.NewReader(body))
		fatal.If(t, err)
		defer func() { _ = resp.Body.Close() }()
		answer, err := io.ReadAll(resp.Body)
		fatal.If(t, err)
		return resp.StatusCode, string(answer)
	}

	t.Run("a good body is answered in compact JSON", func(t *testing.T) {
		code, answer := post(t, `{"spec": {"maxReplicas": 3}, "options": {"tolerance": 0.1}}`)
		want := `{"desiredReplicas":3,"currentReplicas":0,"action":"","recommendationId":"clusters/demo/namespaces/shop/targets/web","reason":"","events":[],"error":""}`
		if code != http.StatusOK || answer != want {
			t.Errorf("got %d %s\nwant 200 %s", code, answer, want)
		}
	})
	t.Run("the error handler gets the violations", func(t *testing.T) {
		code, _ := post(t, `{"spec": {"maxReplicas": "ten"}, "sacle": {}}`)
		err := <-decodeErrors
		var invalid *restjson.Error
		if code != http.StatusBadRequest || !errors.As(err, &invalid) || len(invalid.Violations) != 2 {
			t.Errorf("got %d, %v, want 400 and two violations", code, err)
		}
	})
	t.Run("an empty body is an error", func(t *testing.T) {
		_, _ = post(t, "")
		var invalid *restjson.Error
		if err := <-decodeErrors; !errors.As(err, &invalid) {
			t.Errorf("got %v, want an *Error", err)
		}
	})
	t.Run("the error handler gets the error of a body that is too large", func(t *testing.T) {
		_, _ = post(t, `{"requestId": "`+strings.Repeat("x", 100)+`"}`)
		var tooLarge *http.MaxBytesError
		if err := <-decodeErrors; !errors.As(err, &tooLarge) {
			t.Errorf("got %v, want *http.MaxBytesError", err)
		}
	})
}

func TestDecodeErrorWithoutMiddleware(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{"))
	if err := restjson.DecodeError(r); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}
