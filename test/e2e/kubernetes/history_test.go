//go:build linux

package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// history has the watched changes of each object of a namespace.
type history struct {
	mu    sync.Mutex
	of    map[string][]string
	ended error
}

// watchAll begins a history that ends with the test.
func (p *place) watchAll(t testing.TB, resource schema.GroupVersionResource, show func(*unstructured.Unstructured) string) *history {
	t.Helper()
	h := &history{of: make(map[string][]string)}
	ctx, cancel := context.WithCancel(context.Background())
	watching, err := p.c.Dynamic().Resource(resource).Namespace(p.namespace).Watch(ctx, metav1.ListOptions{})
	must(t, err)
	var done sync.WaitGroup
	done.Go(func() {
		for event := range watching.ResultChan() {
			h.saw(event, show)
		}
	})
	t.Cleanup(func() {
		cancel()
		watching.Stop()
		done.Wait()
	})
	return h
}

func (h *history) saw(event watch.Event, show func(*unstructured.Unstructured) string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	object, ok := event.Object.(*unstructured.Unstructured)
	if !ok || event.Type == watch.Error {
		h.ended = fmt.Errorf("the watch ended: %v", event.Object)
		return
	}
	shown, all := show(object), h.of[object.GetName()]
	if len(all) == 0 || all[len(all)-1] != shown {
		h.of[object.GetName()] = append(all, shown)
	}
}

// all returns an object's history.
func (h *history) all(t testing.TB, name string) []string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	must(t, h.ended)
	return slices.Clone(h.of[name])
}

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// wantedReplicas is an object's spec.replicas.
func wantedReplicas(object *unstructured.Unstructured) string {
	replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	return fmt.Sprint(replicas)
}
