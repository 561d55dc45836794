package overrides_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/server/overrides"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

var (
	web  = store.Key{Cluster: "demo", Namespace: "shop", Target: "web"}
	demo = target.Place{Cluster: "demo"}
	shop = target.Place{Cluster: "demo", Namespace: "shop"}
)

// engine is a memory store whose overrides may fail or stall.
type engine struct {
	*memory.Store
	err   atomic.Pointer[error]
	stall atomic.Bool
	// ill is a cluster whose shard does not respond. Nil: all do.
	ill   atomic.Pointer[string]
	reads atomic.Int64
	// takes is how long a read takes.
	takes time.Duration
	// loads counts the lists that were loaded.
	loads atomic.Int64
	// beforeRead is called after a read has looked, before it is answered. Nil: nothing.
	beforeRead atomic.Pointer[func()]
	// beforeDelete is called once, with the cluster, before a record is deleted. Nil: nothing.
	beforeDelete atomic.Pointer[func(string)]
}

func newEngine() *engine { return &engine{Store: memory.New(memory.Options{})} }

func (e *engine) Part(part store.Part, ttl time.Duration) (store.PartStore, error) {
	records, err := e.Store.Part(part, ttl)
	return &failing{records, e}, err
}

func (e *engine) fails(err error) {
	if err == nil {
		e.err.Store(nil)
		return
	}
	e.err.Store(&err)
}

type failing struct {
	store.PartStore
	e *engine
}

// begin counts a read, and fails it, where the store does.
func (r *failing) begin(ctx context.Context) error {
	r.e.reads.Add(1)
	if r.e.stall.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if r.e.takes > 0 {
		select {
		case <-time.After(r.e.takes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := r.e.err.Load(); err != nil {
		return *err
	}
	return nil
}

// end waits for the shard that does not respond, if one of the keys is its own.
func (r *failing) end(ctx context.Context, keys []store.Key) error {
	if do := r.e.beforeRead.Swap(nil); do != nil {
		(*do)()
	}
	ill := r.e.ill.Load()
	var errs store.BatchError
	for i, key := range keys {
		if ill != nil && key.Cluster == *ill {
			if errs == nil {
				<-ctx.Done()
				errs = make(store.BatchError, len(keys))
			}
			errs[i] = fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
		}
	}
	if errs != nil {
		return errs
	}
	return nil
}

func (r *failing) LoadBatch(ctx context.Context, keys []store.Key) ([]store.Record, error) {
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	r.e.loads.Add(int64(len(keys)))
	found, err := r.PartStore.LoadBatch(ctx, keys)
	return found, errors.Join(err, r.end(ctx, keys))
}

func (r *failing) LoadVersions(ctx context.Context, keys []store.Key) ([]store.Version, error) {
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	found, err := r.PartStore.LoadVersions(ctx, keys)
	return found, errors.Join(err, r.end(ctx, keys))
}

func (r *failing) DeleteVersion(ctx context.Context, key store.Key, version store.Version) (store.SwapResult, error) {
	if do := r.e.beforeDelete.Swap(nil); do != nil {
		(*do)(key.Cluster)
	}
	return r.PartStore.DeleteVersion(ctx, key, version)
}

// instance is an instance of the service, on an engine.
func instance(t *testing.T, e store.Engine) *overrides.Overrides {
	t.Helper()
	life, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	o, err := overrides.New(e, overrides.Options{Life: life})
	fatal.If(t, err)
	return o
}

// running has an instance read once a second until the test ends.
func running(t *testing.T, o *overrides.Overrides) *overrides.Overrides {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { o.Run(ctx) })
	t.Cleanup(func() { end(); done.Wait() })
	return o
}

func held(d time.Duration) *setpointv1.Override {
	return &setpointv1.Override{Hold: true, Reason: "migration", ExpireTime: timestamppb.New(time.Now().Add(d))}
}

func create(t *testing.T, o *overrides.Overrides, place target.Place, id string, one *setpointv1.Override) *setpointv1.Override {
	t.Helper()
	created, _, err := o.Create(t.Context(), place, id, one, "token:alice", time.Now())
	fatal.If(t, err)
	return created
}

func want(t *testing.T, o *overrides.Overrides, when string, names ...string) {
	t.Helper()
	var got []string
	for _, one := range of(o, web) {
		got = append(got, one.Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, names) {
		t.Errorf("%s: in force are %v, want %v", when, got, names)
	}
}

// The instance that creates or deletes one has it at once, another within a second.
func TestOtherInstancesFollowWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		a, b := running(t, instance(t, e)), running(t, instance(t, e))
		want(t, a, "at first")
		want(t, b, "at first")
		one := create(t, a, shop, "freeze", held(time.Hour)).GetName()
		want(t, a, "created here", one)
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, b, "created there", one)
		if _, err := b.Delete(t.Context(), shop, "freeze", ""); err != nil {
			t.Fatal(err)
		}
		want(t, b, "deleted here")
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, a, "deleted there")
		c := instance(t, e)
		create(t, a, demo, "all", held(time.Hour))
		want(t, c, "the first decision of an instance", "clusters/demo/overrides/all")
	})
}

// distant is an engine behind a network.
type distant struct {
	*engine
	timeout time.Duration
}

func (d distant) Timeout() time.Duration { return d.timeout }

// Where an attempt to reach the store may take longer than a second, so may reads: an instance learns of overrides, and of
// further ones, and waits for a store that does not respond as much longer, all clusters together.
func TestADistantStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		other := instance(t, e)
		one := create(t, other, shop, "freeze", held(time.Hour)).GetName()
		e.takes = 1400 * time.Millisecond
		o := running(t, instance(t, distant{e, 3 * time.Second}))
		want(t, o, "the first decision", one)
		two := create(t, other, demo, "further", held(time.Hour)).GetName()
		began := time.Now()
		for time.Since(began) < 3*e.takes && len(of(o, web)) < 2 { // a read before it, and one of the version and the list
			time.Sleep(10 * time.Millisecond)
		}
		want(t, o, "a change", one, two)
		e.stall.Store(true)
		began = time.Now()
		o.Await(t.Context(), []string{"new", "newer"})
		if waited := time.Since(began); waited != 1800*time.Millisecond { // for versions
			t.Errorf("decisions waited for %s", waited)
		}
	})
}

// While the store is away, what is known stays in force until it expires, and an unknown cluster is waited for no
// longer than a second, all of them together.
func TestStoreIsAway(t *testing.T) {
	for name, away := range map[string]func(*engine, bool){
		"fails":  func(e *engine, away bool) { e.fails(map[bool]error{true: store.ErrUnavailable}[away]) },
		"stalls": func(e *engine, away bool) { e.stall.Store(away) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				o := running(t, instance(t, e))
				one := create(t, o, shop, "freeze", held(time.Hour)).GetName()
				want(t, o, "before", one)
				away(e, true)
				time.Sleep(59 * time.Minute)
				want(t, o, "during the outage", one)
				began := time.Now()
				names := make([]string, 100)
				for i := range names {
					names[i] = fmt.Sprint("unknown-", i)
				}
				o.Await(t.Context(), names)
				for i := range names {
					if got, known := o.For(t.Context(), store.Key{Cluster: fmt.Sprint("unknown-", i), Namespace: "n", Target: "t"}); len(got) != 0 || known {
						t.Errorf("an unknown cluster has %v", got)
					}
				}
				if waited := time.Since(began); waited > time.Second {
					t.Errorf("decisions waited for %s", waited)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				want(t, o, "after its end")
				away(e, false)
				time.Sleep(2 * time.Second)
				create(t, o, shop, "again", held(time.Hour))
				want(t, o, "after the outage", "clusters/demo/namespaces/shop/overrides/again")
			})
		})
	}
}

// A shard that does not respond delays no cluster on another one: neither its first decision nor what others change,
// and of a batch all that is elsewhere is decided. The log tells once that it does not respond, and once that it does.
func TestAShardDoesNotRespond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		ill := "ill"
		other := instance(t, e)
		one := create(t, other, shop, "freeze", held(time.Hour)).GetName()
		e.ill.Store(&ill)
		started := time.Now()
		o, logs := watched(t, e)
		known := func(cluster string) bool {
			_, known := o.For(t.Context(), store.Key{Cluster: cluster, Namespace: "n", Target: "t"})
			return known
		}
		began := time.Now()
		if known(ill) || time.Since(began) != time.Second {
			t.Errorf("a cluster that can't be read is known, or was waited for %s", time.Since(began))
		}
		began = time.Now()
		want(t, o, "the first decision beside it", one)
		if known(ill) || !known("new") {
			t.Error("a new cluster is not known, or the one is that can't be read")
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the others waited for %s", waited)
		}
		// A change after each part of the time between two reads, and never at the same instant as one.
		for i := range time.Duration(5) {
			time.Sleep(time.Until(started.Add((60+10*i)*time.Second + 200*i*time.Millisecond + time.Millisecond)))
			began = time.Now()
			create(t, other, shop, "more", held(time.Hour))
			for len(of(o, web)) < 2 {
				time.Sleep(10 * time.Millisecond)
			}
			if took := time.Since(began); took > time.Second+10*time.Millisecond {
				t.Errorf("another instance's change acts after %s", took)
			}
			if _, err := other.Delete(t.Context(), shop, "more", ""); err != nil {
				t.Fatal(err)
			}
			for len(of(o, web)) > 1 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		batch := instance(t, e)
		began = time.Now()
		batch.Await(t.Context(), []string{"a", "ill", "demo", "b", "ill"})
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("a batch waited for %s", waited)
		}
		began = time.Now()
		want(t, batch, "in a batch", one)
		for _, name := range []string{"a", "b", "ill"} {
			if _, known := batch.For(t.Context(), store.Key{Cluster: name, Namespace: "n", Target: "t"}); known != (name != ill) {
				t.Errorf("in a batch %s is known: %v", name, known)
			}
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("decisions of a batch waited for %s more", waited)
		}
		before := logs.Len()
		e.ill.Store(nil)
		time.Sleep(time.Minute)
		if all := logs.All(); before != 1 || len(all) != 2 || all[1].Message != "overrides read again" {
			t.Errorf("%d lines in the log, %d while it does not respond", len(all), before)
		}
	})
}

// A list that has not changed is not loaded again.
func TestUnchangedListsAreNotLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		a, b := running(t, instance(t, e)), running(t, instance(t, e))
		one := create(t, a, shop, "freeze", held(time.Hour)).GetName()
		want(t, a, "here", one)
		want(t, b, "there", one)
		wantLoads := func(when string, loads int64) {
			t.Helper()
			if n := e.loads.Load(); n != loads {
				t.Errorf("%s %d lists were loaded, want %d", when, n, loads)
			}
		}
		b.For(t.Context(), store.Key{Cluster: "nothing", Namespace: "n", Target: "t"})
		e.loads.Store(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantLoads("in a minute", 0)
		two := create(t, a, demo, "all", held(30*time.Minute)).GetName()
		time.Sleep(time.Second)
		synctest.Wait()
		wantLoads("after a change", 2)
		want(t, b, "there", one, two)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		wantLoads("after an end", 2)
		want(t, b, "after an end", one)
		if _, err := a.Delete(t.Context(), shop, "freeze", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, b, "deleted")
		wantLoads("after a deletion", 4)
	})
}

// What is worth most stays in a full cache: overrides in force, for without the store they could not be read again.
func TestAFullCacheKeepsOverrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		o := running(t, instance(t, e))
		var held50 []store.Key
		for i := range 50 {
			key := store.Key{Cluster: fmt.Sprint("held-", i), Namespace: "n", Target: "t"}
			create(t, o, target.Place(key), "freeze", held(time.Hour))
			held50 = append(held50, key)
			if len(of(o, key)) != 1 {
				t.Fatal(key)
			}
		}
		e.fails(store.ErrUnavailable)
		for i := range 20_000 {
			o.For(t.Context(), store.Key{Cluster: fmt.Sprint("flood-", i), Namespace: "n", Target: "t"})
		}
		for _, key := range held50 {
			if all, known := o.For(t.Context(), key); !known || len(all) != 1 {
				t.Errorf("%v: %v, %v", key, all, known)
			}
		}
		if n := o.Cached(); n > 4096 {
			t.Errorf("%d clusters are cached", n)
		}
	})
}

// A cluster that could not be read at first is, once the store is back.
func TestFirstReadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		one := create(t, instance(t, e), shop, "freeze", held(time.Hour)).GetName()
		e.fails(store.ErrUnavailable)
		o := running(t, instance(t, e))
		want(t, o, "without the store")
		if _, known := o.For(t.Context(), web); known {
			t.Error("without the store none are known")
		}
		e.fails(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, o, "with it", one)
	})
}

// A decision waits no longer than its caller, and what that says of the store is nothing: others wait for what is read meanwhile.
func TestWaitsEndWithTheirCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		one := create(t, instance(t, e), shop, "freeze", held(time.Hour)).GetName()
		e.takes = 500 * time.Millisecond
		o := instance(t, e)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, known := o.For(ctx, web); known || time.Since(began) != 100*time.Millisecond {
			t.Errorf("known %v after %s", known, time.Since(began))
		}
		o.Await(ctx, []string{"demo", "new"})
		if waited := time.Since(began); waited != 100*time.Millisecond {
			t.Errorf("waited for %s", waited)
		}
		want(t, o, "for a caller with more time", one)
		if waited := time.Since(began); waited != 500*time.Millisecond {
			t.Errorf("the read took %s", waited)
		}
		time.Sleep(time.Second) // the read of new, too
	})
}

// A process that was stopped, or cut off from the store, reads again before it decides.
func TestWhatIsOldIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		o := instance(t, e) // which does not run
		want(t, o, "at first")
		one := create(t, instance(t, e), shop, "freeze", held(time.Hour)).GetName()
		time.Sleep(2 * time.Second)
		want(t, o, "within two seconds")
		time.Sleep(time.Nanosecond)
		want(t, o, "after two seconds", one)
		o.SetClockBack(time.Hour)
		if _, err := instance(t, e).Delete(t.Context(), shop, "freeze", ""); err != nil {
			t.Fatal(err)
		}
		want(t, o, "after the clock was set back")
		one = create(t, instance(t, e), shop, "freeze", held(time.Hour)).GetName()
		time.Sleep(3 * time.Second)
		want(t, o, "some seconds later", one)
		e.fails(store.ErrUnavailable)
		time.Sleep(time.Minute)
		want(t, o, "without the store", one)
	})
}

// A read that began before a change of this instance does not undo it.
func TestReadsThatWereOvertaken(t *testing.T) {
	for _, first := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			o := running(t, instance(t, e))
			if !first {
				want(t, o, "at first")
			}
			var one string
			create := func() { one = create(t, o, shop, "freeze", held(time.Hour)).GetName() }
			e.beforeRead.Store(&create)
			if first {
				o.For(t.Context(), web)
			} else {
				time.Sleep(time.Second)
				synctest.Wait()
			}
			if one == "" {
				t.Fatal("no read")
			}
			want(t, o, "overtaken", one)
		})
	}
}

// What is created in an empty record while others are tidied stays.
func TestTidyingDeletesOnlyWhatIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		o := running(t, instance(t, e))
		all := map[string]target.Place{"demo": demo, "other": {Cluster: "other"}}
		for _, place := range all {
			create(t, o, place, "freeze", held(time.Hour))
			if _, err := o.Delete(t.Context(), place, "freeze", ""); err != nil {
				t.Fatal(err)
			}
		}
		left := ""
		fill := func(deleting string) {
			left = map[string]string{"demo": "other", "other": "demo"}[deleting]
			create(t, o, all[left], "again", held(time.Hour))
		}
		e.beforeDelete.Store(&fill)
		time.Sleep(80 * time.Minute)
		synctest.Wait()
		if clusters, err := o.Clusters(t.Context(), "", 10); err != nil || left == "" || !slices.Equal(clusters, []string{left}) {
			t.Errorf("there are records of %v, %v; want that of %q", clusters, err, left)
		}
	})
}

// Changes of one instance at the same time: all count at once, whichever read comes first.
func TestConcurrentChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no decision waits a second in vain where others keep the processors busy
		e := memory.New(memory.Options{})
		o := instance(t, e)
		want(t, o, "at first")
		var changes sync.WaitGroup
		for i := range 30 {
			changes.Go(func() {
				if _, _, err := o.Create(t.Context(), shop, fmt.Sprintf("id-%02d", i), held(time.Hour), "", time.Now()); err != nil {
					t.Error(err)
				}
			})
		}
		changes.Wait()
		if n := len(of(o, web)); n != 30 {
			t.Errorf("%d are in force, want all 30", n)
		}
	})
}

// Of the three levels each target has its own, and nothing of others.
func TestOverridesOfEachLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no decision waits a second in vain where others keep the processors busy
		e := memory.New(memory.Options{})
		o := instance(t, e)
		places := []target.Place{demo, shop, target.Place(web), {Cluster: "demo", Namespace: "pay"}, {Cluster: "demo", Namespace: "shop", Target: "api"}, {Cluster: "other", Namespace: "shop", Target: "web"}}
		for bits := range 1 << len(places) {
			var names []string
			for i, place := range places {
				if bits>>i&1 == 0 {
					continue
				}
				name := create(t, o, place, fmt.Sprintf("x-%d", bits), held(time.Hour)).GetName()
				if place.Has(target.Place(web)) {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			want(t, o, fmt.Sprintf("%b", bits), names...)
			for i, place := range places {
				if bits>>i&1 == 1 {
					if _, err := o.Delete(t.Context(), place, fmt.Sprintf("x-%d", bits), ""); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if left, err := o.Of(t.Context(), []string{"demo", "other"}); err != nil || len(left[0])+len(left[1]) > 0 {
			t.Errorf("some are left: %v, %v", left, err)
		}
	})
}

// What another version has written is not overwritten, and what is known stays in force.
func TestUnreadableRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		o := running(t, instance(t, e))
		one := create(t, o, shop, "freeze", held(time.Hour)).GetName()
		want(t, o, "before", one)
		records, err := e.Store.Part(store.Overrides, overrides.Kept)
		fatal.If(t, err)
		key := store.Key{Cluster: "demo", Namespace: "-", Target: "-"}
		record, err := records.Load(t.Context(), key)
		if err != nil || !record.Exists() {
			t.Fatal(record, err)
		}
		if _, err := records.CompareAndSwap(t.Context(), store.Swap{Key: key, Old: record.Version, Value: []byte("\xff\xff")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		want(t, o, "unreadable", one)
		var unreadable *overrides.UnreadableError
		if _, _, err := o.Create(t.Context(), shop, "more", held(time.Hour), "", time.Now()); !errors.As(err, &unreadable) {
			t.Errorf("create: %v", err)
		}
	})
}

// Clusters without overrides leave the cache when nobody asks about them, and however many there are, it is bounded.
func TestCacheIsBounded(t *testing.T) {
	testlength.SkipUnderRace(t)
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		o := running(t, instance(t, e))
		one := create(t, o, shop, "freeze", held(time.Hour)).GetName()
		want(t, o, "before", one)
		for i := range 5000 {
			o.For(t.Context(), store.Key{Cluster: fmt.Sprint("c-", i), Namespace: "n", Target: "t"})
		}
		if n := o.Cached(); n > 4096 {
			t.Errorf("%d clusters are cached", n)
		}
		want(t, o, "full", one)
		time.Sleep(11 * time.Minute)
		if n := o.Cached(); n != 1 {
			t.Errorf("%d clusters are still cached, want the one with an override", n)
		}
		synctest.Wait() // for the read of this instant
		e.reads.Store(0)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := e.reads.Load(); n != 10 {
			t.Errorf("%d reads in 10 seconds", n)
		}
	})
}

// Lists of clusters of any name take bounded memory. Small ones are not displaced by large ones, and each counts nevertheless.
func TestListsTakeBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		o := instance(t, e)
		const most = 64 << 10
		o.Within(most)
		records, err := e.Part(store.Overrides, overrides.Kept)
		fatal.If(t, err)
		keyOf := func(cluster string) store.Key { return store.Key{Cluster: cluster, Namespace: "n", Target: "t"} }
		fill := func(cluster string, n int) {
			list := &storedv1.Overrides{}
			for i := range n {
				one := held(time.Hour)
				one.Name = target.Place{Cluster: cluster, Namespace: "n", Target: "t"}.Override(fmt.Sprintf("o-%02d", i))
				one.StartTime, one.CreateTime = timestamppb.Now(), timestamppb.Now()
				list.Overrides = append(list.Overrides, one)
			}
			value, err := proto.Marshal(list)
			fatal.If(t, err)
			_, err = records.CompareAndSwap(t.Context(), store.Swap{Key: store.Key{Cluster: cluster, Namespace: "-", Target: "-"}, Value: value})
			fatal.If(t, err)
		}
		const small, large = 100, 2000 // clusters
		for i := range small {
			fill(fmt.Sprint("small-", i), 1)
			o.For(t.Context(), keyOf(fmt.Sprint("small-", i)))
		}
		for i := range large {
			fill(fmt.Sprint("large-", i), 32)
			if all, known := o.For(t.Context(), keyOf(fmt.Sprint("large-", i))); !known || len(all) != 32 {
				t.Fatalf("%d overrides of large-%d, known: %t", len(all), i, known)
			}
		}
		if got := o.Memory(); got > most || got < most/2 {
			t.Errorf("the lists of a part take %d bytes, want at most %d and more than half of that", got, most)
		}
		e.reads.Store(0)
		for i := range small {
			if all, known := o.For(t.Context(), keyOf(fmt.Sprint("small-", i))); !known || len(all) != 1 {
				t.Errorf("%d overrides of small-%d, known: %t", len(all), i, known)
			}
		}
		if n := e.reads.Load(); n > 0 {
			t.Errorf("%d small lists were displaced", n)
		}
	})
}

func TestNoAllocationsWithoutOverrides(t *testing.T) {
	o := instance(t, memory.New(memory.Options{}))
	o.For(t.Context(), web)
	if n := testing.AllocsPerRun(1000, func() { o.For(t.Context(), web) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkNewClusters is what a caller costs that names another cluster each time.
func BenchmarkNewClusters(b *testing.B) {
	e := newEngine()
	o, err := overrides.New(e, overrides.Options{})
	fatal.If(b, err)
	for i := range 5000 {
		o.For(b.Context(), store.Key{Cluster: fmt.Sprint("c-", i), Namespace: "n", Target: "t"})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o.For(b.Context(), store.Key{Cluster: fmt.Sprint("d-", i), Namespace: "n", Target: "t"})
	}
}

func BenchmarkFor(b *testing.B) {
	for name, some := range map[string][]target.Place{"none": nil, "ofCluster": {demo}, "ofAllLevels": {demo, shop, target.Place(web)}} {
		b.Run(name, func(b *testing.B) {
			o, err := overrides.New(memory.New(memory.Options{}), overrides.Options{})
			fatal.If(b, err)
			for _, place := range some {
				if _, _, err := o.Create(b.Context(), place, "freeze", held(time.Hour), "", time.Now()); err != nil {
					b.Fatal(err)
				}
			}
			o.For(b.Context(), web)
			b.ReportAllocs()
			for b.Loop() {
				o.For(b.Context(), web)
			}
		})
	}
}

// of are the overrides for a target.
func of(o *overrides.Overrides, key store.Key) []stages.Override {
	all, _ := o.For(context.Background(), key)
	return all
}

// Each override in force has a series, with texts of any bytes, at most two hundred of them, and only where asked.
func TestEndsAreMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no decision waits a second in vain where others keep the processors busy
		o := instance(t, memory.New(memory.Options{}))
		inForce := -1.0
		series := func(each bool) (all []string) {
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(o.Collectors(each)...)
			families, err := registry.Gather()
			fatal.If(t, err)
			for _, f := range families {
				for _, m := range f.GetMetric() {
					if f.GetName() == "setpoint_overrides" {
						inForce = m.GetGauge().GetValue()
					}
					if f.GetName() == "setpoint_override_end_timestamp_seconds" {
						var labels []string
						for _, l := range m.GetLabel() {
							labels = append(labels, l.GetName()+"="+l.GetValue())
						}
						all = append(all, fmt.Sprint(labels, " ", m.GetGauge().GetValue() > float64(time.Now().Unix())))
					}
				}
			}
			return all
		}
		limits := held(time.Hour)
		limits.Hold, limits.Floor, limits.Ceiling, limits.NoScaleDown = false, new(int32(2)), new(int32(8)), true
		later := held(2 * time.Hour)
		later.StartTime = timestamppb.New(time.Now().Add(time.Hour))
		created, _, err := o.Create(t.Context(), shop, "limits", limits, "a"+strings.Repeat("é", 300), time.Now())
		fatal.If(t, err)
		want(t, o, "they are known", create(t, o, shop, "later", later).GetName(), created.GetName())
		if got := series(true); len(got) != 1 || !strings.HasPrefix(got[0], "[author=aé") || len(got[0]) > 300 ||
			!strings.HasSuffix(got[0], " cluster=demo namespace=shop override=limits target= what=floor 2, ceiling 8, no-scale-down] true") {
			t.Errorf("got %q", got)
		}
		if got := series(false); len(got) > 0 || inForce != 1 {
			t.Errorf("without being asked %q, and %v in force", got, inForce)
		}
		for i := range 300 {
			create(t, o, target.Place{Cluster: "demo", Namespace: fmt.Sprint("n", i/30), Target: fmt.Sprint("t", i)}, "x", held(time.Hour))
		}
		if got := series(true); len(got) != 200 {
			t.Errorf("%d series", len(got))
		}
	})
}
