package store_test

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/store/redis"
)

// The limits of waits follow the timeout of an engine behind a network, and are never shorter than usual.
func TestPatience(t *testing.T) {
	t.Parallel()
	within := memory.New(memory.Options{})
	if got := store.Patience(within, 2*time.Second); got != 2*time.Second {
		t.Errorf("for an engine in the process: %s", got)
	}
	for _, test := range []struct{ timeout, usual, want time.Duration }{
		{0, 600 * time.Millisecond, 600 * time.Millisecond}, // the default
		{100 * time.Millisecond, time.Second, time.Second},
		{5 * time.Second, 600 * time.Millisecond, 3 * time.Second},
		{1500 * time.Millisecond, 2 * time.Second, 3 * time.Second},
		{time.Hour, 2 * time.Second, 2 * time.Hour},
	} {
		engine, err := redis.New(redis.Options{Addresses: []string{"127.0.0.1:1"}, Timeout: test.timeout})
		fatal.If(t, err)
		part, err := engine.Part(store.Specs, 0)
		fatal.If(t, err)
		for what, of := range map[string]store.Store{"engine": engine, "part": part} {
			if got := store.Patience(of, test.usual); got != test.want {
				t.Errorf("%s with a timeout of %s: %s, want %s", what, test.timeout, got, test.want)
			}
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}
}
