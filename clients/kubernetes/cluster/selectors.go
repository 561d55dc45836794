package cluster

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/internal/labelselector"
)

// autoscalerKey identifies an autoscaler.
type autoscalerKey struct{ namespace, name string }

// selectors has the last selector on the scale of each autoscaler, in order to find autoscalers
// that share pods. As upstream, it keeps a selector while the scale can't be read.
type selectors struct {
	mu sync.Mutex
	// autoscalers by name. Guarded by mu.
	autoscalers map[autoscalerKey]*autoscalerSelector
	// buckets groups them by namespace and a label that their selector requires; those that
	// require none share a bucket. Guarded by mu.
	buckets map[bucketKey]map[autoscalerKey]*autoscalerSelector
}

type bucketKey struct {
	namespace string
	labelselector.Pair
}

type autoscalerSelector struct {
	// uid is the autoscaler's, "" if it is unknown.
	uid types.UID
	// text is the selector's.
	text     string
	selector labels.Selector
	bucket   bucketKey
}

func newSelectors() *selectors {
	return &selectors{
		autoscalers: map[autoscalerKey]*autoscalerSelector{},
		buckets:     map[bucketKey]map[autoscalerKey]*autoscalerSelector{},
	}
}

// note records the selector of an autoscaler.
func (k *selectors) note(key autoscalerKey, uid types.UID, text string, selector labels.Selector) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.autoscalers[key]; old != nil && old.text == text {
		old.uid = uid
		return
	}
	k.remove(key)
	entry := &autoscalerSelector{uid: uid, text: text, selector: selector}
	entry.bucket = k.smallestBucket(key.namespace, selector)
	k.autoscalers[key] = entry
	if k.buckets[entry.bucket] == nil {
		k.buckets[entry.bucket] = map[autoscalerKey]*autoscalerSelector{}
	}
	k.buckets[entry.bucket][key] = entry
}

// smallestBucket spreads autoscalers with common labels over buckets.
func (k *selectors) smallestBucket(namespace string, selector labels.Selector) bucketKey {
	smallest := bucketKey{namespace: namespace}
	for i, pair := range labelselector.Required(selector) {
		candidate := bucketKey{namespace, pair}
		if i == 0 || len(k.buckets[candidate]) < len(k.buckets[smallest]) {
			smallest = candidate
		}
	}
	return smallest
}

// forget drops an autoscaler, unless another one has its name.
func (k *selectors) forget(key autoscalerKey, uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if entry := k.autoscalers[key]; entry != nil && entry.uid == uid {
		k.remove(key)
	}
}

// remove drops an autoscaler. The caller holds k.mu.
func (k *selectors) remove(key autoscalerKey) {
	entry := k.autoscalers[key]
	if entry == nil {
		return
	}
	delete(k.autoscalers, key)
	delete(k.buckets[entry.bucket], key)
	if len(k.buckets[entry.bucket]) == 0 {
		delete(k.buckets, entry.bucket)
	}
}

// sharing returns the other autoscalers of the namespace that select one of pods,
// by name.
func (k *selectors) sharing(key autoscalerKey, pods []*corev1.Pod) []kubernetes.OtherAutoscaler {
	k.mu.Lock()
	defer k.mu.Unlock()
	found := map[autoscalerKey]*autoscalerSelector{}
	for _, pod := range pods {
		k.match(bucketKey{namespace: key.namespace}, pod.Labels, found)
		for label, value := range pod.Labels {
			k.match(bucketKey{key.namespace, labelselector.Pair{Key: label, Value: value}}, pod.Labels, found)
		}
	}
	var out []kubernetes.OtherAutoscaler
	for other, entry := range found {
		if other != key {
			out = append(out, kubernetes.OtherAutoscaler{Namespace: other.namespace, Name: other.name, Selector: entry.text})
		}
	}
	slices.SortFunc(out, func(a, b kubernetes.OtherAutoscaler) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// match adds the autoscalers of a bucket that select the labels. The caller holds k.mu.
func (k *selectors) match(bucket bucketKey, of labels.Set, found map[autoscalerKey]*autoscalerSelector) {
	for key, entry := range k.buckets[bucket] {
		if found[key] == nil && entry.selector.Matches(of) {
			found[key] = entry
		}
	}
}
