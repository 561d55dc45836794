package decision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/shares"
	truths "github.com/setpoint-dev/setpoint/server/truth"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

func newTruth(o TruthOptions, engine store.Store) *Truth {
	return NewTruth(o, engine, func(log store.Log) *decisionlog.Log { return decisionlog.New(log, nil, zap.NewNop(), 0) })
}

// keep keeps a decision of a target at an instant.
func keep(t *Truth, key store.Key, at time.Time, changes ...func(*Job)) {
	j := &Job{
		Request: Request{Key: key, Now: at, SpecHash: 1, Input: &recommender.Input{Options: recommender.DefaultOptions()}},
		Outcome: Outcome{Decision: recommender.Decision{At: at}}, targets: &Targets{Truth: t}, room: new(room),
	}
	for _, change := range changes {
		change(j)
	}
	j.asked = asked{keeps: j.keepsTruth()}
	j.noteTruth(&record.Record{}, false)
	j.keepTruth()
}

func keyed(cluster string, i int) store.Key {
	return store.Key{Cluster: cluster, Namespace: "n", Target: fmt.Sprint("t", i)}
}

// written is how many entries a target has in the store.
func written(tb testing.TB, t *Truth, key store.Key) int {
	tb.Helper()
	values, _, err := t.chunks.ReadLog(tb.Context(), key, "", 1000)
	if err != nil {
		tb.Fatal(err)
	}
	return len(values)
}

// TestABatchKeepsTheSumsOfEachTarget decides targets that differ in what their pods use together, and some of them twice:
// each has what it was asked.
func TestABatchKeepsTheSumsOfEachTarget(t *testing.T) {
	const targetsOfBatch, steps = 5, 2
	options := DefaultOptions()
	options.Clock, options.Log = time.Now, zap.NewNop()
	engine := memory.New(memory.Options{})
	targets := New(engine, &options, func(bool) {}, t.Context())
	targets.Decisions = decisionlog.New(nil, nil, options.Log, 0)
	defer targets.Decisions.Close()
	targets.Shares = shares.New(engine, options.Shares(), nil)
	targets.Truth = newTruth(TruthOptions{Bytes: DayOfTruth, Age: time.Hour, Buffer: 1 << 20}, engine)
	defer targets.Truth.Close()
	now := time.Now()
	usage := func(i, step int) int64 { return int64(100*(i+1) + step) }
	batch := &Batch{}
	for step := range steps {
		for i := range targetsOfBatch {
			utilization := int32(60)
			in := &recommender.Input{Namespace: "n", Options: recommender.DefaultOptions(), Scale: recommender.Scale{SpecReplicas: 1, StatusReplicas: 1}}
			in.Spec = recommender.Spec{MinReplicas: 1, MaxReplicas: 20, Metrics: []recommender.MetricSpec{{
				Type: recommender.ResourceMetric, Resource: "cpu", Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: &utilization},
			}}}
			in.Pods = []recommender.Pod{{
				Name: "p", Phase: recommender.PhaseRunning, Ready: recommender.ReadyTrue, StartTime: now.Add(-time.Hour), ReadyTransition: now.Add(-time.Hour),
				Containers: []recommender.Container{{Name: "web", Requests: []recommender.ResourceRequest{{Resource: "cpu", Quantity: quantity.FromMilli(500)}}}},
			}}
			in.PodMetrics = []recommender.PodMetrics{{
				Pod: "p", Timestamp: now, Window: 30 * time.Second,
				Containers: []recommender.ContainerMetrics{{Name: "web", Usage: []recommender.ResourceUsage{{Resource: "cpu", Milli: usage(i, step)}}}},
			}}
			batch.Jobs = append(batch.Jobs, &Job{Request: Request{Key: keyed("c", i), Now: now.Add(time.Duration(step) * time.Second), SpecHash: 1, Input: in}})
		}
	}
	targets.RecommendAll(t.Context(), batch)
	for i := range targetsOfBatch {
		chunks, _, err := targets.Truth.Read(t.Context(), keyed("c", i).String(), "", 0, 10)
		if err != nil || len(chunks) != 1 {
			t.Fatalf("target %d: %d chunks, %v", i, len(chunks), err)
		}
		kept, _, err := truths.Open(chunks[0])
		if err != nil || len(kept) != steps {
			t.Fatalf("target %d: %d decisions, %v", i, len(kept), err)
		}
		for step := range kept {
			if got, want := kept[step].Metrics[0].Sums.Ready.Usage, usage(i, step); got != want {
				t.Errorf("target %d, decision %d: its pods used %d, kept is %d", i, step, want, got)
			}
		}
	}
}

// TestABufferIsBoundedAndShared floods an instance with targets of one cluster: its memory is bounded, and another
// cluster's targets are kept.
func TestABufferIsBoundedAndShared(t *testing.T) {
	truth := newTruth(TruthOptions{Bytes: DayOfTruth, Age: time.Hour, Buffer: 4 << 20}, memory.New(memory.Options{}))
	defer truth.Close()
	now := time.Now()
	const flood = 20_000
	for i := range flood {
		keep(truth, keyed("flood", i), now)
	}
	if used := truth.used.Load(); used > 4<<20 || used < 1<<20 {
		t.Errorf("%d bytes are used", used)
	}
	missing := 0
	for i := range 500 {
		key := keyed("other", i)
		keep(truth, key, now)
		if chunks, _, err := truth.Read(t.Context(), key.String(), "", 0, 10); err != nil || len(chunks) != 1 {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d of 500 targets of another cluster are not kept", missing)
	}
}

// TestChunksEndByThemselves holds when chunks are written, and that what is idle takes no memory.
func TestChunksEndByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		truth := newTruth(TruthOptions{Bytes: DayOfTruth, Age: 24 * time.Hour, Buffer: 1 << 20}, memory.New(memory.Options{}))
		key := keyed("c", 1)
		keep(truth, key, time.Now())
		if n := written(t, truth, key); n != 0 {
			t.Errorf("%d chunks at once", n)
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if n := written(t, truth, key); n == 0 {
			t.Error("no chunk after ten minutes")
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if used := truth.used.Load(); used != 0 {
			t.Errorf("an idle target takes %d bytes", used)
		}
		n := written(t, truth, key)
		keep(truth, key, time.Now())
		truth.Close()
		if written(t, truth, key) <= n {
			t.Error("a stop loses what is not yet written")
		}
	})
}

// TestATargetIsBounded keeps many decisions of one target with texts that differ: what the store has is bounded.
func TestATargetIsBounded(t *testing.T) {
	const most = LeastTruthBytes
	engine := memory.New(memory.Options{})
	truth := newTruth(TruthOptions{Bytes: most, Age: time.Hour, Buffer: 1 << 20}, engine)
	key, now := keyed("c", 1), time.Now()
	for i := range 5000 {
		j := &Job{
			Request: Request{Key: key, Now: now.Add(time.Duration(i) * time.Second), SpecHash: 1, Input: &recommender.Input{Options: recommender.DefaultOptions()}},
			Outcome: Outcome{Decision: recommender.Decision{At: now.Add(time.Duration(i) * time.Second), Error: fmt.Sprintf("%x", i*i*i*7919)}}, targets: &Targets{Truth: truth}, room: new(room),
		}
		j.asked = asked{keeps: j.keepsTruth()}
		j.noteTruth(&record.Record{}, false)
		j.keepTruth()
	}
	truth.Close()
	values, _, err := truth.chunks.ReadLog(t.Context(), key, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, value := range values {
		size += len(value)
	}
	if size > most || size < most/4 {
		t.Errorf("%d bytes of a target, with --recording-bytes=%d", size, most)
	}
}

// roomOf starts what has room for that many targets of a store, with targets of clusters.
func roomOf(tb testing.TB, room int, targets map[string]int) *Truth {
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
	t := newTruth(TruthOptions{Bytes: DayOfTruth, Age: time.Hour, Total: room * DayOfTruth, Buffer: 1 << 30}, engine)
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
		{"a cluster's share of the store", unlimited, map[string]int{"a": 4000, "b": 4000}, map[string]int{"a": 500, "b": 4000}, map[string]int64{"a": 500 * DayOfTruth}},
		{"the share is less than the room", 5000, map[string]int{"a": 4000}, map[string]int{"a": 500}, map[string]int64{"a": 500 * DayOfTruth}},
		{"an unknown share", 5000, map[string]int{"a": 4000}, map[string]int{"a": 4000}, map[string]int64{"a": -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			truth, other := roomOf(t, c.room, c.targets), roomOf(t, c.room, c.targets)
			clusters := make(map[string]int64)
			for cluster := range c.targets {
				clusters[cluster] = c.shares[cluster]
			}
			truth.divide(clusters)
			other.divide(clusters)
			total := 0
			for cluster, n := range c.targets {
				kept := 0
				for i := range n {
					key := keyed(cluster, i)
					if truth.room.keeps(&key) != other.room.keeps(&key) {
						t.Errorf("two instances do not keep the same targets: %v", key)
					}
					if truth.room.keeps(&key) {
						kept++
					}
				}
				total += kept
				if want := c.want[cluster]; kept != want && (want == n || kept < want*85/100 || kept > want*115/100) {
					t.Errorf("%d of %d targets of %s are kept, want about %d", kept, n, cluster, want)
				}
			}
			if c.room > 0 && total > c.room*108/100 {
				t.Errorf("%d targets are kept, with room for %d", total, c.room)
			}
		})
	}
}

// TestWhatHasNoRoomIsNotKept keeps decisions of targets beyond the room, and of those again when there is room.
func TestWhatHasNoRoomIsNotKept(t *testing.T) {
	truth := roomOf(t, 1, map[string]int{"a": 1000})
	truth.divide(map[string]int64{"a": 0})
	now := time.Now()
	for i := range 1000 {
		keep(truth, keyed("a", i), now)
	}
	tails := func() (n int) {
		for i := range truth.shards {
			n += len(truth.shards[i].tails)
		}
		return n
	}
	if n := tails(); n > 10 || truth.room.least() > .01 {
		t.Errorf("%d targets of 1000 are kept with room for one, a part of %v", n, truth.room.least())
	}
	truth.options.Total = 0
	truth.divide(map[string]int64{"a": 0})
	for i := range 1000 {
		keep(truth, keyed("a", i), now)
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
			truth := newTruth(TruthOptions{Bytes: LeastTruthBytes, Age: 24 * time.Hour, Buffer: most}, &failing{memory.New(memory.Options{}), blocks})
			began := time.Now()
			for i := range 20_000 { // many chunks, in no time
				j := &Job{
					Request: Request{Key: keyed("c", i%4), Now: began.Add(time.Duration(i) * time.Second), SpecHash: 1, Input: &recommender.Input{Options: recommender.DefaultOptions()}},
					Outcome: Outcome{Decision: recommender.Decision{At: began.Add(time.Duration(i) * time.Second), Error: fmt.Sprint(i)}}, targets: &Targets{Truth: truth}, room: new(room),
				}
				j.asked = asked{keeps: j.keepsTruth()}
				j.noteTruth(&record.Record{}, false)
				j.keepTruth()
			}
			if waited := time.Since(began); waited > 0 {
				t.Errorf("decisions waited %v", waited)
			}
			if used := truth.used.Load(); used > most {
				t.Errorf("%d bytes are used", used)
			}
			time.Sleep(time.Hour)
			if truth.log.Lost() == 0 {
				t.Error("nothing is lost")
			}
			truth.Close()
		})
	}
}

// TestADeletedTargetLeavesNoChunks deletes one whose chunks are written, and one of which some wait.
func TestADeletedTargetLeavesNoChunks(t *testing.T) {
	truth := newTruth(TruthOptions{Bytes: DayOfTruth, Age: time.Hour, Buffer: 1 << 20}, memory.New(memory.Options{}))
	defer truth.Close()
	now := time.Now()
	for i := range 3 {
		key := keyed("c", i)
		keep(truth, key, now)
		if i > 0 {
			truth.sealDue(now.Add(time.Hour))
		}
		if i > 1 {
			if err := truth.log.Flush(t.Context(), key); err != nil || written(t, truth, key) == 0 {
				t.Fatal("nothing is written", err)
			}
		}
		if err := truth.delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		truth.sealDue(now.Add(2 * time.Hour))
		if err := truth.log.Flush(t.Context(), key); err != nil || written(t, truth, key) != 0 {
			t.Errorf("%d chunks of target %d are left, %v", written(t, truth, key), i, err)
		}
	}
}

// TestMemoryOfRecordings fills the room with targets of a day at 15 s, in the memory of this process: they take
// little more than what they are counted with.
func TestMemoryOfRecordings(t *testing.T) {
	const targets, chunk = 200, 735 // bytes of ten minutes, see TestBytesOfADay
	engine := memory.New(memory.Options{})
	chunks := engine.Chunks(truthChunks, DefaultTruthAge)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 2 * truthChunks {
		for i := range targets {
			if err := chunks.AppendLog(t.Context(), []store.LogEntry{{Key: keyed("c", i), Value: make([]byte, chunk)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / targets
	t.Logf("%d bytes a target of %d that chunks have", each, truthChunks*chunk)
	if each > DayOfTruth*6/5 || each < truthChunks*chunk {
		t.Errorf("%d bytes a target, counted with %d", each, DayOfTruth)
	}
	const guide = "../../docs/guides/recorded-decisions.md"
	testpages.Figure(t, guide, "without Redis # kB of the process", float64(each)/1e3, 0.1)
	testpages.Figure(t, guide, "| # | 134217728 (default)", float64(DefaultTruthTotal/DayOfTruth), 0)
	runtime.KeepAlive(engine)
}

// TestAStartKeepsNoMoreThanThereIsRoomFor asks for more targets than fit before any were counted: their memory and what
// is written of them stay within the room, and within seconds those are kept that every instance keeps.
func TestAStartKeepsNoMoreThanThereIsRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room, asked = 100, 2000
		truth := roomOf(t, room, map[string]int{"a": asked})
		for range 3 {
			for i := range asked {
				keep(truth, keyed("a", i), time.Now())
			}
			if n := counted(truth); n > truth.fits() {
				t.Fatalf("%d targets are kept, with room for %d", n, room)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		kept := 0
		for i := range asked {
			key := keyed("a", i)
			s := truth.shard(&key)
			s.mu.Lock()
			_, has := s.tails[key]
			s.mu.Unlock()
			if has != truth.room.keeps(&key) {
				t.Errorf("target %d: recorded %v, but its name says %v", i, has, !has)
			}
			if has {
				kept++
			}
		}
		if int64(kept) != counted(truth) || kept < room*7/10 {
			t.Errorf("%d targets are kept, %d counted, with room for %d", kept, counted(truth), room)
		}
		truth.Close()
	})
}

// counted is how many tails are counted.
func counted(t *Truth) int64 {
	t.clusters.mu.Lock()
	defer t.clusters.mu.Unlock()
	return t.clusters.all
}

// TestAClusterThatChoosesItsNamesTakesNoRoomOfOthers asks for targets of a cluster whose names are all among those that are
// kept, before and after another cluster's are asked for.
func TestAClusterThatChoosesItsNamesTakesNoRoomOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room, victims, flood = 100, 20, 5000
		truth := roomOf(t, room, map[string]int{"victim": victims, "flood": flood})
		chosen := func(n int) []store.Key {
			const spread = 2654435769
			var keys []store.Key
			for i := 0; len(keys) < n; i++ {
				if key := keyed("flood", i); truthHash(&key)*spread < 1<<24 {
					keys = append(keys, key)
				}
			}
			return keys
		}(flood)
		for range 4 {
			for _, key := range chosen {
				keep(truth, key, time.Now())
			}
			for i := range victims {
				keep(truth, keyed("victim", i), time.Now())
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		truth.clusters.mu.Lock()
		of := maps.Clone(truth.clusters.of)
		truth.clusters.mu.Unlock()
		if of["victim"] != victims || of["flood"] > withSome(room-victims) {
			t.Errorf("kept are %v, with room for %d", of, room)
		}
		truth.Close()
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
	truth := newTruth(TruthOptions{Bytes: DayOfTruth, Age: time.Hour, Buffer: 1 << 20}, memory.New(memory.Options{}))
	defer truth.Close()
	key, begin := keyed("c", 1), time.Now()
	held := func(j *Job) { j.Input.HoldDown = true }
	keep(truth, key, begin, held) // a target of which nothing is known
	for i, changes := range [][]func(*Job){nil, nil, {held}, nil, nil} {
		keep(truth, key, begin.Add(time.Duration(i)*15*time.Second), changes...)
	}
	chunks, _, err := truth.Read(t.Context(), key.String(), "", 0, 100)
	if err != nil || len(chunks) != 1 {
		t.Fatalf("%d chunks, %v", len(chunks), err)
	}
	steps, _, err := truths.Open(chunks[0])
	if err != nil {
		t.Fatal(err)
	}
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
	truth := newTruth(TruthOptions{Bytes: DayOfTruth, Age: time.Hour, Buffer: 1 << 20}, memory.New(memory.Options{}))
	defer truth.Close()
	at, key := time.Now(), keyed("c", 1)
	const loop = 1000
	for range loop {
		at = at.Add(time.Millisecond)
		keep(truth, key, at)
	}
	at = at.Add(3 * time.Minute)
	keep(truth, key, at)
	chunks, _, err := truth.Read(t.Context(), key.String(), "", 0, 100)
	if err != nil || len(chunks) == 0 {
		t.Fatalf("%d chunks, %v", len(chunks), err)
	}
	var steps []truths.Step
	for _, chunk := range chunks {
		of, _, err := truths.Open(chunk)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, of...)
	}
	last := steps[0]
	for _, step := range steps {
		if step.At > last.At {
			last = step
		}
	}
	if n := len(steps); n < truths.Burst || n > truths.Burst+5 || last.At != at.UnixNano() || len(last.State) == 0 {
		t.Errorf("%d decisions are recorded, the last with a record of %d bytes at %v", n, len(last.State), time.Unix(0, last.At))
	}
}
