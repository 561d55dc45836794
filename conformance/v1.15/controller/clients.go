package controller

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v1"
	"k8s.io/client-go/scale"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/conformance/cluster"
)

// Clients creates the clients whose methods have a context in v1.19 but not in v1.15.
type Clients struct {
	// Scales reads and writes the scale that the cluster shows.
	Scales func(*cluster.Cluster) scale.ScalesGetter
	// PodMetrics reads the pod metrics that the cluster shows.
	PodMetrics func(*cluster.Cluster) resourceclient.PodMetricsesGetter
	// HPAs returns a client that passes the HPAs whose status it writes to keep.
	HPAs func(keep func(*autoscalingv1.HorizontalPodAutoscaler) error) autoscalingclient.HorizontalPodAutoscalersGetter
}
