package v128

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	_ "unsafe" // for go:linkname

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	"k8s.io/kubernetes/pkg/controller/util/selectors"

	"github.com/setpoint-dev/setpoint/conformance/cluster"
	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// reconcileKey is what the worker of the controller calls for a key of its queue.
//
//go:linkname reconcileKey k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).reconcileKey
func reconcileKey(controller *podautoscaler.HorizontalController, ctx context.Context, key string) (deleted bool, err error)

// controller is a real controller that was made for one run, so it has no history.
type controller struct {
	*cluster.Cluster
	real     *podautoscaler.HorizontalController
	scenario *cluster.Scenario[autoscalingv2.HorizontalPodAutoscaler]
	// cache holds the HPA that the controller finds.
	cache cache.Indexer
	// hpa as it is stored, nil while there is none.
	hpa *autoscalingv2.HorizontalPodAutoscaler
	// selectors by HPA, as the controller keeps them.
	selectors *selectors.BiMultimap
}

func newDriver() oracle.Driver {
	// Logs are of no use, and one of the handlers of errors sleeps.
	klog.SetLogger(klog.Logger{})
	utilruntime.ErrorHandlers = nil
	return cluster.NewDriver(newController)
}

func newController(s *cluster.Scenario[autoscalingv2.HorizontalPodAutoscaler]) (cluster.Controller[autoscalingv2.HorizontalPodAutoscaler], error) {
	shown := &cluster.Cluster{}
	factory := informers.NewSharedInformerFactory(nil, 0)
	informer := factory.Autoscaling().V2().HorizontalPodAutoscalers()
	c := &controller{Cluster: shown, scenario: s, cache: informer.Informer().GetIndexer()}
	c.real = podautoscaler.NewHorizontalController(
		cluster.NoEvents{},
		scales{Cluster: shown},
		hpas{controller: c},
		cluster.NewMapper(),
		metrics.NewRESTMetricsClient(podMetrics{Cluster: shown}, cluster.CustomMetrics{Cluster: shown}, cluster.ExternalMetrics{Cluster: shown}),
		informer,
		cluster.PodInformer{PodInformer: factory.Core().V1().Pods(), Cluster: shown},
		15*time.Second, // the resync period, which only the queue and running informers look at
		s.Config.DownscaleStabilization.Duration(),
		s.Config.Tolerance,
		s.Config.CPUInitializationPeriod.Duration(),
		s.Config.InitialReadinessDelay.Duration(),
		true, // HPAContainerMetrics is on unless it is turned off.
	)
	c.selectors = *cluster.Field[*selectors.BiMultimap](c.real, "hpaSelectors")
	// What the constructor starts is of no use here, and would go on for ever.
	events := cluster.Field[record.EventRecorder](c.real, "eventRecorder")
	(*events).(interface{ Shutdown() }).Shutdown()
	*events = cluster.Recorder{Cluster: shown}
	(*cluster.Field[workqueue.RateLimitingInterface](c.real, "queue")).ShutDown()
	return c, nil
}

// Start implements cluster.Controller, as the other methods do.
func (c *controller) Start() error {
	for _, other := range c.scenario.OtherHPAs {
		// One whose selector is not known yet selects nothing.
		selector, err := labels.Parse(other.Selector)
		if err != nil || other.Selector == "" {
			selector = labels.Nothing()
		}
		c.selectors.PutSelector(selectors.Key{Namespace: other.Namespace, Name: other.Name}, selector)
	}
	c.appear(c.scenario.HPA.DeepCopy())
	return nil
}

// appear makes the HPA known, as the controller's handler of new ones does: it selects
// nothing until it is reconciled.
func (c *controller) appear(hpa *autoscalingv2.HorizontalPodAutoscaler) {
	c.hpa = hpa
	c.selectors.PutSelector(c.key(), labels.Nothing())
}

func (c *controller) Apply(changed *autoscalingv2.HorizontalPodAutoscaler) error {
	if c.hpa == nil {
		c.appear(&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: *c.scenario.HPA.ObjectMeta.DeepCopy()})
	}
	changed.Spec.DeepCopyInto(&c.hpa.Spec)
	return nil
}

func (c *controller) Delete() error {
	c.hpa = nil
	c.selectors.DeleteSelector(c.key())
	return c.cache.Replace(nil, "")
}

func (c *controller) Reconcile() (failure, err error) {
	if c.hpa != nil {
		// The status goes on in c.hpa, the controller may change its own copy.
		if err := c.cache.Replace([]any{c.hpa.DeepCopy()}, ""); err != nil {
			return nil, fmt.Errorf("store the HPA: %w", err)
		}
	}
	_, failure = reconcileKey(c.real, context.Background(), c.key().String())
	return failure, nil
}

func (c *controller) key() selectors.Key {
	return selectors.Key{Namespace: c.scenario.HPA.Namespace, Name: c.scenario.HPA.Name}
}

func (c *controller) Status() any {
	if c.hpa == nil {
		return nil
	}
	return &c.hpa.Status
}

// Finish sorts the names in the texts with a list of HPAs. It comes in the order of a
// map, which two runs may agree on by chance.
func (*controller) Finish(outcome *oracle.Outcome) { outcome.SortNames() }

func (*controller) End() error { return nil }

// hpas writes HPAs. The controller writes nothing but their status.
type hpas struct {
	autoscalingclient.HorizontalPodAutoscalerInterface
	controller *controller
}

func (c hpas) HorizontalPodAutoscalers(string) autoscalingclient.HorizontalPodAutoscalerInterface {
	return c
}

// UpdateStatus keeps the status as it comes back from an API server: through JSON,
// which has quantities in their canonical form.
func (c hpas) UpdateStatus(_ context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler, _ metav1.UpdateOptions) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	data, err := json.Marshal(&hpa.Status)
	if err != nil {
		return nil, err
	}
	status := &c.controller.hpa.Status
	*status = autoscalingv2.HorizontalPodAutoscalerStatus{}
	return hpa, json.Unmarshal(data, status)
}
