// Package fatal ends tests at errors that they do not expect.
package fatal

import "testing"

// If ends the test at the first error that is not nil, at its caller's line.
func If(t testing.TB, errs ...error) {
	for _, err := range errs {
		if err != nil {
			t.Helper() // only here: it takes longer than much that benchmarks measure
			t.Fatal(err)
		}
	}
}
