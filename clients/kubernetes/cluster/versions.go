package cluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// distrust is how long what is watched of a resource is not used after its watch
// failed: longer than an informer pauses between two attempts.
const distrust = time.Minute

// MetadataVersions watches the metadata of the objects of each resource that it is
// asked for, in all namespaces. Where it may not, it knows nothing, and tries again
// at intervals. It is safe for concurrent use.
type MetadataVersions struct {
	ctx    context.Context
	client metadata.Interface
	mapper meta.RESTMapper

	mu sync.Mutex
	// watches by resource. Guarded by mu.
	watches map[schema.GroupResource]*metadataWatch
}

var _ Versions = (*MetadataVersions)(nil)

// NewMetadataVersions returns versions that are watched until ctx ends.
func NewMetadataVersions(ctx context.Context, client metadata.Interface, mapper meta.RESTMapper) *MetadataVersions {
	return &MetadataVersions{ctx: ctx, client: client, mapper: mapper, watches: map[schema.GroupResource]*metadataWatch{}}
}

// ResourceVersion of an object as last watched.
func (v *MetadataVersions) ResourceVersion(resource schema.GroupResource, namespace, name string) (string, bool) {
	watch := v.watch(resource)
	if watch == nil || !watch.informer.HasSynced() || watch.distrusted() {
		return "", false
	}
	object, found, err := watch.informer.GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !found {
		return "", false
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return "", false
	}
	return accessor.GetResourceVersion(), true
}

// Wait returns when every watch that was begun has ended, after the context has.
func (v *MetadataVersions) Wait() {
	<-v.ctx.Done()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, watch := range v.watches {
		<-watch.ended
	}
}

// watch returns the watch of a resource, begun now if there was none; nil when
// there can't be one.
func (v *MetadataVersions) watch(resource schema.GroupResource) *metadataWatch {
	v.mu.Lock()
	defer v.mu.Unlock()
	if watch := v.watches[resource]; watch != nil {
		return watch
	}
	if v.ctx.Err() != nil {
		return nil
	}
	version, err := v.mapper.ResourceFor(resource.WithVersion(""))
	if err != nil {
		return nil
	}
	watch := newMetadataWatch(v.client, version)
	v.watches[resource] = watch
	go watch.run(v.ctx)
	return watch
}

// metadataWatch watches the objects of one resource.
type metadataWatch struct {
	informer cache.SharedIndexInformer
	// ended is closed when the watch has.
	ended chan struct{}

	mu sync.Mutex
	// failed is when the watch last failed. Guarded by mu.
	failed time.Time
}

func newMetadataWatch(client metadata.Interface, version schema.GroupVersionResource) *metadataWatch {
	w := &metadataWatch{
		informer: metadatainformer.NewFilteredMetadataInformer(client, version, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
		ended:    make(chan struct{}),
	}
	// Both fail only for an informer that was started.
	_ = w.informer.SetTransform(onlyVersion)
	_ = w.informer.SetWatchErrorHandler(func(*cache.Reflector, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failed = time.Now()
	})
	return w
}

func (w *metadataWatch) run(ctx context.Context) {
	defer close(w.ended)
	w.informer.RunWithContext(ctx)
}

// distrusted tells whether the watch failed lately.
func (w *metadataWatch) distrusted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.failed.IsZero() && time.Since(w.failed) < distrust
}

// onlyVersion keeps what ResourceVersion looks for.
func onlyVersion(object any) (any, error) {
	full, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: full.Name, Namespace: full.Namespace, ResourceVersion: full.ResourceVersion,
	}}, nil
}
