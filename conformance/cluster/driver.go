package cluster

import (
	"bytes"
	"fmt"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// Controller is a new real controller, with a Cluster, which it embeds.
type Controller[HPA any] interface {
	// Start registers the scenario's HPAs. It and the other methods are called in the
	// run's bubble of time.
	Start() error
	// Apply creates the HPA if there is none, and otherwise changes its spec. It does
	// not change hpa.
	Apply(hpa *HPA) error
	// Delete deletes the HPA if there is one.
	Delete() error
	// Reconcile reconciles the HPA. failure is the error of the reconcile, which is part
	// of the outcome; err means that it could not run.
	Reconcile() (failure, err error)
	// Status returns the status of the HPA, nil or empty if there is none.
	Status() any
	// Finish normalizes an outcome where it depends on chance.
	Finish(outcome *oracle.Outcome)
	// End is called after the last step of a successful scenario.
	End() error

	// Shown returns the cluster, which has this method.
	Shown() *Cluster
}

// Driver runs scenarios on the controllers of a version, one at a time.
type Driver[HPA any, Pointer Object[HPA]] struct {
	controller func(*Scenario[HPA]) (Controller[HPA], error)
	// The last scenario; often the next one is the same.
	text     []byte
	scenario *Scenario[HPA]
	reverse  bool
}

// NewDriver returns a driver that takes a controller for each run of a scenario.
// Controllers are created outside the bubble of time, so their goroutines may continue.
func NewDriver[HPA any, Pointer Object[HPA]](controller func(*Scenario[HPA]) (Controller[HPA], error)) *Driver[HPA, Pointer] {
	return &Driver[HPA, Pointer]{controller: controller}
}

// Prepare implements oracle.Driver. Every second run of a scenario lists its pods in
// the reverse order: so a text that names one of several pods differs.
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

// take applies a step's changes of the HPA, and reconciles it.
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
