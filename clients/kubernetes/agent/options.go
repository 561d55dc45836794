package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/client-go/tools/leaderelection"
)

// Options are the settings of an agent. All are required except where a default is named: those of
// the command have defaults and bounds.
type Options struct {
	// Cluster is the cluster's name at the service.
	Cluster string
	// Sources are the kinds of objects to reconcile.
	Sources []Source
	// Namespaces are the served namespaces. Default: all.
	Namespaces []string
	// SyncPeriod is the time between two reconciles of an object that sets none.
	SyncPeriod time.Duration
	// ProfilePeriods are the periods of Autoscalers that set none, by the profile that their
	// options name. Default: SyncPeriod.
	ProfilePeriods map[string]time.Duration
	// Workers is how many reconciles run at once.
	Workers int
	// RequestTimeout bounds a call of the cluster.
	RequestTimeout time.Duration
	// DrainTimeout bounds how long a stop waits for reconciles in flight.
	DrainTimeout time.Duration
	// Shadow makes a shadow of every object: nothing is applied or written.
	Shadow bool
	// KeepOn makes the agent act on HorizontalPodAutoscalers even if another controller writes
	// their status. Otherwise it gives way.
	KeepOn bool
	// NamedMetrics provides metrics of Autoscalers from the operator's sources, before the
	// cluster's metrics APIs are asked. Nil disables them.
	NamedMetrics NamedMetrics
	// Election elects the acting agent of a cluster. Nil: this one always acts.
	Election *Election
	// Registerer takes the metrics. Nil disables them.
	Registerer prometheus.Registerer
	// Log takes the lines.
	Log *zap.Logger
}

// Election is a leader election by a Lease.
type Election struct {
	// Namespace and Name are the Lease's. In a pod the namespace defaults to the pod's own.
	Namespace, Name string
	// LeaseDuration is how long others wait for a silent leader, RenewDeadline how long a
	// leader tries to renew before it gives up, RetryPeriod the time between attempts.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// MaxFailover is the longest time without an acting agent after a leader was killed, while the
// API server answers at once: a standby sees the last renewal up to a retry period late, waits
// for the Lease to expire, and tries again up to a retry period after that.
func (e *Election) MaxFailover() time.Duration {
	pause := e.RetryPeriod + time.Duration(leaderelection.JitterFactor*float64(e.RetryPeriod))
	return e.LeaseDuration + 2*pause
}
