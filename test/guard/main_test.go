package guard_test

import (
	"fmt"
	"os"
	"testing"
)

// serveKey is the environment variable that makes the test's program serve, on a store by its URL or
// inMemory: in a separate process only the service is counted.
const serveKey, inMemory = "SETPOINT_GUARD_SERVE", "memory"

func TestMain(m *testing.M) {
	storeURL := os.Getenv(serveKey)
	if storeURL == "" {
		os.Exit(m.Run())
	}
	if err := serve(storeURL); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
