package scalecache

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// WatchOptions are the settings of Watch.
type WatchOptions struct {
	// Namespaces are watched, each by its own watch. Empty: all, by one.
	Namespaces []string
	// Access checks the permission to watch. Nil: it just tries.
	Access Access
}

// Access reports whether the caller may list and watch the objects of a resource in a
// namespace, or with "" in all of them. An error means unknown. It must be safe for concurrent
// use.
type Access interface {
	MayWatch(ctx context.Context, resource schema.GroupVersionResource, namespace string) (bool, error)
}

// WatchedVersions watches the metadata of the objects of each requested resource. Without the
// permission it returns no versions, and checks the permission again at intervals that grow to
// an hour. It is safe for concurrent use.
type WatchedVersions struct {
	ctx     context.Context
	client  metadata.Interface
	mapper  meta.RESTMapper
	options WatchOptions

	mu sync.Mutex
	// watches by resource and namespace. Guarded by mu.
	watches map[watched]*metadataWatch
}

// watched identifies a watch: a resource in a namespace, or with "" in all.
type watched struct {
	resource  schema.GroupResource
	namespace string
}

var _ Versions = (*WatchedVersions)(nil)

// Watch returns versions that it watches until ctx ends.
func Watch(ctx context.Context, client metadata.Interface, mapper meta.RESTMapper, options WatchOptions) *WatchedVersions {
	return &WatchedVersions{ctx: ctx, client: client, mapper: mapper, options: options, watches: map[watched]*metadataWatch{}}
}

// ResourceVersion of an object as last watched.
func (v *WatchedVersions) ResourceVersion(resource schema.GroupResource, namespace, name string) (string, bool) {
	watch := v.watch(resource, namespace)
	if watch == nil {
		return "", false
	}
	objects := watch.trusted()
	if objects == nil {
		return "", false
	}
	object, found, err := objects.GetByKey(namespace + "/" + name)
	if err != nil || !found {
		return "", false
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return "", false
	}
	return accessor.GetResourceVersion(), true
}

// Wait waits for the end of the context and of all watches.
func (v *WatchedVersions) Wait() {
	<-v.ctx.Done()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, watch := range v.watches {
		<-watch.ended
	}
}

// watch returns the watch of a resource, starting it if necessary; nil after the end.
func (v *WatchedVersions) watch(resource schema.GroupResource, namespace string) *metadataWatch {
	of := watched{resource: resource, namespace: v.scope(namespace)}
	v.mu.Lock()
	defer v.mu.Unlock()
	if watch := v.watches[of]; watch != nil {
		return watch
	}
	if v.ctx.Err() != nil {
		return nil
	}
	watch := &metadataWatch{client: v.client, access: v.options.Access, mapper: v.mapper, resource: resource, namespace: of.namespace, ended: make(chan struct{})}
	v.watches[of] = watch
	go watch.run(v.ctx)
	return watch
}

// scope is the namespace of the watch that covers this one.
func (v *WatchedVersions) scope(namespace string) string {
	if len(v.options.Namespaces) == 0 {
		return metav1.NamespaceAll
	}
	return namespace
}
