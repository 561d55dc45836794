package overrides_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/server/overrides"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// slow is a store each of whose loads and swaps takes a while.
type slow struct {
	*memory.Store
	each time.Duration
}

func (s slow) Part(part store.Part, ttl time.Duration) (store.PartStore, error) {
	records, err := s.Store.Part(part, ttl)
	return slowPart{records, s.each}, err
}

type slowPart struct {
	store.PartStore
	each time.Duration
}

func (s slowPart) wait(ctx context.Context) error {
	select {
	case <-time.After(s.each):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slowPart) Load(ctx context.Context, key store.Key) (store.Record, error) {
	if err := s.wait(ctx); err != nil {
		return store.Record{}, err
	}
	return s.PartStore.Load(ctx, key)
}

func (s slowPart) CompareAndSwap(ctx context.Context, swap store.Swap) (store.SwapResult, error) {
	if err := s.wait(ctx); err != nil {
		return store.SwapResult{}, err
	}
	return s.PartStore.CompareAndSwap(ctx, swap)
}

// place is a place of its own.
func place(i int) target.Place { return target.Place{Cluster: "demo", Namespace: fmt.Sprint("n-", i)} }

// A caller with many changes delays another one's by a swap, whether on its instance or on another one.
func TestManyChangesStarveNobody(t *testing.T) {
	testlength.SkipUnderRace(t) // TestManyChangeOneCluster is its race
	for name, instances := range map[string]int{"one instance": 1, "two instances": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const each = 5 * time.Millisecond
				engine := slow{memory.New(memory.Options{}), each}
				var all []*overrides.Overrides
				for range instances {
					all = append(all, instance(t, engine))
				}
				ctx, stop := context.WithCancel(t.Context())
				var flood sync.WaitGroup
				for i := range 300 {
					flood.Go(func() {
						for ctx.Err() == nil {
							if _, _, err := all[0].Create(ctx, place(i), "x", held(time.Hour), "token:mallory", time.Now()); err == nil {
								_, _ = all[0].Delete(ctx, place(i), "x", "token:mallory")
							}
						}
					})
				}
				time.Sleep(time.Second)
				var longest time.Duration
				for i := range 50 {
					began := time.Now()
					if _, _, err := all[instances-1].Create(t.Context(), shop, fmt.Sprint("id-", i%20), held(time.Hour), "token:bob", time.Now()); err != nil {
						t.Fatal(err)
					}
					longest = max(longest, time.Since(began))
					if _, err := all[instances-1].Delete(t.Context(), shop, fmt.Sprint("id-", i%20), "token:bob"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(7 * time.Millisecond)
				}
				stop()
				flood.Wait()
				t.Logf("the longest create took %s", longest)
				// The swap that is under way, and its own; with another instance some that were lost.
				if most := map[int]time.Duration{1: 4 * each, 2: time.Second}[instances]; longest > most {
					t.Errorf("the longest create took %s, want at most %s", longest, most)
				}
			})
		})
	}
}

// A queue that is full has room for a caller with few changes: the one with the most goes without.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := instance(t, slow{memory.New(memory.Options{}), time.Minute})
		var refused atomic.Int64
		var calls sync.WaitGroup
		const mallorys, bobs = 545, 10
		for i := range mallorys {
			calls.Go(func() {
				_, err := o.Delete(t.Context(), shop, fmt.Sprint("id-", i), "token:mallory")
				switch {
				case errors.Is(err, overrides.ErrContended) && strings.Contains(err.Error(), "512 changes wait"):
					refused.Add(1)
				case !errors.Is(err, overrides.ErrNotFound):
					t.Error(err)
				}
			})
			synctest.Wait() // one after the other
		}
		// The first one is under way alone, 512 wait.
		if n := refused.Load(); n != mallorys-513 {
			t.Errorf("%d were refused, want %d", n, mallorys-513)
		}
		began := time.Now()
		for i := range bobs {
			calls.Go(func() {
				if _, _, err := o.Create(t.Context(), shop, fmt.Sprint("bob-", i), held(24*time.Hour), "token:bob", time.Now()); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > 3*time.Minute {
					t.Errorf("bob waited for %s", took)
				}
			})
			synctest.Wait()
		}
		if n := refused.Load(); n != mallorys-513+bobs {
			t.Errorf("%d were refused, want %d", n, mallorys-513+bobs)
		}
		calls.Wait()
	})
}

// A call ends with its caller, though the store stalls, and what had not begun by then is not done; others go on.
func TestCallersThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := instance(t, slow{memory.New(memory.Options{}), time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var calls sync.WaitGroup
		leave := func(id string) {
			began := time.Now()
			if _, _, err := o.Create(ctx, shop, id, held(time.Hour), "", time.Now()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 100*time.Millisecond {
				t.Errorf("%s after %s: %v", id, time.Since(began), err)
			}
		}
		calls.Go(func() { leave("begun") })
		synctest.Wait()
		calls.Go(func() { leave("waiting") })
		calls.Go(func() { create(t, o, shop, "stays", held(time.Hour)) })
		began := time.Now()
		calls.Wait()
		// The first load ends with its caller; then a load and a swap.
		if took := time.Since(began); took != 2100*time.Millisecond {
			t.Errorf("who stays waited for %s", took)
		}
		all, err := o.Of(t.Context(), []string{"demo"})
		if err != nil || len(all[0]) != 1 || all[0][0].GetName() != shop.Override("stays") {
			t.Errorf("there are %v, %v", all, err)
		}
	})
}

// late is a store whose swaps are made at once and answered a second later.
type late struct{ *memory.Store }

func (s late) Part(part store.Part, ttl time.Duration) (store.PartStore, error) {
	records, err := s.Store.Part(part, ttl)
	return latePart{slowPart{records, time.Second}}, err
}

type latePart struct{ slowPart }

func (s latePart) Load(ctx context.Context, key store.Key) (store.Record, error) {
	return s.PartStore.Load(ctx, key)
}

func (s latePart) CompareAndSwap(ctx context.Context, swap store.Swap) (store.SwapResult, error) {
	result, err := s.PartStore.CompareAndSwap(ctx, swap)
	if wait := s.wait(ctx); wait != nil {
		return store.SwapResult{}, wait
	}
	return result, err
}

// A change is in the log, also if its caller has left before it was known.
func TestChangesOfCallersThatLeaveAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		o, err := overrides.New(late{memory.New(memory.Options{})}, overrides.Options{Log: zap.New(core)})
		fatal.If(t, err)
		for i, change := range []func(context.Context) error{
			func(ctx context.Context) error {
				_, _, err := o.Create(ctx, shop, "a", held(time.Hour), "token:alice", time.Now())
				return err
			},
			func(ctx context.Context) error {
				_, err := o.Delete(ctx, shop, "a", "token:bob")
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := change(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if all, err := o.Of(t.Context(), []string{"demo"}); err != nil || len(all[0]) != 1-i {
				t.Fatalf("there are %v, %v", all, err)
			}
			if n := logs.FilterMessage([]string{"override created", "override deleted"}[i]).Len(); n != 1 {
				t.Errorf("change %d: %d lines", i+1, n)
			}
		}
	})
}

// Each of the changes that one swap makes has its own answer.
func TestChangesOfOneSwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := instance(t, slow{memory.New(memory.Options{}), time.Second})
		first := create(t, o, shop, "first", held(time.Hour))
		began := time.Now()
		var calls sync.WaitGroup
		calls.Go(func() { create(t, o, place(0), "busy", held(time.Hour)) }) // the others wait for it
		synctest.Wait()
		same := held(time.Hour)
		same.ExpireTime = first.GetExpireTime()
		calls.Go(func() {
			if got, isNew, err := o.Create(t.Context(), shop, "first", same, "token:bob", time.Now()); err != nil || isNew || got.GetAuthor() != "token:alice" {
				t.Errorf("the same again: %v, %v, %v", got, isNew, err)
			}
		})
		calls.Go(func() {
			if _, _, err := o.Create(t.Context(), shop, "first", held(2*time.Hour), "", time.Now()); !errors.Is(err, overrides.ErrExists) {
				t.Errorf("another one of that name: %v", err)
			}
		})
		calls.Go(func() {
			if _, err := o.Delete(t.Context(), shop, "none", ""); !errors.Is(err, overrides.ErrNotFound) {
				t.Errorf("delete none: %v", err)
			}
		})
		calls.Go(func() { create(t, o, place(1), "more", held(time.Hour)) })
		calls.Wait()
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("they took %s, want two loads and two swaps", took)
		}
	})
}

// fill creates overrides with long reasons until one is refused.
func fill(t *testing.T, o *overrides.Overrides, author string, reason int, place func(int) target.Place) (n int, full *overrides.FullError) {
	t.Helper()
	for ; ; n++ {
		one := held(time.Hour)
		one.Reason = strings.Repeat("😀", reason)
		_, _, err := o.Create(t.Context(), place(n), fmt.Sprintf("id-%d", n), one, author, time.Now())
		if errors.As(err, &full) {
			return n, full
		}
		fatal.If(t, err)
	}
}

// However many namespaces a caller may override, others find room.
func TestSharesOfACluster(t *testing.T) {
	t.Parallel()
	const kilo = 1 << 10
	ofNamespaces := (overrides.MostBytes - overrides.ReservedBytes) / kilo
	within := func(cluster, namespace string) func(int) target.Place {
		return func(i int) target.Place {
			return target.Place{Cluster: cluster, Namespace: namespace, Target: fmt.Sprint("t-", i)}
		}
	}
	many := func(cluster, namespaces string) func(int) target.Place {
		return func(i int) target.Place {
			return target.Place{Cluster: cluster, Namespace: fmt.Sprint(namespaces, i/20), Target: fmt.Sprint("t-", i)}
		}
	}
	type filling struct {
		author string
		reason int // characters of 4 bytes
		where  func(int) target.Place
		limit  string
		most   int // of the limit; 0: any
		// least and more are how many there may be.
		least, more int
		says        string
	}
	for name, steps := range map[string][]filling{
		"one namespace, then another": {
			{"", 256, within("a", "n"), "maxOverrideBytesOfNamespace", ofNamespaces / 2 * kilo, 90, 112, `namespace "n" would take more than 114688 bytes, a namespace's share: this one takes 11`},
			{"", 256, within("a", "m"), "maxOverrideBytesOfNamespace", ofNamespaces / 2 * kilo, 90, 112, "those of the same author in it 11"},
			{"", 256, within("a", "l"), "maxOverrideBytes", ofNamespaces * kilo, 0, 2, `cluster "a" would take more than 229376 bytes: this one takes 11`},
		},
		"one author, then others, by bytes": {
			{"token:a", 256, many("b", "a-"), "maxOverrideBytesOfAuthor", ofNamespaces / 2 * kilo, 90, 112, `those of author "token:a" in cluster "b" would take 11`},
			{"token:b", 256, many("b", "b-"), "maxOverrideBytesOfAuthor", ofNamespaces / 2 * kilo, 45, 56, "is more than the author's share, half of what others leave of 229376: delete some of that author, or shorten reasons"},
			{"token:c", 256, many("b", "c-"), "maxOverrideBytesOfAuthor", 0, 20, 28, `"token:c"`},
			{"token:a", 256, many("b", "a2-"), "maxOverrideBytesOfAuthor", 0, 0, 0, `"token:a"`},
		},
		"one author, then others, by count": {
			{"token:a", 1, many("c", "a-"), "maxOverridesOfAuthor", 484, 484, 484, `those of author "token:a" in cluster "c" would be 485, which is more than the author's share, half of what others leave of 968`},
			{"token:b", 1, many("c", "b-"), "maxOverridesOfAuthor", 484, 242, 242, `"token:b" in cluster "c" would be 243`},
		},
		"what others take is not told": {
			{"token:a", 256, within("e", "n"), "maxOverrideBytesOfNamespace", 0, 90, 112, `those of author "token:a" in it 11`},
			{"token:b", 256, func(i int) target.Place { return within("e", "n")(1000 + i) }, "maxOverrideBytesOfNamespace", 0, 0, 0, `, those of author "token:b" in it 0; delete`},
		},
		"without authentication all are one": {
			{"", 1, many("d", "a-"), "maxOverridesOfCluster", 0, 968, 968, `cluster "d" has 968 overrides`},
			{"", 1, func(int) target.Place { return target.Place{Cluster: "d"} }, "maxOverrides", 0, 32, 32, "clusters/d has 32 overrides of its own"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := instance(t, memory.New(memory.Options{}))
			for _, step := range steps {
				n, full := fill(t, o, step.author, step.reason, step.where)
				if full.Limit != step.limit || step.most != 0 && full.Most != step.most || n < step.least || n > step.more || !strings.Contains(full.Error(), step.says) {
					t.Errorf("%q created %d, want %d to %d; then %s, %d: %s", step.author, n, step.least, step.more, full.Limit, full.Most, full)
				}
			}
			// The cluster as a whole always has room.
			cluster := steps[0].where(0).Cluster
			if step := steps[len(steps)-1]; step.limit != "maxOverrides" {
				if _, _, err := o.Create(t.Context(), target.Place{Cluster: cluster}, "all", held(time.Hour), steps[0].author, time.Now()); err != nil {
					t.Error(err)
				}
			}
			// Who deletes has room again.
			if _, err := o.Delete(t.Context(), steps[0].where(0), "id-0", ""); err != nil {
				t.Error(err)
			}
		})
	}
}

// watched returns an instance on an engine, which reads once a second, and its log.
func watched(t *testing.T, e store.Engine) (*overrides.Overrides, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	o, err := overrides.New(e, overrides.Options{Log: zap.New(core)})
	fatal.If(t, err)
	return running(t, o), logs
}

// A store that comes back without its data ends every override, and one that goes back to before deletions puts what was
// deleted in force again: the log says so, once, with names, and a metric counts them. A deletion, also of the last one and by another instance, an
// end, and another override of the same name are no loss.
func TestLostOverridesAreLogged(t *testing.T) {
	for name, step := range map[string]struct {
		do func(t *testing.T, o, other *overrides.Overrides, records store.PartStore)
		// count is 0 for no warning.
		count int
		// left reports whether overrides are left.
		left bool
	}{
		"the store lost its data": {func(t *testing.T, _, _ *overrides.Overrides, records store.PartStore) {
			if _, err := records.Delete(t.Context(), store.Key{Cluster: "demo", Namespace: "-", Target: "-"}); err != nil {
				t.Error(err)
			}
		}, 25, false},
		"it did, and this instance is the first to write": {func(t *testing.T, o, _ *overrides.Overrides, records store.PartStore) {
			if _, err := records.Delete(t.Context(), store.Key{Cluster: "demo", Namespace: "-", Target: "-"}); err != nil {
				t.Error(err)
			}
			create(t, o, shop, "next", held(time.Hour))
		}, 25, true},
		"a failover went back to an earlier list": {func(t *testing.T, o, _ *overrides.Overrides, records store.PartStore) {
			goBack(t, records, func() {
				for i := 25; i < 50; i++ {
					create(t, o, place(i), "freeze", held(time.Hour))
				}
			})
		}, 25, true},
		"it did, and another instance is the first to write": {func(t *testing.T, o, other *overrides.Overrides, records store.PartStore) {
			goBack(t, records, func() {
				for i := 25; i < 50; i++ {
					create(t, o, place(i), "freeze", held(time.Hour))
				}
			})
			create(t, other, shop, "next", held(time.Hour))
		}, 25, true},
		"a failover went back to before they were deleted": {func(t *testing.T, _, other *overrides.Overrides, records store.PartStore) {
			goBack(t, records, func() {
				for i := range 25 {
					if _, err := other.Delete(t.Context(), place(i), "freeze", "bob"); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(2 * time.Second)
			})
		}, 25, true},
		"one was created again after it was deleted": {func(t *testing.T, o, other *overrides.Overrides, _ store.PartStore) {
			if _, err := other.Delete(t.Context(), place(0), "freeze", "bob"); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Second)
			create(t, other, place(0), "freeze", held(time.Hour))
		}, 0, true},
		"another instance deleted some": {func(t *testing.T, _, other *overrides.Overrides, _ store.PartStore) {
			for i := range 20 {
				if _, err := other.Delete(t.Context(), place(i), "freeze", "bob"); err != nil {
					t.Error(err)
				}
			}
		}, 0, true},
		"another instance deleted more than the list says": {func(t *testing.T, o, other *overrides.Overrides, _ store.PartStore) {
			for i := 25; i < 80; i++ {
				create(t, o, place(i), "freeze", held(time.Hour))
			}
			for i := range 70 {
				if _, err := other.Delete(t.Context(), place(i), "freeze", "bob"); err != nil {
					t.Error(err)
				}
			}
		}, 0, true},
		"another instance deleted them": {func(t *testing.T, _, other *overrides.Overrides, _ store.PartStore) {
			for i := range 25 {
				if _, err := other.Delete(t.Context(), place(i), "freeze", ""); err != nil {
					t.Error(err)
				}
			}
		}, 0, false},
		"they ended": {func(*testing.T, *overrides.Overrides, *overrides.Overrides, store.PartStore) {
			time.Sleep(2 * time.Hour)
		}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memory.New(memory.Options{})
				o, logs := watched(t, e)
				for i := range 25 {
					create(t, o, place(i), "freeze", held(time.Hour))
				}
				o.For(t.Context(), web)
				time.Sleep(time.Second)
				records, err := e.Part(store.Overrides, overrides.Kept)
				fatal.If(t, err)
				step.do(t, o, instance(t, e), records)
				time.Sleep(80 * time.Minute)
				synctest.Wait()
				// What is empty is kept for ten minutes after the hour in which it says who deleted what.
				if clusters, err := o.Clusters(t.Context(), "", 10); err != nil || len(clusters) != 0 && !step.left {
					t.Errorf("there are records of %v, %v", clusters, err)
				}
				entries := logs.FilterLevelExact(zapcore.WarnLevel).All()
				counted := map[string]float64{"deletion": 0, "override": 0}
				if step.count > 0 && len(entries) > 0 {
					kind := "override"
					if strings.Contains(entries[0].Message, "were deleted") {
						kind = "deletion"
					}
					counted[kind] = float64(step.count)
				}
				if got := lossesOf(t, o); !maps.Equal(got, counted) {
					t.Errorf("the metric has %v, want %v", got, counted)
				}
				if step.count == 0 {
					if len(entries) > 0 {
						t.Errorf("the log has %v", entries)
					}
					return
				}
				if len(entries) != 1 {
					t.Fatalf("the log has %v, want one line", entries)
				}
				fields := entries[0].ContextMap()
				if names, _ := fields["overrides"].([]any); fields["count"] != int64(step.count) || len(names) != 20 || !strings.HasSuffix(fmt.Sprint(names[0]), "/overrides/freeze") {
					t.Errorf("the line has %v", fields)
				}
			})
		})
	}
}

// lossesOf are the losses that an instance has counted, by what was lost.
func lossesOf(t *testing.T, o *overrides.Overrides) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(o.Collectors(false)...)
	families, err := registry.Gather()
	fatal.If(t, err)
	counted := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "setpoint_overrides_lost_total" {
				counted[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return counted
}

// Who deleted an override is known for an hour, also of a cluster's last one, whose list is empty then.
func TestWhoDeletedTheLastOverrideIsKnownForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New(memory.Options{})
		o, _ := watched(t, e)
		created := create(t, o, shop, "freeze", held(2*time.Hour))
		o.For(t.Context(), web)
		if _, err := o.Delete(t.Context(), shop, "freeze", "bob"); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait time.Duration
			by   string
		}{{0, "bob"}, {59 * time.Minute, "bob"}, {12 * time.Minute, ""}} {
			time.Sleep(step.wait)
			synctest.Wait()
			if by, _, known := o.Deleted(web, stages.OfNamespace, "freeze", created.GetCreateTime().AsTime()); by != step.by || known != (by != "") {
				t.Errorf("%s later it was deleted by %q, known %t; want %q", step.wait, by, known, step.by)
			}
		}
	})
}

// Also of what no decision has read: the instance that created it warns.
func TestLostOverridesThatNobodyReadAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New(memory.Options{})
		o, logs := watched(t, e)
		create(t, o, shop, "freeze", held(time.Hour))
		time.Sleep(20 * time.Minute)
		records, err := e.Part(store.Overrides, overrides.Kept)
		fatal.If(t, err)
		if _, err := records.Delete(t.Context(), store.Key{Cluster: "demo", Namespace: "-", Target: "-"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if all := logs.FilterLevelExact(zapcore.WarnLevel).All(); len(all) != 1 || all[0].ContextMap()["count"] != int64(1) {
			t.Errorf("the log has %v, want one line", all)
		}
	})
}

// goBack does something and takes the record of a cluster back to what it was before, as a failover does.
func goBack(t *testing.T, records store.PartStore, do func()) {
	t.Helper()
	key := store.Key{Cluster: "demo", Namespace: "-", Target: "-"}
	before, err := records.Load(t.Context(), key)
	fatal.If(t, err)
	do()
	after, err := records.Load(t.Context(), key)
	fatal.If(t, err)
	if result, err := records.CompareAndSwap(t.Context(), store.Swap{Key: key, Old: after.Version, Value: before.Value}); err != nil || !result.Swapped {
		t.Fatal(result, err)
	}
}

// panicking is a store whose loads panic once.
type panicking struct {
	*memory.Store
	done *atomic.Bool
}

func (s panicking) Part(part store.Part, ttl time.Duration) (store.PartStore, error) {
	records, err := s.Store.Part(part, ttl)
	return panickingPart{records, s.done}, err
}

type panickingPart struct {
	store.PartStore
	done *atomic.Bool
}

func (s panickingPart) CompareAndSwap(ctx context.Context, swap store.Swap) (store.SwapResult, error) {
	if s.done.CompareAndSwap(false, true) {
		panic("injected")
	}
	return s.PartStore.CompareAndSwap(ctx, swap)
}

// A change that panics ends with an error, is in the log, and the next one is made.
func TestAChangeThatPanicsEndsAlone(t *testing.T) {
	logs, seen := observer.New(zapcore.ErrorLevel)
	o, err := overrides.New(panicking{memory.New(memory.Options{}), new(atomic.Bool)}, overrides.Options{Log: zap.New(logs)})
	fatal.If(t, err)
	if _, _, err := o.Create(t.Context(), place(1), "a", held(time.Hour), "", time.Now()); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("the change that panics: %v", err)
	}
	if _, _, err := o.Create(t.Context(), place(1), "a", held(time.Hour), "", time.Now()); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if n := seen.FilterMessage("panic").Len(); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
}

// Who deletes many overrides erases what the list says of their own namespace, not of others or of the cluster, however
// long names are.
func TestManyDeletionsEraseNoOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		target string
		left   int // of the 40 deletions of the one that floods
	}{"short": {"b", 30}, "long": {strings.Repeat("b", 253), 16}} {
		synctest.Test(t, func(t *testing.T) {
			o := instance(t, memory.New(memory.Options{}))
			bank, cluster := target.Place{Cluster: "demo", Namespace: "bank", Target: tt.target}, target.Place{Cluster: "demo"}
			o.For(t.Context(), web)
			kept := create(t, o, shop, "kept", held(time.Hour))
			ofCluster := create(t, o, cluster, "kept", held(time.Hour))
			remove := func(place target.Place, id, by string) {
				t.Helper()
				if _, err := o.Delete(t.Context(), place, id, by); err != nil {
					t.Fatal(err)
				}
			}
			remove(shop, "kept", "admin")
			remove(cluster, "kept", "admin")
			var flood []*setpointv1.Override
			for i := range 40 {
				id := fmt.Sprint("b-", i)
				flood = append(flood, create(t, o, bank, id, held(time.Hour)))
				remove(bank, id, strings.Repeat("bob", 99))
			}
			for _, one := range []struct {
				level   stages.Level
				created *setpointv1.Override
			}{{stages.OfNamespace, kept}, {stages.OfCluster, ofCluster}} {
				if by, _, known := o.Deleted(web, one.level, "kept", one.created.GetCreateTime().AsTime()); !known || by != "admin" {
					t.Errorf("%s: who deleted %s: %q, %v", name, one.created.GetName(), by, known)
				}
			}
			left := 0
			for i, one := range flood {
				_, _, known := o.Deleted(store.Key(bank), stages.OfTarget, fmt.Sprint("b-", i), one.GetCreateTime().AsTime())
				if known {
					left++
				} else if left > 0 {
					t.Errorf("%s: an older one is known, and not %d", name, i)
				}
			}
			if left != tt.left {
				t.Errorf("%s: %d of the flood are known, want %d", name, left, tt.left)
			}
		})
	}
}
