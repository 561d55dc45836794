package v137

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	_ "unsafe" // for go:linkname

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	"k8s.io/kubernetes/pkg/features"
)

// The real controller's functions that its queue and its informers call.

//go:linkname reconcileKey k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).reconcileKey
func reconcileKey(c *podautoscaler.HorizontalController, ctx context.Context, key string) (deleted bool, err error)

//go:linkname enqueueHPA k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).enqueueHPA
func enqueueHPA(c *podautoscaler.HorizontalController, obj any)

//go:linkname deleteHPA k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).deleteHPA
func deleteHPA(c *podautoscaler.HorizontalController, obj any)

//go:linkname validateAndParseSelector k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).validateAndParseSelector
func validateAndParseSelector(c *podautoscaler.HorizontalController, hpa *autoscalingv2.HorizontalPodAutoscaler, selector string) (labels.Selector, error)

// controller is a real controller and the cluster it talks to.
type controller struct {
	*cluster
	real *podautoscaler.HorizontalController
}

// newController calls the real constructor. What that starts, a queue and a sender of
// events, is stopped again, for the queue is not used and events are kept as they are
// sent.
func newController(config config) *controller {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cluster := newCluster()
	c := &controller{cluster: cluster, real: podautoscaler.NewHorizontalController(
		ctx,
		noEvents{},
		cluster,
		cluster,
		newMapper(),
		metrics.NewRESTMetricsClient(resourceMetrics{cluster}, customMetrics{cluster}, externalMetrics{cluster}),
		hpaInformer{cluster},
		podInformer{cluster},
		0, // the resync period, which only the queue and running informers look at
		seconds(config.DownscaleStabilizationSeconds),
		config.Tolerance,
		seconds(config.CPUInitializationPeriodSeconds),
		seconds(config.InitialReadinessDelaySeconds),
	)}
	*field[record.EventRecorder](c.real, "eventRecorder") = recorder{cluster}
	(*field[workqueue.TypedRateLimitingInterface[string]](c.real, "queue")).ShutDown()
	return c
}

// field gives access to an unexported field of a controller.
func field[T any](c *podautoscaler.HorizontalController, name string) *T {
	f := reflect.ValueOf(c).Elem().FieldByName(name)
	if f.Type() != reflect.TypeFor[T]() {
		panic(fmt.Sprintf("the controller's %s is a %s", name, f.Type()))
	}
	return (*T)(f.Addr().UnsafePointer())
}

// know registers an HPA as its informer does, with the selector that a reconcile of
// it has found on its scale last. One whose scale was never read selects nothing.
func (c *controller) know(hpa *autoscalingv2.HorizontalPodAutoscaler, selector string) {
	enqueueHPA(c.real, hpa)
	if selector != "" {
		_, _ = validateAndParseSelector(c.real, hpa, selector) // keeps it if it parses
	}
}

// forget drops what the controller knows of an HPA, as its informer and then its
// queue do when it was deleted.
func (c *controller) forget(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
	deleteHPA(c.real, hpa)
	deleted, err := c.reconcile(hpa)
	if err == nil && !deleted {
		err = errors.New("the HPA is still there")
	}
	return err
}

// reconcile has the controller reconcile the HPA, and tells whether it was deleted.
func (c *controller) reconcile(hpa *autoscalingv2.HorizontalPodAutoscaler) (deleted bool, err error) {
	return reconcileKey(c.real, context.Background(), hpa.Namespace+"/"+hpa.Name)
}

// setGates switches the feature gate that scenarios switch. The others keep the
// defaults of the version.
func setGates(config config) error {
	if utilfeature.DefaultFeatureGate.Enabled(features.HPAScaleToZero) == config.ScaleToZero {
		return nil
	}
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.HPAScaleToZero): config.ScaleToZero})
}

// named is another HPA, of which the controller looks at the name only.
func named(other otherHPA) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: other.Name, Namespace: other.Namespace}}
}
