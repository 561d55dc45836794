// Package nomadtest has recorded traffic of a real Nomad, and a server that behaves as it shows,
// for tests.
//
// The server is held to the recordings: its tests play each exchange at its time and compare
// status, text, whether and how long a blocking query waits, and those parts of the body that are
// neither ids, times nor a scheduler's doing. What the server has no call for is told in the log
// of the test: evaluations, and what clients and servers do that fail. Of event streams it has what
// happens to jobs.
package nomadtest
