package cluster

import (
	"bytes"
	"fmt"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// Controller is a real controller that has not seen anything yet, and a Cluster it
// talks to, which it embeds.
type Controller[HPA any] interface {
	// Start makes the scenario's HPAs known. Like the rest it is called in the run's
	// bubble of time.
	Start() error
	// Apply makes the HPA if there is none, and else changes its spec. The HPA is not
	// written into.
	Apply(hpa *HPA) error
	// Delete deletes the HPA if there is one.
	Delete() error
	// Reconcile reconciles the HPA. It returns the failure of that, which is part of the
	// outcome, and apart from it what kept it from being done.
	Reconcile() (failure, err error)
	// Status returns that of the HPA, which is nil or empty if there is none.
	Status() any
	// Finish changes an outcome where it does not say how it depends on chance.
	Finish(outcome *oracle.Outcome)
	// End is called after the last step of a scenario that went well.
	End() error

	// Shown returns the cluster, which has this method.
	Shown() *Cluster
}

// Driver runs scenarios through the controllers of a version, one at a time.
type Driver[HPA any, Pointer Object[HPA]] struct {
	controller func(*Scenario[HPA]) (Controller[HPA], error)
	// The last scenario; the next one is often the same again.
	text     []byte
	scenario *Scenario[HPA]
	reverse  bool
}

// NewDriver makes a driver that takes a controller for each run of a scenario. The
// controller is made outside the bubble of time, so what it starts may go on.
func NewDriver[HPA any, Pointer Object[HPA]](controller func(*Scenario[HPA]) (Controller[HPA], error)) *Driver[HPA, Pointer] {
	return &Driver[HPA, Pointer]{controller: controller}
}

// Prepare implements oracle.Driver. Every other run of a scenario lists its pods in
// the reverse order: a text that names one of several pods then differs.
func (d *Driver[HPA, Pointer]) Prepare(text []byte) (oracle.Run, error) {
	if bytes.Equal(text, d.text) {
		d.reverse = !d.reverse
	} else {
		scenario, err := Parse[HPA, Pointer](text)
		if err != nil {
			return nil, err
		}
		d.text, d.scenario, d.reverse = bytes.Clone(text), scenario, false
	}
	controller, err := d.controller(d.scenario)
	if err != nil {
		return nil, err
	}
	controller.Shown().reverse = d.reverse
	return &run[HPA]{scenario: d.scenario, Controller: controller}, nil
}

// run is one run of a scenario.
type run[HPA any] struct {
	Controller[HPA]
	scenario *Scenario[HPA]
}

// Steps implements oracle.Run.
func (r *run[HPA]) Steps() ([]oracle.Outcome, error) {
	if err := r.Start(); err != nil {
		return nil, err
	}
	outcomes := make([]oracle.Outcome, 0, len(r.scenario.Steps))
	for i := range r.scenario.Steps {
		outcome, err := r.take(&r.scenario.Steps[i])
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, r.End()
}

// take does what happens to the HPA at a step, and reconciles it.
func (r *run[HPA]) take(s *Step[HPA]) (oracle.Outcome, error) {
	if err := oracle.SleepUntil(s.Time); err != nil {
		return oracle.Outcome{}, err
	}
	r.Shown().Begin(&s.State)
	var err error
	switch {
	case s.HPADeleted:
		err = r.Delete()
	case s.HPA != nil:
		err = r.Apply(s.HPA)
	}
	if err != nil {
		return oracle.Outcome{}, err
	}
	failure, err := r.Reconcile()
	if err != nil {
		return oracle.Outcome{}, err
	}
	outcome, err := r.Shown().outcome(r.Status(), failure)
	if err == nil {
		r.Finish(&outcome)
	}
	return outcome, err
}
