// Package compatibility tests the promises of docs/reference/compatibility.md: the code reads
// what an older release stored, and every flag, command, metric and label in testdata still
// exists. `make compatibility` compares the contract, too.
//
// The lists and the stored data are the last release's. A release writes them anew:
//
//	go test ./test/compatibility -update
package compatibility
