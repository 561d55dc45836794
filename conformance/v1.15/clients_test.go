package v115

import (
	"flag"
	"io"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v1"
	"k8s.io/client-go/scale"
	"k8s.io/klog"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/conformance/cluster"
	"github.com/setpoint-dev/setpoint/conformance/oracle"
	"github.com/setpoint-dev/setpoint/conformance/v1-15/controller"
)

func newDriver() oracle.Driver {
	// Logs are of no use.
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
	return controller.NewDriver(controller.Clients{
		Scales:     func(c *cluster.Cluster) scale.ScalesGetter { return scales{Cluster: c} },
		PodMetrics: func(c *cluster.Cluster) resourceclient.PodMetricsesGetter { return podMetrics{Cluster: c} },
		HPAs: func(keep func(*autoscalingv1.HorizontalPodAutoscaler) error) autoscalingclient.HorizontalPodAutoscalersGetter {
			return hpas{keep: keep}
		},
	})
}

// hpas writes HPAs. The controller writes nothing but their status.
type hpas struct {
	autoscalingclient.HorizontalPodAutoscalerInterface
	keep func(*autoscalingv1.HorizontalPodAutoscaler) error
}

func (c hpas) HorizontalPodAutoscalers(string) autoscalingclient.HorizontalPodAutoscalerInterface {
	return c
}

func (c hpas) UpdateStatus(hpa *autoscalingv1.HorizontalPodAutoscaler) (*autoscalingv1.HorizontalPodAutoscaler, error) {
	return hpa, c.keep(hpa)
}

// scales reads and writes the scale of the target.
type scales struct {
	scale.ScaleInterface
	*cluster.Cluster
}

func (c scales) Scales(string) scale.ScaleInterface { return c }

func (c scales) Get(schema.GroupResource, string) (*autoscalingv1.Scale, error) {
	return c.ReadScale()
}

func (c scales) Update(_ schema.GroupResource, updated *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	return c.WriteScale(updated)
}

// podMetrics is the API metrics.k8s.io.
type podMetrics struct {
	resourceclient.PodMetricsInterface
	*cluster.Cluster
	namespace string
}

func (m podMetrics) PodMetricses(namespace string) resourceclient.PodMetricsInterface {
	m.namespace = namespace
	return m
}

func (m podMetrics) List(options metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
	return m.PodMetrics(m.namespace, options)
}
