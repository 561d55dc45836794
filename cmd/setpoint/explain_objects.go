package main

import (
	"context"
	"encoding/json"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	autoscalingcrd "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

// asJSONClient makes a config one of a client that hands out what the API server
// answers, in JSON.
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

// autoscaler reads one, and the options that it sets itself.
func (l *liveCluster) autoscaler(ctx context.Context, kind liveKind, namespace, name string) (*autoscalingv2.HorizontalPodAutoscaler, *setpointv1.RecommendOptions, error) {
	if kind == hpaKind {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{}
		err := l.get(ctx, autoscalingv2.SchemeGroupVersion, "horizontalpodautoscalers", namespace, name, hpa)
		return hpa, nil, err
	}
	own := &autoscalingcrd.Autoscaler{}
	if err := l.get(ctx, autoscalingcrd.GroupVersion, "autoscalers", namespace, name, own); err != nil {
		return nil, nil, err
	}
	hpa := own.HorizontalPodAutoscaler()
	kubernetes.Defaults(hpa)
	return hpa, own.Spec.Options.ToProto(), nil
}

// neighbors lists the autoscalers of a namespace, both sorts. A cluster need not
// have setpoint's own.
func (l *liveCluster) neighbors(ctx context.Context, namespace string) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	if err := l.get(ctx, autoscalingv2.SchemeGroupVersion, "horizontalpodautoscalers", namespace, "", &hpas); err != nil {
		return nil, err
	}
	all := hpas.Items
	var own autoscalingcrd.AutoscalerList
	if err := l.get(ctx, autoscalingcrd.GroupVersion, "autoscalers", namespace, "", &own); err == nil {
		for i := range own.Items {
			all = append(all, *own.Items[i].HorizontalPodAutoscaler())
		}
	}
	return all, nil
}
