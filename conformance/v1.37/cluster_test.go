package v137

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// cluster is what a controller talks to: the API server, the metrics APIs and the
// caches of watched objects. It shows one step at a time, and keeps what the
// controller writes. Each controller has one, which its scenarios use in turn.
//
// The clients are our own rather than the fake ones of client-go: those don't pass on
// the selector of a custom metric, and keep every call they have seen.
type cluster struct {
	hpas cache.SharedIndexInformer
	pods cache.SharedIndexInformer

	// step is nil between scenarios: there are no pods then.
	step *step
	// reverse has pods listed in the reverse order. A cache lists them in any order.
	reverse bool
	// version is the last one that an object got.
	version int

	// What the controller did since the step began.
	scaledTo *int32
	events   []oracle.Event
}

func newCluster() *cluster {
	// The informers never run: what they have seen is put into their caches.
	informer := func(object runtime.Object) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(&cache.ListWatch{}, object, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	return &cluster{
		hpas: informer(&autoscalingv2.HorizontalPodAutoscaler{}),
		pods: informer(&corev1.Pod{}),
	}
}

// begin shows a step.
func (c *cluster) begin(s *step) {
	c.step, c.scaledTo, c.events = s, nil, nil
}

// put stores an HPA with a new resource version, and lets the controller's cache
// see it at once.
func (c *cluster) put(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
	c.version++
	hpa.ResourceVersion = strconv.Itoa(c.version)
	return c.hpas.GetIndexer().Replace([]any{hpa}, hpa.ResourceVersion)
}

// remove deletes the HPA.
func (c *cluster) remove() error {
	c.version++
	return c.hpas.GetIndexer().Replace(nil, strconv.Itoa(c.version))
}

// hpa is the stored HPA.
func (c *cluster) hpa(namespace, name string) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	return autoscalinglisters.NewHorizontalPodAutoscalerLister(c.hpas.GetIndexer()).HorizontalPodAutoscalers(namespace).Get(name)
}

// hpaClient writes HPAs. The controller writes nothing but their status.
type hpaClient struct {
	autoscalingclient.HorizontalPodAutoscalerInterface
	*cluster
}

func (c *cluster) HorizontalPodAutoscalers(string) autoscalingclient.HorizontalPodAutoscalerInterface {
	return hpaClient{cluster: c}
}

// UpdateStatus keeps the status as it comes back from an API server: through JSON,
// which has times to the second and quantities in their canonical form.
func (c hpaClient) UpdateStatus(_ context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler, _ metav1.UpdateOptions) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	stored, err := c.hpa(hpa.Namespace, hpa.Name)
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

// scaleClient reads and writes the scale of the target, whatever its name is.
type scaleClient struct{ *cluster }

func (c *cluster) Scales(string) scale.ScaleInterface { return scaleClient{c} }

func (c scaleClient) Get(_ context.Context, _ schema.GroupResource, _ string, _ metav1.GetOptions) (*autoscalingv1.Scale, error) {
	if c.step.ScaleGetError != "" {
		return nil, errors.New(c.step.ScaleGetError)
	}
	return c.step.Scale.DeepCopy(), nil // the controller writes into it
}

func (c scaleClient) Update(_ context.Context, _ schema.GroupResource, updated *autoscalingv1.Scale, _ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	if c.step.ScaleUpdateError != "" {
		return nil, errors.New(c.step.ScaleUpdateError)
	}
	replicas := updated.Spec.Replicas
	c.scaledTo = &replicas
	return updated, nil
}

func (scaleClient) Patch(context.Context, schema.GroupVersionResource, string, types.PatchType, []byte, metav1.PatchOptions) (*autoscalingv1.Scale, error) {
	return nil, errors.New("the controller patches the scale, which this cluster can't")
}

// newMapper knows the scale targets of scenarios.
func newMapper() meta.RESTMapper {
	apps, core := schema.GroupVersion{Group: "apps", Version: "v1"}, schema.GroupVersion{Version: "v1"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{apps, core})
	for _, kind := range []string{"Deployment", "StatefulSet", "ReplicaSet"} {
		mapper.Add(apps.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(core.WithKind("ReplicationController"), meta.RESTScopeNamespace)
	return mapper
}

// hpaInformer and podInformer are the caches of the controller.
type (
	hpaInformer struct{ *cluster }
	podInformer struct{ *cluster }
)

func (i hpaInformer) Informer() cache.SharedIndexInformer { return i.hpas }

func (i hpaInformer) Lister() autoscalinglisters.HorizontalPodAutoscalerLister {
	return autoscalinglisters.NewHorizontalPodAutoscalerLister(i.hpas.GetIndexer())
}

func (i podInformer) Informer() cache.SharedIndexInformer { return i.pods }

func (i podInformer) Lister() corelisters.PodLister { return podLister{cluster: i.cluster} }

// podLister lists the pods of the step. The cache would do it in the random order of
// a map, and so show a text that depends on the order as one that doesn't, now and
// then. Forwards and backwards a text that names the first of several pods always
// differs.
type podLister struct {
	corelisters.PodNamespaceLister
	*cluster
	namespace string
}

func (l podLister) Pods(namespace string) corelisters.PodNamespaceLister {
	l.namespace = namespace
	return l
}

func (l podLister) List(selector labels.Selector) ([]*corev1.Pod, error) {
	if l.step == nil {
		return nil, nil
	}
	var pods []*corev1.Pod
	for _, pod := range l.step.Pods {
		if pod.Namespace == l.namespace && selector.Matches(labels.Set(pod.Labels)) {
			pods = append(pods, pod)
		}
	}
	if l.reverse {
		slices.Reverse(pods)
	}
	return pods, nil
}

func (l podLister) Get(name string) (*corev1.Pod, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
}

// recorder keeps events as they are sent. The real one sends them later, and counts
// up those that resemble each other.
type recorder struct{ *cluster }

func (r recorder) Event(_ runtime.Object, eventType, reason, message string) {
	r.events = append(r.events, oracle.Event{Type: eventType, Reason: reason, Message: oracle.Text{Value: message}})
}

func (r recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}

func (r recorder) AnnotatedEventf(object runtime.Object, _ map[string]string, eventType, reason, format string, args ...any) {
	r.Eventf(object, eventType, reason, format, args...)
}

// noEvents is where the recorder that the controller makes for itself would write.
type noEvents struct{}

func (noEvents) Events(string) coreclient.EventInterface { return nil }
