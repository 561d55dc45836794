package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// PodInformer is the informer of pods for the constructor of the controller, with a
// lister of the step's pods.
type PodInformer struct {
	coreinformers.PodInformer
	Cluster *Cluster
}

// Lister returns the lister of the step's pods.
func (i PodInformer) Lister() corelisters.PodLister { return podLister{cluster: i.Cluster} }

// podLister lists the pods of the step. A cache would list them in the random order of
// a map, so that two runs may agree by chance on a text that depends on the order.
// Forwards and backwards, a text that names the first of several pods always differs.
type podLister struct {
	corelisters.PodNamespaceLister
	cluster   *Cluster
	namespace string
}

func (l podLister) Pods(namespace string) corelisters.PodNamespaceLister {
	l.namespace = namespace
	return l
}

func (l podLister) List(selector labels.Selector) ([]*corev1.Pod, error) {
	if l.cluster.state == nil {
		return nil, nil
	}
	var pods []*corev1.Pod
	for _, pod := range l.cluster.state.Pods {
		if pod.Namespace == l.namespace && selector.Matches(labels.Set(pod.Labels)) {
			pods = append(pods, pod)
		}
	}
	if l.cluster.reverse {
		slices.Reverse(pods)
	}
	return pods, nil
}

func (l podLister) Get(name string) (*corev1.Pod, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
}
