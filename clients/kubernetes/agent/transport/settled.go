package transport

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// settled is an informer of one of several namespaces. It counts as synced, too, once the API server has refused it for a
// while, so that the others need not wait for it. It tries again, at pauses that client-go lets grow up to a minute.
type settled struct {
	cache.SharedIndexInformer
	// since is when it was first refused; nil: it was not.
	since atomic.Pointer[time.Time]
}

// NewSettled is cache.NewSharedIndexInformer for one of several namespaces.
func NewSettled(lists cache.ListerWatcher, object runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return &settled{SharedIndexInformer: cache.NewSharedIndexInformer(lists, object, resync, indexers)}
}

// SetWatchErrorHandlerWithContext implements cache.SharedInformer.
func (s *settled) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	return s.SharedIndexInformer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if now := time.Now(); apierrors.IsForbidden(err) {
			s.since.CompareAndSwap(nil, &now)
		}
		handler(ctx, r, err)
	})
}

func (s *settled) refused() bool {
	since := s.since.Load()
	return since != nil && time.Since(*since) >= refusedAfter
}

// HasSynced implements cache.SharedInformer.
func (s *settled) HasSynced() bool { return s.SharedIndexInformer.HasSynced() || s.refused() }

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (s *settled) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := s.SharedIndexInformer.AddEventHandlerWithOptions(handler, options)
	return settledHandler{registration, s}, err
}

type settledHandler struct {
	cache.ResourceEventHandlerRegistration
	informer *settled
}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (h settledHandler) HasSynced() bool {
	return h.ResourceEventHandlerRegistration.HasSynced() || h.informer.refused()
}
