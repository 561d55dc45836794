package server

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// A call over REST that ends by --request-timeout is answered, however long that is: net/http would close the connection.
func TestRESTOutlastsTheRequestTimeout(t *testing.T) {
	t.Parallel()
	engine := memory.New(memory.Options{})
	for _, timeout := range []time.Duration{time.Second, time.Hour} {
		options := DefaultOptions()
		options.RequestTimeout = timeout
		s, err := New(engine, engine, options)
		fatal.If(t, err)
		defer s.Close()
		if read, write := s.http.ReadTimeout, s.http.WriteTimeout; read <= timeout || write <= timeout || min(read, write) < time.Minute {
			t.Errorf("a request timeout of %s: REST reads for %s and writes for %s", timeout, read, write)
		}
	}
}
