package guard_test

import (
	"fmt"
	"os"
	"testing"
)

// serveKey is the environment variable that has the test's program serve: a process of
// its own, in which nothing is counted but the service.
const serveKey = "SETPOINT_GUARD_SERVE"

func TestMain(m *testing.M) {
	settings := os.Getenv(serveKey)
	if settings == "" {
		os.Exit(m.Run())
	}
	if err := serve(settings); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
