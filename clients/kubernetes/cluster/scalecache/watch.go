package scalecache

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

const (
	// distrust is how long a failed watch is unused: longer than an informer's pause between
	// two attempts, up to a minute, and an attempt at a host that does not answer.
	distrust = 2 * time.Minute
	// silence is how long a watch that says nothing is used, while an API server sends a bookmark each minute: a proxy may
	// hold a watch open and pass nothing on.
	silence = 2 * time.Minute
	// firstRefusal and lastRefusal are the first and the longest pause after a refusal; it
	// doubles with each.
	firstRefusal = time.Minute
	lastRefusal  = time.Hour
)

// metadataWatch watches the objects of one resource while the caller has the permission.
type metadataWatch struct {
	client    metadata.Interface
	access    Access // may be nil
	mapper    meta.RESTMapper
	resource  schema.GroupResource
	namespace string
	// ended is closed when the watch has ended.
	ended chan struct{}

	mu sync.Mutex
	// informer is nil while nothing is watched. Guarded by mu.
	informer cache.SharedIndexInformer
	// failed is when the watch last failed. Guarded by mu.
	failed time.Time
	// heard is when the watch last said something after all that the list has. Guarded by mu.
	heard time.Time
}

// run watches until the context ends. A refused informer would retry several times a minute for
// ever: run stops it and starts a new one after a pause.
func (w *metadataWatch) run(ctx context.Context) {
	defer close(w.ended)
	for pause := firstRefusal; ; pause = min(2*pause, lastRefusal) {
		// The version may be another one each time: a CustomResourceDefinition may cease to serve one.
		version, err := w.mapper.ResourceFor(w.resource.WithVersion(""))
		if err == nil && w.mayWatch(ctx, version) {
			began := time.Now()
			w.watch(ctx, version)
			if time.Since(began) > lastRefusal {
				pause = firstRefusal
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// mayWatch reports whether a watch is worth trying, also if the permission is unknown.
func (w *metadataWatch) mayWatch(ctx context.Context, version schema.GroupVersionResource) bool {
	if w.access == nil {
		return true
	}
	may, err := w.access.MayWatch(ctx, version, w.namespace)
	return may || err != nil
}

// watch runs an informer until it is refused or the context ends.
func (w *metadataWatch) watch(ctx context.Context, version schema.GroupVersionResource) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	objects := w.client.Resource(version).Namespace(w.namespace)
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watching, err := objects.Watch(ctx, options)
			if putsOff(err) {
				w.distrustNow()
			}
			if err != nil {
				return watching, err
			}
			listing := options.SendInitialEvents != nil && *options.SendInitialEvents
			if !listing {
				w.hear()
			}
			return watch.Filter(watching, func(event watch.Event) (watch.Event, bool) {
				if listing = listing && event.Type != watch.Bookmark; !listing {
					w.hear()
				}
				return event, true
			}), nil
		},
	}, w.client), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	// Both fail only for a started informer.
	_ = informer.SetTransform(onlyVersion)
	_ = informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		w.distrustNow()
		if refuses(err) {
			cancel()
		}
	})
	w.use(informer)
	defer w.use(nil)
	informer.RunWithContext(ctx)
}

func (w *metadataWatch) use(informer cache.SharedIndexInformer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.informer = informer
}

func (w *metadataWatch) distrustNow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = time.Now()
}

func (w *metadataWatch) hear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = time.Now()
}

// putsOff reports whether an error is one after which an informer tries again without telling its handler.
func putsOff(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)
}

// refuses reports whether an error is permanent: the resource can't be watched.
func refuses(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// trusted returns the watched objects, nil if they may be out of date: before the first list,
// shortly after the watch failed, and while it is silent.
func (w *metadataWatch) trusted() cache.Indexer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.informer == nil || !w.informer.HasSynced() || !w.failed.IsZero() && time.Since(w.failed) < distrust || time.Since(w.heard) >= silence {
		return nil
	}
	return w.informer.GetIndexer()
}

// onlyVersion keeps only what ResourceVersion needs.
func onlyVersion(object any) (any, error) {
	full, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: full.Name, Namespace: full.Namespace, ResourceVersion: full.ResourceVersion,
	}}, nil
}
