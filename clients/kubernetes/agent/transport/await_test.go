package transport

import (
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// A failure that waiting can't cure ends a start at once.
func TestAStartDoesNotWaitForWhatDoesNotPass(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	s.Config.ErrorLog = stdlog.New(io.Discard, "", 0)
	err := Await(t.Context(), &rest.Config{Host: s.URL})
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v, want that the certificate is not trusted", err)
	}
}
