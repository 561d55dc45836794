// Package compatibility holds today's code to what docs/reference/compatibility.md promises of releases:
// what an older one stored is read, and no flag, command, metric or label of the lists in testdata
// has gone. `make compatibility` compares the contract, too.
//
// The lists and the stored data are the last release's. A release writes them anew:
//
//	go test ./test/compatibility -update
package compatibility
