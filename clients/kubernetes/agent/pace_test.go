package agent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/pace"
)

// limitedHPA has the default policies for scaling up: double in 15 s, or four more.
func limitedHPA(name string, periodSeconds int32) *autoscalingv2.HorizontalPodAutoscaler {
	hpa := evaluatedHPA("shop", name)
	hpa.Spec.Behavior.ScaleUp.Policies = []autoscalingv2.HPAScalingPolicy{
		{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: periodSeconds},
		{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: periodSeconds},
	}
	return hpa
}

// latency is how long calls take.
type latency struct {
	// read and call bound a reading, which all objects share that begin within a second, and
	// any other call.
	read, call time.Duration

	mu          sync.Mutex
	random      *rand.Rand
	began, ends time.Time     // of the last reading
	spent       time.Duration // by all calls that delay the next request
}

func (l *latency) of(call string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	upTo := func(most time.Duration) time.Duration { return time.Duration(l.random.Int64N(int64(most) + 1)) }
	d := upTo(l.call)
	if call == "read" {
		now := time.Now()
		if now.Sub(l.began) >= maxReadingAge {
			l.began, l.ends = now, now.Add(upTo(l.read))
		}
		d = max(0, l.ends.Sub(now))
	}
	l.spent += d
	return d
}

// The built-in controller reconciles a period after the end of the previous reconcile, when the
// previous change is out of a policy's period of the same length. The same holds here, however
// long calls take: no step takes two periods, the pace is no slower than the built-in
// controller's plus the slack, and objects still share their readings.
func TestNoStepTakesTwoPeriods(t *testing.T) {
	t.Parallel()
	const (
		objects = 30
		most    = 100 // replicas
	)
	for _, tt := range []struct {
		name       string
		period     time.Duration
		read, call time.Duration
		// readings bounds the readings per reconcile: an object reads itself if it can't use
		// another's reading.
		readings float64
	}{
		{"calls take no time", 15 * time.Second, 0, 0, 1.2},
		{"calls take what they usually do", 15 * time.Second, 30 * time.Millisecond, 30 * time.Millisecond, 1.2},
		{"metrics take a second", 15 * time.Second, 2 * time.Second, 30 * time.Millisecond, 2.5},
		{"all calls take longer than the slack", 15 * time.Second, 400 * time.Millisecond, 400 * time.Millisecond, 10},
		{"all calls take seconds", 15 * time.Second, 3 * time.Second, 3 * time.Second, 15},
		{"a short period", 3 * time.Second, 50 * time.Millisecond, 50 * time.Millisecond, 1.5},
		{"a minute", time.Minute, 300 * time.Millisecond, 300 * time.Millisecond, 1.5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, tt.period)
				l := &latency{read: tt.read, call: tt.call, random: rand.New(rand.NewPCG(14, uint64(tt.call)))}
				w.delay = l.of
				var names []string
				for i := range objects {
					name := fmt.Sprintf("web-%02d", i)
					names = append(names, "shop/"+name)
					w.workload("shop/"+name, 1, 10)
					w.add(limitedHPA(name, int32(tt.period/time.Second)))
				}
				time.Sleep(10 * tt.period)
				for _, name := range names {
					w.workload(name, 1, 10*most)
				}
				time.Sleep(14 * tt.period)
				steps, longest := 0, time.Duration(0)
				for _, name := range names {
					want(t, "replicas of "+name, w.count(name), most)
					at := w.scaledAt[name]
					want(t, "steps of "+name, len(at), 6) // 5, 10, 20, 40, 80, 100
					for i := range at[1:] {
						steps, longest = steps+1, max(longest, at[i+1].Sub(at[i]))
					}
				}
				// A step ends when the count is written: between two steps are the period, the
				// slack, a reading and four calls.
				if bound := tt.period + pace.Slack(tt.period) + tt.read + 4*tt.call; longest > bound {
					t.Errorf("the longest of %d steps took %s, want at most %s", steps, longest, bound)
				}

				before, began := w.readsSoFar(), time.Now()
				l.mu.Lock()
				l.spent = 0
				l.mu.Unlock()
				time.Sleep(25 * tt.period)
				reconciles := float64(w.readsSoFar()-before) / objects
				l.mu.Lock()
				mean := time.Duration(float64(l.spent) / reconciles / objects)
				l.mu.Unlock()
				every := time.Duration(float64(time.Since(began)) / reconciles)
				// At either end a partial reconcile counts as a whole one or as none.
				if bound := tt.period + max(pace.Slack(tt.period), mean) + tt.period/20; every > bound || every < tt.period-tt.period/20 {
					t.Errorf("a reconcile every %s, want at most %s: a reconcile takes %s", every, bound, mean)
				}
				readings := float64(readingsSince(w, began)) / reconciles
				if readings > tt.readings {
					t.Errorf("%.2f readings a reconcile of %d objects, want at most %v", readings, objects, tt.readings)
				}
				t.Logf("the longest of %d steps: %s; a reconcile every %s, which takes %s; %.2f readings a reconcile", steps, longest, every, mean, readings)
			})
		})
	}
}

// Objects at rest share their readings from their second reconcile on, however long calls take:
// a slow cluster does not get more requests.
func TestObjectsAtRestShareReadings(t *testing.T) {
	t.Parallel()
	const objects = 30
	for _, call := range []time.Duration{0, 400 * time.Millisecond, 3 * time.Second} {
		t.Run(call.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const period = 15 * time.Second
				w := newWorld(t, period)
				l := &latency{read: call, call: call, random: rand.New(rand.NewPCG(14, uint64(call)))}
				w.delay = l.of
				for i := range objects {
					time.Sleep(period / objects) // so that first reconciles are spread
					name := fmt.Sprintf("web-%02d", i)
					w.workload("shop/"+name, 1, 10)
					w.add(limitedHPA(name, 15))
				}
				time.Sleep(2 * period)
				before, began := w.readsSoFar(), time.Now()
				const periods = 20
				time.Sleep(periods * (period + pace.Slack(period)))
				if readings := readingsSince(w, began); readings > periods+1 {
					t.Errorf("%d readings of %d objects in %d periods", readings, objects, periods)
				}
				if reads := w.readsSoFar() - before; reads < (periods-1)*objects || reads > (periods+1)*objects {
					t.Errorf("%d reconciles of %d objects in %d periods", reads, objects, periods)
				}
			})
		})
	}
}

// readingsSince returns the number of readings of all objects, given that readings are shared
// for a second.
func readingsSince(w *world, began time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.Clone(w.readAt)
	slices.SortFunc(at, time.Time.Compare)
	n, last := 0, time.Time{}
	for _, read := range at {
		if read.Before(began) || read.Sub(last) < maxReadingAge {
			continue
		}
		n, last = n+1, read
	}
	return n
}

// A new object waits a period, as with the built-in controller, and a change of its spec does
// not shorten that; an object that any controller evaluated before does not wait.
func TestFirstReconciles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.start(func(o *agent.Options) { o.FirstWait = pace.MaxFirstWait })
		w.workload("shop/old", 3, 50)
		w.workload("shop/new", 3, 50)
		w.workload("shop/slow", 3, 50)
		w.add(evaluatedHPA("shop", "old"))
		began := time.Now()
		key := w.add(newHPA("shop", "new"))
		slow := newHPA("shop", "slow")
		slow.Annotations[SyncPeriodAnnotation] = "1h"
		w.add(slow)
		settle()
		want(t, "replicas of one that was evaluated before", w.count("shop/old"), 5)
		w.with(func() {
			w.fault = func(string, int) error { t.Error("asked within the first period"); return nil }
		})
		time.Sleep(period / 2)
		w.change(key, func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Spec.MaxReplicas = 4 })
		time.Sleep(period/2 - 2*time.Millisecond)
		w.with(func() { w.fault = nil })
		time.Sleep(period/8 + time.Second)
		want(t, "replicas after the first reconcile", w.count("shop/new"), 4)
		want(t, "replicas before the first reconcile", w.count("shop/slow"), 3)
		time.Sleep(time.Until(began.Add(pace.MaxFirstWait + pace.MaxFirstWait/8 + time.Second)))
		want(t, "replicas of one with a long period", w.count("shop/slow"), 5)

		// A recreated object is new.
		asked := w.askedSince(time.Time{})
		other := newHPA("shop", "slow")
		other.Annotations[SyncPeriodAnnotation] = "1h"
		w.workload("shop/slow", 3, 70)
		w.add(other)
		time.Sleep(time.Second)
		want(t, "replicas while a namesake waits", w.count("shop/slow"), 3)
		time.Sleep(pace.MaxFirstWait + pace.MaxFirstWait/8)
		want(t, "replicas after a namesake's first reconcile", w.count("shop/slow"), 7)
		if w.askedSince(time.Time{}) == asked {
			t.Error("the agent sent no request")
		}
	})
}
