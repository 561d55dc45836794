//go:build linux

package versions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// version is a version of the service: a program, or none for the working tree's.
type version struct {
	name, program string
}

// before is the version before; its name is the commit's.
func before(t *testing.T) version {
	t.Helper()
	folder := service.Previous(t)
	return version{name: filepath.Base(folder), program: filepath.Join(folder, "setpoint")}
}

// flags are both versions' flags. Requests have their own clock, so that they can be repeated;
// and all decisions are logged, however many there are.
func flags(redis *redistest.Server, prefix string) []string {
	return []string{
		"--redis=" + redis.URL(), "--redis-key-prefix=" + prefix, "--allow-evaluation-time", "--max-clock-skew=0",
		"--decision-log-length=100", "--decision-log-repeats=1000000",
	}
}

// Instances of the version before and of today's serve one Redis, under load, while they are
// rolled forward, back, and forward again. No call fails in a way that another attempt doesn't
// mend; every decision is the one that either version alone makes of the same questions; what one
// version stored and logged the other reads; and a watcher of both gets each decision once.
func TestTwoVersionsOnOneRedis(t *testing.T) {
	old, today := before(t), version{name: "the working tree"}
	t.Logf("the version before is %s", old.name)
	const targets, withSpecs = 16, 3
	redis := redistest.Start(t, redistest.Config{})
	instances := make([]*service.Instance, 2)
	for i := range instances {
		instances[i] = service.New(t, service.Settings{Flags: flags(redis, "mixed:")})
		instances[i].Use(old.program)
	}
	service.RestartAll(instances)

	watchable := servesWatchers(t, instances[0])
	var w *watcher
	if watchable {
		w = watch(t, instances)
	} else {
		t.Logf("NOT COMPARED: %s serves no watchers, so what they get of two versions is not looked at", old.name)
	}
	l := startLoad(t, instances, targets, withSpecs)
	l.awaitMore(targets*10, withSpecs)
	// Forward, back and forward; each time one version after the other, with load before, during
	// and after.
	for _, roll := range []struct {
		instance int
		to       version
	}{{1, today}, {0, today}, {1, old}, {0, old}, {0, today}, {1, today}, {1, old}} {
		instances[roll.instance].Use(roll.to.program)
		instances[roll.instance].Restart()
		l.awaitMore(targets*10, withSpecs)
	}
	l.stop()
	// Instance 0 is today's, and 1 the one before.
	if t.Failed() {
		return
	}
	steps, ups, downs := 0, 0, 0
	for _, all := range l.exchanges {
		steps += len(all)
		for _, e := range all {
			switch from, to := e.answer.GetCurrentReplicas(), e.answer.GetDesiredReplicas(); {
			case to > from:
				ups++
			case to < from:
				downs++
			}
		}
	}
	t.Logf("two versions answered %d questions, of which %d scaled up and %d down, and %d polls", steps, ups, downs, l.polled.Load())
	if ups < targets || downs < targets {
		t.Error("so few changes show nothing")
	}

	t.Run("what is stored is read by both", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(l.exchanges)) {
			sameTarget(t, instances, name, l.exchanges[name])
		}
		for i := range withSpecs {
			sameSpec(t, instances, fmt.Sprint(parent, "stored-", i))
		}
	})
	if watchable {
		t.Run("a watcher gets each decision once", func(t *testing.T) { w.has(t, l.exchanges) })
	}
	for _, alone := range []version{old, today} {
		t.Run("decisions of one version alone: "+alone.name, func(t *testing.T) {
			one := service.New(t, service.Settings{Flags: flags(redis, alone.name+":")})
			one.Use(alone.program)
			one.Restart()
			askAgain(t, one, l.exchanges)
		})
	}
}

// askAgain sends one version all requests again, in the order of each target, and compares its
// decisions with those of the two versions in turn.
func askAgain(t *testing.T, one *service.Instance, exchanges map[string][]exchange) {
	t.Helper()
	var running sync.WaitGroup
	for name, all := range exchanges {
		running.Go(func() {
			for at, e := range all {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				answer, err := one.Recommendations().Recommend(ctx, e.question)
				if err == nil && e.reported {
					_, err = one.Recommendations().ReportScale(ctx, reportOf(exchange{question: e.question, answer: answer}))
				}
				cancel()
				if err != nil {
					t.Errorf("%s, step %d: %v", name, at, err)
					return
				}
				if mixed, alone := decided(e.answer), decided(answer); mixed != alone {
					t.Errorf("%s, step %d:\n  of two versions %s\n  of one alone    %s", name, at, mixed, alone)
					return
				}
			}
		})
	}
	running.Wait()
}

// logged is how many of the newest decisions the log must have, of the 100 that it keeps.
const logged = 80

// sameTarget checks that both versions show the same target, and that its log has the newest
// decisions, each once.
func sameTarget(t *testing.T, instances []*service.Instance, name string, all []exchange) {
	t.Helper()
	line := func(at time.Time, from, to int32) string {
		return fmt.Sprintf("%s %d → %d", at.Format(time.RFC3339), from, to)
	}
	var want []string // newest first
	for _, e := range slices.Backward(all) {
		want = append(want, line(e.answer.GetEvaluationTime().AsTime(), e.answer.GetCurrentReplicas(), e.answer.GetDesiredReplicas()))
	}
	var logs [2][]string
	for i, s := range instances {
		// The log is written in the background, by each instance in a batch of its own. So it is in
		// order but for neighbours, and its end is where it was cut after either of them.
		kit.Eventually(t, patience, "as with one version", func() error {
			r, err := s.Targets().ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: name, PageSize: 1000})
			if err != nil {
				return err
			}
			logs[i] = nil
			for _, d := range r.GetDecisions() {
				logs[i] = append(logs[i], line(d.GetTime().AsTime(), d.GetCurrentReplicas(), d.GetDesiredReplicas()))
			}
			slices.Sort(logs[i])
			slices.Reverse(logs[i])
			if !slices.Equal(logs[i][:min(len(logs[i]), logged)], want[:min(len(want), logged)]) {
				return fmt.Errorf("the log of %s by instance %d:\n%s\nwant:\n%s", name, i, strings.Join(logs[i], "\n"), strings.Join(want, "\n"))
			}
			return nil
		})
	}
	if !slices.Equal(logs[0], logs[1]) {
		t.Errorf("the log of %s: today's version tells\n%s\nthe one before\n%s", name, strings.Join(logs[0], "\n"), strings.Join(logs[1], "\n"))
	}
	var tell []*setpointv1.Target
	for _, s := range instances {
		r, err := s.Targets().GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: name})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		tell = append(tell, r.GetTarget())
	}
	for what, of := range map[string]func(*setpointv1.Target) string{
		"the count":       func(r *setpointv1.Target) string { return fmt.Sprint(r.GetStatus().GetDesiredReplicas()) },
		"the last change": func(r *setpointv1.Target) string { return r.GetStatus().GetLastScaleTime().AsTime().String() },
		"conditions":      func(r *setpointv1.Target) string { return fmt.Sprint(r.GetStatus().GetConditions()) },
		"recommendations": func(r *setpointv1.Target) string { return fmt.Sprint(r.GetHistory().GetRecommendations()) },
		"changes": func(r *setpointv1.Target) string {
			return fmt.Sprint(r.GetHistory().GetScaleUps(), r.GetHistory().GetScaleDowns())
		},
		"what is pending": func(r *setpointv1.Target) string { return fmt.Sprint(r.GetHistory().GetPending()) },
	} {
		if a, b := of(tell[0]), of(tell[1]); a != b {
			t.Errorf("%s, %s: today's version tells\n%s\nthe one before\n%s", name, what, a, b)
		}
	}
}

// sameSpec checks that both versions show the same stored spec.
func sameSpec(t *testing.T, instances []*service.Instance, name string) {
	t.Helper()
	var specs []*setpointv1.TargetSpec
	for _, s := range instances {
		r, err := s.Targets().GetTargetSpec(t.Context(), &setpointv1.GetTargetSpecRequest{Name: name})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		specs = append(specs, r.GetTargetSpec())
	}
	if a, b := specs[0], specs[1]; a.GetEtag() != b.GetEtag() || !proto.Equal(a.GetSpec(), b.GetSpec()) || !proto.Equal(a.GetPeriod(), b.GetPeriod()) {
		t.Errorf("%s: today's version tells\n%v\nthe one before\n%v", name, a, b)
	}
}

// servesWatchers reports whether a version serves WatchDecisions at all.
func servesWatchers(t *testing.T, s *service.Instance) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream, err := s.Targets().WatchDecisions(ctx, &setpointv1.WatchDecisionsRequest{Parent: "clusters/-/namespaces/-/targets/-"})
	if err == nil {
		_, err = stream.Recv()
	}
	if err == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return true
	}
	if status.Code(err) != codes.Unimplemented {
		t.Fatalf("watch: %v", err)
	}
	return false
}

// watcher counts decisions by target and instant.
type watcher struct {
	mu     sync.Mutex
	times  map[string]int // by decision
	said   map[string]int // by decision and outcome
	missed []string
	end    func()
}

// watch starts a watcher of all decisions, which goes from one instance to the other.
func watch(t *testing.T, instances []*service.Instance) *watcher {
	t.Helper()
	client, err := setpoint.New(instances[0].GRPCAddr()+","+instances[1].GRPCAddr(), setpoint.WithInsecure(),
		setpoint.WithRetry(setpoint.Retry{MaxAttempts: 50, AttemptTimeout: time.Minute}))
	fatal.If(t, err)
	t.Cleanup(func() { _ = client.Close() })
	w := &watcher{times: make(map[string]int), said: make(map[string]int)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	w.end = func() { cancel(); running.Wait() }
	t.Cleanup(w.end)
	here := make(chan struct{})
	running.Go(func() {
		arrived := sync.OnceFunc(func() { close(here) })
		for r, err := range client.WatchDecisions(ctx, &setpointv1.WatchDecisionsRequest{Parent: "clusters/-/namespaces/-/targets/-"}, func(error) {}) {
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Errorf("the watch ended: %v", err)
				return
			}
			arrived()
			w.mu.Lock()
			if r.GetMissedDecisions() > 0 || r.GetMissedUncounted() {
				w.missed = append(w.missed, fmt.Sprintf("%d, uncounted %t", r.GetMissedDecisions(), r.GetMissedUncounted()))
			}
			if d := r.GetDecision(); d != nil {
				w.times[instant(r.GetTarget(), d.GetTime().AsTime())]++
				w.said[instant(r.GetTarget(), d.GetTime().AsTime())+" "+d.GetOutcome()]++
			}
			w.mu.Unlock()
		}
	})
	select {
	case <-here:
	case <-time.After(patience):
		t.Fatal("the watcher gets no response")
	}
	return w
}

func instant(target string, at time.Time) string { return target + " " + at.Format(time.RFC3339Nano) }

// has checks that the watcher got every answer, with each outcome once.
func (w *watcher) has(t *testing.T, exchanges map[string][]exchange) {
	t.Helper()
	want := make(map[string]bool)
	for name, all := range exchanges {
		for _, e := range all {
			want[instant(name, e.answer.GetEvaluationTime().AsTime())] = true
		}
	}
	kit.Eventually(t, patience, "as with one version", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		absent := 0
		for one := range want {
			if w.times[one] == 0 {
				absent++
			}
		}
		if absent > 0 {
			return fmt.Errorf("of %d decisions %d did not come", len(want), absent)
		}
		return nil
	})
	w.end()
	// A change arrives as pending, and again with its outcome; nothing else arrives twice.
	for one, times := range w.said {
		if times != 1 {
			t.Errorf("%s came %d times", one, times)
		}
	}
	if len(w.missed) > 0 {
		t.Errorf("the watcher was told that it missed decisions: %q", w.missed)
	}
}
