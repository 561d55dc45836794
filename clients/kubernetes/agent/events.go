package agent

import (
	"context"
	"net/http"
	"sync/atomic"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/logging"
)

// eventComponent is the source of events: the upstream controller's name, which users know.
const eventComponent = "horizontal-pod-autoscaler"

// events sends events, as the upstream controller does.
type events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	stopped     atomic.Bool
}

func newEvents(config *rest.Config, connections *http.Client, scheme *runtime.Scheme, log *zap.Logger) (*events, error) {
	core, err := corev1client.NewForConfigAndClient(config, connections)
	if err != nil {
		return nil, err
	}
	lines := logging.NewEvents(log)
	broadcaster := record.NewBroadcaster(record.WithContext(klog.NewContext(context.Background(), lines)))
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: core.Events("")})
	e := &events{broadcaster: broadcaster}
	e.recorder = &untilStopped{EventRecorder: broadcaster.NewRecorder(scheme, corev1.EventSource{Component: eventComponent}), events: e}
	return e, nil
}

func (e *events) stop() {
	e.stopped.Store(true)
	e.broadcaster.Shutdown()
}

// untilStopped drops events after stop: reconciles in flight of an agent that lost the
// leadership may still send some.
type untilStopped struct {
	record.EventRecorder
	events *events
}

// Event implements record.EventRecorder.
func (u *untilStopped) Event(object runtime.Object, kind, reason, message string) {
	if !u.events.stopped.Load() {
		u.EventRecorder.Event(object, kind, reason, message)
	}
}
