package controller

import (
	"fmt"
	"time"
	_ "unsafe" // for go:linkname

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2beta2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install" // the conversions
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"

	"github.com/setpoint-dev/setpoint/conformance/cluster"
	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// reconcileKey is what the worker of the controller calls for a key of its queue.
//
//go:linkname reconcileKey k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).reconcileKey
func reconcileKey(controller *podautoscaler.HorizontalController, key string) (deleted bool, err error)

// controller is a real controller created for one run, so it has no history.
type controller struct {
	*cluster.Cluster
	real *podautoscaler.HorizontalController
	// cache has the HPA that the controller reads.
	cache cache.Indexer
	// hpa as a user of the API sees it, nil if there is none.
	hpa   *autoscalingv2.HorizontalPodAutoscaler
	first *autoscalingv2.HorizontalPodAutoscaler
}

// NewDriver returns a driver. It disables the handlers of errors for the whole program.
func NewDriver(clients Clients) oracle.Driver {
	utilruntime.ErrorHandlers = nil // one of them sleeps
	return cluster.NewDriver(clients.controller)
}

func (clients Clients) controller(s *cluster.Scenario[autoscalingv2.HorizontalPodAutoscaler]) (cluster.Controller[autoscalingv2.HorizontalPodAutoscaler], error) {
	shown := &cluster.Cluster{}
	factory := informers.NewSharedInformerFactory(nil, 0)
	hpas := factory.Autoscaling().V1().HorizontalPodAutoscalers()
	c := &controller{Cluster: shown, cache: hpas.Informer().GetIndexer(), first: s.HPA}
	c.real = podautoscaler.NewHorizontalController(
		cluster.NoEvents{},
		clients.Scales(shown),
		clients.HPAs(c.keep),
		cluster.NewMapper(),
		metrics.NewRESTMetricsClient(clients.PodMetrics(shown), cluster.CustomMetrics{Cluster: shown}, cluster.ExternalMetrics{Cluster: shown}),
		hpas,
		cluster.PodInformer{PodInformer: factory.Core().V1().Pods(), Cluster: shown},
		15*time.Second, // the resync period, which only the queue and running informers use
		s.Config.DownscaleStabilization.Duration(),
		s.Config.Tolerance,
		s.Config.CPUInitializationPeriod.Duration(),
		s.Config.InitialReadinessDelay.Duration(),
	)
	// The goroutines of the constructor are of no use here, and would run for ever.
	events := cluster.Field[record.EventRecorder](c.real, "eventRecorder")
	(*events).(interface{ Shutdown() }).Shutdown()
	*events = cluster.Recorder{Cluster: shown}
	(*cluster.Field[workqueue.RateLimitingInterface](c.real, "queue")).ShutDown()
	return c, nil
}

// Start implements cluster.Controller, as the other methods do. The controllers of
// these versions ignore other HPAs.
func (c *controller) Start() error {
	c.hpa = c.first.DeepCopy()
	return nil
}

func (c *controller) Apply(changed *autoscalingv2.HorizontalPodAutoscaler) error {
	if c.hpa == nil {
		c.hpa = &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: *c.first.ObjectMeta.DeepCopy()}
	}
	c.hpa.Spec = *changed.Spec.DeepCopy()
	return nil
}

func (c *controller) Delete() error {
	c.hpa = nil
	return c.cache.Replace(nil, "")
}

// Reconcile reconciles the HPA as it is stored.
func (c *controller) Reconcile() (failure, err error) {
	if c.hpa != nil {
		stored, err := convert(c.hpa.DeepCopy(), autoscalingv1.SchemeGroupVersion)
		if err != nil {
			return nil, fmt.Errorf("convert the HPA: %w", err)
		}
		if err := c.cache.Replace([]any{stored}, ""); err != nil {
			return nil, fmt.Errorf("store the HPA: %w", err)
		}
	}
	_, failure = reconcileKey(c.real, c.first.Namespace+"/"+c.first.Name)
	return failure, nil
}

// keep stores a written status in the form that the API server returns.
func (c *controller) keep(written *autoscalingv1.HorizontalPodAutoscaler) error {
	hpa, err := convert(written.DeepCopy(), autoscalingv2.SchemeGroupVersion)
	if err == nil {
		c.hpa.Status = hpa.(*autoscalingv2.HorizontalPodAutoscaler).Status
	}
	return err
}

// convert converts an HPA to another version through the internal one, as the API
// server does. It modifies the object.
func convert(object runtime.Object, version schema.GroupVersion) (runtime.Object, error) {
	internal := schema.GroupVersion{Group: version.Group, Version: runtime.APIVersionInternal}
	object, err := legacyscheme.Scheme.UnsafeConvertToVersion(object, internal)
	if err != nil {
		return nil, err
	}
	return legacyscheme.Scheme.UnsafeConvertToVersion(object, version)
}

func (c *controller) Status() any {
	if c.hpa == nil {
		return nil
	}
	return &c.hpa.Status
}

func (*controller) Finish(*oracle.Outcome) {}

func (*controller) End() error { return nil }
