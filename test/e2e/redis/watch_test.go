//go:build linux

package redis

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// audience is many watchers of all decisions.
type audience struct {
	t          *testing.T
	watchers   []*spectator
	here       atomic.Int64 // watchers that had a response
	received   atomic.Int64 // decisions, of all watchers
	interrupts atomic.Int64
	running    sync.WaitGroup
}

// spectator is a watcher and its decisions. Read its fields after it has ended.
type spectator struct {
	at     map[string][]time.Time // when the decisions on a target came
	missed []string
}

// gather starts watchers on several connections, to all instances each, which end with the test.
func gather(t *testing.T, connections, each int, addresses []string) (a *audience, end func()) {
	t.Helper()
	a = &audience{t: t}
	ctx, cancel := context.WithCancel(t.Context())
	end = func() { cancel(); a.running.Wait() }
	t.Cleanup(end)
	for range connections {
		client, err := setpoint.New(strings.Join(addresses, ","), setpoint.WithInsecure(),
			// The machine of a test may be busy, or stand still for seconds.
			setpoint.WithRetry(setpoint.Retry{MaxAttempts: 50, AttemptTimeout: time.Minute}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		for range each {
			w := &spectator{at: make(map[string][]time.Time)}
			a.watchers = append(a.watchers, w)
			a.running.Go(func() { a.watch(ctx, client, w) })
		}
	}
	eventually(t, slow, func() error {
		if n := int(a.here.Load()); n < len(a.watchers) {
			return fmt.Errorf("%d of %d watchers are there", n, len(a.watchers))
		}
		return nil
	})
	return a, end
}

func (a *audience) watch(ctx context.Context, client *setpoint.Client, w *spectator) {
	here := false
	req := &setpointv1.WatchDecisionsRequest{Parent: "clusters/-/namespaces/-/targets/-"}
	for r, err := range client.WatchDecisions(ctx, req, func(error) { a.interrupts.Add(1) }) {
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.t.Errorf("a watch ended: %v", err)
			return
		}
		if !here {
			here = true
			a.here.Add(1)
		}
		if r.GetMissedDecisions() > 0 || r.GetMissedUncounted() {
			w.missed = append(w.missed, fmt.Sprintf("%d, uncounted %t", r.GetMissedDecisions(), r.GetMissedUncounted()))
		}
		if r.GetDecision() != nil {
			w.at[r.GetTarget()] = append(w.at[r.GetTarget()], time.Now())
			a.received.Add(1)
		}
	}
}

// await waits until the watchers have so many decisions each, taken together.
func (a *audience) await(each int) {
	a.t.Helper()
	eventually(a.t, slow, func() error {
		if have, want := a.received.Load(), int64(each*len(a.watchers)); have < want {
			return fmt.Errorf("%d of %d decisions came", have, want)
		}
		return nil
	})
}

// decided is a decision without a change, which is watched once.
func decided(ticket int64) *setpointv1.RecommendRequest {
	request := newCall(ticket, fmt.Sprint(targetPrefix, "w", ticket)).request
	count, _ := strconv.Atoi(request.GetExternalMetrics()[0].GetValue())
	request.Scale = &setpointv1.Scale{SpecReplicas: int32(count), StatusReplicas: pointer(int32(count))}
	return request
}

// residentMiB is a process' resident memory.
func residentMiB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() >> 20
}

// A thousand watchers of three instances, one of which is killed: its watchers resume
// elsewhere, and all get each decision once. The killed one makes no decisions at that moment:
// unwritten ones would be lost with it.
func TestWatchersOfAnInstanceThatIsKilled(t *testing.T) {
	t.Parallel()
	const (
		connections, each = 10, 100
		before, after     = 30, 60
		pause             = 200 * time.Millisecond // between decisions
		// An instance with a thousand watchers, goroutines and streams of theirs, on a busy machine.
		mostMiB = 512
	)
	redis := redistest.Start(t, redistest.Config{})
	instances := service.StartAll(t, 3, "--redis="+redis.URL())
	var addresses []string
	for _, s := range instances {
		addresses = append(addresses, s.GRPCAddr())
	}
	audience, end := gather(t, connections, each, addresses)
	answered := make(map[string]time.Time)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	decide := func(s *service.Instance) {
		t.Helper()
		<-tick.C
		request := decided(int64(len(answered)))
		if _, err := s.Recommendations().Recommend(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		answered[request.GetTarget()] = time.Now()
	}
	for i := range before {
		decide(instances[i%3])
	}
	audience.await(before)
	full := make([]int, 3)
	for i, s := range instances {
		full[i] = int(s.Metric("setpoint_watchers"))
		if full[i] == 0 {
			t.Errorf("instance %d has no watchers", i)
		}
	}
	var killed time.Time
	for i := range after {
		if i == after/3 {
			killed = time.Now()
			instances[0].Kill()
		}
		decide(instances[1+i%2])
	}
	audience.await(before + after)
	for i, s := range instances[1:] {
		if mib := residentMiB(t, s.PID()); mib > mostMiB {
			t.Errorf("instance %d takes %d MiB, at most %d wanted", i+1, mib, mostMiB)
		} else {
			t.Logf("instance %d: %d watchers and then %.0f, %d MiB, %.0f KiB of decisions kept for watchers", i+1, full[i+1],
				s.Metric("setpoint_watchers"), mib, s.Metric("setpoint_watch_buffer_bytes")/1024)
		}
		if bytes := s.Metric("setpoint_watch_buffer_bytes"); bytes > 33<<20 {
			t.Errorf("instance %d keeps %.0f bytes of decisions for watchers", i+1, bytes)
		}
	}
	if n := int(audience.interrupts.Load()); n < full[0] {
		t.Errorf("%d streams were interrupted, want the %d of the killed instance at least", n, full[0])
	}
	end()
	audience.check(answered, killed)
}

// check compares the watchers' decisions with those made, and reports the duration.
func (a *audience) check(answered map[string]time.Time, killed time.Time) {
	a.t.Helper()
	var quiet, midst []time.Duration
	for i, w := range a.watchers {
		if len(w.missed) > 0 {
			a.t.Errorf("watcher %d was told that it missed decisions: %v", i, w.missed)
		}
		if len(w.at) > len(answered) {
			a.t.Errorf("watcher %d got decisions on %d targets, there are %d", i, len(w.at), len(answered))
		}
		for target, at := range answered {
			if len(w.at[target]) != 1 {
				a.t.Errorf("watcher %d got the decision on %s %d times", i, target, len(w.at[target]))
				continue
			}
			took := w.at[target][0].Sub(at)
			if at.Before(killed.Add(-5*time.Second)) || at.After(killed.Add(5*time.Second)) {
				quiet = append(quiet, took)
			} else {
				midst = append(midst, took)
			}
		}
	}
	for name, all := range map[string][]time.Duration{"otherwise": quiet, "within 5 s of the kill": midst} {
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		at := func(share float64) time.Duration {
			return all[int(share*float64(len(all)-1))].Round(time.Millisecond)
		}
		a.t.Logf("from the answer to a watcher, %s (%d): median %v, 90 %% %v, 99 %% %v, most %v", name, len(all), at(0.5), at(0.9), at(0.99), at(1))
		if at(0.5) > 5*time.Second {
			a.t.Errorf("%s decisions took %v to half of the watchers, at most 5 s wanted", name, at(0.5))
		}
	}
}
