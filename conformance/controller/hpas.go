package controller

import (
	"context"
	"encoding/json"
	"strconv"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
	"k8s.io/client-go/tools/cache"
)

// hpas are the stored HPAs, which the controller's cache shows at once.
type hpas struct {
	informer autoscalinginformers.HorizontalPodAutoscalerInformer
	// version is the last resource version.
	version int
}

// put stores an HPA with a new resource version, in place of any other.
func (h *hpas) put(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
	h.version++
	hpa.ResourceVersion = strconv.Itoa(h.version)
	return h.cache().Replace([]any{hpa}, hpa.ResourceVersion)
}

// remove deletes the HPA.
func (h *hpas) remove() error {
	h.version++
	return h.cache().Replace(nil, strconv.Itoa(h.version))
}

// get returns the stored HPA.
func (h *hpas) get(namespace, name string) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	return h.informer.Lister().HorizontalPodAutoscalers(namespace).Get(name)
}

func (h *hpas) cache() cache.Indexer { return h.informer.Informer().GetIndexer() }

// hpaClient writes HPAs. The controller writes only their status.
type hpaClient struct {
	autoscalingclient.HorizontalPodAutoscalerInterface
	*hpas
}

func (c hpaClient) HorizontalPodAutoscalers(string) autoscalingclient.HorizontalPodAutoscalerInterface {
	return c
}

// UpdateStatus stores the status as an API server returns it: through JSON, which has
// times to the second and canonical quantities.
func (c hpaClient) UpdateStatus(_ context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler, _ metav1.UpdateOptions) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	stored, err := c.get(hpa.Namespace, hpa.Name)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(hpa.Status)
	if err != nil {
		return nil, err
	}
	stored = stored.DeepCopy()
	stored.Status = autoscalingv2.HorizontalPodAutoscalerStatus{}
	if err := json.Unmarshal(text, &stored.Status); err != nil {
		return nil, err
	}
	return stored.DeepCopy(), c.put(stored)
}
