package podcache

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Interned parts of stripped pods.
var (
	labelSets      = newInterned[map[string]string]()
	containerLists = newInterned[[]corev1.Container]()
)

// maxInterned bounds the interned values, including those that no pod uses any more.
const maxInterned = 4096

// interned keeps one copy of equal values. Values must not be changed.
type interned[V any] struct {
	mu     sync.Mutex
	values map[string]V // guarded by mu
}

func newInterned[V any]() *interned[V] {
	return &interned[V]{values: map[string]V{}}
}

// intern returns the first value with the key, or this one.
func (i *interned[V]) intern(key string, value V) V {
	i.mu.Lock()
	defer i.mu.Unlock()
	if first, ok := i.values[key]; ok {
		return first
	}
	if len(i.values) >= maxInterned {
		// Pods keep the values they use.
		clear(i.values)
	}
	i.values[key] = value
	return value
}

// labelsKey is equal for equal labels: neither keys nor values contain zero bytes.
func labelsKey(of map[string]string) string {
	var key strings.Builder
	for _, label := range slices.Sorted(maps.Keys(of)) {
		key.WriteString(label + "\x00" + of[label] + "\x00")
	}
	return key.String()
}

// containersKey is equal for containers that are equal after stripping.
func containersKey(containers []corev1.Container) string {
	var key strings.Builder
	for i := range containers {
		container := &containers[i]
		key.WriteString(container.Name + "\x00")
		if container.RestartPolicy != nil {
			key.WriteString(string(*container.RestartPolicy))
		}
		for _, name := range slices.Sorted(maps.Keys(container.Resources.Requests)) {
			request := container.Resources.Requests[name]
			key.WriteString("\x00" + string(name) + "=" + request.String())
		}
		key.WriteString("\x01")
	}
	return key.String()
}
