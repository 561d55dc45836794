// Package agenttest is the behaviour suite that every platform's adapter must pass, with a
// platform in memory.
//
//	func TestBehaviour(t *testing.T) {
//		agenttest.Run(t, func(t *testing.T) agenttest.World { return newWorld(t) }, testserver.Recommendations)
//	}
//
// The adapter runs on [agent.Driver] and calls the given server in process. Each test runs in a
// bubble of testing/synctest, where time advances as soon as all goroutines wait: the adapter's
// platform must be in the same process, called directly or over a [Pipe].
package agenttest
