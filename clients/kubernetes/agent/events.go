package agent

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// eventComponent is who events come from: the name of the upstream controller, so that
// people find what they know.
const eventComponent = "horizontal-pod-autoscaler"

// events sends events, as the upstream controller does.
type events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

func newEvents(config *rest.Config, connections *http.Client, scheme *runtime.Scheme) (*events, error) {
	core, err := corev1client.NewForConfigAndClient(config, connections)
	if err != nil {
		return nil, err
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: core.Events("")})
	return &events{
		broadcaster: broadcaster,
		recorder:    broadcaster.NewRecorder(scheme, corev1.EventSource{Component: eventComponent}),
	}, nil
}

func (e *events) stop() { e.broadcaster.Shutdown() }
