package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/bench/client"
	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/process"
	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/bench/request"
)

var kills = Scenario{
	Name: "kills", Title: "A master and an instance killed under load",
	Note: "Four instances on a Redis Cluster of three masters with a replica each (node timeout 1 s, `cluster-require-full-coverage no`), all stored targets asked for once, and single calls at half of the rate measured just before, from callers that go to another instance after an error. Meanwhile each of 60 further targets is asked for every 50 ms; each process is killed as by a crash, its machine stays. Without an answer: the longest pause between two answers to one of these targets.",
	play: (*stage).kills,
}

const (
	// probes are the further targets, and probePause is between two calls for one.
	probes, probePause = 60, 50 * time.Millisecond
	// callPatience is how long a caller waits for an answer.
	callPatience = time.Second
	// killWithin is the longest until all targets are answered again, and killWatch the least
	// that is watched after a kill.
	killWithin, killWatch = time.Minute, 3 * time.Second
	// concerned is the pause from which a target counts as concerned by a kill.
	concerned = 500 * time.Millisecond
	// mostKills is how often each is killed at most: each master once.
	mostKills = ClusterMasters
)

// wandering has callers that go to the next instance after an error.
type wandering struct {
	calls []load.Call
	at    []int // by caller
}

// newWandering is for that many callers of the set's targets, one connection to each instance.
func newWandering(clients []*client.Client, set *request.Set, callers int) *wandering {
	w := &wandering{at: make([]int, callers)}
	for _, c := range clients {
		w.calls = append(w.calls, c.Unary(set, callers))
	}
	for caller := range w.at {
		w.at[caller] = caller % len(clients)
	}
	return w
}

func (w *wandering) call(ctx context.Context, caller int) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	err := w.calls[w.at[caller]](ctx, caller)
	if err != nil {
		w.at[caller] = (w.at[caller] + 1) % len(w.calls)
	}
	return err
}

func (s *stage) kills() ([]report.Figure, error) {
	times := min(s.Runs, mostKills)
	cluster, err := s.cluster(ClusterMasters, true)
	if err != nil {
		return nil, err
	}
	var services []*process.Service
	var clients []*client.Client
	for range times + 1 {
		service, err := s.serviceOn(cluster.URL())
		if err != nil {
			return nil, err
		}
		c, err := s.dial(service.GRPC)
		if err != nil {
			return nil, err
		}
		services, clients = append(services, service), append(clients, c)
	}
	for first := 0; first < s.Stored; first += storedSet {
		set, err := request.NewSet(first, min(storedSet, s.Stored-first), storedPods, false)
		if err != nil {
			return nil, err
		}
		if err := s.fillBy(clients[first/storedSet%len(clients)], set, 1, 1); err != nil { // a cluster on one machine takes no more
			return nil, err
		}
	}
	set, err := request.NewSet(s.Stored, s.Targets, usualPods, false)
	if err != nil {
		return nil, err
	}
	asked, err := request.NewSet(s.Stored+s.Targets, probes, usualPods, false)
	if err != nil {
		return nil, err
	}
	steady := newWandering(clients, set, openInFlight)
	probing := newWandering(clients, asked, probes)
	busy := load.Closed(s.ctx, s.Callers, s.Duration, steady.call)
	rate := busy.Rate() / 2
	if busy.Done == 0 {
		return nil, fmt.Errorf("no call was answered before anything was killed: %w", busy.Err)
	}
	figures := []report.Figure{{Name: "rate of the calls", Unit: "/s", Runs: []float64{rate}}}
	for _, victim := range []struct {
		name string
		goal float64
		kill func(i int)
	}{
		{"a master killed", 5, func(i int) { cluster.Masters[i].Kill() }},
		{"an instance killed", 1, func(i int) { services[i].Kill() }},
	} {
		silent := report.Figure{Name: victim.name + ": without an answer", Unit: "s", Goal: report.AtMost(victim.goal)}
		share := report.Figure{Name: victim.name + fmt.Sprintf(": targets without an answer for %v", concerned), Unit: "%"}
		failed := report.Figure{Name: victim.name + ": calls failed from then on until all were answered again", Unit: "%"}
		for i := range times {
			k, err := s.killed(steady.call, probing.call, rate, func() { victim.kill(i) })
			if err != nil {
				return nil, fmt.Errorf("%s: %w", victim.name, err)
			}
			s.Log("%s: %s: no answer for %v, %d of %d targets concerned, %d of %d calls failed", s.name, victim.name, k.longest, k.concerned, probes,
				k.load.Failed, k.load.Failed+k.load.Done)
			silent.Runs = append(silent.Runs, k.longest.Seconds())
			share.Runs = append(share.Runs, 100*float64(k.concerned)/probes)
			failed.Runs = append(failed.Runs, 100*float64(k.load.Failed)/float64(max(1, k.load.Failed+k.load.Done)))
		}
		figures = append(figures, silent, share, failed)
	}
	return figures, nil
}

// killing is what callers see of a kill.
type killing struct {
	longest   time.Duration
	concerned int
	load      *load.Result
}

// killed kills under load, and returns when all are answered again.
func (s *stage) killed(steady, probe load.Call, rate float64, kill func()) (k killing, err error) {
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	loaded := make(chan *load.Result, 1)
	go func() {
		loaded <- load.Open(ctx, load.Plan{Rate: rate, Duration: killWithin, InFlight: openInFlight}, steady)
	}()
	// Each has been answered before, and again after.
	var mu sync.Mutex
	var before, after sync.WaitGroup
	before.Add(probes)
	gone, failures := make(chan struct{}), 0
	for caller := range probes {
		after.Go(func() {
			var last time.Time
			var longest time.Duration
			ready, since := false, time.Time{}
			began := time.Now()
			for time.Since(began) < 2*killWithin && ctx.Err() == nil {
				err := probe(ctx, caller)
				now := time.Now()
				if err == nil {
					if !ready {
						ready = true
						before.Done()
					}
					select {
					case <-gone:
						if since.IsZero() {
							since = now
						}
						longest = max(longest, now.Sub(last))
					default:
					}
					last = now
					if !since.IsZero() && now.Sub(since) > killWatch {
						break
					}
				}
				select {
				case <-ctx.Done():
				case <-time.After(probePause):
				}
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case !ready:
				before.Done()
				failures++
			case since.IsZero():
				failures++
			}
			k.longest = max(k.longest, longest)
			if longest >= concerned {
				k.concerned++
			}
		})
	}
	before.Wait()
	kill()
	close(gone)
	after.Wait()
	stop()
	k.load = <-loaded
	if failures > 0 {
		return k, fmt.Errorf("%d of %d targets were not answered within %v", failures, probes, 2*killWithin)
	}
	return k, s.ctx.Err()
}
