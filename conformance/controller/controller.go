package controller

import (
	"context"
	_ "unsafe" // for go:linkname

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	"k8s.io/kubernetes/pkg/features"

	"github.com/setpoint-dev/setpoint/conformance/cluster"
)

// Functions of the real controller that its queue and its informers call.

//go:linkname reconcileKey k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).reconcileKey
func reconcileKey(c *podautoscaler.HorizontalController, ctx context.Context, key string) (deleted bool, err error)

//go:linkname enqueueHPA k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).enqueueHPA
func enqueueHPA(c *podautoscaler.HorizontalController, obj any)

//go:linkname deleteHPA k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).deleteHPA
func deleteHPA(c *podautoscaler.HorizontalController, obj any)

//go:linkname validateAndParseSelector k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).validateAndParseSelector
func validateAndParseSelector(c *podautoscaler.HorizontalController, hpa *autoscalingv2.HorizontalPodAutoscaler, selector string) (labels.Selector, error)

// controller is a real controller and its cluster. Scenarios with the same config use
// it in turn.
type controller struct {
	*cluster.Cluster
	*hpas
	real *podautoscaler.HorizontalController
}

// newController calls the real constructor, and stops what that starts: the queue,
// which is not used, and the sender of events, which are recorded at once.
func newController(config cluster.Config) *controller {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The informers never run: the driver fills their caches.
	factory := informers.NewSharedInformerFactory(nil, 0)
	shown, hpas := &cluster.Cluster{}, &hpas{informer: factory.Autoscaling().V2().HorizontalPodAutoscalers()}
	c := &controller{Cluster: shown, hpas: hpas, real: podautoscaler.NewHorizontalController(
		ctx,
		cluster.NoEvents{},
		scales{Cluster: shown},
		hpaClient{hpas: hpas},
		cluster.NewMapper(),
		metrics.NewRESTMetricsClient(podMetrics{Cluster: shown}, cluster.CustomMetrics{Cluster: shown}, cluster.ExternalMetrics{Cluster: shown}),
		hpas.informer,
		cluster.PodInformer{PodInformer: factory.Core().V1().Pods(), Cluster: shown},
		0, // the resync period, which only the queue and running informers use
		config.DownscaleStabilization.Duration(),
		config.Tolerance,
		config.CPUInitializationPeriod.Duration(),
		config.InitialReadinessDelay.Duration(),
	)}
	*cluster.Field[record.EventRecorder](c.real, "eventRecorder") = cluster.Recorder{Cluster: shown}
	(*cluster.Field[workqueue.TypedRateLimitingInterface[string]](c.real, "queue")).ShutDown()
	return c
}

// know registers an HPA as its informer does, with the last selector that a reconcile
// found on its scale. Without one it selects nothing.
func (c *controller) know(hpa *autoscalingv2.HorizontalPodAutoscaler, selector string) {
	enqueueHPA(c.real, hpa)
	if selector != "" {
		_, _ = validateAndParseSelector(c.real, hpa, selector) // caches it if it is valid
	}
}

// reconcile reconciles the HPA, and reports whether it was deleted.
func (c *controller) reconcile(hpa *autoscalingv2.HorizontalPodAutoscaler) (deleted bool, err error) {
	return reconcileKey(c.real, context.Background(), hpa.Namespace+"/"+hpa.Name)
}

// setGates sets the feature gate of scenarios. The others keep the version's defaults.
func setGates(config cluster.Config) error {
	if utilfeature.DefaultFeatureGate.Enabled(features.HPAScaleToZero) == config.ScaleToZero {
		return nil
	}
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.HPAScaleToZero): config.ScaleToZero})
}
