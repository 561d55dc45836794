package agent

import (
	"context"
	"sync"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

type queue = workqueue.TypedRateLimitingInterface[Key]

// watchHPAs enqueues HorizontalPodAutoscalers that are created, changed or deleted.
func watchHPAs(c cache.Cache) source.TypedSyncingSource[Key] {
	return source.TypedKind(c, &autoscalingv2.HorizontalPodAutoscaler{}, handlerOf(HPA, func(was, is *autoscalingv2.HorizontalPodAutoscaler) bool {
		// The comparison does not depend on the settings of the agent, only on the object.
		return !objectOfHPA(is, settings{}).sameAs(objectOfHPA(was, settings{}))
	}))
}

// watchAutoscalers enqueues Autoscalers that are created, changed or deleted.
func watchAutoscalers(c cache.Cache) source.TypedSyncingSource[Key] {
	return source.TypedKind(c, &v1.Autoscaler{}, handlerOf(Autoscaler, func(was, is *v1.Autoscaler) bool {
		return !objectOfAutoscaler(is, settings{}).sameAs(objectOfAutoscaler(was, settings{}))
	}))
}

// handlerOf enqueues objects. It ignores writes of the status.
func handlerOf[T client.Object](s Source, changed func(was, is T) bool) handler.TypedEventHandler[T, Key] {
	key := func(o T) Key { return s.Key(o.GetNamespace(), o.GetName()) }
	return handler.TypedFuncs[T, Key]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q queue) { q.Add(key(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) {
			if changed(e.ObjectOld, e.ObjectNew) {
				q.Add(key(e.ObjectNew))
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q queue) { q.Add(key(e.Object)) },
	}
}

// wakeable enqueues objects out of turn. It implements source.TypedSource.
type wakeable struct {
	mu    sync.Mutex
	queue queue // guarded by mu; nil before the controller runs
}

// Start implements source.TypedSource.
func (w *wakeable) Start(_ context.Context, q queue) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = q
	return nil
}

func (w *wakeable) add(keys ...Key) {
	w.mu.Lock()
	q := w.queue
	w.mu.Unlock()
	if q == nil {
		return
	}
	for _, key := range keys {
		q.Add(key)
	}
}
