// Package nomadtest has recorded traffic of a real Nomad, and a fake server, for tests.
//
// The server behaves as the recorded Nomad did in what the agent asks of it. Package test/e2e/nomad runs the
// agent with a real one.
package nomadtest
