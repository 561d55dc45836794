package podcache

import (
	"context"
	"errors"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
)

// Namespaces are informers of pods, one per namespace or one for all.
type Namespaces struct {
	informers map[string]toolscache.SharedIndexInformer
	pods      map[string]*Pods
}

// NewInformer makes an informer, as cache.NewSharedIndexInformer does.
type NewInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// NewNamespaces returns informers that are not running yet; no namespaces: one for all. failed is told of failed watches.
func NewNamespaces(config *rest.Config, connections *http.Client, namespaces []string, newInformer NewInformer, failed toolscache.WatchErrorHandlerWithContext) (*Namespaces, error) {
	// Pods are most of the data: as JSON they would take several times the memory and time to
	// decode.
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	core, err := corev1client.NewForConfigAndClient(config, connections)
	if err != nil {
		return nil, err
	}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	c := &Namespaces{informers: map[string]toolscache.SharedIndexInformer{}, pods: map[string]*Pods{}}
	for _, namespace := range namespaces {
		watched := toolscache.NewListWatchFromClient(core.RESTClient(), "pods", namespace, fields.Everything())
		informer := newInformer(watched, &corev1.Pod{}, 0,
			toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
		if err := errors.Join(informer.SetTransform(Strip), informer.SetWatchErrorHandlerWithContext(failed)); err != nil {
			return nil, err
		}
		if c.pods[namespace], err = New(informer.GetIndexer()); err != nil {
			return nil, err
		}
		c.informers[namespace] = informer
	}
	return c, nil
}

// of returns the pods of a namespace, nil if it is not watched.
func (c *Namespaces) of(namespace string) *Pods {
	if pods := c.pods[namespace]; pods != nil {
		return pods
	}
	return c.pods[metav1.NamespaceAll]
}

// Pods implements cluster.Pods.
func (c *Namespaces) Pods(ctx context.Context, namespace string, selector labels.Selector) ([]*corev1.Pod, error) {
	pods := c.of(namespace)
	if pods == nil {
		return nil, errors.New("pods of namespace " + namespace + " are not watched")
	}
	// Wait may not have waited for this one.
	if informer := c.informers[namespace]; informer != nil && informer.LastSyncResourceVersion() == "" {
		return nil, errors.New("pods of namespace " + namespace + " have not been read yet")
	}
	return pods.Pods(ctx, namespace, selector)
}

// CountPods implements cluster.PodCounter.
func (c *Namespaces) CountPods(namespace string) int {
	if pods := c.of(namespace); pods != nil {
		return pods.CountPods(namespace)
	}
	return 0
}

// Start runs the informers until the context ends.
func (c *Namespaces) Start(ctx context.Context) error {
	done := make(chan struct{}, len(c.informers))
	for _, informer := range c.informers {
		go func() {
			defer func() { done <- struct{}{} }()
			informer.RunWithContext(ctx)
		}()
	}
	for range c.informers {
		<-done
	}
	return nil
}

// Wait waits until the informers have synced, as those of NewInformer say; false: the context ended first.
func (c *Namespaces) Wait(ctx context.Context) bool {
	synced := make([]toolscache.InformerSynced, 0, len(c.informers))
	for _, informer := range c.informers {
		synced = append(synced, informer.HasSynced)
	}
	return toolscache.WaitForCacheSync(ctx.Done(), synced...)
}
