package decision

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// awayUntil is a store that is away until then.
type awayUntil struct {
	store.Store
	back time.Time
}

func (a awayUntil) Load(ctx context.Context, key store.Key) (store.Record, error) {
	if time.Now().Before(a.back) {
		return store.Record{}, store.ErrUnavailable
	}
	return a.Store.Load(ctx, key)
}

// A stop waits for a store that is away, as long as the drain timeout has left, and some seconds if calls took all of it. What is lost then is told.
func TestAStopWaitsForTheStoreInWhatTimeTheDrainHasLeft(t *testing.T) {
	for _, tt := range []struct {
		drain, away time.Duration
		written     bool
	}{
		{20 * time.Second, 19 * time.Second, true},
		{20 * time.Second, 21 * time.Second, false},
		{0, 2 * time.Second, true},
		{0, 4 * time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			core, logged := observer.New(zap.ErrorLevel)
			options := DefaultOptions()
			options.Clock, options.Log = time.Now, zap.New(core)
			engine := memory.New(memory.Options{})
			defer engine.Close()
			targets := New(awayUntil{engine, time.Now().Add(tt.away)}, &options, func(bool) {}, t.Context())
			key := store.Key{Cluster: "demo", Namespace: "shop", Target: "web"}
			targets.outage.keep(key, store.Record{}, record.Append(nil, &record.Record{}))
			begun := time.Now()
			drain, cancel := context.WithTimeout(t.Context(), tt.drain)
			defer cancel()
			targets.Finish(drain)
			stored, err := engine.Load(t.Context(), key)
			if err != nil || stored.Exists() != tt.written {
				t.Errorf("%+v: stored is %v, %v", tt, stored, err)
			}
			if took := time.Since(begun); took > max(tt.drain, finishTime) {
				t.Errorf("%+v: the stop took %s", tt, took)
			}
			lost := logged.FilterMessage("decisions of an outage are lost with this instance").FilterField(zap.Int("targets", 1))
			if told := lost.Len() == 1; told == tt.written {
				t.Errorf("%+v: what is lost is told: %t", tt, told)
			}
		})
	}
}

// oneShardAway is a store of which a shard does not respond, in which a target is.
type oneShardAway struct {
	store.Store
	target string
}

func (o *oneShardAway) Load(ctx context.Context, key store.Key) (store.Record, error) {
	if key.Target == o.target {
		return store.Record{}, store.ErrUnavailable
	}
	return o.Store.Load(ctx, key)
}

func (o *oneShardAway) LoadBatch(ctx context.Context, keys []store.Key) ([]store.Record, error) {
	records, err := o.Store.LoadBatch(ctx, keys)
	errs := store.ByItem(err, len(keys), len(records))
	for i, key := range keys {
		if key.Target == o.target {
			errs = make(store.BatchError, len(keys))
			errs[i] = store.ErrUnavailable
		}
	}
	if errs == nil {
		return records, nil
	}
	return records, store.BatchError(errs)
}

// A shard that stays away keeps nothing from the others, and is a line of the log in each outage, however often it is tried.
func TestWhatWasDecidedWithoutTheStoreIsWrittenToTheShardsThatAreBack(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	options := DefaultOptions()
	options.Clock, options.Log = time.Now, zap.New(core)
	engine := &oneShardAway{memory.New(memory.Options{}), "0"}
	defer engine.Close()
	targets := New(engine, &options, func(bool) {}, t.Context())
	var keys []store.Key
	for i := range 3 * writeBackBatch {
		key := store.Key{Cluster: "demo", Namespace: "shop", Target: strconv.Itoa(i)}
		targets.outage.keep(key, store.Record{}, record.Append(nil, &record.Record{}))
		keys = append(keys, key)
	}
	err := targets.outage.writeBack(t.Context(), keys...)
	if left := targets.outage.pending(); !errors.Is(err, store.ErrUnavailable) || left != 1 {
		t.Errorf("%d of %d are not written, %v", left, len(keys), err)
	}
	for range 3 {
		targets.Watch.Check(t.Context())
	}
	engine.target = ""
	targets.Watch.Check(t.Context())
	for range 2 { // outages whose histories calls write
		engine.target = "0"
		targets.outage.keep(keys[0], store.Record{}, record.Append(nil, &record.Record{}))
		targets.Watch.Check(t.Context())
		engine.target = ""
		if err := targets.outage.writeBack(t.Context(), keys[0]); err != nil {
			t.Error(err)
		}
		targets.Watch.Check(t.Context())
	}
	var lines []string
	for _, line := range logged.All() {
		if line.Message != "store failed" { // of which others bound the number
			lines = append(lines, line.Message)
		}
	}
	const unwritten = "decisions of the outage not all written yet"
	if want := []string{"store answers: ready", unwritten, "decisions of the outage written", unwritten, unwritten}; !slices.Equal(lines, want) {
		t.Errorf("the log has %q, want %q", lines, want)
	}
}
