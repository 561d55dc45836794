package agent

import (
	"context"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/named"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
)

// reader reads the input of decisions and writes the count. See cluster.Reader.
type reader interface {
	Snapshot(ctx context.Context, autoscaler *autoscalingv2.HorizontalPodAutoscaler) (*kubernetes.Snapshot, error)
	Apply(ctx context.Context, snapshot *kubernetes.Snapshot, replicas int32) (*autoscalingv1.Scale, error)
	Forget(namespace, name string)
}

var _ reader = (*cluster.Reader)(nil)

// NamedMetrics are metrics that are read from sources of the operator's, as a samples.Set has them.
type NamedMetrics = named.Metrics

// snapshotFor reads what an evaluation of an object goes by. Only Autoscalers have named metrics:
// HorizontalPodAutoscalers get what the metrics APIs say, as from the built-in controller.
func snapshotFor(ctx context.Context, metrics named.Reader, from named.Snapshots, o *object) (*kubernetes.Snapshot, error) {
	if sourceOf(o.key) != Autoscaler {
		return from.Snapshot(ctx, o.autoscaler)
	}
	return metrics.Snapshot(ctx, from, o.autoscaler)
}

// SnapshotOf reads what an agent's evaluation of an autoscaler goes by, as it is stored: an
// Autoscaler, or a HorizontalPodAutoscaler. Named metrics, which may be nil, take at most the
// timeout.
func SnapshotOf(ctx context.Context, from *cluster.Reader, stored client.Object, metrics NamedMetrics, timeout time.Duration) (*kubernetes.Snapshot, error) {
	o := objectOf(stored)
	if o == nil {
		return nil, kubernetes.ErrNoAutoscaler
	}
	return snapshotFor(ctx, named.Reader{Metrics: metrics, Timeout: timeout}, from, o)
}
