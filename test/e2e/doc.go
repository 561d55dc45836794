// Package e2e holds the tests of whole processes: the service as users run it,
// against real servers. It is a module of its own, for what it needs beside that
// must not burden whoever imports Setpoint.
package e2e
