package podcache

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
	"github.com/setpoint-dev/setpoint/internal/labelselector"
)

// labelIndex is the name of the index of pods by namespace and label.
const labelIndex = "setpoint.dev/label"

// perPod are labels with a different value for each pod: indexing them takes memory, and no
// workload selects by them alone.
var perPod = map[string]bool{
	"statefulset.kubernetes.io/pod-name":       true,
	"apps.kubernetes.io/pod-index":             true,
	"batch.kubernetes.io/job-completion-index": true,
}

// Pods lists the pods of an informer. It is safe for concurrent use.
type Pods struct {
	indexer cache.Indexer
}

var (
	_ cluster.Pods       = (*Pods)(nil)
	_ cluster.PodCounter = (*Pods)(nil)
)

// New returns the pods of an informer's indexer. It adds an index by namespace
// (cache.NamespaceIndex), if there is none, and one by label. Wait until the informer has
// synced before listing pods. An indexer takes only one Pods.
func New(indexer cache.Indexer) (*Pods, error) {
	indexers := cache.Indexers{labelIndex: labelIndexValues}
	if indexer.GetIndexers()[cache.NamespaceIndex] == nil {
		indexers[cache.NamespaceIndex] = cache.MetaNamespaceIndexFunc
	}
	if err := indexer.AddIndexers(indexers); err != nil {
		return nil, fmt.Errorf("indexing pods by label: %w", err)
	}
	return &Pods{indexer: indexer}, nil
}

func labelIndexValues(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	var out []string
	for key, value := range pod.Labels {
		if !perPod[key] {
			out = append(out, labelIndexValue(pod.Namespace, labelselector.Pair{Key: key, Value: value}))
		}
	}
	return out, nil
}

func labelIndexValue(namespace string, label labelselector.Pair) string {
	return namespace + "/" + label.Key + "=" + label.Value
}

// CountPods returns the number of a namespace's pods.
func (p *Pods) CountPods(namespace string) int {
	pods, err := p.indexer.ByIndex(cache.NamespaceIndex, namespace) // IndexKeys would sort them
	if err != nil {
		return 0
	}
	return len(pods)
}

// Pods returns the pods of a namespace that selector matches, by name.
func (p *Pods) Pods(_ context.Context, namespace string, selector labels.Selector) ([]*corev1.Pod, error) {
	candidates, err := p.candidates(namespace, selector)
	if err != nil {
		return nil, err
	}
	var out []*corev1.Pod
	for _, candidate := range candidates {
		pod, ok := candidate.(*corev1.Pod)
		if ok && selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// candidates returns the pods of the index entry with the fewest pods.
func (p *Pods) candidates(namespace string, selector labels.Selector) (fewest []any, err error) {
	indexed := false
	for _, label := range labelselector.Required(selector) {
		if perPod[label.Key] {
			continue
		}
		// All at once: to count them takes longer, as IndexKeys sorts.
		pods, err := p.indexer.ByIndex(labelIndex, labelIndexValue(namespace, label))
		if err != nil {
			return nil, err
		}
		if !indexed || len(pods) < len(fewest) {
			fewest, indexed = pods, true
		}
	}
	if indexed {
		return fewest, nil
	}
	return p.indexer.ByIndex(cache.NamespaceIndex, namespace)
}
