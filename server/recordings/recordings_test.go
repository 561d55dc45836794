package recordings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/truth"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

func newRecordings(o Options, engine store.Store) *Recordings {
	return New(o, engine, func(log store.Log) *decisionlog.Log { return decisionlog.New(log, nil, zap.NewNop(), 0) })
}

// keep keeps a decision of a target at an instant.
func keep(r *Recordings, key store.Key, at time.Time, changes ...func(*Call)) {
	keepAfter(r, key, at, &record.Record{}, changes...)
}

// keepAfter is keep for a decision on a record.
func keepAfter(r *Recordings, key store.Key, at time.Time, known *record.Record, changes ...func(*Call)) {
	c := &Call{Key: &key, Now: at, SpecHash: 1, Input: &recommender.Input{Options: recommender.DefaultOptions()}, Decision: &recommender.Decision{At: at}}
	for _, change := range changes {
		change(c)
	}
	var a Asked
	var m Memory
	r.Begin(&a, c.Key, c.Input, false)
	r.Note(&a, c, known, false)
	r.Keep(&a, c, &m)
}

func keyed(cluster string, i int) store.Key {
	return store.Key{Cluster: cluster, Namespace: "n", Target: fmt.Sprint("t", i)}
}

// written is how many entries a target has in the store.
func written(tb testing.TB, t *Recordings, key store.Key) int {
	tb.Helper()
	values, _, err := t.chunks.ReadLog(tb.Context(), key, "", 1000)
	fatal.If(tb, err)
	return len(values)
}

// TestABufferIsBoundedAndShared floods an instance with targets of one cluster: its memory is bounded, and another
// cluster's targets are kept.
func TestABufferIsBoundedAndShared(t *testing.T) {
	recorded := newRecordings(Options{Bytes: DayBytes, Age: time.Hour, Buffer: 4 << 20}, memory.New(memory.Options{}))
	defer recorded.Close()
	now := time.Now()
	const flood = 20_000
	for i := range flood {
		keep(recorded, keyed("flood", i), now)
	}
	if used := recorded.used.Load(); used > 4<<20 || used < 1<<20 {
		t.Errorf("%d bytes are used", used)
	}
	missing := 0
	for i := range 500 {
		key := keyed("other", i)
		keep(recorded, key, now)
		if chunks, _, err := recorded.Read(t.Context(), key, "", 0, 10); err != nil || len(chunks) != 1 {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d of 500 targets of another cluster are not kept", missing)
	}
}

// TestPagesOfLongChunks holds that a page has no more bytes than clients take, and that the pages have all chunks.
func TestPagesOfLongChunks(t *testing.T) {
	o, key := Options{Bytes: 64 << 20, Age: time.Hour, Buffer: 1 << 20}, keyed("c", 1)
	recorded := newRecordings(o, memory.New(memory.Options{}))
	defer recorded.Close()
	const n = 9
	for range n {
		fatal.If(t, recorded.chunks.AppendLog(t.Context(), []store.LogEntry{{Key: key, Value: make([]byte, truth.MaxChunk)}}))
	}
	all, position := 0, ""
	for range n {
		chunks, next, err := recorded.Read(t.Context(), key, position, 0, 100)
		if err != nil || len(chunks) == 0 || len(chunks) > 3 {
			t.Fatalf("%d chunks in a page, %v", len(chunks), err)
		}
		if all, position = all+len(chunks), next; next == "" {
			break
		}
	}
	if all != n {
		t.Errorf("%d chunks in all pages", all)
	}
}

// TestChunksEndByThemselves holds when chunks are written, and that what is idle takes no memory.
func TestChunksEndByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorded := newRecordings(Options{Bytes: DayBytes, Age: 24 * time.Hour, Buffer: 1 << 20}, memory.New(memory.Options{}))
		key := keyed("c", 1)
		keep(recorded, key, time.Now())
		if n := written(t, recorded, key); n != 0 {
			t.Errorf("%d chunks at once", n)
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if n := written(t, recorded, key); n == 0 {
			t.Error("no chunk after ten minutes")
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if used := recorded.used.Load(); used != 0 {
			t.Errorf("an idle target takes %d bytes", used)
		}
		n := written(t, recorded, key)
		keep(recorded, key, time.Now())
		recorded.Close()
		if written(t, recorded, key) <= n {
			t.Error("a stop loses what is not yet written")
		}
	})
}

// TestATargetIsBounded keeps many decisions of one target with texts that differ: what the store has is bounded.
func TestATargetIsBounded(t *testing.T) {
	const most = LeastBytes
	engine := memory.New(memory.Options{})
	recorded := newRecordings(Options{Bytes: most, Age: time.Hour, Buffer: 1 << 20}, engine)
	key, now := keyed("c", 1), time.Now()
	for i := range 5000 {
		keep(recorded, key, now.Add(time.Duration(i)*time.Second), func(c *Call) { c.Decision.Error = fmt.Sprintf("%x", i*i*i*7919) })
	}
	recorded.Close()
	values, _, err := recorded.chunks.ReadLog(t.Context(), key, "", 1000)
	fatal.If(t, err)
	size := 0
	for _, value := range values {
		size += len(value)
	}
	if size > most || size < most/4 {
		t.Errorf("%d bytes of a target, with --recording-bytes=%d", size, most)
	}
}

// An instance that was asked last some minutes ago may write its chunk after another that was asked since: what is asked for
// since then is read from the other's.
func TestAChunkThatIsWrittenLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := memory.New(memory.Options{})
		o := Options{Bytes: DayBytes, Age: 24 * time.Hour, Buffer: 1 << 20}
		one, other := newRecordings(o, engine), newRecordings(o, engine)
		defer one.Close()
		defer other.Close()
		key := keyed("c", 1)
		keep(other, key, time.Now())
		time.Sleep(time.Minute)
		keep(one, key, time.Now())
		time.Sleep(3 * time.Minute)
		since := time.Now()
		keep(other, key, since)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := written(t, one, key); n != 2 {
			t.Fatalf("%d chunks are written", n)
		}
		chunks, next, err := one.Read(t.Context(), key, "", since.UnixNano(), 10)
		if err != nil || len(chunks) != 1 || next != "" {
			t.Fatalf("%d chunks, %q, %v", len(chunks), next, err)
		}
		if steps, _, err := truth.Open(chunks[0]); err != nil || steps[len(steps)-1].At != since.UnixNano() {
			t.Errorf("the chunk: %v", err)
		}
	})
}

// However much may be kept of a target, and for however long, a chunk ends before it has more than is read again.
func TestALargeRecordingIsReadWhole(t *testing.T) {
	for name, errors := range map[string]string{"many decisions": "", "long texts": strings.Repeat("x", truth.MaxText-10)} {
		recorded := newRecordings(Options{Bytes: 1 << 30, Age: 30 * 24 * time.Hour, Buffer: 1 << 30}, memory.New(memory.Options{}))
		key, now := keyed("c", 1), time.Now()
		const decisions = truth.MaxSteps + truth.MaxSteps/4
		for i := range decisions {
			keep(recorded, key, now.Add(time.Duration(i)*time.Second), func(c *Call) {
				if errors != "" {
					c.Decision.Error = fmt.Sprint(errors, i)
				}
			})
		}
		steps := 0
		for position := ""; ; {
			chunks, next, err := recorded.Read(t.Context(), key, position, 0, 100)
			fatal.If(t, err)
			for _, chunk := range chunks {
				of, _, err := truth.Open(chunk)
				if err != nil {
					t.Errorf("%s: a chunk can't be read: %v", name, err)
				}
				steps += len(of)
			}
			if position = next; next == "" {
				break
			}
		}
		if steps != decisions {
			t.Errorf("%s: %d of %d decisions are read", name, steps, decisions)
		}
		recorded.Close()
	}
}

// roomOf starts what has room for that many targets of a store, with targets of clusters.
func roomOf(tb testing.TB, room int, targets map[string]int) *Recordings {
	tb.Helper()
	engine := memory.New(memory.Options{})
	var swaps []store.Swap
	for cluster, n := range targets {
		for i := range n {
			swaps = append(swaps, store.Swap{Key: keyed(cluster, i), Value: []byte("x")})
		}
	}
	if _, err := engine.CompareAndSwapBatch(tb.Context(), swaps); err != nil {
		tb.Fatal(err)
	}
	t := newRecordings(Options{Bytes: DayBytes, Age: time.Hour, Total: room * DayBytes, Buffer: 1 << 30}, engine)
	tb.Cleanup(t.Close)
	return t
}

// TestTheRoomOfAllIsDivided counts which targets of clusters are kept.
func TestTheRoomOfAllIsDivided(t *testing.T) {
	const unlimited = 0
	for _, c := range []struct {
		name          string
		room          int
		targets, want map[string]int
		shares        map[string]int64
	}{
		{"all fit", 100, map[string]int{"a": 60, "b": 40}, map[string]int{"a": 60, "b": 40}, nil},
		{"one cluster takes the whole room, and no more", 1000, map[string]int{"a": 4000}, map[string]int{"a": 1000}, nil},
		{"a flood leaves the others' in place", 1000, map[string]int{"flood": 20_000, "a": 100, "b": 150}, map[string]int{"flood": 750, "a": 100, "b": 150}, nil},
		{"what a small one does not need the others have", 894, map[string]int{"a": 3000, "b": 1}, map[string]int{"a": 893, "b": 1}, nil},
		{"equal ones", 1000, map[string]int{"a": 2000, "b": 2000}, map[string]int{"a": 500, "b": 500}, nil},
		{"no room of all", unlimited, map[string]int{"a": 4000}, map[string]int{"a": 4000}, nil},
		{"a cluster's share of the store", unlimited, map[string]int{"a": 4000, "b": 4000}, map[string]int{"a": 500, "b": 4000}, map[string]int64{"a": 500 * DayBytes}},
		{"the share is less than the room", 5000, map[string]int{"a": 4000}, map[string]int{"a": 500}, map[string]int64{"a": 500 * DayBytes}},
		{"an unknown share", 5000, map[string]int{"a": 4000}, map[string]int{"a": 4000}, map[string]int64{"a": -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorded, other := roomOf(t, c.room, c.targets), roomOf(t, c.room, c.targets)
			clusters := make(map[string]int64)
			for cluster := range c.targets {
				clusters[cluster] = c.shares[cluster]
			}
			recorded.divide(clusters)
			other.divide(clusters)
			total := 0
			for cluster, n := range c.targets {
				kept := 0
				for i := range n {
					key := keyed(cluster, i)
					if recorded.room.keeps(&key) != other.room.keeps(&key) {
						t.Errorf("two instances do not keep the same targets: %v", key)
					}
					if recorded.room.keeps(&key) {
						kept++
					}
				}
				total += kept
				if want := c.want[cluster]; kept != want && (want == n || kept > want || float64(kept) < float64(want)-6*math.Sqrt(float64(want))) {
					t.Errorf("%d of %d targets of %s are kept, want somewhat fewer than %d", kept, n, cluster, want)
				}
			}
			if c.room > 0 && total > c.room {
				t.Errorf("%d targets are kept, with room for %d", total, c.room)
			}
		})
	}
}

// TestWhatHasNoRoomIsNotKept keeps decisions of targets beyond the room, and of those again when there is room.
func TestWhatHasNoRoomIsNotKept(t *testing.T) {
	recorded := roomOf(t, 1, map[string]int{"a": 1000})
	recorded.divide(map[string]int64{"a": 0})
	now := time.Now()
	for i := range 1000 {
		keep(recorded, keyed("a", i), now)
	}
	tails := func() (n int) {
		for i := range recorded.shards {
			n += len(recorded.shards[i].tails)
		}
		return n
	}
	if n := tails(); n > 10 || recorded.room.least() > .01 {
		t.Errorf("%d targets of 1000 are kept with room for one, a part of %v", n, recorded.room.least())
	}
	absent := 0
	for i := range 1000 {
		key := keyed("a", i)
		if why := recorded.Absence(&key, now, now); strings.Contains(why, "there is no room for this target") {
			absent++
		}
		if why := recorded.Absence(&key, now.Add(-61*time.Minute), now); !strings.Contains(why, "has expired: they are kept for 1h ") {
			t.Fatalf("after an hour: %s", why)
		}
	}
	if absent < 990 {
		t.Errorf("%d targets of 1000 are said to have no room", absent)
	}
	recorded.options.Total = 0
	recorded.divide(map[string]int64{"a": 0})
	for i := range 1000 {
		keep(recorded, keyed("a", i), now)
	}
	if n := tails(); n != 1000 {
		t.Errorf("%d targets of 1000 are kept with room for all", n)
	}
}

// failing is an engine whose second log fails, or answers nobody.
type failing struct {
	*memory.Store
	blocks bool
}

func (f *failing) Chunks(n int, ttl time.Duration) store.ChunkLog {
	return &failingLog{f.Store.Chunks(n, ttl), f.blocks}
}

type failingLog struct {
	store.ChunkLog
	blocks bool
}

func (f *failingLog) AppendLog(ctx context.Context, _ []store.LogEntry) error {
	if f.blocks {
		<-ctx.Done()
	}
	return errors.New("OOM command not allowed when used memory > 'maxmemory'")
}

// TestAWriteThatFailsIsInNobodysWay lets all writes fail, at once or after their time: no decision waits, memory is
// bounded, and what is lost is counted.
func TestAWriteThatFailsIsInNobodysWay(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const most = 1 << 20
			recorded := newRecordings(Options{Bytes: LeastBytes, Age: 24 * time.Hour, Buffer: most}, &failing{memory.New(memory.Options{}), blocks})
			began := time.Now()
			for i := range 20_000 { // many chunks, in no time
				keep(recorded, keyed("c", i%4), began.Add(time.Duration(i)*time.Second), func(c *Call) { c.Decision.Error = fmt.Sprint(i) })
			}
			if waited := time.Since(began); waited > 0 {
				t.Errorf("decisions waited %v", waited)
			}
			if used := recorded.used.Load(); used > most {
				t.Errorf("%d bytes are used", used)
			}
			time.Sleep(time.Hour)
			if recorded.log.Lost() == 0 {
				t.Error("nothing is lost")
			}
			recorded.Close()
		})
	}
}

// TestADeletedTargetLeavesNoChunks deletes one whose chunks are written, and one of which some wait.
func TestADeletedTargetLeavesNoChunks(t *testing.T) {
	recorded := newRecordings(Options{Bytes: DayBytes, Age: time.Hour, Buffer: 1 << 20}, memory.New(memory.Options{}))
	defer recorded.Close()
	now := time.Now()
	for i := range 3 {
		key := keyed("c", i)
		keep(recorded, key, now)
		if i > 0 {
			recorded.sealDue(now.Add(time.Hour))
		}
		if i > 1 {
			if err := recorded.log.Flush(t.Context(), key); err != nil || written(t, recorded, key) == 0 {
				t.Fatal("nothing is written", err)
			}
		}
		fatal.If(t, recorded.Delete(t.Context(), key))
		recorded.sealDue(now.Add(2 * time.Hour))
		if err := recorded.log.Flush(t.Context(), key); err != nil || written(t, recorded, key) != 0 {
			t.Errorf("%d chunks of target %d are left, %v", written(t, recorded, key), i, err)
		}
	}
}

// TestMemoryOfRecordings fills the room with targets of a day at 15 s, in the memory of this process: they take
// little more than what they are counted with.
func TestMemoryOfRecordings(t *testing.T) {
	const targets, chunk = 200, 735 // bytes of ten minutes, see TestBytesOfADay
	engine := memory.New(memory.Options{})
	chunks := engine.Chunks(chunksEach, DefaultAge)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 2 * chunksEach {
		for i := range targets {
			fatal.If(t, chunks.AppendLog(t.Context(), []store.LogEntry{{Key: keyed("c", i), Value: make([]byte, chunk)}}))
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / targets
	t.Logf("%d bytes a target of %d that chunks have", each, chunksEach*chunk)
	if each > DayBytes*6/5 || each < chunksEach*chunk {
		t.Errorf("%d bytes a target, counted with %d", each, DayBytes)
	}
	const guide = "../../docs/guides/recorded-decisions.md"
	testpages.Figure(t, guide, "without Redis # kB of the process", float64(each)/1e3, 0.1)
	testpages.Figure(t, guide, "| # | 134217728 (default)", float64(DefaultTotal/DayBytes), 0)
	runtime.KeepAlive(engine)
}

// TestAStartKeepsNoMoreThanThereIsRoomFor asks for more targets than fit before any were counted: their memory and what
// is written of them stay within the room, and within seconds those are kept that every instance keeps.
func TestAStartKeepsNoMoreThanThereIsRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room, asked = 100, 2000
		recorded := roomOf(t, room, map[string]int{"a": asked})
		for range 3 {
			for i := range asked {
				keep(recorded, keyed("a", i), time.Now())
			}
			if n := counted(recorded); n > recorded.fits() {
				t.Fatalf("%d targets are kept, with room for %d", n, room)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		kept := 0
		for i := range asked {
			key := keyed("a", i)
			s := recorded.shard(&key)
			s.mu.Lock()
			_, has := s.tails[key]
			s.mu.Unlock()
			if has != recorded.room.keeps(&key) {
				t.Errorf("target %d: recorded %v, but its name says %v", i, has, !has)
			}
			if has {
				kept++
			}
		}
		if int64(kept) != counted(recorded) || kept < room/2 {
			t.Errorf("%d targets are kept, %d counted, with room for %d", kept, counted(recorded), room)
		}
		recorded.Close()
	})
}

// counted is how many tails are counted.
func counted(t *Recordings) int64 {
	t.clusters.mu.Lock()
	defer t.clusters.mu.Unlock()
	return t.clusters.all
}

// TestAClusterThatChoosesItsNamesTakesNoRoomOfOthers asks for targets of a cluster whose names are all among those that are
// kept, before and after another cluster's are asked for.
func TestAClusterThatChoosesItsNamesTakesNoRoomOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room, victims, flood = 100, 20, 5000
		recorded := roomOf(t, room, map[string]int{"victim": victims, "flood": flood})
		chosen := func(n int) []store.Key {
			const spread = 2654435769
			var keys []store.Key
			for i := 0; len(keys) < n; i++ {
				if key := keyed("flood", i); hashOf(&key)*spread < 1<<24 {
					keys = append(keys, key)
				}
			}
			return keys
		}(flood)
		for range 4 {
			for _, key := range chosen {
				keep(recorded, key, time.Now())
			}
			for i := range victims {
				keep(recorded, keyed("victim", i), time.Now())
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		recorded.clusters.mu.Lock()
		of := maps.Clone(recorded.clusters.of)
		recorded.clusters.mu.Unlock()
		if of["victim"] != victims || of["flood"] > room-victims {
			t.Errorf("kept are %v, with room for %d", of, room)
		}
		recorded.Close()
	})
}

// TestTheRecordingsPace says which decisions of a target that is asked often are recorded.
func TestTheRecordingsPace(t *testing.T) {
	const second, minute = int64(time.Second), int64(time.Minute)
	for _, c := range []struct {
		name          string
		every, during int64
		least, most   int
		afterwards    int64
		isFreeAgain   bool
	}{
		{name: "every 15 s for a day", every: 15 * second, during: 24 * 60 * minute, least: 5760, most: 5760, afterwards: 15 * second, isFreeAgain: true},
		{name: "every second for an hour", every: second, during: 60 * minute, least: 3600, most: 3600, afterwards: second, isFreeAgain: true},
		{name: "a burst", every: second / 100, during: second, least: 100, most: 100, afterwards: second / 100, isFreeAgain: true},
		{name: "a loop", every: second / 100, during: 60 * minute, least: 60 * 60 / 2, most: 60 * 60 * 5 / 4, afterwards: second / 100},
		{name: "a loop, and a pause of two minutes", every: second / 100, during: minute, least: 120, most: 130, afterwards: 2 * minute, isFreeAgain: true},
		{name: "a loop, and a clock that goes back", every: second / 100, during: minute, least: 120, most: 130, afterwards: -60 * minute, isFreeAgain: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p pace
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
			n := 0
			for end := at + c.during; at < end; at += c.every {
				if p.allows(at) {
					n++
				}
			}
			if n < c.least || n > c.most {
				t.Errorf("%d are recorded, want %d to %d", n, c.least, c.most)
			}
			if got := p.allows(at + c.afterwards); got != c.isFreeAgain {
				t.Errorf("the next one is recorded: %v", got)
			}
		})
	}
}

// TestARecordingGoesOnAfterAnOutage decides without the store, which is not kept: the next decision has the record from which
// a replay can begin, and the one after it has none.
func TestARecordingGoesOnAfterAnOutage(t *testing.T) {
	recorded := newRecordings(Options{Bytes: DayBytes, Age: time.Hour, Buffer: 1 << 20}, memory.New(memory.Options{}))
	defer recorded.Close()
	key, begin := keyed("c", 1), time.Now()
	held := func(c *Call) { c.Input.HoldDown = true }
	keep(recorded, key, begin, held) // a target of which nothing is known
	for i, changes := range [][]func(*Call){nil, nil, {held}, nil, nil} {
		keep(recorded, key, begin.Add(time.Duration(i)*15*time.Second), changes...)
	}
	chunks, _, err := recorded.Read(t.Context(), key, "", 0, 100)
	if err != nil || len(chunks) != 1 {
		t.Fatalf("%d chunks, %v", len(chunks), err)
	}
	steps, _, err := truth.Open(chunks[0])
	fatal.If(t, err)
	var with []bool
	for _, step := range steps {
		with = append(with, len(step.State) > 0)
	}
	if want := []bool{true, false, true, false}; !slices.Equal(with, want) {
		t.Errorf("decisions with a record: %v, want %v", with, want)
	}
}

// TestARecordingGoesOnAfterALoop asks for a target in a loop, and then every 15 s: what is recorded has a gap, and after it
// the record from which a replay can begin.
func TestARecordingGoesOnAfterALoop(t *testing.T) {
	recorded := newRecordings(Options{Bytes: DayBytes, Age: time.Hour, Buffer: 1 << 20}, memory.New(memory.Options{}))
	defer recorded.Close()
	at, key := time.Now(), keyed("c", 1)
	const loop = 1000
	for range loop {
		at = at.Add(time.Millisecond)
		keep(recorded, key, at)
	}
	at = at.Add(3 * time.Minute)
	keep(recorded, key, at)
	chunks, _, err := recorded.Read(t.Context(), key, "", 0, 100)
	if err != nil || len(chunks) == 0 {
		t.Fatalf("%d chunks, %v", len(chunks), err)
	}
	var steps []truth.Step
	for _, chunk := range chunks {
		of, _, err := truth.Open(chunk)
		fatal.If(t, err)
		steps = append(steps, of...)
	}
	last := steps[0]
	for _, step := range steps {
		if step.At > last.At {
			last = step
		}
	}
	if n := len(steps); n < truth.Burst || n > truth.Burst+5 || last.At != at.UnixNano() || len(last.State) == 0 {
		t.Errorf("%d decisions are recorded, the last with a record of %d bytes at %v", n, len(last.State), time.Unix(0, last.At))
	}
}

// A cluster's share of the store is that of its last decisions: the policy may change it, and reports do not know it.
func TestTheShareOfAClusterIsFollowed(t *testing.T) {
	recorded := newRecordings(Options{Bytes: DayBytes, Age: time.Hour, Buffer: 1 << 20}, memory.New(memory.Options{}))
	defer recorded.Close()
	now, changed, reported := time.Now(), keyed("changed", 1), keyed("reported", 1)
	share := func(bytes int64) func(*Call) { return func(c *Call) { c.Most = bytes } }
	keep(recorded, changed, now, share(5000))
	keep(recorded, changed, now.Add(time.Second), share(7000))
	recorded.Report(&reported, now.UnixNano(), false, "")
	keep(recorded, reported, now.Add(time.Second), share(9000))
	if got, want := recorded.sealDue(now), map[string]int64{"changed": 7000, "reported": 9000}; !maps.Equal(got, want) {
		t.Errorf("the shares are %v, want %v", got, want)
	}
}

// A target has as many chunks of several instances, which its calls go round, as of one: they reach back as far.
func TestSeveralInstancesKeepADay(t *testing.T) {
	const instances, interval, day = 3, 15 * time.Second, 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		engine := memory.New(memory.Options{})
		var all []*Recordings
		for range instances {
			all = append(all, newRecordings(Options{Bytes: DayBytes, Age: day, Buffer: 1 << 20}, engine))
		}
		key, known := keyed("c", 1), record.Record{}
		for i := range int(30 * time.Hour / interval) {
			keepAfter(all[i%instances], key, time.Now(), &known)
			known.Seen, known.Updated = true, time.Now()
			time.Sleep(interval)
			synctest.Wait()
		}
		oldest := time.Now()
		for position, pages := "", 0; pages == 0 || position != ""; pages++ {
			chunks, next, err := all[0].Read(t.Context(), key, position, 0, 100)
			fatal.If(t, err)
			for _, chunk := range chunks {
				steps, _, err := truth.Open(chunk)
				fatal.If(t, err)
				oldest = time.Unix(0, min(oldest.UnixNano(), steps[0].At))
			}
			position = next
		}
		if back := time.Since(oldest); back < day-time.Hour || back > day+time.Hour {
			t.Errorf("they reach back %s", back)
		}
		for _, r := range all {
			r.Close()
		}
	})
}
