package agenttest_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// A call that takes an hour of fake time takes no real time.
func TestAServerBehindAPipe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pipe := agenttest.NewPipe()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour)
			_, _ = io.WriteString(w, r.Host+r.URL.Path)
		})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(pipe) }()
		transport := &http.Transport{DialContext: pipe.DialContext}
		began := time.Now()
		for range 3 {
			answer, err := (&http.Client{Transport: transport}).Get("http://anywhere/path")
			fatal.If(t, err)
			body, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if string(body) != "anywhere/path" || err != nil {
				t.Errorf("%q, %v", body, err)
			}
		}
		if took := time.Since(began); took != 3*time.Hour {
			t.Errorf("three calls took %s", took)
		}
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if _, err := pipe.DialContext(t.Context(), "tcp", "anywhere:80"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("dialed after the end: %v", err)
		}
	})
}
