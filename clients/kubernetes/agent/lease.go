package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/transport"
)

// lock is a Lease that a standby takes over as soon as it has expired by the API server's own
// clock. client-go alone waits for a whole lease from when it first saw the last renewal, which
// after an outage of the API server, or in a new process, is only now.
//
// Neither agent's clock counts: the API server stamps each renewal in the managed fields, and
// each answer with its time. See docs/decisions/the-lease-by-the-servers-clock.md.
type lock struct {
	resourcelock.LeaseLock
	client leases
}

// stampPrecision is how exact the API server's stamps are together.
const stampPrecision = 2 * time.Second

// newLock returns the agents' lock.
func newLock(config *rest.Config, e *Election, scheme *runtime.Scheme, events *events) (*lock, error) {
	config = rest.CopyConfig(config)
	// Renewals must not queue behind reads, and a single one must not take all the time.
	config.RateLimiter, config.QPS, config.Timeout = nil, -1, e.RenewDeadline/2
	l := &lock{}
	config.Wrap(l.client.dated)
	var err error
	if l.client.CoordinationV1Interface, err = coordinationclient.NewForConfig(config); err != nil {
		return nil, err
	}
	namespace := e.Namespace
	if namespace == "" {
		if namespace, err = PodNamespace(); err != nil {
			return nil, err
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	identity := host + "_" + string(uuid.NewUUID())
	l.LeaseLock = resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: e.Name}, Client: &l.client,
		LockConfig: resourcelock.ResourceLockConfig{
			Identity: identity, EventRecorder: events.broadcaster.NewRecorder(scheme, corev1.EventSource{Component: identity}),
		},
	}
	return l, nil
}

// PodNamespace returns the namespace of the pod that the agent runs in.
func PodNamespace() (string, error) {
	text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return "", errors.New("leader election outside a pod needs the namespace of the Lease (--leader-elect-namespace)")
	}
	return strings.TrimSpace(string(text)), nil
}

// Get implements resourcelock.Interface: an expired Lease has no holder. If the holder renews it
// after all, the API server refuses the candidate's update.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if err != nil || record.HolderIdentity == "" || record.HolderIdentity == l.Identity() {
		return record, raw, err
	}
	if age, ok := l.client.age(); ok && age > time.Duration(record.LeaseDurationSeconds)*time.Second+stampPrecision {
		record.HolderIdentity = ""
		raw = fmt.Appendf(raw, " expired")
	}
	return record, raw, nil
}

// leases reads and writes Leases. It remembers the last one that was read, and when, by the API
// server's clock.
type leases struct {
	coordinationclient.CoordinationV1Interface
	date atomic.Pointer[time.Time]
	read atomic.Pointer[coordinationv1.Lease]
}

// Leases implements coordinationclient.LeasesGetter.
func (l *leases) Leases(namespace string) coordinationclient.LeaseInterface {
	return leaseReader{l.CoordinationV1Interface.Leases(namespace), l}
}

// age returns how long before the last answer the Lease that was read was last written; false:
// unknown.
func (l *leases) age() (time.Duration, bool) {
	lease, now := l.read.Load(), l.date.Load()
	if lease == nil || now == nil {
		return 0, false
	}
	var last time.Time
	for _, f := range lease.ManagedFields {
		if f.Time != nil && f.Time.After(last) {
			last = f.Time.Time
		}
	}
	return now.Sub(last), !last.IsZero()
}

type leaseReader struct {
	coordinationclient.LeaseInterface
	leases *leases
}

// Get implements coordinationclient.LeaseInterface.
func (r leaseReader) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease, err := r.LeaseInterface.Get(ctx, name, o)
	r.leases.read.Store(lease)
	return lease, err
}

// dated remembers when the last request of a transport was answered, by the server's clock.
func (l *leases) dated(next http.RoundTripper) http.RoundTripper {
	return transport.Around(next, func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		l.date.Store(nil)
		if err == nil {
			if at, err := http.ParseTime(response.Header.Get("Date")); err == nil {
				l.date.Store(&at)
			}
		}
		return response, err
	})
}
