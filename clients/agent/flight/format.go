package flight

import (
	"io"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
)

// Format is the form of scenarios.
type Format interface {
	// Begin returns a scenario without steps: of a target that is new if it is nil, else of
	// one that has what the service keeps of it, a history included. The error is one for a
	// target that no scenario can begin with.
	Begin(target *setpointv1.Target) (Scenario, error)
}

// Scenario is a row of reconciles of one object.
type Scenario interface {
	// Add adds a decision, the next one in time. An error says that it would not replay as
	// it was, and leaves the scenario as it is.
	Add(d *agent.Decision) error
	// Steps is how many decisions were added.
	Steps() int
	// Bytes is what the scenario takes in memory, roughly. It changes with Add only.
	Bytes() int
	// Write writes the scenario as one line of a recording, with one call of w.Write, so
	// that files of whole lines are left whatever happens. It is called once.
	Write(w io.Writer) error
}
