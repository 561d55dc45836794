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

// NamedMetrics are metrics read from the operator's sources, as by a samples.Set.
type NamedMetrics = named.Metrics

// snapshotFor reads the input of an object's evaluation. Only Autoscalers have named metrics:
// HorizontalPodAutoscalers see only the metrics APIs, as with the built-in controller.
func snapshotFor(ctx context.Context, metrics named.Reader, from named.Snapshots, o *object) (*kubernetes.Snapshot, error) {
	if sourceOf(o.key) != Autoscaler {
		return from.Snapshot(ctx, o.autoscaler)
	}
	return metrics.Snapshot(ctx, from, o.autoscaler)
}

// SnapshotOf reads the input of an agent's evaluation of a stored Autoscaler or
// HorizontalPodAutoscaler. Reading named metrics, which may be nil, takes at most the timeout.
func SnapshotOf(ctx context.Context, from *cluster.Reader, stored client.Object, metrics NamedMetrics, timeout time.Duration) (*kubernetes.Snapshot, error) {
	o := objectOf(stored)
	if o == nil {
		return nil, kubernetes.ErrNoAutoscaler
	}
	return snapshotFor(ctx, named.Reader{Metrics: metrics, Timeout: timeout}, from, o)
}
