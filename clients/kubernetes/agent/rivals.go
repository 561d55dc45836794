package agent

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// Names under which the API server records the writers of a field.
const (
	// fieldManager is the name of every agent.
	fieldManager = "setpoint-agent"
	// BuiltInManager is the name of the built-in controller, as a part of its controller
	// manager.
	BuiltInManager = "kube-controller-manager"
	// oldManagers replaces managers that the API server merged because there were too many.
	oldManagers = "ancient-changes"
)

// rivalQuiet is how long no other controller must have written a status before the agent acts
// on an object again; two periods of the object if that is longer.
const rivalQuiet = 5 * time.Minute

// rivalWarnings is the time between two warnings in the log, of all objects together.
const rivalWarnings = 5 * time.Minute

// keepStatusWriters reduces the managed fields of a HorizontalPodAutoscaler to the writers of
// its status and their times: the rest is most of an object's size. It is a transform of the
// cache.
func keepStatusWriters(stored any) (any, error) {
	hpa, ok := stored.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return stored, nil
	}
	var kept []metav1.ManagedFieldsEntry
	for _, f := range hpa.ManagedFields {
		if f.Subresource == "status" {
			kept = append(kept, metav1.ManagedFieldsEntry{Manager: f.Manager, Operation: f.Operation, Time: f.Time, Subresource: f.Subresource})
		}
	}
	hpa.ManagedFields = kept
	return hpa, nil
}

// LastStatusWriter returns the last writer of a status other than an agent, and when it wrote, by the
// API server's clock; "": none.
func LastStatusWriter(hpa *autoscalingv2.HorizontalPodAutoscaler) (manager string, at time.Time) {
	for i := range hpa.ManagedFields {
		f := &hpa.ManagedFields[i]
		if f.Subresource != "status" || f.Manager == fieldManager || f.Manager == oldManagers || f.Time == nil {
			continue
		}
		if manager == "" || f.Time.After(at) || f.Time.Time.Equal(at) && f.Manager == BuiltInManager {
			manager, at = f.Manager, f.Time.Time
		}
	}
	return manager, at
}

// rivalry is the state of another controller that writes the status of an object.
type rivalry struct {
	// looked reports whether there was a first look: an earlier writer may have stopped.
	looked bool
	// wrote is the last write of another writer, by the API server's clock.
	wrote time.Time
	// manager has written since the first look; noticed is when this agent saw that, by its own
	// clock.
	manager string
	noticed time.Time
	// certain reports whether the writer is a controller: the built-in one, by its name, or any
	// other that writes repeatedly. A person who clears a status writes once.
	certain bool
}

// quietOf is how long no other controller must have written the status of an object with that
// period.
func quietOf(period time.Duration) time.Duration { return max(rivalQuiet, 2*period) }

// look examines an object's current version, and reports whether another controller has written
// its status since the last look.
func (v *rivalry) look(now time.Time, o *object) (written bool) {
	hpa, ok := o.stored.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok || o.shadow {
		// Only agents write to an Autoscaler; a shadow's status is written by its controller.
		*v = rivalry{}
		return false
	}
	quiet := quietOf(o.period)
	if v.certain && now.Sub(v.noticed) >= quiet {
		v.certain = false
	}
	manager, at := LastStatusWriter(hpa)
	first := !v.looked
	v.looked = true
	if !at.After(v.wrote) {
		return false
	}
	v.wrote = at
	if first {
		return false
	}
	again := !v.noticed.IsZero() && now.Sub(v.noticed) < quiet
	v.manager, v.noticed = manager, now
	v.certain = v.certain || again || manager == BuiltInManager
	return true
}

// rivals detects and reports the rivals of all objects.
type rivals struct {
	metrics *metrics
	log     *zap.Logger
	// keepOn makes the agent act despite rivals.
	keepOn bool

	mu      sync.Mutex
	objects int       // with a rival; guarded by mu
	warned  time.Time // guarded by mu
}

// notice examines an object before its reconcile.
func (l *rivals) notice(s seen) {
	now, was := time.Now(), s.rivalry.certain
	if s.rivalry.look(now, s.object) {
		l.metrics.rivalWrites.Inc()
		if s.rivalry.certain {
			defer l.warn(now, s)
		}
	}
	if is := s.rivalry.certain; is != was {
		l.count(is)
		if !is && !s.shadow {
			l.log.Info("no other controller has written the status for a while, acting again", zap.Stringer("object", s.key))
		}
	}
}

// forget drops the rivalry of an object.
func (l *rivals) forget(m *kept) {
	if m.rivalry.certain {
		l.count(false)
	}
	m.rivalry = rivalry{}
}

func (l *rivals) count(more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if more {
		l.objects++
	} else {
		l.objects--
	}
	l.metrics.rivalObjects.Set(float64(l.objects))
}

// warn logs a warning, rate limited: every object may have a rival.
func (l *rivals) warn(now time.Time, s seen) {
	l.mu.Lock()
	objects, soon := l.objects, !l.warned.IsZero() && now.Sub(l.warned) < rivalWarnings
	if !soon {
		l.warned = now
	}
	l.mu.Unlock()
	if soon {
		return
	}
	l.log.Warn("another controller writes the status of HorizontalPodAutoscalers that this agent acts on; is the built-in controller still on (kube-controller-manager --controllers=*,-horizontal-pod-autoscaler-controller switches it off)?",
		zap.String("manager", s.rivalry.manager), zap.Stringer("object", s.key), zap.Int("objects", objects), zap.Bool("givesWay", !l.keepOn))
}

// withRivalry returns the status of a HorizontalPodAutoscaler with the condition
// ConflictingController if it has a rival, without it if it has none. The status given is
// not changed.
func (l *rivals) withRivalry(s seen, status *autoscalingv2.HorizontalPodAutoscalerStatus) *autoscalingv2.HorizontalPodAutoscalerStatus {
	had := conditionOf(statusOf(s.stored()), ConflictingController)
	is := s.rivalry.certain
	if !is && conditionOf(status, ConflictingController) == nil {
		return status
	}
	next := status.DeepCopy()
	next.Conditions = slices.DeleteFunc(next.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == ConflictingController
	})
	if !is {
		return next
	}
	since := metav1.NewTime(s.rivalry.noticed).Rfc3339Copy()
	if had != nil && had.Status == corev1.ConditionTrue {
		since = had.LastTransitionTime
	}
	next.Conditions = append(next.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{
		Type: ConflictingController, Status: corev1.ConditionTrue, Reason: agent.ReasonStatusWrittenByAnother,
		Message: l.message(s), LastTransitionTime: since,
	})
	return next
}

// message names the rival and the consequence.
func (l *rivals) message(s seen) string {
	text := fmt.Sprintf("%q writes the status of this object, too; is the built-in controller still on? ", s.rivalry.manager)
	if l.keepOn {
		return text + "Setpoint acts nevertheless, as --on-rival says"
	}
	return text + fmt.Sprintf("Setpoint gives way, and acts again when no other controller has written it for %s", quietOf(s.period))
}
