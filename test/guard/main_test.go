package guard_test

import (
	"fmt"
	"os"
	"testing"
)

// serveKey is the environment variable that makes the test's program serve: in a separate
// process only the service is counted.
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
