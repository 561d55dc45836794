package overrides_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/server/overrides"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// The log names each list that can't be read, and its key in Redis.
func TestTheLogNamesUnreadableLists(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	admin, engine := server.Client(t), servertest.Redis(t, server.URL())
	o := instance(t, engine)
	for _, cluster := range []string{"demo", "other", "third"} {
		create(t, o, target.Place{Cluster: cluster}, "freeze", held(time.Hour))
	}
	keys, err := admin.Keys(t.Context(), "*vh:*").Result()
	if err != nil || len(keys) != 3 {
		t.Fatal(keys, err)
	}
	slices.Sort(keys)
	broken := map[string]func(key string) error{
		"demo": func(key string) error { return admin.Set(t.Context(), key, "\x02 of a newer version", 0).Err() },
		"other": func(key string) error {
			return errors.Join(admin.Del(t.Context(), key).Err(), admin.RPush(t.Context(), key, "x").Err())
		},
	}
	var want []string
	for _, key := range keys {
		for cluster, breaks := range broken {
			if strings.Contains(key, "vh:"+cluster+"/") {
				fatal.If(t, breaks(key))
				want = append(want, key)
			}
		}
	}
	o, logs := watched(t, engine)
	for range 2 {
		for _, cluster := range []string{"demo", "third", "other"} {
			if _, known := o.For(t.Context(), store.Key{Cluster: cluster, Namespace: "n", Target: "t"}); known != (broken[cluster] == nil) {
				t.Errorf("known of %s: %t", cluster, known)
			}
		}
		o.Refresh(t.Context())
	}
	if _, _, err := o.Create(t.Context(), target.Place{Cluster: "demo"}, "more", held(time.Hour), "", time.Now()); !errors.As(err, new(*overrides.UnreadableError)) {
		t.Errorf("create: %v", err)
	}
	var named []string
	for _, line := range logs.FilterMessageSnippet("overrides can't be read").All() {
		text := fmt.Sprint(line.ContextMap()["error"])
		for _, key := range want {
			if strings.Contains(text, key) && strings.Contains(text, "the stored overrides of cluster") {
				named = append(named, key)
			}
		}
	}
	if slices.Sort(named); !slices.Equal(named, want) {
		t.Errorf("the log names %q, want %q once each: %v", named, want, logs.All())
	}
}

// A Redis that is full takes no creation, and deletions all the same, also of an override that had less than the
// record says of its end.
func TestDeletionsPassOnAFullRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	o, admin := instance(t, servertest.Redis(t, server.URL())), server.Client(t)
	for _, id := range []string{"a", "b", "c"} {
		create(t, o, shop, id, held(time.Hour))
	}
	fatal.If(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
	refused := func(when string) {
		t.Helper()
		if _, _, err := o.Create(t.Context(), shop, "d", held(time.Hour), "", time.Now()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a creation %s: %v, want ErrUnavailable", when, err)
		}
	}
	refused("on a full Redis")
	for _, id := range []string{"a", "b"} {
		if _, err := o.Delete(t.Context(), shop, id, strings.Repeat("x", 128)); err != nil {
			t.Fatalf("a deletion on a full Redis: %v", err)
		}
	}
	refused("after deletions")
	all, err := o.Of(t.Context(), []string{"demo"})
	if err != nil || len(all[0]) != 1 || all[0][0].GetName() != shop.Override("c") {
		t.Errorf("there are %v, want c; %v", all, err)
	}
	if left, err := admin.Keys(t.Context(), "*demo*").Result(); err != nil || len(left) == 0 {
		t.Fatal(left, err)
	} else if ttl := admin.PTTL(t.Context(), left[0]).Val(); ttl < 0 {
		t.Errorf("%s lives for %s: the record would stay for ever", left[0], ttl)
	}
}

// Many at once on two instances of a real Redis: each change is made once, and none is refused.
func TestManyChangeOneCluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	var both [2]*overrides.Overrides
	for i := range both {
		both[i] = instance(t, servertest.Redis(t, server.URL()))
	}
	const creates = 60
	var refused atomic.Int64
	var calls sync.WaitGroup
	began := time.Now()
	for i := range creates {
		calls.Go(func() {
			place := target.Place{Cluster: "demo", Namespace: fmt.Sprint("n-", i/4)}
			if _, _, err := both[i%2].Create(t.Context(), place, fmt.Sprint("id-", i), held(time.Hour), fmt.Sprint("token:", i), time.Now()); err != nil {
				refused.Add(1)
				t.Error(err)
			}
		})
	}
	calls.Wait()
	t.Logf("%d of %d creates failed, in %s", refused.Load(), creates, time.Since(began))
	all, err := both[0].Of(t.Context(), []string{"demo"})
	if err != nil || len(all[0]) != creates {
		t.Errorf("there are %d, want %d; %v", len(all[0]), creates, err)
	}
}

// fullPlace is the place of an override of a full list, by its number.
func fullPlace(i int) target.Place {
	return target.Place{Cluster: "demo", Namespace: fmt.Sprint("shop-", i%2), Target: fmt.Sprint("target-", i)}
}

// mostCreated is how many overrides a cluster takes.
const mostCreated = overrides.MostOfCluster - overrides.ReservedOfCluster

// fillAtOnce fills the list of a cluster, many at once: each swap writes the whole list.
func fillAtOnce(t *testing.T, o *overrides.Overrides) {
	t.Helper()
	for first := 0; first < mostCreated; first += 100 {
		var creates sync.WaitGroup
		for i := first; i < min(first+100, mostCreated); i++ {
			creates.Go(func() {
				if _, _, err := o.Create(t.Context(), fullPlace(i), "freeze", held(time.Hour), "", time.Now()); err != nil {
					t.Error(err)
				}
			})
		}
		creates.Wait()
	}
}

// An unchanged list costs a few bytes a period, however long it is.
func TestBytesOfUnchangedLists(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	o, admin := instance(t, servertest.Redis(t, server.URL())), server.Client(t)
	fillAtOnce(t, o)
	// A read of the list may take longer than a decision waits, where others keep the processors busy.
	for deadline := time.Now().Add(time.Minute); len(of(o, store.Key(fullPlace(0)))) == 0; o.Refresh(t.Context()) {
		if time.Now().After(deadline) {
			t.Fatal("the list is not known")
		}
	}
	const periods = 20
	before := bytesOf(t, admin)
	idle := bytesOf(t, admin) - before
	before = bytesOf(t, admin)
	for range periods {
		o.Refresh(t.Context())
	}
	each := (bytesOf(t, admin) - before - idle) / periods
	t.Logf("%d bytes a period for %d overrides", each, mostCreated)
	if each > 1024 {
		t.Errorf("an unchanged list costs %d bytes a period, want at most 1,024", each)
	}
}

// bytesOf is how many bytes a Redis server has received and sent.
func bytesOf(t *testing.T, admin *goredis.Client) (n int64) {
	t.Helper()
	info, err := admin.Info(t.Context(), "stats").Result()
	fatal.If(t, err)
	for line := range strings.Lines(info) {
		for _, name := range []string{"total_net_input_bytes:", "total_net_output_bytes:"} {
			if text, ok := strings.CutPrefix(line, name); ok {
				bytes, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
				fatal.If(t, err)
				n += bytes
			}
		}
	}
	return n
}

// A change of a full list that is refused reads its version, not the list; and what another instance changes meanwhile counts.
func TestBytesOfRefusedChanges(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	one, other := instance(t, servertest.Redis(t, server.URL())), instance(t, servertest.Redis(t, server.URL()))
	admin := server.Client(t)
	create := func(i int) error {
		_, _, err := one.Create(t.Context(), fullPlace(i), "freeze", held(time.Hour), "", time.Now())
		return err
	}
	fillAtOnce(t, one)
	var full *overrides.FullError
	if err := create(mostCreated); !errors.As(err, &full) { // which reads the list
		t.Fatalf("the list is full: %v", err)
	}
	const tries = 20
	before := bytesOf(t, admin)
	idle := bytesOf(t, admin) - before
	before = bytesOf(t, admin)
	for i := range tries {
		if err := create(mostCreated + i); !errors.As(err, &full) {
			t.Errorf("the list is full: %v", err)
		}
		if _, err := one.Delete(t.Context(), fullPlace(mostCreated), "freeze", ""); !errors.Is(err, overrides.ErrNotFound) {
			t.Errorf("there is none: %v", err)
		}
	}
	each := (bytesOf(t, admin) - before - idle) / (2 * tries)
	t.Logf("%d bytes for a refused change of %d overrides", each, mostCreated)
	if each > 1024 {
		t.Errorf("a refused change costs %d bytes, want at most 1,024", each)
	}
	if _, err := other.Delete(t.Context(), fullPlace(7), "freeze", ""); err != nil {
		t.Fatal(err)
	}
	if err := create(mostCreated); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	if err := create(mostCreated + 1); !errors.As(err, &full) {
		t.Errorf("the list is full again: %v", err)
	}
}

// With --redis-wait-replicas a creation and a deletion count once a replica has them, so that a failover loses none that was
// acknowledged.
func TestChangesWaitForReplicas(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 1, 1, redistest.Config{Calm: true})
	waiting := func(replicas int, timeout time.Duration) *overrides.Overrides {
		return instance(t, servertest.Redis(t, sentinel.URL(), func(o *redis.Options) {
			o.Timeout, o.WaitReplicas, o.WaitTimeout, o.MaxAttempts = 20*time.Second, replicas, timeout, 1
		}))
	}
	one, two := waiting(1, 10*time.Second), waiting(2, 100*time.Millisecond)
	if _, isNew, err := one.Create(t.Context(), shop, "freeze", held(time.Hour), "alice", time.Now()); err != nil || !isNew {
		t.Fatalf("with a replica: %v, %t", err, isNew)
	}
	if _, _, err := two.Create(t.Context(), shop, "other", held(time.Hour), "alice", time.Now()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("with a replica too few: %v, want ErrUnavailable", err)
	}
	if _, err := two.Delete(t.Context(), shop, "freeze", "alice"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a deletion with a replica too few: %v, want ErrUnavailable", err)
	}
}
