// Package nomadtest has recorded traffic of a real Nomad, and a fake server with the recorded
// behaviour, for tests.
//
// Tests compare the server with the recordings: they replay each exchange at its time and
// compare status, text, whether and how long a blocking query waits, and the parts of the body
// that are neither ids, times nor the scheduler's work. The test's log lists the calls that the
// server lacks, because no agent makes them: evaluations, event streams, nodes, single allocations,
// the list of jobs, and failures of clients and servers.
package nomadtest
