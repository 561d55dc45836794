package forecasts_test

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/forecasts"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/forecast"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// foreseen asks with a forecast that is a floor.
func foreseen(replicas, queue int32) *setpointv1.RecommendRequest {
	req := servertest.Queue(servertest.Web, replicas, queue)
	req.TargetUid = "one"
	req.Stages = &setpointv1.Stages{Forecast: &setpointv1.Forecast{Mode: "FLOOR", TimeZone: "UTC"}}
	return req
}

// ringOf reads what is stored of a target's past.
func ringOf(t *testing.T, s *servertest.Service) (*forecast.Ring, store.Version) {
	t.Helper()
	part, err := s.Memory.Part(store.Forecasts, 0)
	fatal.If(t, err)
	r, err := part.Load(t.Context(), servertest.KeyOf(servertest.Web))
	fatal.If(t, err)
	ring, err := forecast.Decode(r.Value)
	fatal.If(t, err)
	return ring, r.Version
}

// await waits until the ring knows a value of each of the last quarters.
func await(t *testing.T, s *servertest.Service, quarters int) {
	t.Helper()
	servertest.Eventually(t, func() bool {
		ring, _ := ringOf(t, s)
		return ring.Recent(forecast.BucketOf(s.Clock.Now())-int64(quarters), quarters) == quarters
	})
}

func forecastOf(t *testing.T, all []*setpointv1.Adjustment) *setpointv1.Adjustment {
	t.Helper()
	for _, a := range all {
		if a.GetStage() == "FORECAST" {
			return a
		}
	}
	t.Fatalf("no forecast is told: %v", all)
	return nil
}

// TestTwoInstancesKeepOnePast asks two instances by turns for nine days: what both wrote together is the forecast of each,
// also in a batch, and it goes with the target.
func TestTwoInstancesKeepOnePast(t *testing.T) {
	t.Parallel()
	a := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxClockSkew = 0 })
	b := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.MaxClockSkew, su.Options.Clock = 0, a.Clock.Now
		su.Store.Store = a.Memory
	})
	const quarters = 9 * 96
	for i := range quarters {
		s := []*servertest.Service{a, b}[i%2]
		s.Recommend(t, foreseen(14, 140))
		a.Clock.Advance(forecast.Length)
	}
	a.Recommend(t, foreseen(14, 140)) // closes the last one
	await(t, a, quarters-1)
	a.Clock.Advance(forecast.Length)
	for name, s := range map[string]*servertest.Service{"a": a, "b": b} {
		for what, resp := range map[string]*setpointv1.RecommendResponse{"alone": s.Recommend(t, foreseen(9, 90)), "batch": s.Batch(t, foreseen(9, 90))[0].GetResponse()} {
			told := forecastOf(t, resp.GetAdjustments())
			if resp.GetDesiredReplicas() != 14 || resp.GetPlainDesiredReplicas() != 9 || told.GetRule() != "floor" || !strings.HasPrefix(told.GetMessage(), "forecast 14 for ") {
				t.Errorf("%s, %s: %v", name, what, resp)
			}
		}
		if last := s.Target(t, servertest.Web).GetLastDecision(); forecastOf(t, last.GetAdjustments()).GetAfter() != 14 {
			t.Errorf("%s: the target tells %v", name, last)
		}
	}
	await(t, a, quarters)
	_, before := ringOf(t, a)
	a.Clock.Advance(forecast.Length)
	dry := foreseen(9, 90)
	dry.DryRun = true
	for _, s := range []*servertest.Service{a, b} {
		if resp := s.Recommend(t, dry); resp.GetDesiredReplicas() != 14 {
			t.Errorf("a dry run: %v", resp)
		}
	}
	other := foreseen(9, 90)
	other.TargetUid = "another one of the name"
	if resp := b.Recommend(t, other); forecastOf(t, resp.GetAdjustments()).GetRule() != "none" {
		t.Errorf("another incarnation has the past of the first one: %v", resp)
	}
	if _, after := ringOf(t, a); after != before {
		t.Error("a dry run, or a quarter that nothing closed, was written")
	}
	if _, err := a.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web}); err != nil {
		t.Fatal(err)
	}
	if _, version := ringOf(t, a); version != "" {
		t.Error("the past of a deleted target is kept")
	}
	if resp := a.Recommend(t, foreseen(9, 90)); forecastOf(t, resp.GetAdjustments()).GetRule() != "none" {
		t.Errorf("a target of the deleted one's name has its past: %v", resp)
	}
}

// TestAPastOutlivesAPause has a workload that is off for weeks: nothing is added to its past meanwhile, which stays for as long
// as it counts.
func TestAPastOutlivesAPause(t *testing.T) {
	t.Parallel()
	clock := servertest.NewClock(servertest.T0)
	engine := memory.New(memory.Options{Clock: clock.Now})
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.MaxClockSkew, su.Options.Clock, su.Options.HistoryTTL, su.Engine, su.Log = 0, clock.Now, 24*time.Hour, engine, engine
	})
	s.Clock, s.Memory = clock, engine
	first := forecast.BucketOf(clock.Now())
	s.Recommend(t, foreseen(14, 140))
	clock.Advance(forecast.Length)
	s.Recommend(t, foreseen(14, 140)) // closes the first one
	await(t, s, 1)
	for hour := range 29 * 24 {
		ring, _ := ringOf(t, s)
		if known := ring.Recent(first, 1) == 1; known != (hour < 28*24) {
			t.Fatalf("after %d hours its past is known: %t", hour, known)
		}
		s.Recommend(t, foreseen(0, 140))
		clock.Advance(time.Hour)
	}
}

// TestWithoutForecastNothingIsRead is that decisions without a forecast neither read nor write the record.
func TestWithoutForecastNothingIsRead(t *testing.T) {
	t.Parallel()
	var reads atomic.Int32
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnForecasts = func() error { reads.Add(1); return nil }
	})
	for range 20 {
		req := servertest.Queue(servertest.Web, 3, 90)
		s.Recommend(t, req)
		req.Stages = &setpointv1.Stages{Combine: &setpointv1.Combine{Method: "MIN"}}
		s.Batch(t, proto.CloneOf(req))
		s.Clock.Advance(forecast.Length)
	}
	if n := reads.Load(); n != 0 {
		t.Errorf("%d reads", n)
	}
	s.Clock.Advance(forecast.Length - s.Clock.Now().Sub(forecast.StartOf(forecast.BucketOf(s.Clock.Now()))))
	for range 8 { // once a quarter, whatever comes
		s.Recommend(t, foreseen(3, 90))
		s.Clock.Advance(time.Minute)
	}
	if n := reads.Load(); n != 1 {
		t.Errorf("%d reads in a quarter of an hour with a forecast, want 1", n)
	}
}

// TestNoDecisionFailsForItsForecast is that a decision is made as without a forecast if its past can't be read, and that
// the store is not asked again at once.
func TestNoDecisionFailsForItsForecast(t *testing.T) {
	t.Parallel()
	var reads atomic.Int32
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnForecasts = func() error { reads.Add(1); return errors.New("broken") }
	})
	for range 4 {
		resp := s.Recommend(t, foreseen(9, 90))
		if told := forecastOf(t, resp.GetAdjustments()); resp.GetDesiredReplicas() != 9 || told.GetRule() != "none" || told.GetMessage() != "no forecast: the store does not answer" {
			t.Errorf("%v", resp)
		}
		s.Clock.Advance(time.Second)
	}
	if n := reads.Load(); n != 1 {
		t.Errorf("%d reads in 4 seconds, want 1", n)
	}
	s.Clock.Advance(5 * time.Second)
	if s.Recommend(t, foreseen(9, 90)); reads.Load() != 2 {
		t.Errorf("%d reads, want another one", reads.Load())
	}
}

// faulty is a store that answers those who still wait, with an error if it has one, and says that another instance wrote
// first if others do.
type faulty struct {
	store.PartStore
	err    error
	others bool
	takes  time.Duration // of a read
}

// counted is a store for counts, with how long an attempt to reach it may take.
type counted struct {
	store.PartStore
	store.Usages
	timeout time.Duration
}

func (c counted) Timeout() time.Duration { return c.timeout }

func (f *faulty) LoadBatch(ctx context.Context, keys []store.Key) ([]store.Record, error) {
	if f.takes > 0 {
		select {
		case <-time.After(f.takes):
		case <-ctx.Done():
		}
	}
	if err := cmp.Or(ctx.Err(), f.err); err != nil {
		return nil, err
	}
	return f.PartStore.LoadBatch(ctx, keys)
}

func (f *faulty) CompareAndSwapBatch(ctx context.Context, swaps []store.Swap) ([]store.SwapResult, error) {
	if f.others {
		return make([]store.SwapResult, len(swaps)), nil
	}
	return f.PartStore.CompareAndSwapBatch(ctx, swaps)
}

// ringsOf returns rings of clusters with one target each, in a store of their own.
func ringsOf(t *testing.T, timeout time.Duration) (*forecasts.Rings, *faulty, shares.Options) {
	t.Helper()
	part, err := memory.New(memory.Options{}).Part(store.Forecasts, 0)
	fatal.If(t, err)
	faults, limits := &faulty{PartStore: part}, shares.Options{ClusterTargets: 1, Clock: time.Now, Log: zap.NewNop()}
	rings := forecasts.New(faults, counted{part, part.(store.Usages), timeout}, forecasts.Options{Shares: limits, Away: new(atomic.Bool)})
	t.Cleanup(rings.Close)
	return rings, faults, limits
}

// TestWhoGetsAPast is that what is known of a past counts while the store does not answer, and that a call that ended
// while the past of its target was read, and a past that can't be read, say nothing of the store: the targets of others
// have theirs.
func TestWhoGetsAPast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rings, faults, _ := ringsOf(t, 0)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for i, step := range []struct {
			ctx     context.Context
			name    string
			err     error
			problem string
		}{
			{gone, servertest.Web, nil, "the store does not answer"},
			{t.Context(), servertest.Web, store.ErrUnreadable, "what is stored of its past can't be read: " + store.ErrUnreadable.Error()},
			{t.Context(), servertest.Web, nil, ""},
			{t.Context(), servertest.Web, errors.New("broken"), ""},
			{t.Context(), "clusters/other/namespaces/shop/targets/web", nil, "the store does not answer"},
		} {
			faults.err = step.err
			past := &stages.Past{}
			of := &stages.Forecast{Settings: forecast.Settings{Quantile: 90, Zone: time.UTC}}
			rings.Recall(step.ctx, []forecasts.Asked{{Key: servertest.KeyOf(step.name), Now: time.Now().Add(time.Duration(i) * forecast.Length), Of: of, Past: past}})
			if past.Problem != step.problem {
				t.Errorf("%s, where the store says %v: %q", step.name, step.err, past.Problem)
			}
		}
	})
}

// TestADistantPast is that a store which may take its time is waited for.
func TestADistantPast(t *testing.T) {
	t.Parallel()
	for timeout, problem := range map[time.Duration]string{time.Second: "the store does not answer", 3 * time.Second: ""} {
		synctest.Test(t, func(t *testing.T) {
			rings, faults, _ := ringsOf(t, timeout)
			faults.takes = 2 * time.Second
			past := &stages.Past{}
			of := &stages.Forecast{Settings: forecast.Settings{Quantile: 90, Zone: time.UTC}}
			rings.Recall(t.Context(), []forecasts.Asked{{Key: servertest.KeyOf(servertest.Web), Now: time.Now(), Of: of, Past: past}})
			if past.Problem != problem {
				t.Errorf("with a timeout of %s: %q", timeout, past.Problem)
			}
		})
	}
}

// TestAPastThatVanishedIsTold is that a past is told once that was there when it was last read, unless it may have expired.
func TestAPastThatVanishedIsTold(t *testing.T) {
	t.Parallel()
	for age, told := range map[time.Duration]int{time.Hour: 1, 15 * 24 * time.Hour: 0, 0: 0} { // 0: there was none
		synctest.Test(t, func(t *testing.T) {
			part, err := memory.New(memory.Options{}).Part(store.Forecasts, 0)
			fatal.If(t, err)
			key, missed := servertest.KeyOf(servertest.Web), 0
			var read time.Time
			rings := forecasts.New(part, part, forecasts.Options{Shares: shares.Options{Clock: time.Now, Log: zap.NewNop()}, Away: new(atomic.Bool), Missed: func(of store.Key, at time.Time) {
				if missed++; of != key || !at.Equal(read) {
					t.Errorf("%v at %s is missing, want %s", of, at, read)
				}
			}})
			defer rings.Close()
			basis := forecast.Basis{Shape: 1}
			recall := func() {
				of := &stages.Forecast{Settings: forecast.Settings{Quantile: 90, Zone: time.UTC}}
				rings.Recall(t.Context(), []forecasts.Asked{{Key: key, Now: time.Now(), Of: of, Past: &stages.Past{Basis: basis}}})
				time.Sleep(forecast.Length)
			}
			if age > 0 {
				ring := new(forecast.Ring)
				ring.Add(forecast.Closed{Bucket: forecast.BucketOf(time.Now().Add(-age)), Replicas: 3, Of: basis.Hash()}, &basis, forecast.Daily)
				if _, err := part.CompareAndSwap(t.Context(), store.Swap{Key: key, Value: ring.Append(nil)}); err != nil {
					t.Fatal(err)
				}
			}
			recall()
			read = time.Now()
			recall()
			if _, err := part.Delete(t.Context(), key); err != nil || missed > 0 {
				t.Fatal(missed, err)
			}
			recall()
			recall()
			if missed != told {
				t.Errorf("with a past that is %s old it was told %d times, want %d", age, missed, told)
			}
		})
	}
}

// TestLostQuarters is that what is not written is counted, and that a ring takes a target's room of its cluster until
// it is deleted.
func TestLostQuarters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rings, faults, limits := ringsOf(t, 0)
		metrics := prometheus.NewRegistry()
		metrics.MustRegister(rings.Collectors()...)
		other := "clusters/" + servertest.KeyOf(servertest.Web).Cluster + "/namespaces/shop/targets/other"
		for i, step := range []struct {
			name   string
			err    error
			others bool
			lost   float64
			delete bool
		}{
			{servertest.Web, errors.New("broken"), false, 2, false},
			{servertest.Web, nil, true, 4, false},
			{servertest.Web, nil, false, 4, false},
			{other, nil, false, 6, false},
			{servertest.Web, nil, false, 6, true},
			{other, nil, false, 6, false},
		} {
			faults.err, faults.others = step.err, step.others
			for range 2 {
				rings.Add(forecasts.Closed{Key: servertest.KeyOf(step.name), Bucket: forecast.Closed{Bucket: int64(i), Replicas: 1}, Bounds: limits.For(nil)})
			}
			synctest.Wait()
			if all, err := metrics.Gather(); err != nil || all[0].GetMetric()[0].GetCounter().GetValue() != step.lost {
				t.Errorf("step %d: lost %v, %v; want %v", i, all, err, step.lost)
			}
			if !step.delete {
				continue
			}
			fatal.If(t, rings.Delete(t.Context(), servertest.KeyOf(step.name)))
		}
	})
}

// TestAPastThatCannotBeRead is that one of a newer version stays as it is, and a corrupt one begins anew.
func TestAPastThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value []byte
		anew  bool
	}{"newer": {[]byte{99, 1, 2, 3}, false}, "corrupt": {[]byte{1, 2}, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			part, err := s.Memory.Part(store.Forecasts, 0)
			fatal.If(t, err)
			key := servertest.KeyOf(servertest.Web)
			stored, err := part.CompareAndSwap(t.Context(), store.Swap{Key: key, Value: c.value})
			fatal.If(t, err)
			for range 3 {
				resp := s.Recommend(t, foreseen(9, 90))
				if told := forecastOf(t, resp.GetAdjustments()); told.GetRule() != "none" || resp.GetDesiredReplicas() != 9 {
					t.Errorf("%v", resp)
				}
				s.Clock.Advance(forecast.Length)
			}
			if c.anew {
				await(t, s, 0)
				servertest.Eventually(t, func() bool {
					r, err := part.Load(t.Context(), key)
					return err == nil && r.Version != stored.Record.Version
				})
				return
			}
			s.StopAndWait(t) // what was queued is written
			if r, err := part.Load(t.Context(), key); err == nil && r.Version != stored.Record.Version {
				t.Error("it was overwritten")
			}
		})
	}
}

// TestTheFormOfTheRecord is that what is written of a series is, byte by byte, what every release has written.
func TestTheFormOfTheRecord(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxClockSkew = 0 })
	start := s.Clock.Now()
	s.Clock.Advance(forecast.StartOf(forecast.BucketOf(start) + 1).Sub(start)) // to the begin of a quarter
	for _, queue := range []int32{90, 120, 40, 700, 90} {
		s.Recommend(t, foreseen(9, queue))
		s.Clock.Advance(forecast.Length)
	}
	s.Recommend(t, foreseen(9, 90)) // closes the last one
	s.StopAndWait(t)                // what was queued is written
	part, err := s.Memory.Part(store.Forecasts, 0)
	fatal.If(t, err)
	r, err := part.Load(t.Context(), servertest.KeyOf(servertest.Web))
	fatal.If(t, err)
	if got, want := hex.EncodeToString(r.Value), "019dc5927101904ec5ec7714081186017b"; got != want {
		t.Errorf("%s (began %s), want %s", got, start, want)
	}
}
