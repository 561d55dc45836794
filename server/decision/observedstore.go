package decision

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/tracing"
	"github.com/setpoint-dev/setpoint/store"
)

// observedStore wraps the store: it times each operation, and counts, logs and reports
// failed ones. The driver's text is only logged.
type observedStore struct {
	store.Store
	metrics *metrics
	log     *zap.Logger
	// tracing makes spans of operations; nil disables it.
	tracing *tracing.Tracing
	// failed is called after the store was unreachable.
	failed func()
}

// Of equal log lines, so many per second are logged, and then one in so many: an outage
// causes as many as there are calls.
const (
	sameLines      = 10
	sameLinesAfter = 1000
)

func observe(s store.Store, m *metrics, log *zap.Logger) *observedStore {
	return &observedStore{Store: s, metrics: m, failed: func() {}, log: log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, sameLines, sameLinesAfter)
	}))}
}

// subject is what an operation is about: its first target, nil if it has none, and how many others.
type subject struct {
	first  *store.Key
	others int
}

func about(key *store.Key) subject { return subject{first: key} }

// aboutAll is about a batch; keyOf returns an item's key.
func aboutAll[T any](items []T, keyOf func(*T) *store.Key) subject {
	if len(items) == 0 {
		return subject{}
	}
	return subject{keyOf(&items[0]), len(items) - 1}
}

func itself(key *store.Key) *store.Key { return key }

func observed[T any](ctx context.Context, o *observedStore, op *operation, of subject, perform func(context.Context) (T, error)) (T, error) {
	start := time.Now()
	ctx, span := o.tracing.Child(ctx, op.span)
	result, err := perform(ctx)
	o.done(ctx, op, of, start, span, err)
	return result, err
}

// done records the outcome of an operation.
func (o *observedStore) done(ctx context.Context, op *operation, of subject, start time.Time, span trace.Span, err error) {
	op.seconds.Observe(time.Since(start).Seconds())
	gone := apierror.CallerGone(ctx)
	if err == nil || errors.Is(err, context.Canceled) && errors.Is(gone, context.Canceled) { // a caller that hung up says nothing of the store
		tracing.Finish(span, nil)
		return
	}
	tracing.Finish(span, err)
	op.errors.Inc()
	if gone == nil {
		var target string
		if of.first != nil {
			target = of.first.String()
		}
		fields := []zap.Field{zap.String("operation", op.name), zap.String("target", target), zap.Error(err)}
		if of.others > 0 {
			fields = append(fields, zap.Int("otherTargets", of.others))
		}
		o.log.Error("store failed", fields...)
	}
	if errors.Is(err, store.ErrUnavailable) {
		o.failed()
	}
}

// Load implements store.Store, as do those below.
func (o *observedStore) Load(ctx context.Context, key store.Key) (store.Record, error) {
	return observed(ctx, o, &o.metrics.load, about(&key), func(ctx context.Context) (store.Record, error) {
		return o.Store.Load(ctx, key)
	})
}

// LoadBatch is one operation.
func (o *observedStore) LoadBatch(ctx context.Context, keys []store.Key) ([]store.Record, error) {
	return observed(ctx, o, &o.metrics.loadBatch, aboutAll(keys, itself), func(ctx context.Context) ([]store.Record, error) {
		return o.Store.LoadBatch(ctx, keys)
	})
}

// CompareAndSwap does not count lost races as failures.
func (o *observedStore) CompareAndSwap(ctx context.Context, swap store.Swap) (store.SwapResult, error) {
	return observed(ctx, o, &o.metrics.swap, about(&swap.Key), func(ctx context.Context) (store.SwapResult, error) {
		return o.Store.CompareAndSwap(ctx, swap)
	})
}

// CompareAndSwapBatch is one operation.
func (o *observedStore) CompareAndSwapBatch(ctx context.Context, swaps []store.Swap) ([]store.SwapResult, error) {
	return observed(ctx, o, &o.metrics.swapBatch, aboutAll(swaps, func(s *store.Swap) *store.Key { return &s.Key }), func(ctx context.Context) ([]store.SwapResult, error) {
		return o.Store.CompareAndSwapBatch(ctx, swaps)
	})
}

// Delete is timed.
func (o *observedStore) Delete(ctx context.Context, key store.Key) (bool, error) {
	return observed(ctx, o, &o.metrics.delete, about(&key), func(ctx context.Context) (bool, error) {
		return o.Store.Delete(ctx, key)
	})
}

// List is timed.
func (o *observedStore) List(ctx context.Context, filter store.Filter, after store.Key, limit int) ([]store.Key, error) {
	return observed(ctx, o, &o.metrics.list, subject{}, func(ctx context.Context) ([]store.Key, error) {
		return o.Store.List(ctx, filter, after, limit)
	})
}

// Part implements store.Parts, if the store does: its operations are observed, too.
func (o *observedStore) Part(part store.Part, ttl time.Duration) (store.PartStore, error) {
	records, err := o.Store.(store.Parts).Part(part, ttl)
	if err != nil {
		return nil, err
	}
	of := *o
	of.Store = records
	return &observedPart{&of, records}, nil
}

// observedPart is the store of a part.
type observedPart struct {
	*observedStore
	records store.PartStore
}

// LoadVersions is a batch of loads.
func (o *observedPart) LoadVersions(ctx context.Context, keys []store.Key) ([]store.Version, error) {
	return observed(ctx, o.observedStore, &o.metrics.loadBatch, aboutAll(keys, itself), func(ctx context.Context) ([]store.Version, error) {
		return o.records.LoadVersions(ctx, keys)
	})
}

func (o *observedPart) DeleteVersion(ctx context.Context, key store.Key, version store.Version) (store.SwapResult, error) {
	return observed(ctx, o.observedStore, &o.metrics.delete, about(&key), func(ctx context.Context) (store.SwapResult, error) {
		return o.records.DeleteVersion(ctx, key, version)
	})
}

func (o *observedStore) LoadParts(ctx context.Context, key store.Key, most int, parts ...store.Part) ([]store.Record, error) {
	return observed(ctx, o, &o.metrics.load, about(&key), func(ctx context.Context) ([]store.Record, error) {
		return o.Store.(store.Parts).LoadParts(ctx, key, most, parts...)
	})
}
