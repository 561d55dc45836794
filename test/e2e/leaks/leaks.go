// Package leaks finds leaked goroutines of tests, also on a busy machine:
//
//	func TestMain(m *testing.M) { os.Exit(leaks.Run(m)) }
package leaks

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/goleak"
)

// within is how long goroutines may take to end; goleak alone waits for less than a second.
const within = time.Minute

// Run runs the tests and returns the exit code: not 0 if they failed or leaked goroutines other
// than those in the options.
func Run(m interface{ Run() int }, options ...goleak.Option) int {
	code := m.Run()
	if code != 0 {
		return code
	}
	for began := time.Now(); ; {
		err := goleak.Find(options...)
		if err == nil {
			return 0
		}
		if time.Since(began) > within {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}
