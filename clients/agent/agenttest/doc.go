// Package agenttest has the behaviour that the agent of every platform must have, as a suite
// that each adapter runs, and a platform in memory.
//
//	func TestBehaviour(t *testing.T) {
//		agenttest.Run(t, func(t *testing.T) agenttest.World { return newWorld(t) }, testserver.Recommendations)
//	}
//
// The adapter runs on [agent.Driver], and asks the server it is given, in process. Each test
// is in a bubble of testing/synctest, where time passes as soon as all wait: what the adapter
// talks to must be in the same process, called directly or over a [Pipe].
package agenttest
