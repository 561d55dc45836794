// Package versions runs the version before and today's on one Redis, as docs/compatibility.md
// promises that two neighbouring versions may: under load, rolled forward and back.
//
// The version before is the last tag, or, as long as there is none, the commit that wrote the
// stored data which stands for the last release (test/compatibility). SETPOINT_E2E_BEFORE names
// another commit. The tests need the repository's history, and say which version they compared.
package versions
