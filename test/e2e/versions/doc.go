// Package versions runs the version before and today's on one Redis, as docs/reference/compatibility.md
// promises that two neighbouring versions may: under load, rolled forward and back.
//
// The version before is the one that scripts/previous.sh builds; SETPOINT_PREVIOUS names another.
// The tests need the repository's history, and say which version they compared.
package versions
