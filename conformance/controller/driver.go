package controller

import (
	"errors"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/setpoint-dev/setpoint/conformance/cluster"
	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// maxControllers limits the memory for controllers, one for each config.
const maxControllers = 500

// controllers are the idle ones, by config.
type controllers map[cluster.Config]*controller

// NewDriver returns a driver. It disables the logs of Kubernetes for the whole program.
func NewDriver() oracle.Driver { return controllers{}.driver() }

func (cs controllers) driver() oracle.Driver {
	klog.SetLogger(klog.Logger{})
	// One of the handlers sleeps, but the clock must stand still.
	utilruntime.ErrorHandlers = nil
	return cluster.NewDriver(cs.take)
}

// take takes a controller for a scenario. After a failure its state is unknown, it may
// even hold locks; only a successful scenario returns it.
func (cs controllers) take(s *cluster.Scenario[autoscalingv2.HorizontalPodAutoscaler]) (cluster.Controller[autoscalingv2.HorizontalPodAutoscaler], error) {
	if err := setGates(s.Config); err != nil {
		return nil, err
	}
	c, made := cs[s.Config]
	if !made {
		if len(cs) >= maxControllers {
			clear(cs)
		}
		c = newController(s.Config)
	}
	delete(cs, s.Config)
	return &run{controller: c, scenario: s, free: cs}, nil
}

// run is one run of a scenario.
type run struct {
	*controller
	scenario *cluster.Scenario[autoscalingv2.HorizontalPodAutoscaler]
	// created counts how often the HPA was created.
	created int
	free    controllers
}

// Start implements cluster.Controller, as the other methods do.
func (r *run) Start() error {
	for _, other := range r.scenario.OtherHPAs {
		r.know(named(other), other.Selector)
	}
	return r.create(r.scenario.HPA, &r.scenario.HPA.Status)
}

// named returns another HPA, of which the controller uses the name only.
func named(other cluster.OtherHPA) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: other.Name, Namespace: other.Namespace}}
}

// create creates the HPA, with the spec and the generation of the given one.
func (r *run) create(like *autoscalingv2.HorizontalPodAutoscaler, status *autoscalingv2.HorizontalPodAutoscalerStatus) error {
	r.created++
	hpa := r.scenario.HPA.DeepCopy()
	hpa.UID, hpa.Generation = types.UID(fmt.Sprint(r.created)), like.Generation
	like.Spec.DeepCopyInto(&hpa.Spec)
	status.DeepCopyInto(&hpa.Status)
	if err := r.put(hpa); err != nil {
		return err
	}
	r.know(hpa, "")
	return nil
}

// stored is the HPA, nil while there is none.
func (r *run) stored() *autoscalingv2.HorizontalPodAutoscaler {
	hpa, _ := r.get(r.scenario.HPA.Namespace, r.scenario.HPA.Name)
	return hpa
}

func (r *run) Apply(changed *autoscalingv2.HorizontalPodAutoscaler) error {
	hpa := r.stored()
	if hpa == nil {
		return r.create(changed, &autoscalingv2.HorizontalPodAutoscalerStatus{})
	}
	hpa = hpa.DeepCopy()
	hpa.Generation = changed.Generation
	changed.Spec.DeepCopyInto(&hpa.Spec)
	return r.put(hpa)
}

func (r *run) Delete() error {
	hpa := r.stored()
	if hpa == nil {
		return nil
	}
	deleteHPA(r.real, hpa) // the reconcile drops the history
	return r.remove()
}

func (r *run) Reconcile() (failure, err error) {
	_, failure = r.reconcile(r.scenario.HPA)
	return failure, nil
}

func (r *run) Status() any {
	if hpa := r.stored(); hpa != nil {
		return &hpa.Status
	}
	return nil
}

// End makes the controller forget the scenario.
func (r *run) End() error {
	r.Begin(nil)
	if err := r.remove(); err != nil {
		return err
	}
	for _, other := range r.scenario.OtherHPAs {
		if err := r.forget(named(other)); err != nil {
			return err
		}
	}
	if err := r.forget(r.scenario.HPA); err != nil {
		return err
	}
	r.free[r.scenario.Config] = r.controller
	return nil
}

// forget drops the controller's state of an HPA, as its informer and then its queue do
// after a deletion.
func (r *run) forget(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
	deleteHPA(r.real, hpa)
	deleted, err := r.reconcile(hpa)
	if err == nil && !deleted {
		err = errors.New("the HPA is still there")
	}
	return err
}

// Finish sorts the names in texts that list HPAs with the same pods. They are in the
// order of a map, which may by chance be the same in two runs.
func (*run) Finish(out *oracle.Outcome) { out.SortNames() }
