package oracle

import (
	"flag"
	"os"
	"testing"
)

// answersDescriptor is the file descriptor for answers. The standard output is the
// test's.
const answersDescriptor = 3

var serve = flag.Bool("oracle.serve", false, "answer the requests on the standard input, on file descriptor 3")

// ServeProcess makes the test binary an oracle if it runs with -oracle.serve: it serves
// the Requests of the standard input, with Answers on file descriptor 3. Without that
// flag it skips the test.
func ServeProcess(t *testing.T, driver Driver) {
	t.Helper()
	if !*serve {
		t.Skip("serves as an oracle with -oracle.serve")
	}
	answers := os.NewFile(answersDescriptor, "answers")
	if answers == nil {
		t.Fatalf("file descriptor %d, for the answers, is not open", answersDescriptor)
	}
	if err := Serve(t, driver, os.Stdin, answers); err != nil {
		t.Fatal(err)
	}
}
