// Package e2e has the tests of whole processes: the service as users run it, against real
// servers. It is a module of its own, so that its dependencies do not burden importers of
// Setpoint.
package e2e
