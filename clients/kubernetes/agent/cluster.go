package agent

import (
	"context"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
)

// reader reads what an autoscaler goes by, and writes the count. See package cluster,
// whose Reader it is.
type reader interface {
	Snapshot(ctx context.Context, autoscaler *autoscalingv2.HorizontalPodAutoscaler) (*kubernetes.Snapshot, error)
	Apply(ctx context.Context, snapshot *kubernetes.Snapshot, replicas int32) (*autoscalingv1.Scale, error)
	Forget(namespace, name string)
}

var _ reader = (*cluster.Reader)(nil)
