package scenario

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/bench/client"
	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/process"
	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/bench/request"
)

var watchers = Scenario{
	Name: "watchers", Title: "Watchers",
	Note: "The same single calls to several services: one without watchers, others with 10 or 100 watchers of all targets, with 100 that take up to 1,000 decisions at once (max_decisions), or with 1,000 that watch a namespace each. One target in a hundred changes with each call, which makes two decisions to send. The watchers run on the same machine. In a pause after each slice the service sends what still waits for watchers.",
	play: (*stage).watchers,
}

const (
	// changeEvery is the number of targets of which one changes.
	changeEvery = 100
	// watchersAConnection is how many streams share a connection.
	watchersAConnection = 100
	// watchPause is for decisions of a slice that still wait for watchers when it ends.
	watchPause = 500 * time.Millisecond
	// watchedRounds is how often each target is called before that.
	watchedRounds = 3
	// mostTogether is the maximum number of decisions of a response.
	mostTogether = 1000
	// mostWatchers limits the watchers, of one caller and in total.
	mostWatchers = 1000
)

// watched is a service with watchers.
type watched struct {
	name     string
	parents  []string
	together int32 // the most decisions of a response
	service  *process.Service
	redis    *process.Redis
	client   *client.Client
	set      *request.Set
	received *atomic.Int64
}

func (s *stage) watchers() (figures []report.Figure, err error) {
	for _, onRedis := range []bool{false, true} {
		on := "memory"
		if onRedis {
			on = "Redis"
		}
		all, err := s.watchedServices(onRedis)
		if err != nil {
			return nil, err
		}
		full, sent, err := s.compareWatched(all, 0)
		if err != nil {
			return nil, err
		}
		alone := rates(on+", no watchers", full[0], nil)
		half, _, err := s.compareWatched(all, alone.Median()/2)
		if err != nil {
			return nil, err
		}
		figures = append(figures, alone)
		figures = append(figures, costs(on+", no watchers, all callers busy", full[0])...)
		for i, w := range all[1:] {
			name := on + ", " + w.name
			figures = append(figures,
				ratio(name+": rate, of that without", full[i+1], full[0], report.AtLeast(97)),
				micros(name+", all callers busy: service's processor time a call, beyond that without", "service", full[i+1], full[0]),
				micros(name+", all callers busy: processor time a call of callers and watchers, beyond that without", clientPart, full[i+1], full[0]),
				microsSent(name+", all callers busy: service's processor time a decision sent", full[i+1], full[0], sent[i]),
				micros(name+", half the rate: service's processor time a call, beyond that without", "service", half[i+1], half[0]))
			figures = append(figures, latencies(name+", half the rate", half[i+1], nil, nil, nil)[:2]...)
		}
		figures = append(figures, latencies(on+", no watchers, half the rate", half[0], nil, nil, nil)[:2]...)
	}
	return figures, nil
}

// micros is the additional processor time of a part for a call, compared with the others.
func micros(name, part string, runs, others []run) report.Figure {
	f := report.Figure{Name: name, Unit: "µs"}
	for i := range runs {
		f.Runs = append(f.Runs, runs[i].micros[part]-others[i].micros[part])
	}
	return f
}

// microsSent is the service's processor time for sending a decision to a watcher, averaged
// over all runs: the additional time of calls.
func microsSent(name string, runs, others []run, sent int64) report.Figure {
	f := report.Figure{Name: name, Unit: "µs"}
	if sent == 0 {
		return f
	}
	var more float64
	for i := range runs {
		more += (runs[i].micros["service"] - others[i].micros["service"]) * float64(runs[i].Done)
	}
	f.Runs = []float64{more / float64(sent)}
	return f
}

// watchedServices starts the services, the first without watchers.
func (s *stage) watchedServices(onRedis bool) ([]*watched, error) {
	everything := func(n int) (parents []string) {
		for range n {
			parents = append(parents, "clusters/-/namespaces/-/targets/-")
		}
		return parents
	}
	var namespaces []string
	for i := range mostWatchers {
		namespaces = append(namespaces, fmt.Sprintf("clusters/prod/namespaces/shop-%05d/targets/-", i%max(1, s.Targets/100)))
	}
	all := []*watched{
		{name: "no watchers"},
		{name: "10 watchers of everything", parents: everything(10)},
		{name: "100 watchers of everything", parents: everything(100)},
		{name: "100 watchers of everything, decisions together", parents: everything(100), together: mostTogether},
		{name: "1,000 watchers of a namespace each", parents: namespaces},
	}
	set, err := request.NewSet(0, s.Targets, usualPods, false)
	if err != nil {
		return nil, err
	}
	if err := set.Change(changeEvery, usualPods); err != nil {
		return nil, err
	}
	for _, w := range all {
		if onRedis {
			if w.redis, err = s.redis(); err != nil {
				return nil, err
			}
		}
		if w.service, err = s.service(w.redis); err != nil {
			return nil, err
		}
		if w.client, err = s.dial(w.service.GRPC); err != nil {
			return nil, err
		}
		w.set = set.Anew()
		if err := s.fill(w.client, w.set, min(s.Rounds, watchedRounds)); err != nil {
			return nil, err
		}
	}
	for _, w := range all[1:] {
		conns, err := client.Dial(w.service.GRPC, (len(w.parents)+watchersAConnection-1)/watchersAConnection)
		if err != nil {
			return nil, err
		}
		s.onEnd(conns.Close)
		if w.received, err = conns.Watch(s.ctx, w.parents, w.together); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// compareWatched measures the services in turns: at a rate, or, for 0, with all callers
// busy. It returns the runs by service, and how many decisions each service with watchers
// sent.
func (s *stage) compareWatched(all []*watched, rate float64) (runs [][]run, sent []int64, err error) {
	var sides []side
	for _, w := range all {
		p := pair{service: w.service, redis: w.redis}
		drive := closed(s.Callers, w.client.Unary(w.set, s.Callers))
		if rate > 0 {
			drive = due(rate, w.client.Unary(w.set, openInFlight))
		}
		sides = append(sides, side{
			name: w.name, recommendations: 1, parts: p.parts("service", w.service.Process), service: w.service,
			drive: func(ctx context.Context, d time.Duration) *load.Result {
				time.Sleep(watchPause)
				return drive(ctx, d)
			},
		})
	}
	for _, w := range all[1:] {
		sent = append(sent, -w.received.Load())
	}
	runs, err = s.compare(sides, s.Duration/2)
	for i, w := range all[1:] {
		sent[i] += w.received.Load()
	}
	return runs, sent, err
}
