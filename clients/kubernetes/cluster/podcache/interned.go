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

// maxInterned bounds the interned values, including those that no pod has any longer.
const maxInterned = 4096

// interned keeps one of all values that are the same. The values are not changed.
type interned[V any] struct {
	mu     sync.Mutex
	values map[string]V // guarded by mu
}

func newInterned[V any]() *interned[V] {
	return &interned[V]{values: map[string]V{}}
}

// intern returns the first value that was given with the key, or this one.
func (i *interned[V]) intern(key string, value V) V {
	i.mu.Lock()
	defer i.mu.Unlock()
	if first, ok := i.values[key]; ok {
		return first
	}
	if len(i.values) >= maxInterned {
		// Those in use stay with their pods.
		clear(i.values)
	}
	i.values[key] = value
	return value
}

// labelsKey is the same for the same labels: neither keys nor values have zeros.
func labelsKey(of map[string]string) string {
	var key strings.Builder
	for _, label := range slices.Sorted(maps.Keys(of)) {
		key.WriteString(label + "\x00" + of[label] + "\x00")
	}
	return key.String()
}

// containersKey is the same for containers that are stripped to the same.
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
