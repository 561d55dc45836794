//go:build !js

package simulate

import (
	"fmt"
	"io"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
	"github.com/setpoint-dev/setpoint/simulation"
)

// ReadAutoscaler reads the one autoscaler of a manifest as the service reads a request about
// it: with the API's rules and defaults, and the options given.
func ReadAutoscaler(name string, r io.Reader, options *setpointv1.RecommendOptions) (*simulation.Autoscaler, error) {
	autoscalers, err := manifest.ReadAutoscalers(name, r)
	if err != nil {
		return nil, err
	}
	if len(autoscalers) != 1 {
		return nil, fmt.Errorf("%s: holds %d HorizontalPodAutoscalers, not one", name, len(autoscalers))
	}
	return NewAutoscaler(name, autoscalers[0], options)
}

// NewAutoscaler is ReadAutoscaler for an object that was read already; it fills in defaults.
func NewAutoscaler(name string, object *autoscalingv2.HorizontalPodAutoscaler, options *setpointv1.RecommendOptions) (*simulation.Autoscaler, error) {
	kubernetes.Defaults(object)
	snapshot := kubernetes.Snapshot{Autoscaler: object, Scale: &autoscalingv1.Scale{}}
	req, err := snapshot.Request("simulation")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	a, violations := FromMessage(object.Namespace, req.GetSpec(), options)
	if len(violations) > 0 {
		var text []string
		for _, v := range violations {
			text = append(text, name+": "+v.String())
		}
		return nil, fmt.Errorf("%s", strings.Join(text, "\n"))
	}
	return a, nil
}
