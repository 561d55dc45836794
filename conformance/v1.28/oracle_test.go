package v128

import (
	"flag"
	"os"
	"testing"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

var serve = flag.Bool("oracle.serve", false, "answer the requests on the standard input, on file descriptor 3")

// TestOracle answers requests until there are no more.
func TestOracle(t *testing.T) {
	if !*serve {
		t.Skip("without -oracle.serve")
	}
	answers := os.NewFile(3, "answers")
	if answers == nil {
		t.Fatal("file descriptor 3, for the answers, is not open")
	}
	if err := oracle.Serve(t, newDriver(), os.Stdin, answers); err != nil {
		t.Fatal(err)
	}
}
