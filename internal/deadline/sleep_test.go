package deadline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/deadline"
)

func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if !deadline.Sleep(ctx, time.Second) || time.Since(began) != time.Second {
			t.Errorf("waited %v, want 1s", time.Since(began))
		}
		if deadline.Sleep(ctx, time.Hour) || time.Since(began) != time.Minute {
			t.Errorf("a context of a minute ended the wait after %v", time.Since(began))
		}
	})
}
