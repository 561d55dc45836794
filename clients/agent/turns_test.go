package agent_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/agent/pace"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

// edited is a platform whose objects are edited, and which shows when counts changed.
type edited struct {
	*agenttest.Fake

	mu         sync.Mutex
	changed    func(agent.Key) // guarded by mu, as is what follows
	revision   int
	lastChange *time.Time
	hold       map[string]*agent.Hold
	holdRead   map[string]bool
}

func (p *edited) Watch(ctx context.Context, changed func(agent.Key)) error {
	p.mu.Lock()
	p.changed = changed
	p.mu.Unlock()
	return p.Fake.Watch(ctx, changed)
}

// edit changes the spec of all objects, but notifies about one only.
func (p *edited) edit(key agent.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revision++
	if p.changed != nil {
		p.changed(key)
	}
}

func (p *edited) Object(ctx context.Context, key agent.Key, before *agent.Object) (*agent.Object, error) {
	o, err := p.Fake.Object(ctx, key, before)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	o.Revision, o.LastChange, o.Hold = agent.Version(strconv.Itoa(p.revision)), p.lastChange, p.hold[key.Name]
	return o, nil
}

func (p *edited) Observe(ctx context.Context, o *agent.Object) (*agent.Observation, error) {
	p.mu.Lock()
	held := p.holdRead[o.Key.Name]
	p.mu.Unlock()
	if held {
		return nil, &agent.HoldError{Hold: agent.Hold{Reason: "Waiting", Message: "it waits"}}
	}
	return p.Fake.Observe(ctx, o)
}

// telling keeps the last hold.
type telling struct {
	*agenttest.Fake
	mu   sync.Mutex
	last *agent.Hold // guarded by mu
}

func (p *telling) Tell(ctx context.Context, t *agent.Telling) {
	p.mu.Lock()
	p.last = t.Hold
	p.mu.Unlock()
	p.Fake.Tell(ctx, t)
}

// A platform that accepts no count for some minutes leaves the service's windows as if it did:
// the agent asks on, and says what the count would be. It logs the wait once, and policies count
// no change.
func TestAPlatformsWaitIsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.InfoLevel)
		p, s := &telling{Fake: &agenttest.Fake{}}, agenttest.NewService(testserver.Recommendations(t))
		p.Create(agenttest.Workload{Name: "web", Replicas: 4, Steady: true})
		drive(t, p, s, agent.Options{Period: agenttest.Period, Log: zap.New(core)}, agent.DriverOptions{})
		time.Sleep(time.Minute)
		p.FailWrites(&agent.HoldError{Hold: agent.Hold{Outcome: "deploying", Reason: "Deploying", Message: "it deploys"}})
		began := time.Now()
		p.Want("web", 6)
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if n := p.Replicas("web"); n != 4 {
			t.Errorf("%d replicas in the wait", n)
		}
		if n := s.AskedSince(began); n < 30 {
			t.Errorf("asked %d times in six minutes", n)
		}
		for _, r := range s.Reports() {
			if r.GetOutcome() != "FAILED" || r.GetMessage() != "it deploys" {
				t.Fatalf("reported: %v", r)
			}
		}
		p.mu.Lock()
		hold := p.last
		p.mu.Unlock()
		if hold == nil || hold.Message != "it deploys; it would be scaled from 4 to 6: external metric queue(nil) above target" {
			t.Errorf("shown: %+v", hold)
		}
		if n := lines.FilterMessage("not scaled").Len(); n != 1 {
			t.Errorf("logged %d times", n)
		}
		p.FailWrites(nil)
		p.Want("web", 2)
		time.Sleep(2 * agenttest.Period)
		synctest.Wait()
		if n := p.Replicas("web"); n != 6 {
			t.Errorf("%d replicas after the wait, want what was recommended in it", n)
		}
	})
}

// coloring is a platform whose metrics fail with texts that move a cursor.
type coloring struct{ *telling }

func (p coloring) Observe(ctx context.Context, o *agent.Object) (*agent.Observation, error) {
	seen, err := p.telling.Observe(ctx, o)
	if err == nil {
		seen.Request.MetricErrors = append(seen.Request.MetricErrors, &setpointv1.MetricError{Metric: "queue", Message: "\x1b[31mno\nmetric"})
	}
	return seen, err
}

// What a metrics API says comes back in a condition, and is no reason to refuse the answer.
func TestErrorsOfMetricsMaySayAnything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.InfoLevel)
		p, s := coloring{&telling{Fake: &agenttest.Fake{}}}, agenttest.NewService(testserver.Recommendations(t))
		p.Create(agenttest.Workload{Name: "web", Replicas: 4, Steady: true})
		drive(t, p, s, agent.Options{Period: agenttest.Period, Log: zap.New(core)}, agent.DriverOptions{})
		time.Sleep(time.Minute)
		synctest.Wait()
		if refused := lines.FilterMessageSnippet("does not match the request"); refused.Len() > 0 || s.AskedSince(time.Time{}) == 0 {
			t.Errorf("%d answers are refused: %v", refused.Len(), refused.All())
		}
	})
}

// hanging is a platform with a source of metrics that does not answer while others would still wait for it.
type hanging struct{ *telling }

func (p hanging) Observe(ctx context.Context, o *agent.Object) (*agent.Observation, error) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
	return coloring(p).Observe(ctx, o)
}

// A source of metrics that takes all the time there is for reading makes its metric fail, and is no reason to take the
// service for one that is away.
func TestASourceThatHangsLeavesTimeToAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, s := hanging{&telling{Fake: &agenttest.Fake{}}}, agenttest.NewService(testserver.Recommendations(t))
		p.Create(agenttest.Workload{Name: "web", Replicas: 1})
		drive(t, p, s, agent.Options{Period: agenttest.Period}, agent.DriverOptions{})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		p.mu.Lock()
		hold := p.last
		p.mu.Unlock()
		if n := p.Replicas("web"); hold != nil || n != agenttest.MinReplicas {
			t.Errorf("%d replicas, held by %+v", n, hold)
		}
	})
}

// wired is a service whose requests are encoded, as on their way to another machine.
type wired struct{ *agenttest.Service }

func (w wired) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	if _, err := proto.Marshal(req); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return w.Service.Recommend(ctx, req)
}

func (w wired) ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	if _, err := proto.Marshal(req); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return w.Service.ReportScale(ctx, req)
}

// Why a count was not written, as a proxy before the platform says it, is reported and shown, and is
// no reason to refuse the answer, nor to take the service for one that is away.
func TestErrorsOfWritesMaySayAnything(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\x1b[31mno", "caf\xe9"} {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s := &telling{Fake: &agenttest.Fake{}}, agenttest.NewService(testserver.Recommendations(t))
				p.Create(agenttest.Workload{Name: "web", Replicas: 4})
				p.Want("web", 6)
				p.FailWrites(errors.New(text))
				drive(t, p, wired{s}, agent.Options{Period: agenttest.Period}, agent.DriverOptions{})
				time.Sleep(time.Minute)
				synctest.Wait()
				p.mu.Lock()
				hold := p.last
				p.mu.Unlock()
				if n := len(s.Reports()); hold != nil || n < 5 {
					t.Errorf("%d reports, held by %+v", n, hold)
				}
			})
		})
	}
}

// misnamed is a platform with an object whose metric has another name, as clients of Kubernetes may store it.
type misnamed struct {
	*told
	name string
}

func (p misnamed) Observe(ctx context.Context, o *agent.Object) (*agent.Observation, error) {
	seen, err := p.told.Observe(ctx, o)
	if err == nil && o.Key.Name == "misnamed" {
		seen.Request.Spec.Metrics[0].External.Metric.Name = p.name
	}
	return seen, err
}

// A name that can't be sent, comes back in texts of the answer and must not, or is too long for a shadow holds its object. It is no reason to take
// the service for one that is away, or for one whose answers somebody changes.
func TestANameThatCanNotBeUsedHoldsOneObject(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"caf\xe9", "\x1b[31mqueue"} {
		synctest.Test(t, func(t *testing.T) {
			p, s := misnamed{&told{Fake: &agenttest.Fake{}}, name}, agenttest.NewService(testserver.Recommendations(t))
			for _, name := range []string{"misnamed", "web"} {
				p.Create(agenttest.Workload{Name: name, Replicas: 4})
			}
			p.Create(agenttest.Workload{Name: strings.Repeat("long", 62), Replicas: 4, Shadow: true})
			drive(t, p, wired{s}, agent.Options{Period: agenttest.Period}, agent.DriverOptions{})
			time.Sleep(time.Minute)
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			if n := len(p.holds); n < 5 || slices.ContainsFunc(p.holds, func(r string) bool { return r != agent.ReasonInvalidObject }) {
				t.Errorf("%q: held for %v", name, p.holds)
			}
			if n := len(s.Asked()); n < 5 {
				t.Errorf("%q: asked %d times about the other in a minute", name, n)
			}
		})
	}
}

// A reading that the answer has without its value ends nothing.
func TestAReadingMayHaveNoValue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, s := &agenttest.Fake{}, agenttest.NewService(testserver.Recommendations(t))
		s.Tamper(func(r *setpointv1.RecommendResponse) { r.Status.CurrentMetrics[0].External.Current = nil })
		p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		p.Want("web", 8)
		drive(t, p, s, agent.Options{Period: agenttest.Period}, agent.DriverOptions{})
		time.Sleep(2 * agenttest.Period)
		synctest.Wait()
		if n := p.Replicas("web"); n != 8 {
			t.Errorf("%d replicas", n)
		}
	})
}

// contested is a platform on which others always change the count first.
type contested struct{ *telling }

func (contested) Apply(context.Context, *agent.Object, *agent.Observation, agent.Change) error {
	return agent.ErrMoved
}

// A target whose counts are refused again and again is held after three periods, and the log does
// not fill.
func TestACountThatCanNeverBeWrittenIsShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.InfoLevel)
		p := contested{&telling{Fake: &agenttest.Fake{}}}
		p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		p.Want("web", 6)
		drive(t, p, agenttest.NewService(testserver.Recommendations(t)), agent.Options{Period: agenttest.Period, Log: zap.New(core)}, agent.DriverOptions{})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		p.mu.Lock()
		hold := p.last
		p.mu.Unlock()
		if hold == nil || hold.Reason != agent.ReasonCountContested || hold.Outcome != agent.OutcomeMoved {
			t.Errorf("shown: %+v", hold)
		}
		if n := lines.Len(); n > 7 {
			t.Errorf("%d lines in five minutes", n)
		}
	})
}

// One cause for all objects is one line a minute, also where the error of each names it.
func TestOneCauseIsOneLineAMinute(t *testing.T) {
	t.Parallel()
	for what, fail := range map[string]func(*agenttest.Fake, *agenttest.Service){
		"reads":  func(p *agenttest.Fake, _ *agenttest.Service) { p.FailReads(errors.New("Get /services: refused")) },
		"writes": func(p *agenttest.Fake, _ *agenttest.Service) { p.FailWrites(errors.New("Post /services: refused")) },
		"answers": func(_ *agenttest.Fake, s *agenttest.Service) {
			s.Tamper(func(r *setpointv1.RecommendResponse) { r.RequestId = new(rand.Text()) })
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				core, lines := observer.New(zap.InfoLevel)
				p, s := &agenttest.Fake{}, agenttest.NewService(testserver.Recommendations(t))
				for i := range 50 {
					name := fmt.Sprint("web-", i)
					p.Create(agenttest.Workload{Name: name, Replicas: 4})
					p.Want(name, 6)
				}
				fail(p, s)
				drive(t, p, s, agent.Options{Period: agenttest.Period, Log: zap.New(core)}, agent.DriverOptions{})
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				// Answers have a line about the agent and one about the held object.
				if n := lines.Len(); n < 3 || n > 8 {
					t.Errorf("%d lines about 50 objects in three minutes", n)
				}
			})
		})
	}
}

// stormy is a service behind a proxy that answers some calls itself.
type stormy struct {
	*agenttest.Service
	calls atomic.Int64
	// every is which call the proxy answers: 1 each, 2 each second one; 0 none.
	every atomic.Int64
}

func (s *stormy) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	if n := s.every.Load(); n > 0 && s.calls.Add(1)%n == 0 {
		return nil, status.Error(codes.Unavailable, "unexpected HTTP status code received from server: 503 (Service Unavailable)")
	}
	return s.Service.Recommend(ctx, req)
}

// A service that answers nobody is one line, and one at its end, which says how long that was and how many objects were
// held; one that fails half of all calls has four lines a minute.
func TestAnAbsenceIsTwoLines(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		every int64
		least int
		most  int
	}{"away": {1, 2, 2}, "by turns": {2, 2, 4 * 11}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				core, lines := observer.New(zap.InfoLevel)
				p, s := &agenttest.Fake{}, &stormy{Service: agenttest.NewService(testserver.Recommendations(t))}
				for i := range 50 {
					p.Create(agenttest.Workload{Name: fmt.Sprint("web-", i), Replicas: 4, Steady: true})
				}
				drive(t, p, s, agent.Options{Period: agenttest.Period, Log: zap.New(core)}, agent.DriverOptions{})
				time.Sleep(time.Minute)
				s.every.Store(tt.every)
				time.Sleep(10 * time.Minute)
				s.every.Store(0)
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := lines.Len(); n < tt.least || n > tt.most {
					t.Errorf("%d lines, want %d to %d: %v", n, tt.least, tt.most, lines.All())
				}
				if tt.every > 1 {
					return
				}
				began, ended := lines.All()[0], lines.All()[1]
				if began.Message != "the recommender does not answer; nothing is scaled until it does" || !strings.HasSuffix(began.ContextMap()["cause"].(string), "503 (Service Unavailable)") {
					t.Errorf("at first it says %v", began)
				}
				after, _ := ended.ContextMap()["after"].(time.Duration)
				if ended.Message != "the recommender answers again" || ended.ContextMap()["held"] != int64(50) || after < 10*time.Minute-agenttest.Period || after > 10*time.Minute+agenttest.Period {
					t.Errorf("at last it says %v", ended)
				}
			})
		})
	}
}

// A spec that is edited each second takes effect within a second, but does not turn a limit per
// reconcile into one per second: after a change of the count a period passes.
func TestEditsMakeNoStepsOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const period = 15 * time.Second
		p, s := &edited{Fake: &agenttest.Fake{}}, agenttest.NewService(testserver.Recommendations(t))
		key := p.Create(agenttest.Workload{Name: "web", Replicas: 2})
		drive(t, p, s, agent.Options{Period: period}, agent.DriverOptions{})
		time.Sleep(period)
		began := time.Now()
		for range 10 {
			for range 5 {
				p.edit(key)
				time.Sleep(200 * time.Millisecond)
			}
		}
		synctest.Wait()
		if n := s.AskedSince(began); n < 9 || n > 11 {
			t.Errorf("asked %d times in ten seconds of edits, want once a second", n)
		}
		time.Sleep(period)
		for n := int32(3); n < 13; n++ {
			p.Want("web", n)
			p.edit(key)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := p.Changes(); n != 1 {
			t.Errorf("%d changes of the count in ten seconds, want one a period", n)
		}
		time.Sleep(period)
		if n := p.Changes(); n != 2 {
			t.Errorf("%d changes a period later, want two", n)
		}
	})
}

// eventful is a service in one call of which something happens.
type eventful struct {
	*agenttest.Service
	happens atomic.Pointer[func()]
}

func (s *eventful) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	answer, err := s.Service.Recommend(ctx, req)
	if happens := s.happens.Swap(nil); happens != nil {
		(*happens)()
	}
	return answer, err
}

// The service may be asked for seconds, in which an object is edited, opted out, recreated or deleted: what was decided of it
// as it was is not applied.
func TestWhatChangesWhileTheServiceIsAskedIsNotScaled(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*edited, agent.Key)
		// after is how often the count has changed some seconds later.
		after int
	}{
		"edited": {(*edited).edit, 1},
		"held": {func(p *edited, key agent.Key) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.hold = map[string]*agent.Hold{key.Name: {Reason: "Waiting", Message: "it waits"}}
		}, 0},
		"recreated": {func(p *edited, key agent.Key) {
			p.Remove(key.Name)
			p.Create(agenttest.Workload{Name: key.Name, Replicas: 4})
		}, 0},
		"deleted": {func(p *edited, key agent.Key) { p.Remove(key.Name) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, s := &edited{Fake: &agenttest.Fake{}}, &eventful{Service: agenttest.NewService(testserver.Recommendations(t))}
				key := p.Create(agenttest.Workload{Name: "web", Replicas: 4})
				drive(t, p, s, agent.Options{Period: agenttest.Period}, agent.DriverOptions{})
				time.Sleep(agenttest.Period)
				synctest.Wait()
				happens := func() { tt.change(p, key) }
				p.Want("web", 8)
				for s.happens.Store(&happens); s.happens.Load() != nil; time.Sleep(time.Millisecond) {
				}
				synctest.Wait()
				if n := p.Changes(); n != 0 || len(s.Reports()) != 0 {
					t.Errorf("%d changes of the count by what was decided before, and %d reports", n, len(s.Reports()))
				}
				time.Sleep(3 * time.Second) // less than a period: a changed object is reconciled at once
				synctest.Wait()
				if n := p.Changes(); n != tt.after {
					t.Errorf("%d changes of the count some seconds later, want %d", n, tt.after)
				}
			})
		})
	}
}

// Reconciles out of turn don't delay later ones: an object that was edited often after a change
// of its count still meets the beat of its group.
func TestEditedObjectsMeetTheBeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const period = 15 * time.Second
		p, s := &edited{Fake: &agenttest.Fake{}}, agenttest.NewService(testserver.Recommendations(t))
		key := p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		drive(t, p, s, agent.Options{Period: period}, agent.DriverOptions{})
		p.Want("web", 8)
		time.Sleep(4 * period)
		for range 60 {
			time.Sleep(1300 * time.Millisecond)
			p.edit(key)
		}
		time.Sleep(12 * period)
		began := time.Now()
		time.Sleep(5 * period)
		synctest.Wait()
		if n := p.Changes(); n != 1 {
			t.Errorf("changes of the count: %d, want 1", n)
		}
		n := 0
		for _, q := range s.Asked() {
			if q.At.After(began) {
				n++
				if off := pace.UntilBeat(q.At, period+pace.Slack(period), key.Namespace); off != 0 {
					t.Errorf("a reconcile %s before the beat", off)
				}
			}
		}
		if n < 4 {
			t.Errorf("%d reconciles in five periods", n)
		}
	})
}

// An agent that starts right after another one changed a count waits as that one would have;
// where a policy may remember the change, the second reconcile comes at least a period after
// the first.
func TestStartsAfterAChange(t *testing.T) {
	t.Parallel()
	const period = 15 * time.Second
	for _, tt := range []struct {
		name string
		// ago is how long ago the count changed, as the platform shows it; 0: never; below -1
		// h: unknown.
		ago time.Duration
		// first is the expected time of the first reconcile, apart the minimum time to the
		// second one.
		first, apart time.Duration
	}{
		{"just now", time.Second, period - time.Second, period},
		{"just before a period ago", period + time.Second, 0, period},
		{"minutes ago, as far as is known", 10 * time.Minute, 0, period},
		{"so long ago that no policy remembers it", 40 * time.Minute, 0, 0},
		{"never", 0, 0, 0},
		{"by a clock that is ahead", -2 * time.Minute, period, period},
		{"it is not known when", -2 * time.Hour, 0, period},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, s := &edited{Fake: &agenttest.Fake{}}, agenttest.NewService(testserver.Recommendations(t))
				p.Create(agenttest.Workload{Name: "web", Replicas: 4})
				_, stop := start(t, p, s, agent.Options{Period: period}, agent.DriverOptions{})
				time.Sleep(3 * period) // reconciled once
				fatal.If(t, stop())
				at := time.Now().Add(-tt.ago)
				switch {
				case tt.ago == 0:
					p.lastChange = &time.Time{}
				case tt.ago > -time.Hour:
					p.lastChange = &at
				}
				began := time.Now()
				start(t, p, s, agent.Options{Period: period}, agent.DriverOptions{})
				time.Sleep(4 * period)
				synctest.Wait()
				var since []time.Duration
				for _, q := range s.Asked() {
					if !q.At.Before(began) {
						since = append(since, q.At.Sub(began))
					}
				}
				if len(since) < 2 {
					t.Fatalf("asked %d times", len(since))
				}
				if since[0] < tt.first || since[0] > tt.first+time.Millisecond {
					t.Errorf("the first reconcile after %s, want %s", since[0], tt.first)
				}
				if apart := since[1] - since[0]; apart < tt.apart || apart > period+period/8 {
					t.Errorf("the second reconcile %s after the first one, want %s at least", apart, tt.apart)
				}
			})
		})
	}
}

// While the service is away, held objects pass their turn to others: its return is noticed
// within a second or two even if most objects are held.
func TestHeldObjectsPassTheirTurn(t *testing.T) {
	t.Parallel()
	for _, whileRead := range []bool{false, true} {
		t.Run("known by reading it: "+strconv.FormatBool(whileRead), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const objects, period = 40, 15 * time.Second
				p, s := &edited{Fake: &agenttest.Fake{}, hold: map[string]*agent.Hold{}, holdRead: map[string]bool{}}, agenttest.NewService(testserver.Recommendations(t))
				var names []string
				for i := range objects {
					name := "web-" + strconv.Itoa(i)
					names = append(names, name)
					p.Create(agenttest.Workload{Name: name, Replicas: 4})
				}
				drive(t, p, s, agent.Options{Period: period}, agent.DriverOptions{})
				time.Sleep(period)
				s.Away(true)
				time.Sleep(2 * period) // until all wait
				p.mu.Lock()
				for _, name := range names[1:] {
					if whileRead {
						p.holdRead[name] = true
					} else {
						p.hold[name] = &agent.Hold{Reason: "Waiting", Message: "it waits"}
					}
				}
				p.mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				began := time.Now()
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if n := s.AskedSince(began); n < 19 || n > 21 {
					t.Errorf("asked %d times in 20 s, want once a second", n)
				}
			})
		})
	}
}

// A valid answer to a resent report ends the distrust of reports, as any other does.
func TestAReportSentAgainEndsDistrust(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, s := &told{Fake: &agenttest.Fake{}}, &failing{meddling: &meddling{Service: agenttest.NewService(testserver.Recommendations(t))}}
		p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		drive(t, p, s, agent.Options{Period: agenttest.Period}, agent.DriverOptions{})
		scale := func(to int32) {
			p.Want("web", to)
			time.Sleep(3 * agenttest.Period)
			synctest.Wait()
		}
		wrongID := func(r *setpointv1.ReportScaleResponse) { r.RecommendationId = "another" }
		s.meddle(wrongID)
		scale(5)
		s.meddle(nil)
		s.failOnce(errors.New("lost"))
		scale(6)
		if n := s.lost; n != 1 {
			t.Errorf("reports that were lost: %d, want 1", n)
		}
		if n := p.count("SuccessfulRescale"); n != 1 {
			t.Errorf("events of the report that was sent again: %d, want 1", n)
		}
		s.meddle(wrongID)
		scale(7)
		if n := p.count(agent.ReasonAnswerRefused); n != 2 {
			t.Errorf("events: %d, want 2", n)
		}
	})
}

// failing fails reports.
type failing struct {
	*meddling
	next error
	lost int
}

func (f *failing) failOnce(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = err
}

func (f *failing) ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	f.mu.Lock()
	err := f.next
	if f.next = nil; err != nil {
		f.lost++
	}
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return f.meddling.ReportScale(ctx, req)
}

// severed is a service whose connections fail with the error of now.
type severed struct {
	*agenttest.Service
	text atomic.Value
}

func (s *severed) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	if text := s.text.Load().(string); text != "" {
		return nil, status.Error(codes.Unavailable, text)
	}
	return s.Service.Recommend(ctx, req)
}

// Why the service is away may change meanwhile: the status and the log have the current cause.
func TestTheCauseOfAnAbsenceIsTheCurrentOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.InfoLevel)
		p, s := &telling{Fake: &agenttest.Fake{}}, &severed{Service: agenttest.NewService(testserver.Recommendations(t))}
		s.text.Store("")
		p.Create(agenttest.Workload{Name: "web", Replicas: 4, Steady: true})
		drive(t, p, s, agent.Options{Period: agenttest.Period, Log: zap.New(core)}, agent.DriverOptions{})
		for i, cause := range []string{"connect: connection refused", "tls: certificate signed by unknown authority"} {
			time.Sleep(time.Minute)
			s.text.Store("connection error: " + cause)
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			p.mu.Lock()
			hold := p.last
			p.mu.Unlock()
			if hold == nil || hold.Message != "the recommender has been unavailable since "+hold.Since.UTC().Format(time.RFC3339)+": connection error: "+cause {
				t.Errorf("shown: %+v, want %s", hold, cause)
			}
			said := lines.FilterMessage("the recommender does not answer; nothing is scaled until it does").All()
			if n := len(said); n != i+1 || !strings.HasSuffix(said[n-1].ContextMap()["cause"].(string), cause) {
				t.Errorf("logged: %v, want one more, with %s", said, cause)
			}
		}
		s.text.Store("")
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if n := lines.FilterMessage("the recommender answers again").Len(); n != 1 || lines.Len() != 3 {
			t.Errorf("the end of the absence is logged %d times", n)
		}
	})
}
