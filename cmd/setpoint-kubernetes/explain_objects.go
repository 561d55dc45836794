package main

import (
	"context"
	"encoding/json"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent"
	autoscalingcrd "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

// asJSONClient changes a config for a client that returns the API server's answers as JSON.
func asJSONClient(config *rest.Config) *rest.Config {
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.GroupVersion = &schema.GroupVersion{}
	return config
}

// get reads an object or, without a name, a list of a namespace.
func (l *liveCluster) get(ctx context.Context, version schema.GroupVersion, resource, namespace, name string, into any) error {
	request := l.objects.Get().AbsPath("/apis", version.Group, version.Version).Namespace(namespace).Resource(resource)
	if name != "" {
		request = request.Name(name)
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return err
	}
	data, err := result.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("reading %s: %w", resource, err)
	}
	return nil
}

// read reads an autoscaler.
func (l *liveCluster) read(ctx context.Context, kind liveKind, namespace, name string) (client.Object, error) {
	if kind == hpaKind {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{}
		return hpa, l.get(ctx, autoscalingv2.SchemeGroupVersion, "horizontalpodautoscalers", namespace, name, hpa)
	}
	own := &autoscalingcrd.Autoscaler{}
	err := l.get(ctx, autoscalingcrd.GroupVersion, "autoscalers", namespace, name, own)
	if apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) { // not of an object
		err = fmt.Errorf("--live: the cluster has no kind Autoscaler of %s: install its CustomResourceDefinition, or name an hpa/NAME", autoscalingcrd.GroupVersion.Group)
	}
	return own, err
}

// optionsOf are the autoscaler's own options, nil: none. An API server that has taken an HPA with minReplicas 0 has
// HPAScaleToZero on.
func optionsOf(stored client.Object) *setpointv1.RecommendOptions {
	if own, ok := stored.(*autoscalingcrd.Autoscaler); ok {
		return own.Spec.Options.ToProto()
	}
	if hpa, ok := stored.(*autoscalingv2.HorizontalPodAutoscaler); ok && hpa.Spec.MinReplicas != nil && *hpa.Spec.MinReplicas == 0 {
		return &setpointv1.RecommendOptions{ScaleToZero: new(true)}
	}
	return nil
}

// standing reads the autoscalers of the namespace, of both kinds, and returns the standing of
// this one for an agent. A cluster may lack setpoint's own kind.
func (l *liveCluster) standing(ctx context.Context, stored client.Object) (agent.Standing, error) {
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	if err := l.get(ctx, autoscalingv2.SchemeGroupVersion, "horizontalpodautoscalers", stored.GetNamespace(), "", &hpas); err != nil {
		return agent.Standing{}, err
	}
	var own autoscalingcrd.AutoscalerList
	if err := l.get(ctx, autoscalingcrd.GroupVersion, "autoscalers", stored.GetNamespace(), "", &own); err != nil {
		own.Items = nil
	}
	return agent.StandingOf(stored, hpas.Items, own.Items), nil
}
