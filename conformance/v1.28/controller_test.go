package v128

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unsafe"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	"k8s.io/kubernetes/pkg/controller/util/selectors"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// reconcileKey is what the worker of the controller calls for a key of its queue.
//
//go:linkname reconcileKey k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).reconcileKey
func reconcileKey(controller *podautoscaler.HorizontalController, ctx context.Context, key string) (deleted bool, err error)

// driver makes a controller for each run, so none has a history at its start.
type driver struct {
	// last is the scenario of the run before.
	last      []byte
	backwards bool
}

func newDriver() *driver {
	// Logs are of no use, and one of the handlers of errors sleeps.
	klog.SetLogger(klog.Logger{})
	utilruntime.ErrorHandlers = nil
	return &driver{}
}

// run is a scenario with the controller that is to run it.
type run struct {
	*cluster
	scenario   *scenario
	controller *podautoscaler.HorizontalController
	// listed holds the autoscaler that the controller finds.
	listed cache.Indexer
	// selectors by autoscaler, as the controller keeps them.
	selectors *selectors.BiMultimap
}

// Prepare makes a controller. Every other run of a scenario lists its pods backwards:
// a text which names one of several pods then differs.
func (d *driver) Prepare(data []byte) (oracle.Run, error) {
	s, err := parse(data)
	if err != nil {
		return nil, err
	}
	d.backwards = bytes.Equal(data, d.last) && !d.backwards
	d.last = append(d.last[:0], data...)
	c := &cluster{backwards: d.backwards, hpa: s.HPA}

	factory := informers.NewSharedInformerFactory(nil, 0)
	hpaInformer := factory.Autoscaling().V2().HorizontalPodAutoscalers()
	controller := podautoscaler.NewHorizontalController(
		noEvents{},
		scales{cluster: c},
		hpas{cluster: c},
		restMapper(),
		metrics.NewRESTMetricsClient(resourceMetrics{cluster: c}, customMetrics{c}, externalMetrics{c}),
		hpaInformer,
		podInformer{factory.Core().V1().Pods(), c},
		15*time.Second,
		seconds(s.Config.DownscaleStabilizationSeconds),
		s.Config.Tolerance,
		seconds(s.Config.CPUInitializationPeriodSeconds),
		seconds(s.Config.InitialReadinessDelaySeconds),
		true, // HPAContainerMetrics is on unless it is turned off.
	)
	// What the constructor starts is of no use here, and would go on for ever.
	events := field[record.EventRecorder](controller, "eventRecorder")
	(*events).(interface{ Shutdown() }).Shutdown()
	*events = recorder{c}
	(*field[workqueue.RateLimitingInterface](controller, "queue")).ShutDown()

	return &run{
		cluster:    c,
		scenario:   s,
		controller: controller,
		listed:     hpaInformer.Informer().GetIndexer(),
		selectors:  *field[*selectors.BiMultimap](controller, "hpaSelectors"),
	}, nil
}

// podInformer is an informer with the lister of the cluster.
type podInformer struct {
	coreinformers.PodInformer
	*cluster
}

func (i podInformer) Lister() corelisters.PodLister { return pods{i.cluster} }

// field of the controller that it does not export.
func field[T any](controller *podautoscaler.HorizontalController, name string) *T {
	f := reflect.ValueOf(controller).Elem().FieldByName(name)
	if want := reflect.TypeFor[T](); !f.IsValid() || f.Type() != want {
		panic(fmt.Sprintf("the controller has no field %s of type %s", name, want))
	}
	return (*T)(unsafe.Pointer(f.UnsafeAddr()))
}

// Steps reconciles once a step. The controller is new, so its history is empty.
func (r *run) Steps() ([]oracle.Outcome, error) {
	for _, other := range r.scenario.OtherHPAs {
		// An autoscaler whose selector is not known yet selects nothing.
		selector, err := labels.Parse(other.Selector)
		if err != nil || other.Selector == "" {
			selector = labels.Nothing()
		}
		r.selectors.PutSelector(selectors.Key{Namespace: other.Namespace, Name: other.Name}, selector)
	}
	r.appear()
	outcomes := make([]oracle.Outcome, 0, len(r.scenario.Steps))
	for i := range r.scenario.Steps {
		outcome, err := r.reconcile(&r.scenario.Steps[i])
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

// reconcile runs one step.
func (r *run) reconcile(step *step) (oracle.Outcome, error) {
	if err := oracle.SleepUntil(step.Time); err != nil {
		return oracle.Outcome{}, err
	}
	r.step, r.scaledTo, r.events = step, nil, []oracle.Event{}
	if err := r.change(step); err != nil {
		return oracle.Outcome{}, err
	}
	if r.hpa != nil {
		// The status goes on in r.hpa, the controller may change its own copy.
		if err := r.listed.Replace([]any{r.hpa.DeepCopy()}, ""); err != nil {
			return oracle.Outcome{}, fmt.Errorf("list the hpa: %w", err)
		}
	}
	_, err := reconcileKey(r.controller, context.Background(), r.key().String())
	return r.outcome(err)
}

// change does to the autoscaler what the step does.
func (r *run) change(step *step) error {
	switch {
	case step.HPADeleted:
		r.hpa = nil
		r.selectors.DeleteSelector(r.key())
		return r.listed.Replace(nil, "")
	case step.HPA != nil && r.hpa == nil:
		r.hpa = &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: r.scenario.HPA.ObjectMeta, Spec: step.HPA.Spec}
		r.appear()
	case step.HPA != nil:
		r.hpa.Spec = step.HPA.Spec
	}
	return nil
}

// appear makes the autoscaler known, as the controller's handler of new ones does:
// it selects nothing until it is reconciled.
func (r *run) appear() { r.selectors.PutSelector(r.key(), labels.Nothing()) }

func (r *run) key() selectors.Key {
	return selectors.Key{Namespace: r.scenario.HPA.Namespace, Name: r.scenario.HPA.Name}
}

// outcome of a step whose reconcile returned the error.
func (r *run) outcome(reconciled error) (oracle.Outcome, error) {
	outcome := oracle.Outcome{
		Conditions:     []oracle.Condition{},
		CurrentMetrics: []json.RawMessage{},
		Events:         r.events,
	}
	if r.scaledTo != nil {
		outcome.Scaled, outcome.ScaledTo = true, *r.scaledTo
	}
	if reconciled != nil {
		message := text(reconciled.Error())
		outcome.Error = &message
	}
	if r.hpa == nil {
		return outcome, nil
	}
	status := &r.hpa.Status
	outcome.DesiredReplicas, outcome.CurrentReplicas = status.DesiredReplicas, status.CurrentReplicas
	for _, condition := range status.Conditions {
		outcome.Conditions = append(outcome.Conditions, oracle.Condition{
			Type:    string(condition.Type),
			Status:  string(condition.Status),
			Reason:  condition.Reason,
			Message: text(condition.Message),
		})
	}
	for i := range status.CurrentMetrics {
		metric, err := json.Marshal(&status.CurrentMetrics[i])
		if err != nil {
			return oracle.Outcome{}, fmt.Errorf("marshal metric %d: %w", i, err)
		}
		outcome.CurrentMetrics = append(outcome.CurrentMetrics, metric)
	}
	return outcome, nil
}

// text is a message of the controller. A list of autoscalers comes in the order of
// a map, which two runs may agree on by chance.
func text(message string) oracle.Text {
	if strings.Contains(message, " are controlled by multiple HPAs: [") {
		return oracle.Text{Undetermined: true}
	}
	return oracle.Text{Value: message}
}
