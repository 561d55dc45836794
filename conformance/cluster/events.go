package cluster

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// Recorder records events at once. The real one sends them later, and aggregates
// similar ones.
type Recorder struct{ *Cluster }

// Event records an event.
func (r Recorder) Event(_ runtime.Object, eventType, reason, message string) {
	r.events = append(r.events, oracle.Event{Type: eventType, Reason: reason, Message: oracle.Text{Value: message}})
}

// Eventf records an event.
func (r Recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf records an event without its annotations.
func (r Recorder) AnnotatedEventf(object runtime.Object, _ map[string]string, eventType, reason, format string, args ...any) {
	r.Eventf(object, eventType, reason, format, args...)
}

// PastEventf records an event. Only recorders of v1.15 have it.
func (r Recorder) PastEventf(object runtime.Object, _ metav1.Time, eventType, reason, format string, args ...any) {
	r.Eventf(object, eventType, reason, format, args...)
}

// NoEvents replaces the client to which the controller's own recorder would write.
type NoEvents struct{}

// Events returns no client.
func (NoEvents) Events(string) coreclient.EventInterface { return nil }
