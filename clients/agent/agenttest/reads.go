package agenttest

import (
	"testing"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Object reads an object by the adapter; it ends the test if it can't.
func Object(t testing.TB, p agent.Platform, key agent.Key) *agent.Object {
	t.Helper()
	o, err := p.Object(t.Context(), key, nil)
	fatal.If(t, err)
	return o
}

// Observe reads what a decision is made from by the adapter; it ends the test if it can't.
func Observe(t testing.TB, p agent.Platform, o *agent.Object) *agent.Observation {
	t.Helper()
	seen, err := p.Observe(t.Context(), o)
	fatal.If(t, err)
	return seen
}
