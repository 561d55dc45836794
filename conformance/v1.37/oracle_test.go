package v137

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

var serve = flag.Bool("oracle.serve", false, "answer the requests on the standard input, on file descriptor 3")

// TestOracle answers what the real controller makes of scenarios.
func TestOracle(t *testing.T) {
	if !*serve {
		t.Skip("serves as an oracle with -oracle.serve")
	}
	answers := os.NewFile(3, "answers")
	if answers == nil {
		t.Fatal("file descriptor 3, for the answers, is not open")
	}
	if err := oracle.Serve(t, newDriver(), os.Stdin, answers); err != nil {
		t.Fatal(err)
	}
}

// maxControllers limits the memory that controllers take; one is made for each config.
const maxControllers = 500

// driver runs scenarios, one at a time.
type driver struct {
	controllers map[config]*controller
	// The last scenario; the next one is often the same again.
	text     []byte
	scenario *scenario
	reverse  bool
}

func newDriver() *driver {
	klog.SetLogger(klog.Logger{})
	// One of the handlers sleeps, and the clock has to stand still.
	utilruntime.ErrorHandlers = nil
	return &driver{controllers: map[config]*controller{}}
}

// Prepare implements oracle.Driver. Every other run of a scenario lists its pods in
// the reverse order.
func (d *driver) Prepare(text []byte) (oracle.Run, error) {
	if bytes.Equal(text, d.text) {
		d.reverse = !d.reverse
	} else {
		scenario, err := parse(text)
		if err != nil {
			return nil, err
		}
		d.text, d.scenario, d.reverse = bytes.Clone(text), scenario, false
	}
	config := d.scenario.Config
	if err := setGates(config); err != nil {
		return nil, err
	}
	c, made := d.controllers[config]
	if !made {
		if len(d.controllers) >= maxControllers {
			clear(d.controllers)
		}
		c = newController(config)
	}
	// A scenario that fails leaves its controller in an unknown state, even with
	// locks held. It comes back when it has ended well.
	delete(d.controllers, config)
	c.reverse = d.reverse
	return &run{
		scenario: d.scenario, controller: c,
		done: func() { d.controllers[config] = c },
	}, nil
}

// run is one run of a scenario.
type run struct {
	*scenario
	*controller
	// created counts how often the HPA was made.
	created int
	done    func()
}

// Steps implements oracle.Run.
func (r *run) Steps() ([]oracle.Outcome, error) {
	for _, other := range r.OtherHPAs {
		r.know(named(other), other.Selector)
	}
	if err := r.create(r.HPA.Spec, r.HPA.Status); err != nil {
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
	if err := r.end(); err != nil {
		return nil, err
	}
	r.done()
	return outcomes, nil
}

// create makes the HPA.
func (r *run) create(spec autoscalingv2.HorizontalPodAutoscalerSpec, status autoscalingv2.HorizontalPodAutoscalerStatus) error {
	r.created++
	hpa := r.HPA.DeepCopy()
	hpa.UID, hpa.Generation = types.UID(fmt.Sprint(r.created)), 1
	spec.DeepCopyInto(&hpa.Spec)
	status.DeepCopyInto(&hpa.Status)
	if err := r.put(hpa); err != nil {
		return err
	}
	r.know(hpa, "")
	return nil
}

// take does what happens to the HPA at a step, and reconciles it.
func (r *run) take(s *step) (oracle.Outcome, error) {
	if err := oracle.SleepUntil(s.Time); err != nil {
		return oracle.Outcome{}, err
	}
	r.begin(s)
	hpa, _ := r.hpa(r.HPA.Namespace, r.HPA.Name) // nil while there is none
	var err error
	switch {
	case s.HPADeleted && hpa != nil:
		deleteHPA(r.real, hpa) // the reconcile drops the history
		err = r.remove()
	case s.HPA != nil && hpa != nil:
		hpa = hpa.DeepCopy()
		hpa.Generation++
		s.HPA.Spec.DeepCopyInto(&hpa.Spec)
		err = r.put(hpa)
	case s.HPA != nil:
		err = r.create(s.HPA.Spec, autoscalingv2.HorizontalPodAutoscalerStatus{})
	}
	if err != nil {
		return oracle.Outcome{}, err
	}
	_, failure := r.reconcile(r.HPA)
	return r.outcome(failure)
}

// end makes the controller forget the scenario.
func (r *run) end() error {
	r.begin(nil)
	if err := r.remove(); err != nil {
		return err
	}
	for _, other := range r.OtherHPAs {
		if err := r.forget(named(other)); err != nil {
			return err
		}
	}
	return r.forget(r.HPA)
}

// outcome is what came of the step that was begun last.
func (r *run) outcome(failure error) (oracle.Outcome, error) {
	var status autoscalingv2.HorizontalPodAutoscalerStatus
	if hpa, err := r.hpa(r.HPA.Namespace, r.HPA.Name); err == nil {
		status = hpa.Status
	}
	out := oracle.Outcome{
		DesiredReplicas: status.DesiredReplicas,
		CurrentReplicas: status.CurrentReplicas,
		Conditions:      []oracle.Condition{},
		CurrentMetrics:  []json.RawMessage{},
		Events:          append([]oracle.Event{}, r.events...),
	}
	if r.scaledTo != nil {
		out.Scaled, out.ScaledTo = true, *r.scaledTo
	}
	for _, c := range status.Conditions {
		out.Conditions = append(out.Conditions, oracle.Condition{
			Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: oracle.Text{Value: c.Message},
		})
	}
	for _, metric := range status.CurrentMetrics {
		text, err := json.Marshal(metric)
		if err != nil {
			return oracle.Outcome{}, err
		}
		out.CurrentMetrics = append(out.CurrentMetrics, text)
	}
	if failure != nil {
		out.Error = &oracle.Text{Value: failure.Error()}
	}
	hideAmbiguity(&out)
	return out, nil
}

// hideAmbiguity marks the texts that list the HPAs which select the same pods. They
// come in the order of a map, which two runs may well have in common.
func hideAmbiguity(out *oracle.Outcome) {
	const reason = "AmbiguousSelector"
	list := ""
	if i := slices.IndexFunc(out.Events, func(e oracle.Event) bool { return e.Reason == reason }); i >= 0 {
		list = out.Events[i].Message.Value
	}
	hide := func(text *oracle.Text, known bool) {
		if known || list != "" && strings.Contains(text.Value, list) {
			*text = oracle.Text{Undetermined: true}
		}
	}
	for i := range out.Conditions {
		// A condition may be left from a step before.
		hide(&out.Conditions[i].Message, out.Conditions[i].Reason == reason)
	}
	for i := range out.Events {
		hide(&out.Events[i].Message, false)
	}
	if out.Error != nil {
		hide(out.Error, false)
	}
}
