package nomadtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Client returns Nomad's own client of an in-process server without a network, usable in a
// bubble of testing/synctest.
func Client(t testing.TB, server http.Handler) *api.Client {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: "http://nomad", HttpClient: &http.Client{Transport: direct{server}}})
	fatal.If(t, err)
	return client
}

type direct struct{ http.Handler }

// RoundTrip calls the handler. A panic closes the connection.
func (d direct) RoundTrip(r *http.Request) (response *http.Response, err error) {
	defer func() {
		if recover() != nil {
			response, err = nil, io.EOF
		}
	}()
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}
