//go:build unix

package redistest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// recorder is a test that notes how it ended.
type recorder struct {
	testing.TB
	outcome, message string
}

func (r *recorder) Helper() {}

func (r *recorder) Skip(args ...any) {
	r.outcome, r.message = "skipped", fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.outcome, r.message = "failed", fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestRequire(t *testing.T) {
	for _, tc := range []struct{ name, ci, require, want string }{
		{"anywhere", "", "", "skipped"},
		{"in CI", "true", "", "failed"},
		{"where it is required", "", "1", "failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir())
			t.Setenv("CI", tc.ci)
			t.Setenv("SETPOINT_REQUIRE_REDIS", tc.require)
			for name, start := range map[string]func(testing.TB){
				"Require":       Require,
				"Start":         func(t testing.TB) { Start(t, Config{}) },
				"StartCluster":  func(t testing.TB) { StartCluster(t, 3, 0, Config{}) },
				"StartSentinel": func(t testing.TB) { StartSentinel(t, 1, 1, Config{}) },
				"Shared":        func(t testing.TB) { Shared(t) },
				"SharedCluster": func(t testing.TB) { SharedCluster(t) },
			} {
				r := &recorder{outcome: "passed"}
				done := make(chan struct{})
				go func() {
					defer close(done)
					start(r)
				}()
				<-done
				if r.outcome != tc.want || !strings.Contains(r.message, "scripts/redis.sh") {
					t.Errorf("%s without redis-server: %s, %q, want it %s and scripts/redis.sh named", name, r.outcome, r.message, tc.want)
				}
			}
		})
	}
}
