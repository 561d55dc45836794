package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

// told is a platform that records the events of its objects, and the reasons of their holds.
type told struct {
	*agenttest.Fake
	reading time.Duration // how long reading an object takes

	mu            sync.Mutex
	events, holds []string // reasons; guarded by mu
}

func (p *told) Object(ctx context.Context, key agent.Key, before *agent.Object) (*agent.Object, error) {
	time.Sleep(p.reading)
	return p.Fake.Object(ctx, key, before)
}

func (p *told) Tell(ctx context.Context, t *agent.Telling) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range t.Events {
		p.events = append(p.events, e.GetReason())
	}
	if t.Hold != nil {
		p.holds = append(p.holds, t.Hold.Reason)
	}
	p.Fake.Tell(ctx, t)
}

func (p *told) count(reason string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.events {
		if r == reason {
			n++
		}
	}
	return n
}

// meddling tampers with the answers to reports, and fails deletes.
type meddling struct {
	*agenttest.Service

	mu           sync.Mutex
	change       func(*setpointv1.ReportScaleResponse) // guarded by mu
	noForgetting bool                                  // guarded by mu
	forgets      int                                   // guarded by mu
}

func (m *meddling) meddle(change func(*setpointv1.ReportScaleResponse)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change = change
}

func (m *meddling) ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	answer, err := m.Service.ReportScale(ctx, req)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.change != nil && err == nil {
		m.change(answer)
	}
	return answer, err
}

func (m *meddling) DeleteIncarnation(ctx context.Context, req *setpointv1.DeleteTargetRequest) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.noForgetting {
		m.forgets++
		return status.Error(codes.Unavailable, "away")
	}
	return m.Service.DeleteIncarnation(ctx, req)
}

// Invalid answers to reports emit an event when they begin, when another field becomes invalid,
// and when they begin again; not with each change of the count.
func TestDistrustOfReportsIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, s := &told{Fake: &agenttest.Fake{}}, &meddling{Service: agenttest.NewService(testserver.Recommendations(t))}
		p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		drive(t, p, s, agent.Options{Period: agenttest.Period}, agent.DriverOptions{})
		scale := func(times int) {
			for i := range times {
				p.Want("web", int32(5+i%2))
				time.Sleep(3 * agenttest.Period)
				synctest.Wait()
			}
		}
		wrongID := func(r *setpointv1.ReportScaleResponse) { r.RecommendationId = "another" }
		s.meddle(wrongID)
		scale(5)
		if n := p.count(agent.ReasonAnswerRefused); n != 1 {
			t.Errorf("told %d times of five answers that are wrong alike, want once", n)
		}
		s.meddle(func(r *setpointv1.ReportScaleResponse) { r.Status = nil })
		time.Sleep(time.Minute)
		scale(4)
		if n := p.count(agent.ReasonAnswerRefused); n != 2 {
			t.Errorf("told %d times, want once more of another field", n)
		}
		s.meddle(nil)
		scale(2)
		s.meddle(wrongID)
		scale(2)
		if n := p.count(agent.ReasonAnswerRefused); n != 3 {
			t.Errorf("told %d times, want once more after it had been right", n)
		}
		if n := len(s.Reports()); n != 12 {
			t.Errorf("%d reports, want 12, so that this shows something", n)
		}
		if n := len(p.holds); n != 10 || slices.ContainsFunc(p.holds, func(r string) bool { return r != agent.ReasonAnswerRefused }) {
			t.Errorf("held for %v, want one for each of the 10 answers that are wrong", p.holds)
		}
	})
}

// What stages change is an event when it begins, not in each period, and one in ten minutes where it comes
// and goes; another stage's follows a minute later.
func TestAdjustmentsAreToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, s := &told{Fake: &agenttest.Fake{}}, agenttest.NewService(testserver.Recommendations(t))
		p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		drive(t, p, s, agent.Options{Period: agenttest.Period}, agent.DriverOptions{})
		during := func(stage string, d time.Duration) {
			asked := 0
			s.Tamper(func(a *setpointv1.RecommendResponse) {
				if asked++; stage != "" {
					a.Adjustments = []*setpointv1.Adjustment{{Stage: stage, Rule: "a", Message: fmt.Sprintf("for the %d. time", asked)}}
				}
			})
			time.Sleep(d)
			synctest.Wait()
		}
		for _, step := range []struct {
			stage string
			d     time.Duration
			want  int
		}{
			{"", 5 * time.Minute, 0}, {"FALLBACK", 30 * time.Minute, 1}, {"", time.Minute, 1}, {"FALLBACK", time.Minute, 2}, {"", time.Minute, 2},
			{"FALLBACK", 5 * time.Minute, 2}, {"FALLBACK", 5 * time.Minute, 3}, {"SCHEDULE", 30 * time.Second, 4}, {"COMBINE", 20 * time.Second, 4}, {"COMBINE", time.Minute, 5},
		} {
			during(step.stage, step.d)
			if n := p.count(agent.EventAdjusted); n != step.want {
				t.Errorf("%q for %s: told %d times, want %d", step.stage, step.d, n, step.want)
			}
		}
	})
}

// The override has the last word on a count, so it is told first.
func TestAdjustedBy(t *testing.T) {
	t.Parallel()
	office := &setpointv1.Adjustment{Stage: "BOUNDS", Rule: "schedule/office", Message: "schedule \"office\" raises minReplicas from 2 to 8"}
	queue := &setpointv1.Adjustment{Stage: "FALLBACK", Rule: "External:queue"}
	held := &setpointv1.Adjustment{Stage: "OVERRIDE", Rule: "hold", Message: "held at 10 by alice"}
	telling := &setpointv1.Adjustment{Stage: "FORECAST", Rule: "none", Message: "no forecast yet"}
	forecast := &setpointv1.Adjustment{Stage: "FORECAST", Rule: "floor", Message: "forecast 14 is above the metrics' 9"}
	for _, tt := range []struct {
		all  []*setpointv1.Adjustment
		want string
	}{
		{nil, ""},
		{[]*setpointv1.Adjustment{office}, `schedule "office" raises minReplicas from 2 to 8`},
		{[]*setpointv1.Adjustment{queue}, "FALLBACK External:queue"},
		{[]*setpointv1.Adjustment{telling}, ""},
		{[]*setpointv1.Adjustment{telling, office}, `schedule "office" raises minReplicas from 2 to 8`},
		{[]*setpointv1.Adjustment{forecast, held}, "held at 10 by alice (and 1 other adjustment)"},
		{[]*setpointv1.Adjustment{office, held}, "held at 10 by alice (and 1 other adjustment)"},
		{[]*setpointv1.Adjustment{office, queue, queue}, `schedule "office" raises minReplicas from 2 to 8 (and 2 other adjustments)`},
	} {
		if got := agent.AdjustedBy(&setpointv1.RecommendResponse{Adjustments: tt.all}); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// The controller's reason comes first, then what stages say, and an override at last.
func TestWhyACountChanges(t *testing.T) {
	t.Parallel()
	office := &setpointv1.Adjustment{Stage: "BOUNDS", Rule: "schedule/office", Message: "schedule \"office\" raises minReplicas from 2 to 8"}
	held := &setpointv1.Adjustment{Stage: "OVERRIDE", Rule: "pin", Message: strings.Repeat("x", 2000)}
	const below = "Current number of replicas below Spec.MinReplicas"
	for _, tt := range []struct {
		answer *setpointv1.RecommendResponse
		want   string
	}{
		{&setpointv1.RecommendResponse{}, ""},
		{&setpointv1.RecommendResponse{Reason: below}, below},
		{&setpointv1.RecommendResponse{Reason: below, Adjustments: []*setpointv1.Adjustment{office}}, below + "; " + office.GetMessage()},
		{&setpointv1.RecommendResponse{Adjustments: []*setpointv1.Adjustment{office}}, office.GetMessage()},
		{&setpointv1.RecommendResponse{Adjustments: []*setpointv1.Adjustment{held}}, strings.Repeat("x", 1024) + "… (976 bytes more)"},
	} {
		if got := agent.Why(tt.answer); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// ignoring is a platform that takes counts and, while deaf, keeps the one that it has.
type ignoring struct {
	*agenttest.Fake
	deaf    atomic.Bool
	warning atomic.Value
}

func (p *ignoring) Apply(ctx context.Context, o *agent.Object, seen *agent.Observation, change agent.Change) error {
	if p.deaf.Load() {
		return nil
	}
	return p.Fake.Apply(ctx, o, seen, change)
}

func (p *ignoring) Tell(ctx context.Context, t *agent.Telling) {
	p.warning.Store(t.Object.Warning)
	p.Fake.Tell(ctx, t)
}

// A platform that says of each count that it took it, and keeps its own, is told of; no longer once it follows.
func TestACountThatDoesNotFollowIsToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &ignoring{Fake: &agenttest.Fake{}}
		p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		p.Want("web", 7)
		p.deaf.Store(true)
		core, lines := observer.New(zap.WarnLevel)
		drive(t, p, agenttest.NewService(testserver.Start(t).Recommendations), agent.Options{Period: agenttest.Period, Log: zap.New(core)}, agent.DriverOptions{})
		warned := func(after int) string {
			time.Sleep(time.Duration(after) * agenttest.Period)
			synctest.Wait()
			return p.warning.Load().(string)
		}
		if got := warned(2); got != "" {
			t.Errorf("after two periods: %q", got)
		}
		if got := warned(4); !strings.Contains(got, "changes of the count, and after each it was 4 again") {
			t.Errorf("after six periods: %q", got)
		}
		if n := lines.FilterMessage("the count does not follow").Len(); n == 0 {
			t.Errorf("the log: %v", lines.All())
		}
		p.deaf.Store(false)
		if got := warned(3); got != "" || p.Replicas("web") != 7 {
			t.Errorf("once it follows: %d replicas, %q", p.Replicas("web"), got)
		}
	})
}

// A count that is set back after a while, as by a deployment of Nomad that fails, is told of when it is back, and not where the
// platform has kept it for long.
func TestACountThatIsSetBackLaterIsToldOf(t *testing.T) {
	t.Parallel()
	for keeps, tells := range map[time.Duration]bool{10 * time.Minute: true, time.Hour: false} {
		t.Run(keeps.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &ignoring{Fake: &agenttest.Fake{}}
				p.Create(agenttest.Workload{Name: "web", Replicas: 4})
				p.Want("web", 7)
				core, lines := observer.New(zap.WarnLevel)
				drive(t, p, agenttest.NewService(testserver.Start(t).Recommendations), agent.Options{Period: agenttest.Period, Log: zap.New(core)}, agent.DriverOptions{})
				for back := range 5 {
					time.Sleep(keeps)
					synctest.Wait()
					if got := p.warning.Load().(string); got != "" || p.Replicas("web") != 7 {
						t.Errorf("while the platform keeps it: %d replicas, %q", p.Replicas("web"), got)
					}
					told := lines.FilterMessage("the count does not follow").Len()
					if want := map[bool]int{true: max(0, back-2)}[tells]; told != want {
						t.Errorf("%d lines after it was back %d times, want %d: %v", told, back, want, lines.All())
					}
					p.Scale("web", 4)
				}
			})
		})
	}
}

// rival asks about the agent's target, with another count, before each report.
type rival struct{ *agenttest.Service }

func (r *rival) ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	asked := r.Asked()
	another := proto.CloneOf(asked[len(asked)-1].Request)
	another.Scale.SpecReplicas, another.Scale.StatusReplicas, another.RequestId = 1, nil, "another"
	if _, err := r.Recommend(ctx, another); err != nil {
		return nil, err
	}
	return r.Service.ReportScale(ctx, req)
}

// A second caller of a target is no forger: the log warns of it, and neither an event nor the metric
// of the alert speaks of refused answers.
func TestASecondCallerOfATargetIsToldAsSuch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.WarnLevel)
		registry := prometheus.NewRegistry()
		p, s := &told{Fake: &agenttest.Fake{}}, &rival{agenttest.NewService(testserver.Recommendations(t))}
		p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		d, _ := drive(t, p, s, agent.Options{Period: agenttest.Period, Log: zap.New(core), Registerer: registry}, agent.DriverOptions{})
		p.Want("web", 6)
		time.Sleep(3 * agenttest.Period)
		synctest.Wait()
		if n := len(s.Reports()); n == 0 {
			t.Fatal("no reports, so this shows nothing")
		}
		if got := d.Rival(); !strings.HasPrefix(got, "another caller asks the service about the same targets, last seen ") {
			t.Errorf("of the other caller it tells %q", got)
		}
		if n := p.count(agent.ReasonAnswerRefused); n != 0 {
			t.Errorf("%d events of refused answers", n)
		}
		if n := lines.FilterMessageSnippet("another caller asked about this target since").Len(); n == 0 || n != lines.Len() {
			t.Errorf("%d warnings of another caller for %d reports, of all of %v", n, len(s.Reports()), lines.All())
		}
		families, err := registry.Gather()
		fatal.If(t, err)
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if strings.HasSuffix(family.GetName(), "answers_refused_total") && m.GetCounter().GetValue() > 0 {
					t.Errorf("counted as refused: %v", m)
				}
			}
		}
	})
}

// Deleting a target is attempted up to its bound, however often decisions failed before.
func TestForgettingIsTriedAsOftenAsItMay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, s := &told{Fake: &agenttest.Fake{}}, &meddling{Service: agenttest.NewService(testserver.Recommendations(t))}
		p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		d, _ := drive(t, p, s, agent.Options{Period: agenttest.Period}, agent.DriverOptions{})
		time.Sleep(time.Minute)
		p.FailReads(context.DeadlineExceeded)
		time.Sleep(5 * time.Minute)
		s.mu.Lock()
		s.noForgetting = true
		s.mu.Unlock()
		p.Remove("web")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.forgets != 8 {
			t.Errorf("tried %d times, want 8", s.forgets)
		}
		if left := d.Objects(); len(left) > 0 {
			t.Errorf("kept: %v", left)
		}
	})
}

// The return of the service is noticed even if reading an object takes longer than the time
// between two probes.
func TestASlowPlatformNoticesTheServicesReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, s := &told{Fake: &agenttest.Fake{}, reading: 1500 * time.Millisecond}, agenttest.NewService(testserver.Recommendations(t))
		for _, name := range []string{"a", "b", "c", "d"} {
			p.Create(agenttest.Workload{Name: name, Replicas: 4})
		}
		drive(t, p, s, agent.Options{Period: time.Hour}, agent.DriverOptions{})
		time.Sleep(10 * time.Second)
		s.Away(true)
		p.Create(agenttest.Workload{Name: "e", Replicas: 4})
		p.Create(agenttest.Workload{Name: "f", Replicas: 4})
		time.Sleep(10 * time.Second)
		s.Away(false)
		back := time.Now()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := s.AskedSince(back); n < 2 {
			t.Errorf("asked %d times in the ten seconds since it is back", n)
		}
	})
}

// partly is a platform of which only one object can be read, while it fails.
type partly struct {
	*agenttest.Fake
	objects, workloads atomic.Bool // which reads fail
}

var errPart = errors.New("no right")

func (p *partly) Object(ctx context.Context, key agent.Key, before *agent.Object) (*agent.Object, error) {
	if p.objects.Load() && key.Name != "web" {
		return nil, errPart
	}
	return p.Fake.Object(ctx, key, before)
}

func (p *partly) Observe(ctx context.Context, o *agent.Object) (*agent.Observation, error) {
	if p.workloads.Load() && o.Key.Name != "web" {
		return nil, errPart
	}
	return p.Fake.Observe(ctx, o)
}

// The return of the service is noticed at once, too, if most of the objects that wait for it can't be read any more: each of
// them leaves its turn to another one.
func TestObjectsThatCanNotBeReadLeaveTheirTurns(t *testing.T) {
	t.Parallel()
	for what, fails := range map[string]func(*partly) *atomic.Bool{
		"objects": func(p *partly) *atomic.Bool { return &p.objects }, "workloads": func(p *partly) *atomic.Bool { return &p.workloads },
	} {
		synctest.Test(t, func(t *testing.T) {
			p, s := &partly{Fake: &agenttest.Fake{}}, agenttest.NewService(testserver.Recommendations(t))
			p.Create(agenttest.Workload{Name: "web", Replicas: 4})
			for i := range 300 {
				p.Create(agenttest.Workload{Name: fmt.Sprint("other-", i), Replicas: 4})
			}
			drive(t, p, s, agent.Options{Period: time.Minute}, agent.DriverOptions{})
			time.Sleep(5 * time.Minute)
			s.Away(true)
			time.Sleep(2 * time.Minute)
			fails(p).Store(true)
			s.Away(false)
			back := time.Now()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if s.AskedSince(back) == 0 {
				t.Errorf("%s that can't be read: nobody has asked in three seconds since the service is back", what)
			}
		})
	}
}

// remembering is a platform that counts reads of an object in its Native, and notes each count.
type remembering struct {
	*agenttest.Fake

	mu    sync.Mutex
	reads []string // guarded by mu
}

func (p *remembering) Object(ctx context.Context, key agent.Key, before *agent.Object) (*agent.Object, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o, err := p.Fake.Object(ctx, key, before)
	if err != nil {
		p.reads = append(p.reads, fmt.Sprintf("gone, known %t", before != nil))
		return nil, err
	}
	n := 1
	if before.Is(o.UID) {
		n += before.Native.(int)
	}
	o.Native = n
	p.reads = append(p.reads, fmt.Sprintf("%s %d", o.UID, n))
	return o, nil
}

// A platform gets back what it returned of an object last, until the object is gone, so that it
// needs no memory of its own. It gets it also of an object that was never reconciled.
func TestTheLoopIsThePlatformsMemory(t *testing.T) {
	t.Parallel()
	p := &remembering{Fake: &agenttest.Fake{}}
	l, err := agent.New(p, agent.Service{Calls: agenttest.NewService(nil)},
		agent.Options{Cluster: "demo", Period: time.Hour}, agent.QueueOptions{Wake: func(...agent.Key) {}})
	fatal.If(t, err)
	read := func(times int) {
		for range times {
			l.Reconcile(t.Context(), agent.Key{Kind: "Service", Namespace: "shop", Name: "web"})
		}
	}
	p.Create(agenttest.Workload{Name: "web", Replicas: 2})
	read(3) // it waits for its first reconcile
	p.Create(agenttest.Workload{Name: "web", Replicas: 2})
	read(2)
	p.Remove("web")
	read(2)
	p.Create(agenttest.Workload{Name: "web", Replicas: 2})
	read(1)
	want := []string{"uid-1 1", "uid-1 2", "uid-1 3", "uid-2 1", "uid-2 2", "gone, known true", "gone, known false", "uid-3 1"}
	if !slices.Equal(p.reads, want) {
		t.Errorf("read %q, want %q", p.reads, want)
	}
}
