package fleet

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// cluster is a member of a world: it does what it is told.
type cluster struct {
	name     string
	replicas int32
	// usage is a pod's, in percent of its request; queue is what its External metric reads, of units.
	usage, queue int64
	// silent clusters don't call, blind ones don't see; stuck ones don't do what they are told. Of room
	// pods find a place, and of ready ones become ready; 0: all.
	silent, blind, stuck bool
	// bare ones have a pod that requests nothing.
	bare        bool
	room, ready int32
	// zero reports whether its own spec allows 0 replicas. Else it stays between least and most, if that is above
	// 0: a drained one only has no least.
	zero        bool
	least, most int32
	// floor is an override of the member.
	floor int32
	// late ones show observed replicas a call later: had is how many they were asked for at the last call.
	late bool
	had  int32
	// slow ones do what they are told that many calls later: writes are what they still have to do, below 0 nothing.
	slow   int
	writes []int32
	answer Answer
}

// world is a fleet in virtual time.
type world struct {
	t        *testing.T
	spec     *Spec
	record   Record
	clusters []*cluster
	now      time.Time
	ids      uint16
	decided  []recommender.Decision
	// lost is how many members were lost at once, at most.
	lost int
}

// newWorld is a fleet of members a, b, c, … with that many replicas each, at 50 % of a target of 50.
func newWorld(t *testing.T, metric recommender.MetricSpec, replicas ...int32) *world {
	w := &world{t: t, now: t0, spec: &Spec{
		Version: 7, Namespace: "shop", Options: recommender.DefaultOptions(),
		Engine: recommender.Spec{MinReplicas: 1, MaxReplicas: 100, Metrics: []recommender.MetricSpec{metric},
			Behavior: &recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: recommender.DefaultScaleDown()}},
		Period: 15 * time.Second, StaleAfter: 45 * time.Second, LostAfter: 5 * time.Minute,
	}}
	for i, n := range replicas {
		name := string(rune('a' + i))
		w.clusters = append(w.clusters, &cluster{name: name, replicas: n, usage: 50})
		w.spec.Members = append(w.spec.Members, Member{Name: name, Weight: 1, Max: -1})
	}
	return w
}

func (w *world) of(name string) *cluster {
	for _, c := range w.clusters {
		if c.name == name {
			return c
		}
	}
	w.t.Fatalf("no cluster %s", name)
	return nil
}

func (w *world) call(c *cluster) {
	w.t.Helper()
	in := &recommender.Input{
		Namespace: "shop", Spec: w.spec.Engine, Options: w.spec.Options,
		Scale:    recommender.Scale{SpecReplicas: c.replicas, StatusReplicas: c.replicas},
		Readings: make([]recommender.Readings, len(w.spec.Engine.Metrics)),
	}
	if c.late {
		in.Scale.StatusReplicas, c.had = c.had, c.replicas
	}
	for i := range c.replicas {
		p := recommender.Pod{
			Name: fmt.Sprintf("web-%d", i), Phase: recommender.PhaseRunning, Ready: recommender.ReadyTrue,
			StartTime: t0.Add(-time.Hour), ReadyTransition: t0.Add(-time.Hour),
			Containers: []recommender.Container{{Name: "app", Requests: []recommender.ResourceRequest{{Resource: "cpu", Quantity: quantity.FromMilli(1000)}}}},
		}
		if c.room > 0 && i >= c.room {
			p.Phase, p.Ready, p.StartTime = recommender.PhasePending, recommender.NoCondition, time.Time{}
			in.Pods = append(in.Pods, p)
			continue
		}
		if c.bare && i == 0 {
			p.Containers[0].Requests = nil
		}
		if c.ready > 0 && i >= c.ready {
			p.Ready = recommender.ReadyFalse
		}
		in.Pods = append(in.Pods, p)
		in.PodMetrics = append(in.PodMetrics, recommender.PodMetrics{
			Pod: p.Name, Timestamp: w.now.Add(-10 * time.Second), Window: 30 * time.Second,
			Containers: []recommender.ContainerMetrics{{Name: "app", Usage: []recommender.ResourceUsage{{Resource: "cpu", Milli: 10 * c.usage}}}},
		})
	}
	for i := range in.Readings {
		if IsTotal(&w.spec.Engine.Metrics[i]) {
			in.Readings[i].Values = []recommender.Value{{Milli: 1000 * c.queue}}
		}
	}
	if c.blind {
		in.SelectorProblem = &recommender.SelectorProblem{Reason: recommender.SelectorRequired}
	}
	digest, err := NewDigest(w.now, in, c.name, w.spec.Version)
	digest.Min = max(w.spec.OwnMin(c.name, c.least), c.floor)
	if c.most > 0 {
		digest.Max = c.most
	}
	w.ids++
	id := recommender.ID{14: byte(w.ids >> 8), 15: byte(w.ids)}
	before := AppendRecord(nil, &w.record)
	next, answer, err := Step(w.now, w.spec, &w.record, &Call{Member: c.name, Digest: digest, Blind: err != nil, Off: c.replicas == 0 && !c.zero, ID: id})
	fatal.If(w.t, err)
	if !slices.Equal(before, AppendRecord(nil, &w.record)) {
		w.t.Fatal("the given record has changed")
	}
	w.record, err = DecodeRecord(AppendRecord(nil, &next))
	fatal.If(w.t, err)
	w.lost = max(w.lost, answer.Members.Lost)
	if c.answer = answer; answer.Decision != nil {
		w.decided = append(w.decided, *answer.Decision)
		shares := int32(0)
		for i := range next.Members {
			shares += next.Members[i].Share
		}
		if answer.Total != shares {
			w.t.Fatalf("the total is %d, and the shares are %d", answer.Total, shares)
		}
	}
	switch {
	case c.stuck || answer.Holds || answer.Off:
	case c.blind:
		c.replicas = answer.Share
	default:
		share := digest.Within(answer.Share)
		if !answer.Drained {
			share = max(share, c.least)
		}
		c.write(share)
	}
}

// write does what the cluster is told, or was told some calls before.
func (c *cluster) write(share int32) {
	if share == c.replicas {
		share = -1
	}
	if c.writes = append(c.writes, share); len(c.writes) > c.slow {
		if share, c.writes = c.writes[0], c.writes[1:]; share >= 0 {
			c.replicas = share
		}
	}
}

// load spreads a load over all pods, in pods' worth at the target of 50; sums that are less than the tolerance
// away from it are on target.
func (w *world) load(pods int64) {
	for _, c := range w.clusters {
		c.usage = 50 * pods / int64(max(1, sumOf(w.replicas())))
	}
}

// periods lets it run for that many, under a load, and checks what holds after each.
func (w *world) periods(n int, pods int64, check func(before, after []int32)) {
	w.t.Helper()
	for range n {
		before := w.replicas()
		w.load(pods)
		w.run(w.spec.Period)
		check(before, w.replicas())
	}
}

func noCheck(_, _ []int32) {}

// run lets the clusters call every 15 s for as long. The last one finds that a decision is due.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		live := slices.DeleteFunc(slices.Clone(w.clusters), func(c *cluster) bool { return c.silent })
		next := w.now.Add(w.spec.Period)
		if due := time.Unix(0, w.record.Decided).Add(w.spec.Period); w.record.Decided != 0 && due.After(w.now) {
			next = due
		}
		for i, c := range live {
			if i == len(live)-1 {
				w.now = next
			}
			w.call(c)
		}
		w.now = next
	}
}

// learn lets the clusters that call learn what is decided.
func (w *world) learn() {
	w.t.Helper()
	before := len(w.decided)
	for _, c := range w.clusters {
		if !c.silent {
			w.call(c)
		}
	}
	if len(w.decided) > before {
		w.t.Fatal("a decision is due")
	}
}

// want checks what the clusters have.
func (w *world) want(what string, replicas ...int32) {
	w.t.Helper()
	if got := w.replicas(); !slices.Equal(got, replicas) {
		w.t.Errorf("%s: %v, want %v", what, got, replicas)
	}
}

func (w *world) replicas() (list []int32) {
	for _, c := range w.clusters {
		list = append(list, c.replicas)
	}
	return list
}

func (w *world) last() recommender.Decision {
	w.t.Helper()
	if len(w.decided) == 0 {
		w.t.Fatal("nothing is decided")
	}
	return w.decided[len(w.decided)-1]
}

func (w *world) usage(percent int64, names ...string) {
	for _, name := range names {
		w.of(name).usage = percent
	}
}

const minute = time.Minute

// M8: a and b at 60 %, c silent: four pods without samples count as idle on the way up.
func TestSilentMemberIsNotExtrapolated(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.run(minute)
	w.want("at the target", 4, 4, 4)
	w.of("c").silent = true
	w.run(minute) // 0 to 45 s: as before
	w.usage(60, "a", "b")
	w.run(minute)
	if d := w.last(); d.Current != 12 || d.Desired != 12 || d.Basis.Proposal != 12 {
		t.Errorf("from %d to %d, proposed %d, want 12", d.Current, d.Desired, d.Basis.Proposal)
	}
	if got := w.of("a").answer.Members; got.Stale != 1 || got.Fresh != 2 {
		t.Errorf("members %+v", got)
	}
	w.want("c is stale", 4, 4, 4)
}

// M8: c is lost, and its load is on a and b.
func TestLostMemberIsShiftedOrHeld(t *testing.T) {
	for _, tt := range []struct {
		onLost OnLost
		want   []int32
		state  Counts
	}{
		{Shift, []int32{8, 7, 4}, Counts{Fresh: 2, Lost: 1}},
		// 8 pods at 90 %, 4 that count as idle: 60 % of 12.
		{Hold, []int32{6, 5, 4}, Counts{Fresh: 2, Lost: 1}},
	} {
		w := newWorld(t, utilization(50), 4, 4, 4)
		w.spec.OnLost = tt.onLost
		w.run(minute)
		w.of("c").silent = true
		w.run(6 * minute)
		w.usage(90, "a", "b")
		w.run(15 * time.Second)
		w.learn()
		w.want("the load is moved", tt.want...)
		if got := w.of("b").answer.Members; got != tt.state {
			t.Errorf("%v: members %+v, want %+v", tt.onLost, got, tt.state)
		}
	}
}

// A fleet whose only replicas are lost is not switched off: those that are there get them.
func TestWhoHadEverythingIsLost(t *testing.T) {
	lost := func(off bool) *world {
		w := newWorld(t, utilization(50), 4, 2)
		w.spec.OnLost = Shift
		w.spec.Members[1].Weight = 0
		w.run(10 * minute)
		w.want("b is drained", 6, 0)
		w.spec.Members[1].Weight = 1
		w.run(minute)
		if off { // somebody scales b, and then to 0
			w.of("b").replicas = 1
			w.run(minute)
			w.of("b").replicas = 0
			w.run(minute)
		}
		w.of("a").silent = true
		w.run(7 * minute)
		return w
	}
	w := lost(false)
	w.want("a is lost", 6, 6)
	w.of("a").silent = false
	w.learn()
	w.periods(80, 6, noCheck)
	if got := w.replicas(); sumOf(got) != 6 {
		t.Errorf("after the return of a: %v", got)
	}
	if w = lost(true); w.of("b").replicas != 0 || !w.of("b").answer.Off {
		t.Errorf("who is switched off gets %+v", w.of("b").answer)
	}
}

// What an override, or a minimum of the fleet's for it, gives a member the others give as it becomes ready, within the fleet's maximum.
func TestWhoIsRaisedTakesWhatIsReady(t *testing.T) {
	for most, want := range map[int32][]int32{100: {8, 4, 4}, 14: {8, 3, 3}, 12: {8, 2, 2}} {
		w := newWorld(t, utilization(50), 4, 4, 4)
		w.spec.Engine.MaxReplicas = most
		check := func(_, _ []int32) {
			if w.record.Total > most {
				t.Errorf("%d in all, more than %d", w.record.Total, most)
			}
		}
		w.periods(8, 12, check)
		w.of("a").floor, w.of("a").ready = 8, 4
		w.periods(8, 12, check)
		w.want("none is ready", want...)
		w.of("a").ready = 6
		w.periods(8, 12, check)
		if got := w.replicas(); most == 100 && !slices.Equal(got, []int32{8, 3, 3}) {
			t.Errorf("two are ready: %v", got)
		}
		w.of("a").ready = 0
		w.periods(8, 12, check)
		w.want("all are ready", 8, 2, 2)

		w = newWorld(t, utilization(50), 4, 4, 4)
		w.spec.Engine.MinReplicas, w.spec.Engine.MaxReplicas = 8, most
		w.periods(8, 12, check)
		w.spec.Members[0].Min, w.of("a").ready = 8, 4
		w.periods(8, 12, check)
		w.want("by a minimum, and none is ready", want...)
		w.of("a").ready = 0
		w.periods(40, 12, check)
		if got := w.replicas(); got[0] != 8 || sumOf(got) > 13 {
			t.Errorf("by a minimum, and all are ready: %v", got)
		}
	}
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.of("a").floor, w.of("a").ready = 8, 4
	w.periods(80, 12, noCheck)
	w.want("they are never ready, and 13 is within the tolerance", 8, 3, 2)
}

// What a member has by an override beyond its bound in the fleet counts until it is the others', once that override is over.
func TestAnOverrideBeyondTheBoundEnds(t *testing.T) {
	w := newWorld(t, utilization(50), 8, 8, 8)
	w.spec.Members[0].Max = 8
	w.of("a").floor = 22
	w.periods(8, 24, noCheck)
	w.want("with the override", 22, 1, 1)
	w.of("a").floor = 0
	w.periods(8, 24, func(_, _ []int32) {
		if w.record.Desired < 24 {
			t.Errorf("a count of %d", w.record.Desired)
		}
	})
	w.want("after it", 8, 8, 8)
}

// Headroom that the return of a member makes needless goes as other replicas do.
func TestHeadroomFallsByPolicies(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.spec.OnLost, w.spec.SurviveOne = Shift, true
	w.spec.Engine.Behavior.ScaleDown.SelectPolicy = recommender.NoSelection
	w.periods(80, 12, noCheck)
	w.want("with headroom", 6, 6, 6)
	w.of("c").silent, w.of("c").replicas = true, 0
	w.periods(80, 12, noCheck)
	w.want("c is lost", 12, 12, 0)
	w.of("c").silent, w.of("c").replicas = false, 4
	w.periods(80, 12, func(before, after []int32) {
		if sumOf(after) < 28 {
			t.Fatalf("%v become %v", before, after)
		}
	})
}

// M9: what c's queue has is unknown: 600 known are no reason to have fewer than 90.
func TestPartialSumCountsForUpOnly(t *testing.T) {
	w := newWorld(t, external(true, 10_000), 30, 30, 30)
	for _, c := range w.clusters {
		c.queue = 300
	}
	w.run(minute)
	w.want("all known", 30, 30, 30)
	w.of("c").silent = true
	w.run(20 * minute)
	w.want("c is silent", 30, 30, 30)
	if d := w.last(); d.Path != recommender.PathMetricsFailed {
		t.Errorf("path %v: %s", d.Path, d.Error)
	}
	w.of("a").queue = 700 // 1000 are known
	w.run(30 * time.Second)
	w.want("more are known", 35, 35, 30)
}

// M9b: one queue that both read is counted once.
func TestGlobalReadingCountsOnce(t *testing.T) {
	for _, tt := range []struct {
		scope Scope
		want  []int32
	}{{Global, []int32{45, 45}}, {PerMember, []int32{50, 50}}} {
		w := newWorld(t, external(true, 10_000), 45, 45)
		w.spec.Scopes = []Scope{tt.scope}
		w.of("a").queue, w.of("b").queue = 900, 900
		w.run(minute)
		w.want("a queue of 900", tt.want...)
	}
	w := newWorld(t, external(true, 10_000), 45, 45)
	w.spec.Scopes = []Scope{Global}
	w.of("a").queue, w.of("b").queue, w.spec.Engine.MaxReplicas = 900, 1100, 200
	w.run(minute)
	w.of("a").silent = true
	w.run(10 * minute)
	w.want("the silent one's does not count", 55, 55)
}

// M10: c comes back with 4 pods while a and b have 15. The window comes first, then 12 are wanted.
func TestReturningMemberCountsAtOnce(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.spec.OnLost = Shift
	w.run(minute)
	w.of("c").silent = true
	w.run(6 * minute)
	w.usage(90, "a", "b")
	w.run(15 * time.Second)
	w.learn()
	w.usage(48, "a", "b") // 15 × 48 % is as 8 × 90 %
	w.run(4 * minute)
	w.want("c is away", 8, 7, 4)
	w.of("c").silent = false
	w.usage(31, "a", "b", "c") // of 19; 12 would be at 50 %
	w.learn()
	if d := w.of("c").answer; d.State != Returning || d.Share != 4 {
		t.Errorf("%+v", d)
	}
	before := len(w.decided)
	for range 30 {
		w.run(15 * time.Second)
		w.learn()
		w.usage(600/int64(sumOf(w.replicas())), "a", "b", "c")
		if c := w.of("c").replicas; c < 4 {
			t.Fatalf("c gives: %v", w.replicas())
		}
		if d := w.last(); w.of("c").answer.State == Returning && d.Desired != 15 {
			t.Fatalf("%d, in the window were 15", d.Desired)
		}
	}
	if d := w.decided[before]; d.Current != 19 || d.Desired != 15 {
		t.Errorf("%d becomes %d, want 19 and 15, as the window has", d.Current, d.Desired)
	}
	w.want("after the window", 4, 4, 4)
	if s := w.of("c").answer.State; s != Fresh {
		t.Errorf("c is %v", s)
	}
}

// Those that call more seldom than members are stale lose one that is silent, too: only a pause of all calls is the service's.
func TestASilentMemberOfSeldomCallersIsLost(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.spec.OnLost = Shift
	for i := range 12 {
		w.of("c").silent = i > 2
		for _, c := range w.clusters {
			if !c.silent {
				w.call(c)
			}
		}
		w.now = w.now.Add(minute)
	}
	if state := w.of("a").answer.Members; state.Lost != 1 {
		t.Errorf("%+v after nine minutes, want c lost", state)
	}
}

func sumOf(list []int32) (sum int32) {
	for _, n := range list {
		sum += n
	}
	return sum
}

func TestFalseAlarmsMoveNothing(t *testing.T) {
	for name, alarm := range map[string]func(w *world){
		"a call is late": func(w *world) {
			w.of("c").silent = true
			w.run(40 * time.Second)
		},
		"stale": func(w *world) {
			w.of("c").silent = true
			w.run(4 * minute)
		},
		"the service was away": func(w *world) { w.now = w.now.Add(20 * minute) },
		"the service was away, one comes late": func(w *world) {
			w.now = w.now.Add(20 * minute)
			w.of("c").silent = true
			w.run(4 * minute)
		},
		"blind": func(w *world) {
			w.of("c").blind = true
			w.run(20 * minute)
		},
		"the service was away for long, one comes late": func(w *world) {
			w.now = w.now.Add(290 * time.Second)
			w.of("c").silent = true
			w.run(4 * minute)
		},
		"the clock goes back": func(w *world) {
			w.now = w.now.Add(-time.Hour)
			w.run(minute)
		},
	} {
		for _, onLost := range []OnLost{Hold, Shift} {
			w := newWorld(t, utilization(50), 4, 4, 4)
			w.spec.OnLost = onLost
			w.run(2 * minute)
			alarm(w)
			w.want(name, 4, 4, 4)
			for _, c := range w.clusters {
				c.silent, c.blind = false, false
			}
			w.run(2 * minute)
			w.want(name+", after", 4, 4, 4)
			if w.lost > 0 {
				t.Errorf("%s: %d are lost", name, w.lost)
			}
			if since := w.now.UnixNano() - w.record.Decided; since > int64(w.spec.Period) {
				t.Errorf("%s: nothing is decided for %v", name, time.Duration(since))
			}
			for _, d := range w.decided {
				if d.Changes() {
					t.Errorf("%s: %d becomes %d", name, d.Current, d.Desired)
				}
			}
		}
	}
}

// A member that is blind after it was lost keeps what it has.
func TestBlindLostMemberHolds(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.spec.OnLost = Shift
	w.run(minute)
	w.of("c").silent = true
	w.run(8 * minute)
	w.of("c").silent, w.of("c").blind = false, true
	w.run(minute)
	if c := w.of("c"); !c.answer.Holds || c.replicas != 4 || c.answer.State != Lost {
		t.Errorf("%d replicas: %+v", c.replicas, c.answer)
	}
}

func TestMemberThatCallsOftenSpeedsNothingUp(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4)
	w.run(30 * time.Second)
	before := len(w.decided)
	for range 61 {
		w.call(w.of("a"))
		w.now = w.now.Add(time.Second)
	}
	if n := len(w.decided) - before; n != 4 {
		t.Errorf("%d decisions in a minute, want 4", n)
	}
}

// Clocks of two instances differ by some seconds: the record's time does not go back.
func TestTimeDoesNotGoBack(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4)
	w.run(minute)
	before := w.record.Updated
	w.now = w.now.Add(-20 * time.Second)
	w.call(w.of("a"))
	if w.record.Updated != before || w.record.Members[0].Told != before {
		t.Errorf("%v before", time.Duration(before-w.record.Updated))
	}
}

// A digest that could not be read again is refused before it is stored.
// A clock that was ahead and is set back makes nobody see that was blind.
func TestABlindMemberStaysBlindWhenAClockIsSetBack(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.run(minute)
	w.of("b").blind = true
	w.run(minute)
	w.now = w.now.Add(-time.Hour)
	w.call(w.of("a"))
	if m := w.of("a").answer.Members; m.Stale != 1 {
		t.Errorf("%+v, want a stale one", m)
	}
}

func TestDigestsThatCanNotBeReadAreRefused(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4)
	w.run(minute)
	d := Digest{Version: 7, Pods: -1, Metrics: make([]MetricDigest, 1)}
	if _, _, err := Step(w.now, w.spec, &w.record, &Call{Member: "a", Digest: d}); err == nil {
		t.Error("it is stored")
	}
}

// A share that a member has not learnt yet is no change by somebody else.
func TestSharesOnTheirWayAreNotUndone(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.spec.Engine.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
	w.run(minute)
	w.usage(70, "a", "b", "c")
	w.now = w.now.Add(10 * time.Second)
	w.call(w.of("b"))
	w.call(w.of("c"))
	w.now = w.now.Add(5 * time.Second)
	w.call(w.of("a")) // decides; b and c have not learnt it
	if d := w.last(); d.Desired != 17 {
		t.Fatalf("%d, want 17", d.Desired)
	}
	w.now = w.now.Add(15 * time.Second)
	w.usage(45, "a")
	w.call(w.of("a"))
	if d := w.last(); d.Current != 17 || d.SettledBefore.Outcome != recommender.Applied {
		t.Errorf("current %d, the change %v", d.Current, d.SettledBefore.Outcome)
	}
	w.learn()
	w.want("on target", 6, 6, 5)
}

// A total on target proposes the observed replicas: those on their way are.
func TestReplicasOnTheirWayAreObserved(t *testing.T) {
	w := newWorld(t, external(true, 10_000), 4, 4, 4)
	w.spec.Engine.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
	w.of("a").queue = 120
	w.run(minute)
	w.of("a").queue = 140
	w.now = w.now.Add(15 * time.Second)
	w.call(w.of("a")) // decides; b and c have not learnt it
	w.now = w.now.Add(15 * time.Second)
	w.call(w.of("a"))
	if d := w.last(); d.Current != 14 || d.Desired != 14 {
		t.Errorf("%d becomes %d, want 14", d.Current, d.Desired)
	}
}

// A member that fell silent before it learnt its share has the one before.
func TestSilentMemberKeepsTheShareThatItLearnt(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.run(minute)
	w.usage(75, "a", "b", "c")
	w.learn() // they tell it, and learn nothing new
	w.of("b").silent = true
	w.run(15 * time.Second) // c decides for 18
	if got := w.record.Members[1].Share; got != 6 {
		t.Fatalf("b's share is %d, want 6", got)
	}
	w.usage(50, "a", "c")
	w.run(2 * minute)
	if got := w.record.Members[1].Share; got != 4 {
		t.Errorf("b's share is %d, want 4", got)
	}
	if got := w.record.Total; got != w.record.Desired || got != sumOf(w.replicas()) {
		t.Errorf("%d in all, %d decided, %v run", got, w.record.Desired, w.replicas())
	}
}

// As many pods of a silent member count as it has replicas, though its last call shows others, or that they start: the share of
// the one that calls is what its own load needs.
func TestPodsOnTheirWayInSilenceAreThere(t *testing.T) {
	for name, tt := range map[string]struct {
		usage, later int64 // of the pods of both before, and of the one that calls, in percent of the target and of its load then
		start        bool  // the last call shows the new pods, which are not ready
		shares       []int32
		want         int32
	}{
		"they come":     {200, 20, false, []int32{8, 8}, 3},
		"they start":    {200, 20, true, []int32{8, 8}, 3},
		"they are gone": {60, 220, false, []int32{3, 2}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, utilization(90), 4, 4)
			w.spec.Engine.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
			w.usage(90, "a", "b")
			w.run(minute)
			w.usage(90*tt.usage/100, "a", "b")
			w.learn() // they tell it
			w.now = w.now.Add(w.spec.Period)
			a, b := w.of("a"), w.of("b")
			w.call(a) // decides
			w.call(b)
			if tt.start {
				b.ready = 4
				w.call(b)
			}
			w.want("told", tt.shares...)
			b.silent = true
			load := 90 * int64(a.replicas)
			for period := range 20 {
				if period == 4 {
					load = load * tt.later / 100
				}
				a.usage = load / int64(max(1, a.replicas))
				w.run(w.spec.Period)
			}
			w.want("while b is silent", tt.want, tt.shares[1])
		})
	}
}

// What a member does not do counts as done for a minute, as it may be slow. Then the part that was done counts for policies, and the others
// do the rest within these.
func TestPartlyAppliedChangeIsAnEvent(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	up := recommender.DefaultScaleUp()
	up.Policies = []recommender.ScalingPolicy{{Type: recommender.PodsPolicy, Value: 6, PeriodSeconds: 600}}
	w.spec.Engine.Behavior.ScaleUp = up
	w.run(minute)
	w.of("c").stuck = true
	w.usage(100, "a", "b", "c")
	w.run(15 * time.Second)
	w.learn()
	w.want("6 at most", 6, 6, 4)
	w.run(15 * time.Second)
	if d := w.last(); d.SettledBefore.Outcome != recommender.Applied || d.Current != 18 || d.Desired != 18 {
		t.Errorf("%v, %d to %d, want 18 that are applied, or will be", d.SettledBefore.Outcome, d.Current, d.Desired)
	}
	w.run(2 * minute)
	w.want("c does not", 7, 7, 4)
	events := int32(0)
	for _, e := range w.record.History.ScaleUps {
		events += e.Change
	}
	if events != 6 {
		t.Errorf("%d in %v, want the 4 and the 2 that were done", events, w.record.History.ScaleUps)
	}
}

// A change of which nothing is done is none, once its members have had time.
func TestAChangeThatNobodyAppliesIsNoEvent(t *testing.T) {
	for _, down := range []bool{false, true} {
		w := newWorld(t, utilization(50), 4, 4)
		w.spec.Engine.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
		w.run(minute)
		w.of("a").stuck, w.of("b").stuck = true, true
		w.usage(100, "a", "b")
		if down {
			w.usage(25, "a", "b")
		}
		w.run(30 * time.Second)
		if d := w.last(); d.Changes() || d.Current == 8 {
			t.Errorf("%d to %d: it may still be done", d.Current, d.Desired)
		}
		w.run(90 * time.Second)
		if h := w.record.History; w.last().Current != 8 || len(h.ScaleUps)+len(h.ScaleDowns) > 0 {
			t.Errorf("%d, events %v up and %v down", w.last().Current, h.ScaleUps, h.ScaleDowns)
		}
	}
}

func TestDrainedMemberIsEmptiedOneByOne(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.run(minute)
	w.spec.Members[2].Weight = 0
	for had := int32(4); had > 0; {
		w.run(15 * time.Second)
		shares := int32(0)
		for i := range w.record.Members {
			shares += w.record.Members[i].Share
		}
		has := w.of("c").replicas
		if has > had || has < had-1 || shares != 12 || sumOf(w.replicas()) < 11 {
			t.Fatalf("%v, c had %d; shares of %d", w.replicas(), had, shares)
		}
		if had = has; w.now.After(t0.Add(10 * minute)) {
			t.Fatalf("%v after 10 min", w.replicas())
		}
	}
	w.run(minute)
	w.want("c is drained", 6, 6, 0)
	w.usage(75, "a", "b")
	w.run(minute)
	if c := w.of("c").replicas; c != 0 {
		t.Errorf("c gains %d", c)
	}
}

// Replicas on their way from one member to another, of which one is gone or there before the other, leave the count as it is,
// though a total on target proposes those that are observed.
func TestMovedReplicasAreNoChangeOfTheSum(t *testing.T) {
	for name, move := range map[string]func(w *world){
		"drained":    func(w *world) { w.spec.Members[0].Weight = 0 },
		"rebalanced": func(w *world) { w.spec.MaxMoves = 3 },
	} {
		for _, late := range []string{"a", "b", "ab"} {
			t.Run(name+" "+late, func(t *testing.T) {
				w := newWorld(t, external(true, 10_000), 9, 4, 4)
				w.spec.Engine.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
				for _, c := range w.clusters {
					c.queue, c.had, c.late = 57, c.replicas, strings.Contains(late, c.name)
				}
				w.run(minute)
				move(w)
				for range 40 {
					if w.run(w.spec.Period); w.record.Desired != 17 {
						t.Fatalf("%d with %v, want 17", w.record.Desired, w.replicas())
					}
				}
				if a := w.of("a").replicas; a > 6 {
					t.Errorf("%v: nothing was moved", w.replicas())
				}
			})
		}
	}
}

// A drained member's replicas go as others become ready, so at most the moves of one decision are missing. A
// pod that never becomes ready delays that, and doesn't prevent it.
func TestDrainDoesNotWaitForPodsThatAreNeverReady(t *testing.T) {
	for _, moves := range []int32{0, 3} {
		t.Run(fmt.Sprintf("%d moves", moves), func(t *testing.T) {
			w := newWorld(t, utilization(50), 4, 4, 4)
			w.spec.MaxMoves = moves
			w.of("a").ready, w.of("b").ready = 4, 4
			w.run(minute)
			w.spec.Members[2].Weight = 0
			least := 4 - max(1, moves)
			for w.now.Before(t0.Add(10 * minute)) {
				if w.run(15 * time.Second); w.of("c").replicas < least {
					t.Fatalf("%v: fewer than %d of c at %v, nobody else is ready", w.replicas(), least, w.now.Sub(t0))
				}
			}
			if w.of("c").replicas != least {
				t.Errorf("%v, want %d of c", w.replicas(), least)
			}
			w.run(41 * minute)
			w.want("it goes on", 6, 6, 0)
		})
	}
}

// Somebody sets a member's replicas to 0: it is left alone, as HPA leaves such a workload, until it has
// some again.
func TestMemberThatIsSetToZeroIsLeftAlone(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.run(minute)
	w.of("b").replicas = 0
	w.run(minute)
	w.want("b is off", 4, 0, 4)
	w.usage(75, "a", "c")
	w.run(minute)
	w.usage(50, "a", "c")
	w.run(10 * minute)
	if has := w.replicas(); has[1] != 0 || has[0]+has[2] < 12 || w.of("b").answer.Holds {
		t.Errorf("%v under load, want none of b", has)
	}
	w.of("b").replicas = 2
	before := w.replicas()
	w.run(15 * time.Second)
	w.learn()
	if has := w.replicas(); has[1] < 2 || sumOf(has) != sumOf(before) {
		t.Errorf("b is on again: %v, want it to begin with 2 of %d", has, sumOf(before))
	}
	w.usage(100, "a", "b", "c")
	w.run(15 * time.Second)
	w.learn()
	if has := w.replicas(); has[1] <= 2 {
		t.Errorf("%v, b gains nothing", has)
	}
}

// To a member whose own spec allows 0 replicas they are a share like others.
func TestMemberThatMayHaveNoReplicasTakesPart(t *testing.T) {
	w := newWorld(t, utilization(50), 1, 1, 0)
	w.of("c").zero = true
	w.run(minute)
	w.want("as they are", 1, 1, 0)
	w.usage(100, "a", "b", "c")
	w.run(15 * time.Second)
	w.learn()
	w.want("twice as many", 2, 1, 1)
}

// What a member learns has no texts: names of other members and of their pods are in the decision only, which
// is for those who may see the fleet.
func TestAnswersNameNobody(t *testing.T) {
	var check func(path string, of reflect.Type)
	check = func(path string, of reflect.Type) {
		switch {
		case of == reflect.TypeFor[time.Time]() || of == reflect.TypeFor[*recommender.Decision]():
		case of.Kind() == reflect.Struct:
			for i := range of.NumField() {
				check(path+"."+of.Field(i).Name, of.Field(i).Type)
			}
		case of.Kind() > reflect.Float64:
			t.Errorf("%s may have names: %v", path, of)
		}
	}
	check("Answer", reflect.TypeFor[Answer]())
}

func TestCapacityMovesWhatFindsNoPlace(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4)
	w.of("b").room = 4
	w.run(minute)
	w.usage(75, "a", "b")
	w.run(15 * time.Second)
	w.usage(50, "a", "b")
	w.run(30 * time.Second)
	w.want("as weighted", 6, 6)
	w.run(75 * time.Second)
	w.want("b has room for 4", 8, 4)
	w.run(2 * minute)
	w.want("it stays", 8, 4)
	w.usage(60, "a", "b")
	w.run(15 * time.Second)
	w.learn()
	w.want("more are wanted", 11, 4)
}

func TestMembersThatJoinKeepWhatTheyHave(t *testing.T) {
	w := newWorld(t, utilization(50), 6, 2)
	w.run(2 * minute)
	w.want("the first decision moves nothing", 6, 2)
	w.clusters = append(w.clusters, &cluster{name: "c", replicas: 3, usage: 50})
	w.spec.Members = append(w.spec.Members, Member{Name: "c", Weight: 1, Max: -1})
	w.run(15 * time.Second)
	if got := w.of("c").answer.State; got != Returning {
		t.Errorf("the new member is %v, want as one that was lost", got)
	}
	w.run(2 * minute)
	w.want("c joins", 6, 2, 3)
	if got := w.of("c").answer.State; got != Fresh {
		t.Errorf("two minutes later the new member is %v", got)
	}
	w.spec.Members = w.spec.Members[:2]
	w.clusters = w.clusters[:2]
	w.run(2 * minute)
	w.want("c leaves", 6, 2)
	if n := len(w.record.Members); n != 2 {
		t.Errorf("%d members are recorded", n)
	}
}

func TestFirstDecisionWaitsForMembers(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.of("c").silent = true
	w.usage(100, "a", "b")
	w.run(30 * time.Second)
	if len(w.decided) > 0 || w.of("a").answer.Share != 4 {
		t.Errorf("%d decisions, share %d", len(w.decided), w.of("a").answer.Share)
	}
	w.run(15 * time.Second)
	if len(w.decided) == 0 {
		t.Error("it waits for ever")
	}
	w.learn()
	w.want("without c", 8, 8, 4)
	w.load(16)
	w.run(10 * minute)
	if got := w.of("a").answer.Members; got != (Counts{Unseen: 1, Fresh: 2}) {
		t.Errorf("c has never called: %+v", got)
	}
}

// After a change of the metrics no digest counts until its member calls again.
func TestDigestsOfAnotherSpecDoNotCount(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.run(2 * minute)
	w.spec.Version, w.spec.Engine.Metrics = 8, []recommender.MetricSpec{utilization(25), external(true, 1_000_000)}
	w.usage(10, "a", "b", "c")
	w.now = w.now.Add(15 * time.Second)
	w.call(w.of("a"))
	if d := w.last(); d.Desired != 12 || d.Path != recommender.PathMetricsFailed {
		t.Errorf("%d, path %v", d.Desired, d.Path)
	}
	if got := w.of("a").answer.Members; got.Stale != 2 {
		t.Errorf("members %+v", got)
	}
	w.run(7 * minute)
	if got := sumOf(w.replicas()); got >= 12 {
		t.Errorf("%d replicas", got)
	}
	if _, _, err := Step(w.now, w.spec, &w.record, &Call{Member: "a", Digest: Digest{Version: 7}}); err != ErrVersion {
		t.Errorf("%v, want %v", err, ErrVersion)
	}
	if _, _, err := Step(w.now, w.spec, &w.record, &Call{Member: "z"}); err == nil {
		t.Error("z is no member")
	}
}

// The headroom for a lost member is no load, so it does not grow by itself.
func TestSurviveOneNeverCreeps(t *testing.T) {
	for _, metric := range []recommender.MetricSpec{utilization(50), resourceAverage("cpu", 500), external(true, 50_000), external(false, 600_000)} {
		w := newWorld(t, metric, 6, 6, 6)
		w.spec.SurviveOne = true
		load := int64(620) // of 12 replicas, within the tolerance
		for range 200 {
			for _, c := range w.clusters {
				c.usage, c.queue = load/int64(sumOf(w.replicas())), load/3
			}
			w.run(15 * time.Second)
		}
		w.want("the load of 12", 6, 6, 6)
		if got := w.record; got.Desired != 12 || got.Total != 18 {
			t.Errorf("%s: %d, %d in all, want 12 and 18", metric.Type, got.Desired, got.Total)
		}
		for _, d := range w.decided {
			if d.Current != 12 || d.Desired != 12 {
				t.Fatalf("%s: %d becomes %d", metric.Type, d.Current, d.Desired)
			}
		}
	}
	// What a total is multiplied with is not the headroom.
	v := newWorld(t, external(false, 600_000), 6, 6, 6)
	v.spec.SurviveOne = true
	v.of("a").queue = 600
	v.run(2 * minute)
	v.of("a").queue = 720
	v.learn()
	v.run(15 * time.Second)
	if d := v.last(); d.Current != 12 || d.Desired != 15 {
		t.Errorf("%d becomes %d at 1.2 of the target, want 12 and 15", d.Current, d.Desired)
	}
	// It grows with the load, and c may be lost.
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.spec.SurviveOne, w.spec.OnLost = true, Shift
	step := func(n int) {
		for range n {
			for _, c := range w.clusters {
				alive := sumOf(w.replicas())
				if w.of("a").answer.Members.Fresh < 3 {
					alive -= w.of("c").replicas
				}
				c.usage = 600 / int64(alive)
			}
			w.run(15 * time.Second)
		}
	}
	step(80)
	w.want("with headroom", 6, 6, 6)
	w.of("c").silent = true
	step(8)
	w.want("c is silent: the others suffice", 6, 6, 6)
	step(40)
	w.want("c is lost: headroom again", 12, 12, 6)
}

// One member alone has what the load needs: there is no other one to survive on, and nobody's headroom is load.
func TestSurviveOneOfOneMemberIsPlain(t *testing.T) {
	dies := func(w *world) { w.of("b").silent, w.of("b").replicas = true, 0 }
	returns := func(w *world) { w.of("b").silent, w.of("b").replicas = false, 6 }
	for _, tt := range []struct {
		name       string
		onLost     OnLost
		away, back func(*world)
		alone      int32
	}{
		{"drained", Hold, func(w *world) { w.spec.Members[1].Weight = 0 }, func(w *world) { w.spec.Members[1].Weight = 1 }, 6},
		{"lost and shifted", Shift, dies, returns, 6},
		{"lost and held", Hold, dies, returns, 8}, // the silent six count as idle
		{"never seen", Hold, nil, returns, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, utilization(50), 6, 6)
			w.spec.SurviveOne, w.spec.OnLost, w.spec.Engine.MaxReplicas = true, tt.onLost, 40
			within := func(_, after []int32) {
				if after[0] < 6 || after[0] > 12 || after[1] > 12 { // what b has told last counts until it is stale
					t.Fatalf("%v after %s for a load of 6", after, w.now.Sub(t0))
				}
			}
			if tt.away == nil {
				dies(w)
			} else {
				w.periods(40, 6, within)
				w.want("both", 6, 6)
				tt.away(w)
			}
			w.periods(60, 6, within)
			w.want("one", tt.alone, 0)
			tt.back(w)
			w.periods(60, 6, within)
			w.want("both again", 6, 6)
			if w.record.Desired != 6 || w.record.Missing != 0 {
				t.Errorf("%d, %d missing, want 6 and 0", w.record.Desired, w.record.Missing)
			}
		})
	}
	// A fleet of which one member calls begins with what that has, and its count is that.
	w := newWorld(t, utilization(50), 10, 10)
	w.spec.SurviveOne, w.of("b").silent = true, true
	w.periods(20, 20, noCheck) // 10 of these on each
	w.want("all on target", 10, 10)
	if d := w.decided[0]; d.Current != 10 || d.Desired != 10 || w.record.Missing != 10 {
		t.Errorf("%d became %d, %d missing, want 10, 10 and 10", d.Current, d.Desired, w.record.Missing)
	}
}

// While all are fresh the shares never add up to more or less than the fleet's bounds.
func TestSharesStayWithinTheFleetsBounds(t *testing.T) {
	r := newRandom(9)
	for range 60 {
		n := r.between(2, 6)
		w := newWorld(t, utilization(50), make([]int32, n)...)
		w.spec.Engine.MinReplicas, w.spec.Engine.MaxReplicas = int32(r.between(n, 2*n)), int32(r.between(3*n, 9*n))
		w.spec.SurviveOne, w.spec.MaxMoves = r.chance(30), int32(r.IntN(3))
		for i, c := range w.clusters {
			c.replicas = int32(r.between(1, 3))
			w.spec.Members[i].Weight = int32(r.between(1, 20))
			w.spec.Members[i].Min = int32(r.IntN(2))
		}
		fatal.If(t, w.spec.Validate())
		for range 200 {
			for i, c := range w.clusters {
				c.usage = int64(r.between(0, 150))
				if r.chance(1) && i > 0 {
					w.spec.Members[i].Weight = int32(r.IntN(3))
				}
			}
			order := r.Perm(n)
			for _, i := range order {
				w.call(w.clusters[i])
				w.now = w.now.Add(time.Duration(r.IntN(5000)) * time.Millisecond)
				if w.record.Decided == 0 {
					continue
				}
				sum := int32(0)
				for k := range w.record.Members {
					sum += w.record.Members[k].Share
				}
				if sum < w.spec.Engine.MinReplicas || sum > w.spec.Engine.MaxReplicas || sum != w.record.Total {
					t.Fatalf("%d of %d to %d", sum, w.spec.Engine.MinReplicas, w.spec.Engine.MaxReplicas)
				}
			}
		}
	}
}

// A hostile member moves the fleet within its bounds, and has no more than its own.
func TestHostileMemberIsBounded(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 1<<20)
	w.spec.Engine.MaxReplicas, w.spec.Members[2].Max = 30, 6
	w.of("c").room = 1
	w.run(minute)
	if got := w.of("c").replicas; got > 6 {
		t.Errorf("a member that joins with more than it may have gets %d", got)
	}
	for _, d := range w.decided {
		if d.Current > 14 {
			t.Errorf("%d replicas count", d.Current)
		}
	}
	lies(t)
}

func lies(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.spec.Engine.MaxReplicas, w.spec.Members[2].Max = 30, 6
	a, b, c := w.of("a"), w.of("b"), w.of("c")
	a.least, b.least = 3, 2
	others := func(when string) {
		t.Helper()
		w.run(w.spec.Period)
		if a, b := a.answer.Share, b.answer.Share; a < 3 || b < 2 || a+b > 30 {
			t.Fatalf("%s the others get %d and %d, which want at least 3 and 2", when, a, b)
		}
	}
	w.run(minute)
	for _, lie := range []func(d *Digest){
		func(d *Digest) { d.Scale.SpecReplicas, d.Scale.StatusReplicas = 1<<30, -1<<30 },
		func(d *Digest) { d.Metrics[0].Sums.Ready.Usage = 1 << 62 },
		func(d *Digest) { d.Metrics[0].Sums.Ready.Usage = -1 << 62 },
		func(d *Digest) { d.Pods, d.Ready = MostPods, MostPods; d.Metrics[0].Sums.Ready.Pods = MostPods },
		func(d *Digest) { d.Metrics[0].Sums.Ready = recommender.GroupSums{Pods: 4, Requests: 1 << 40} }, // idle ones
		func(d *Digest) { d.Min = w.spec.OwnMin("c", 1<<30) },
		func(d *Digest) { d.Scale.SpecReplicas, d.Max, d.Placed, d.Unplaced = 0, 0, 0, MostPods },
	} {
		for range 40 {
			in := &recommender.Input{Spec: w.spec.Engine, Options: w.spec.Options, Scale: recommender.Scale{SpecReplicas: 4, StatusReplicas: 4}}
			digest, err := NewDigest(w.now, in, "c", w.spec.Version)
			fatal.If(t, err)
			lie(&digest)
			next, answer, err := Step(w.now, w.spec, &w.record, &Call{Member: "c", Digest: digest, ID: recommender.ID{1}})
			fatal.If(t, err)
			w.record, c.silent = next, true
			if d := w.last(); d.Current > 36 {
				t.Fatalf("%d replicas count", d.Current)
			}
			if answer.Share > 6 || answer.Share < 0 || answer.Total > 30 || answer.Total < 1 {
				t.Fatalf("%+v", answer)
			}
			others("while it calls")
		}
		for range 6 { // what it has told counts
			others("once it is silent")
		}
	}
}

// c is told more, can't do it once, and is then not heard of: what it lacks comes from nobody. The mirror is on the
// way down.
func TestMemberThatFailsAndFallsSilentTakesFromNobody(t *testing.T) {
	for name, away := range map[string]func(c *cluster){
		"silent": func(c *cluster) { c.silent = true },
		"blind":  func(c *cluster) { c.blind = true },
	} {
		for _, had := range []int32{4, 8} {
			w := newWorld(t, utilization(50), had, had, had)
			w.periods(4, int64(3*had), noCheck)
			c := w.of("c")
			c.stuck = true
			pods := int64(20)
			if had == 8 {
				pods = 12
				w.spec.Engine.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
			}
			for told := had; told == had; { // until it is told
				w.periods(1, pods, noCheck)
				told = c.answer.Share
			}
			w.call(c)
			away(c)
			w.periods(40, pods, func(before, after []int32) {
				for i := range 2 {
					if had == 4 && after[i] < before[i] || had == 8 && after[i] > before[i] {
						t.Fatalf("%s: %v becomes %v", name, before, after)
					}
				}
			})
			if total := w.record.Total; total != sumOf(w.replicas()) || c.replicas != had {
				t.Errorf("%s: %d in all, %v run", name, total, w.replicas())
			}
			if after := w.replicas(); had == 4 && sumOf(after) < 18 || had == 8 && sumOf(after) > 20 {
				t.Errorf("%s, had %d: %v", name, had, after)
			}
		}
	}
}

// While the load is within the tolerance of the target no decision changes a share, whoever is silent, stuck or
// blind; and under overload the shares of those that call don't go down.
func TestWhoIsAwayMovesNobody(t *testing.T) {
	r := newRandom(21)
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	for round := range rounds {
		n := r.between(2, 6)
		replicas := make([]int32, n)
		for i := range replicas {
			replicas[i] = int32(r.between(1, 9))
		}
		w := newWorld(t, oneOf(r, utilization(50), external(true, 10_000)), replicas...)
		w.spec.OnLost, w.spec.MaxMoves = Hold, 0
		for i, c := range w.clusters {
			w.spec.Members[i].Weight = int32(r.between(1, 9))
			if c.least = 1; r.chance(20) {
				c.most = int32(r.between(1, 30))
			}
		}
		use := func(pods int64) {
			w.load(pods)
			for _, c := range w.clusters {
				c.queue = 10 * pods * int64(c.replicas) / int64(max(1, sumOf(w.replicas())))
			}
		}
		period := func(pods int64) {
			use(pods)
			w.run(w.spec.Period)
		}
		// They do what they are told, and then some do not.
		pods := int64(r.between(int(sumOf(replicas)), 3*int(sumOf(replicas))))
		for range r.between(1, 12) {
			period(pods)
		}
		mix := func() {
			for _, c := range w.clusters[1:] {
				c.silent, c.stuck, c.blind = false, false, false
				switch r.IntN(5) {
				case 0:
					c.silent = true
				case 1:
					c.stuck = true
				case 2:
					c.blind = true
				}
			}
		}
		mix()
		for range r.between(0, 8) {
			period(pods)
		}
		var shares []int32
		for k := range 400 {
			if k%97 == 0 {
				mix()
			}
			use(int64(sumOf(w.replicas())))
			before := len(w.decided)
			was := w.replicas()
			w.run(w.spec.Period)
			for _, d := range w.decided[before:] {
				if k%97 > 30 && d.Changes() { // what was wanted before, and what they show anew, is done
					t.Fatalf("round %d, period %d: %d becomes %d at the target: %v", round, k, d.Current, d.Desired, was)
				}
			}
			now := make([]int32, n)
			for i := range now {
				now[i] = w.record.Members[i].Share
			}
			if k%97 > 30 && !slices.Equal(now, shares) {
				t.Fatalf("round %d, period %d: shares %v become %v at the target; %v", round, k, shares, now, was)
			}
			shares = now
		}
		for k := range 40 {
			was := slices.Clone(shares)
			use(3 * int64(sumOf(w.replicas())))
			w.run(w.spec.Period)
			for i, c := range w.clusters {
				if shares[i] = w.record.Members[i].Share; shares[i] < was[i] && !c.silent && !c.blind && !c.stuck {
					t.Fatalf("round %d, overload %d: shares %v become %v", round, k, was, shares)
				}
			}
		}
	}
}

// A caller's own bounds are the member's: what it would not take goes to the others.
func TestOwnBoundsOfACallerAreKept(t *testing.T) {
	for name, tt := range map[string]struct {
		set      func(w *world)
		pods     int64
		want     []int32
		unplaced int32
	}{
		"its own maximum":            {func(w *world) { w.of("a").most = 4 }, 20, []int32{4, 16}, 0},
		"all are at their maximums":  {func(w *world) { w.of("a").most, w.of("b").most = 4, 9 }, 20, []int32{4, 9}, 7},
		"its own minimum":            {func(w *world) { w.of("a").least = 6 }, 8, []int32{6, 2}, 0},
		"held":                       {func(w *world) { w.of("a").least, w.of("a").most = 4, 4 }, 20, []int32{4, 16}, 0},
		"beside the fleet's for it":  {func(w *world) { w.of("a").most, w.spec.Members[0].Max = 6, 5 }, 20, []int32{5, 15}, 0},
		"a minimum above that of it": {func(w *world) { w.of("a").least, w.spec.Members[0].Max = 6, 5 }, 8, []int32{6, 3}, 0},
		"a floor above that of it":   {func(w *world) { w.of("a").floor, w.spec.Members[0].Max = 6, 5 }, 8, []int32{6, 2}, 0},
		"a floor, drained":           {func(w *world) { w.of("a").floor, w.spec.Members[0].Weight = 6, 0 }, 8, []int32{6, 2}, 0},
	} {
		for _, period := range []time.Duration{15 * time.Second, time.Second} {
			w := newWorld(t, utilization(50), 4, 4)
			w.spec.Period, w.spec.StaleAfter = period, 3*period
			w.spec.Engine.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
			w.periods(2, 8, noCheck)
			tt.set(w)
			w.periods(100, tt.pods, func(before, after []int32) {
				if tt.pods == 20 && after[1] < before[1] {
					t.Errorf("%s: %v becomes %v", name, before, after)
				}
			})
			a := w.of("a")
			beyond := max(0, a.least-w.spec.OwnMin("a", a.least)) // which is no part of the fleet
			if w.spec.Members[0].Drained() {
				beyond = 0
			}
			if sumOf(w.replicas())-beyond != w.record.Total {
				t.Errorf("%s, every %v: %v, in all %d", name, period, w.replicas(), w.record.Total)
			}
			if total := sumOf(w.replicas()); !slices.Equal(w.replicas(), tt.want) && (total > sumOf(tt.want) || total*11 < int32(tt.pods)*10) {
				t.Errorf("%s, every %v: %v, want %v", name, period, w.replicas(), tt.want)
			}
			if w.record.Unplaced < tt.unplaced-2 || w.record.Unplaced > tt.unplaced {
				t.Errorf("%s: %d unplaced, want %d", name, w.record.Unplaced, tt.unplaced)
			}
			a.blind = true
			if has := a.replicas; beyond == 0 && sumOf(w.replicas()) == w.record.Total {
				w.call(a)
				if w.periods(2, tt.pods, noCheck); a.replicas != has || w.record.Members[0].Share != has {
					t.Errorf("%s: it has %d, and blind is told %d, its share %d", name, has, a.replicas, w.record.Members[0].Share)
				}
			}
		}
	}
}

// A member that calls and doesn't do what it is told is told no more; nobody swings, and the others do its part.
func TestStuckMemberIsDoneWithout(t *testing.T) {
	for _, stuck := range []string{"a", "b", "c"} {
		w := newWorld(t, utilization(50), 4, 4, 4)
		w.periods(4, 12, noCheck)
		c := w.of(stuck)
		c.stuck = true
		w.periods(60, 20, func(before, after []int32) {
			for i := range before {
				if after[i] < before[i] {
					t.Fatalf("%s is stuck: %v becomes %v", stuck, before, after)
				}
			}
		})
		if got := sumOf(w.replicas()); got < 18 || c.replicas != 4 || w.record.Total != got {
			t.Errorf("%s is stuck: %v, %d in all", stuck, w.replicas(), w.record.Total)
		}
		c.stuck = false
		w.periods(25, 20, noCheck)
		w.periods(60, 26, noCheck)
		if got := sumOf(w.replicas()); got < 24 || c.replicas <= 4 {
			t.Errorf("%s is no longer stuck: %v", stuck, w.replicas())
		}
	}
	// On the way down the others give what it does not.
	w := newWorld(t, utilization(50), 8, 8, 8)
	w.periods(4, 24, noCheck)
	w.of("c").stuck = true
	w.periods(60, 12, noCheck)
	if got := w.replicas(); got[2] != 8 || sumOf(got) > 13 || w.record.Total != sumOf(got) {
		t.Errorf("c is stuck at 8: %v, %d in all", got, w.record.Total)
	}
	before := len(w.decided)
	w.periods(100, 12, func(before, after []int32) {
		if !slices.Equal(before, after) {
			t.Fatalf("%v becomes %v at the same load", before, after)
		}
	})
	for _, d := range w.decided[before:] {
		if d.Changes() {
			t.Fatalf("%d becomes %d at the same load", d.Current, d.Desired)
		}
	}
}

// A member that does within a minute what it is told is not stuck: what it has not done yet is done by nobody else, and what it then does is
// not undone.
func TestSlowMembersDoNotSwing(t *testing.T) {
	for _, names := range []string{"a", "b", "c", "abc"} {
		for slow := 1; slow <= 3; slow++ {
			for _, had := range [][]int32{{4, 4, 4}, {1, 7, 5}, {9, 2, 2}} {
				w := newWorld(t, utilization(50), had...)
				w.periods(4, int64(sumOf(had)), noCheck)
				for _, c := range w.clusters {
					if strings.Contains(names, c.name) {
						c.slow = slow
					}
				}
				most := 2*sumOf(had) + 2
				changes := 0
				w.periods(60, int64(2*sumOf(had)), func(before, after []int32) {
					if sumOf(after) > most {
						t.Errorf("%s, %d calls late: %v after %v, for a load of %d", names, slow, after, before, 2*sumOf(had))
					}
					if !slices.Equal(before, after) {
						changes++
					}
				})
				if changes > 8 {
					t.Errorf("%s, %d calls late: %d changes, and %v in the end", names, slow, changes, w.replicas())
				}
			}
		}
	}
}

// A share that a member has learnt and not done yet counts as done, for a minute: the fleet decides once for a change of its load, however late its members are within that.
func TestWhatIsOnItsWayIsDecidedOnce(t *testing.T) {
	for _, survive := range []bool{false, true} {
		for _, names := range []string{"a", "c", "bc", "abc"} {
			for slow := 1; slow <= 3; slow++ {
				for _, percent := range []int64{50, 150, 200} {
					w := newWorld(t, utilization(50), 12, 12, 12)
					w.spec.SurviveOne, w.spec.Engine.MaxReplicas = survive, 400
					w.spec.Engine.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
					w.periods(20, 36, noCheck)
					for _, c := range w.clusters {
						if strings.Contains(names, c.name) {
							c.slow = slow
						}
					}
					before := len(w.decided)
					w.periods(40, 36*percent/100, noCheck)
					changes := 0
					for _, d := range w.decided[before:] {
						if d.Changes() {
							changes++
						}
					}
					if changes > 2 && (!survive || changes > 3) {
						t.Errorf("survive %v, %s are %d calls late, %d %%: %d changes", survive, names, slow, percent, changes)
					}
				}
			}
		}
	}
}

// Members call one after the other, and the load moves as each of them does what it is told. What a member told before it ended pods is told by the others
// as well once they have their load: a fleet that falls does not rise again for that.
func TestLoadThatMovesBetweenCallsCountsOnce(t *testing.T) {
	for _, weights := range [][]int32{{1, 1, 1}, {1, 2, 5}} {
		for pods := int64(3); pods <= 14; pods++ {
			w := newWorld(t, utilization(50), 4, 4, 4)
			for i := range w.spec.Members {
				w.spec.Members[i].Weight = weights[i]
			}
			for range 160 {
				for _, c := range w.clusters {
					w.load(pods)
					w.call(c)
					w.now = w.now.Add(5 * time.Second)
				}
			}
			fell := slices.IndexFunc(w.decided, func(d recommender.Decision) bool { return d.Desired < d.Current })
			if fell < 0 {
				continue
			}
			for _, d := range w.decided[fell:] {
				if d.Desired > d.Current {
					t.Errorf("weights %v, a load of %d: %d becomes %d", weights, pods, d.Current, d.Desired)
				}
			}
		}
	}
}

// What a member does not do is missing as replicas are that a failed write of HPA would have added: only beyond the tolerance do the
// others do it.
func TestWithinTheToleranceNobodyDoesTheRestOfAStuckMember(t *testing.T) {
	w := newWorld(t, utilization(50), 9, 9)
	w.periods(4, 18, noCheck)
	w.of("b").stuck = true
	w.periods(60, 21, noCheck)
	if got := w.replicas(); !slices.Equal(got, []int32{11, 9}) || w.record.Total != 20 {
		t.Errorf("21 of 20 is within the tolerance: %v, %d in all", got, w.record.Total)
	}
	w.periods(10, 26, noCheck)
	if got := w.replicas(); !slices.Equal(got, []int32{17, 9}) || w.record.Total != 26 {
		t.Errorf("26 of 20 is beyond it: %v, %d in all", got, w.record.Total)
	}
}

// What a member has not done shows until it does what it is told.
func TestWhoDoesNotApplyIsTold(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4)
	w.periods(4, 8, noCheck)
	w.of("b").stuck = true
	w.periods(6, 20, noCheck)
	if m := w.record.Members[1]; m.MissedSince == 0 || m.Capacity != 4 {
		t.Errorf("it does not apply: %+v", m)
	}
	w.of("b").stuck = false
	w.periods(25, 20, noCheck)
	w.periods(30, 26, noCheck)
	if m := w.record.Members[1]; m.MissedSince != 0 || w.of("b").replicas <= 4 {
		t.Errorf("it does: %+v", m)
	}
}

// Somebody scales a member by hand. What it has counts, as with a HorizontalPodAutoscaler: the next decision leaves it or
// changes it, and nothing undoes it before that.
func TestWhoIsScaledByHandIsScaledInOneDirection(t *testing.T) {
	for _, tt := range []struct{ by, want int32 }{{1, 13}, {-1, 11}, {3, 12}, {8, 12}, {-2, 12}} { // 10 % are on target
		for _, name := range []string{"a", "b", "c"} {
			w := newWorld(t, utilization(50), 4, 4, 4)
			w.periods(24, 12, noCheck)
			w.of(name).replicas += tt.by
			w.periods(8, 12, func(before, after []int32) {
				if from, to := sumOf(before), sumOf(after); (to-from)*tt.by > 0 || from != to && to != tt.want {
					t.Errorf("%s by %d: %v after %v", name, tt.by, after, before)
				}
			})
			if got := sumOf(w.replicas()); got != tt.want {
				t.Errorf("%s by %d: %v, want %d", name, tt.by, w.replicas(), tt.want)
			}
		}
	}
}

// It counts too where the member has not done yet what it was told, if what it has is no part of that.
func TestWhoIsScaledByHandIsNotLate(t *testing.T) {
	for _, has := range []int32{2, 15} { // it had 4, and is told 6
		w := newWorld(t, utilization(50), 4, 4, 4)
		w.periods(24, 12, noCheck)
		w.of("c").slow = 2
		w.periods(2, 18, noCheck)
		w.want("c is late", 6, 6, 4)
		w.of("c").replicas = has
		w.periods(1, 18, noCheck)
		if got := w.last().Current; got != 12+has {
			t.Errorf("c has %d: %d in all count", has, got)
		}
	}
}

// A drained member is emptied below its own minimum, and comes back from 0, though its first write fails.
func TestDrainedMemberComesBackFromZero(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	for _, c := range w.clusters {
		c.least = 1
	}
	w.periods(4, 12, noCheck)
	w.spec.Members[2].Weight = 0
	w.periods(40, 12, noCheck)
	w.want("c is drained", 6, 6, 0)
	if w.of("c").answer.Off || w.record.Total != 12 {
		t.Errorf("%+v", w.of("c").answer)
	}
	w.spec.Members[2].Weight = 1
	w.of("c").stuck = true
	w.periods(2, 12, noCheck)
	w.of("c").stuck = false
	w.periods(4, 12, noCheck)
	w.periods(60, 20, noCheck)
	if got := w.replicas(); got[2] < 4 || sumOf(got) < 18 {
		t.Errorf("promoted: %v", got)
	}
	// One that somebody else set to 0 is left alone.
	w.of("c").replicas = 0
	w.periods(40, 20, noCheck)
	if got := w.replicas(); got[2] != 0 || !w.of("c").answer.Off || sumOf(got) < 18 {
		t.Errorf("switched off: %v", got)
	}
	w.of("c").silent = true
	w.periods(10, 20, noCheck)
	if got := sumOf(w.replicas()); w.record.Total != got {
		t.Errorf("switched off and silent: %d in all, %v run", w.record.Total, w.replicas())
	}
}

// A drained member that gives nothing makes the others no larger.
func TestDrainOfStuckMemberAddsLittle(t *testing.T) {
	w := newWorld(t, utilization(50), 10, 10, 10)
	w.periods(4, 30, noCheck)
	w.spec.Members[2].Weight, w.of("c").stuck = 0, true
	w.periods(10, 30, noCheck)
	if got := w.replicas(); got[2] != 10 || sumOf(got) > 31 {
		t.Errorf("%v", got)
	}
}

// Members that lag behind a change of the metrics hold the fleet on the way down, also if they do not what they
// are told.
func TestMembersThatLagBehindASpecHoldIt(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.spec.Engine.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
	w.periods(4, 12, noCheck)
	w.of("b").stuck, w.of("c").stuck = true, true
	w.periods(2, 20, noCheck)
	before := w.replicas()
	w.spec.Version, w.spec.Engine.Metrics = 8, []recommender.MetricSpec{utilization(90)}
	w.of("b").silent, w.of("c").silent = true, true
	w.periods(30, 2, func(_, after []int32) {
		if after[0] < before[0] {
			t.Fatalf("%v becomes %v", before, after)
		}
	})
	for _, c := range w.clusters {
		c.silent, c.stuck = false, false
	}
	w.periods(10, 2, noCheck)
	if got := sumOf(w.replicas()); got > 4 {
		t.Errorf("all have called: %v", w.replicas())
	}
}

// A blind member is stale at once, and its count is the one that it has.
func TestBlindMemberIsStaleAtOnce(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4)
	w.periods(4, 8, noCheck)
	w.periods(1, 20, noCheck)
	w.learn()
	b := w.of("b")
	had := b.replicas
	b.blind = true
	w.now = w.now.Add(15 * time.Second)
	w.usage(100, "a", "b")
	w.call(b)
	if b.answer.State != Stale || b.answer.Share != had || b.answer.Holds {
		t.Errorf("had %d: %+v", had, b.answer)
	}
	w.usage(100, "a")
	w.periods(4, 40, noCheck)
	if b.replicas != had || w.of("a").replicas <= had {
		t.Errorf("%v, b had %d", w.replicas(), had)
	}
	w.of("a").blind = true
	decided, before := len(w.decided), w.replicas()
	w.periods(4, 400, noCheck)
	if len(w.decided) > decided || !slices.Equal(w.replicas(), before) {
		t.Errorf("%d decisions of nothing that anybody told: %v, before %v", len(w.decided)-decided, w.replicas(), before)
	}
}

// What is known of a blind member's replicas: the share that it learnt last, if it did what it was told, else what it
// had.
func TestBlindMemberIsToldWhatItLearnt(t *testing.T) {
	for _, applies := range []bool{true, false} {
		w := newWorld(t, utilization(50), 4, 4)
		w.periods(4, 8, noCheck)
		b := w.of("b")
		want := int32(4)
		if b.stuck = !applies; b.stuck {
			w.periods(1, 16, noCheck)
			w.learn() // it is told 8, and has not done it
		} else {
			w.usage(100, "a", "b")
			w.call(b)
			w.now = w.now.Add(15 * time.Second)
			w.call(w.of("a")) // decides
		}
		if w.record.Members[1].Share == want {
			t.Fatal("nothing is decided")
		}
		b.blind, b.stuck = true, false
		w.call(b)
		if b.answer.Share != want || b.replicas != want {
			t.Errorf("applies %v: %+v, want %d", applies, b.answer, want)
		}
	}
}

// Somebody changes what a member has while it is not heard of: it goes on with that.
func TestWhoChangesInSilenceGoesOnWithThat(t *testing.T) {
	for _, away := range []time.Duration{2 * minute, 8 * minute} {
		for _, onLost := range []OnLost{Hold, Shift} {
			w := newWorld(t, utilization(50), 4, 4, 4)
			w.spec.OnLost = onLost
			w.periods(4, 12, noCheck)
			c := w.of("c")
			c.stuck = true
			w.periods(1, 20, noCheck)
			w.learn() // it is told more, and has not done it
			told := w.record.Members[2].Answered
			if told <= 4 {
				t.Fatalf("c is told %d", told)
			}
			c.silent, c.stuck = true, false
			w.periods(int(away/w.spec.Period), 20, noCheck)
			before := w.replicas()
			c.silent, c.replicas = false, told
			w.call(c)
			if c.replicas != told {
				t.Errorf("away for %v: it has %d, and is told %d", away, told, c.replicas)
			}
			w.periods(8, int64(sumOf(w.replicas())), noCheck)
			if got := w.replicas(); got[2] != told || got[0] < before[0] || got[1] < before[1] {
				t.Errorf("away for %v: %v, before %v, c was told %d", away, got, before, told)
			}
		}
	}
}

// A member that returns gains nothing of a rise before it counts in full.
func TestARiseWhileAMemberReturnsIsTheOthers(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4, 4)
	w.run(minute)
	w.of("c").silent = true
	w.run(7 * minute)
	w.of("c").silent = false
	returning := 0
	for range 6 {
		w.usage(120, "a", "b", "c")
		w.run(15 * time.Second)
		w.learn()
		if c := w.of("c"); c.answer.State == Returning {
			if returning++; c.replicas != 4 || w.of("a").replicas <= 4 {
				t.Errorf("%v: the returning member had 4", w.replicas())
			}
		}
	}
	if returning == 0 {
		t.Error("c never returns")
	}
}

// A sum that falls while a member returns is not taken from the others alone: the member keeps its share for two
// decisions, and then has no more than they.
func TestAFallWhileAMemberReturnsIsSharedByAll(t *testing.T) {
	for _, lost := range []OnLost{Hold, Shift} {
		w := newWorld(t, utilization(50), 4, 4, 4)
		w.spec.OnLost = lost
		w.spec.Engine.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
		w.run(minute)
		w.of("c").silent = true
		w.usage(50, "a", "b")
		w.run(7 * minute)
		w.of("c").silent = false
		had := w.of("c").replicas
		w.usage(15, "a", "b", "c")
		for i := range 8 {
			w.run(15 * time.Second)
			w.learn()
			now := w.replicas()
			if now[0] < 1 || now[1] < 1 {
				t.Errorf("%v: %v after %d decisions: the others have nothing", lost, now, i+1)
			}
			if w.of("c").answer.State == Returning && now[2] != had {
				t.Errorf("%v: the returning member has %d, had %d", lost, now[2], had)
			}
			w.usage(max(1, 180/int64(max(1, sumOf(now)))), "a", "b", "c")
		}
		w.want("in the end", 2, 1, 1)
	}
}

// A drained member has no more than its caller lets it have: what it had beyond is the others' at once, or unplaced, and counts no
// more, although it does what it is told.
func TestADrainedMemberStaysWithinItsCallersMaximum(t *testing.T) {
	for name, tt := range map[string]struct {
		most int32 // of each of the others
		want []int32
	}{"the others have room": {-1, []int32{8, 8, 4}}, "they have none": {4, []int32{4, 4, 4}}} {
		w := newWorld(t, utilization(50), 4, 4, 12)
		w.spec.Members[2].Weight, w.spec.Members[0].Max, w.spec.Members[1].Max = 0, tt.most, tt.most
		w.load(20)
		w.call(w.of("a"))
		w.call(w.of("b"))
		w.of("c").most = 4
		w.call(w.of("c"))
		w.learn()
		w.learn()
		if w.want(name, tt.want...); w.record.Total != sumOf(w.replicas()) || w.record.Desired != 20 || w.record.Unplaced != 20-w.record.Total {
			t.Errorf("%s: %d of %d are shared out, and %d unplaced: %v", name, w.record.Total, w.record.Desired, w.record.Unplaced, w.replicas())
		}
	}
}

// Where members keep more than the fleet may have, or more than its metrics ask for, what they keep is the count: it is
// decided once and then stays, by decisions that look at the metrics. A rise begins there, and what they keep no longer
// falls at once.
func TestWhatMembersKeepIsTheCount(t *testing.T) {
	for name, tt := range map[string]struct {
		set  func(w *world)
		pods int64
		kept int32
	}{
		"minimums above the maximum": {func(w *world) { w.spec.Engine.MaxReplicas, w.of("a").least, w.of("b").least = 8, 7, 4 }, 20, 11},
		"the same, idle":             {func(w *world) { w.spec.Engine.MaxReplicas, w.of("a").least, w.of("b").least = 8, 7, 4 }, 3, 11},
		"an override above it":       {func(w *world) { w.spec.Engine.MaxReplicas, w.of("a").floor = 8, 10 }, 20, 10},
		"minimums above the load":    {func(w *world) { w.of("a").least, w.of("b").least = 4, 3 }, 3, 7},
		"a bound beside a minimum":   {func(w *world) { w.spec.Engine.MinReplicas, w.spec.Members[0].Min, w.of("b").least = 3, 3, 6 }, 3, 9},
		"a lost one, held": {func(w *world) {
			w.spec.Engine.Metrics, w.spec.Scopes, w.of("b").queue = []recommender.MetricSpec{external(true, 10_000)}, []Scope{Global}, 10
			w.of("b").least, w.of("a").silent = 1, true
		}, 1, 5},
		"surviving the loss of one": {func(w *world) { w.spec.SurviveOne, w.of("a").least, w.of("b").least = true, 7, 4 }, 3, 11},
		"the same, where 0 are wanted": {func(w *world) {
			w.spec.Engine.Metrics, w.spec.Engine.MinReplicas, w.spec.Options.ScaleToZero = []recommender.MetricSpec{external(true, 10_000)}, 0, true
			w.spec.SurviveOne, w.of("a").least, w.of("b").least = true, 1, 1
		}, 0, 2},
	} {
		w := newWorld(t, utilization(50), 4, 4)
		w.spec.Engine.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
		w.periods(2, 8, noCheck)
		tt.set(w)
		w.periods(40, tt.pods, noCheck)
		settled := len(w.decided)
		w.periods(100, tt.pods, noCheck)
		told := w.clusters[1].answer
		for i, d := range w.decided[settled:] {
			if d.Changes() || d.Current != told.Desired || !d.Basis.Decided || d.SettledBefore != (recommender.Settled{}) {
				t.Fatalf("%s, decision %d: %d becomes %d (%s), and %d are told", name, i, d.Current, d.Desired, d.Reason, told.Desired)
			}
		}
		if told.Total != tt.kept || sumOf(w.replicas()) != tt.kept || !w.spec.SurviveOne && told.Desired != tt.kept {
			t.Errorf("%s: %d of %d decided, %v run, want %d", name, told.Total, told.Desired, w.replicas(), tt.kept)
		}
		if h := w.record.History; len(h.ScaleUps)+len(h.ScaleDowns) > 2 || h.Pending != nil {
			t.Errorf("%s: %v up, %v down, %v pending", name, h.ScaleUps, h.ScaleDowns, h.Pending)
		}
	}
}

// None of the pods of a silent member were there at its last call: the one that calls is not taken what its own load needs, and
// a total is multiplied with them.
func TestPodsThatASilentMemberNeverShowedAreThere(t *testing.T) {
	for _, tt := range []struct {
		metric recommender.MetricSpec
		want   int32
	}{{utilization(90), 4}, {external(false, 90_000), 2}} {
		w := newWorld(t, tt.metric, 4, 0)
		w.spec.Scopes = []Scope{Global}
		w.spec.Engine.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
		a, b := w.of("a"), w.of("b")
		b.zero = true
		read := func(percent int64) { a.usage, a.queue, b.queue = percent, percent, percent }
		read(90)
		w.run(minute)
		read(180)
		w.learn() // they tell it
		w.now = w.now.Add(w.spec.Period)
		w.call(a) // decides
		w.call(b)
		w.want("told", 4, 4)
		b.silent = true
		read(90)
		w.run(minute)
		w.want("it is stale", 4, 4)
		read(60)
		w.run(w.spec.Period)
		w.want(string(tt.metric.Type)+" falls", tt.want, 4)
	}
}

// A pod without a request makes the metric fail for the whole fleet while its member shows it. Of one that is silent nobody knows what
// its pods request: the rest may scale up, not down.
func TestAPodWithoutRequestOfASilentMemberStopsNobody(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4)
	w.spec.Engine.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
	w.run(minute)
	w.of("b").bare = true
	w.usage(150, "a")
	w.run(minute)
	if d := w.last(); d.Path != recommender.PathMetricsFailed {
		t.Errorf("path %v", d.Path)
	}
	w.want("b shows it", 4, 4)
	w.of("b").silent = true
	w.run(minute)
	w.usage(75, "a")
	w.run(w.spec.Period)
	w.want("b is silent", 8, 4)
	w.usage(10, "a")
	w.run(minute)
	w.want("less load", 8, 4)
}

// Of a silent member's pods that were ready and that were not as many count together as it has replicas.
func TestPodsOfASilentMemberAreAsManyAsItsReplicas(t *testing.T) {
	d := Digest{Pods: 2, Ready: 1, Metrics: []MetricDigest{{Sums: recommender.MetricSums{
		Ready: recommender.GroupSums{Pods: 1, Usage: 700, Requests: 1000, Filled: 1000}, Unready: recommender.GroupSums{Pods: 1, Requests: 1000},
	}}}}
	d.settle(&recommender.Spec{Metrics: []recommender.MetricSpec{utilization(90)}}, 3)
	if got, want := silence(d.Metrics[0].Sums).Missing, (recommender.GroupSums{Pods: 3, Requests: 3000, Filled: 3000}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A member without replicas of which nothing is known for long has nothing to hold: a drained one that is switched off for maintenance
// does not keep the others from scaling down, whether its agent still calls or not.
func TestWhoHasNothingHoldsNobody(t *testing.T) {
	for name, away := range map[string]func(c *cluster, is bool){
		"silent": func(c *cluster, is bool) { c.silent = is },
		"blind":  func(c *cluster, is bool) { c.blind = is },
	} {
		w := newWorld(t, external(true, 10_000), 4, 4, 4)
		w.of("a").queue, w.of("b").queue = 60, 60
		w.run(minute)
		w.spec.Members[2].Weight = 0
		w.run(10 * minute)
		w.want(name+": c is drained", 6, 6, 0)
		away(w.of("c"), true)
		w.run(minute)
		w.of("a").queue, w.of("b").queue = 20, 20
		w.run(3 * minute)
		w.want(name+" for 4 minutes", 6, 6, 0)
		w.run(10 * minute)
		w.want(name+" for 14 minutes", 2, 2, 0)
		away(w.of("c"), false)
		w.of("c").queue = 20
		w.run(minute)
		w.want(name+" no more", 3, 3, 0)
	}
}

// Shares that together are more than the largest number do not wrap.
func TestTheTotalEndsAtTheLargestNumber(t *testing.T) {
	spec := newWorld(t, utilization(50), 0, 0).spec
	spec.Engine.MaxReplicas = math.MaxInt32
	var record Record
	var answer Answer
	call := func(member string, after time.Duration) {
		t.Helper()
		d := Digest{Version: spec.Version, Max: -1, Scale: recommender.Scale{SpecReplicas: math.MaxInt32, StatusReplicas: math.MaxInt32}, Metrics: make([]MetricDigest, 1)}
		var err error
		record, answer, err = Step(t0.Add(after), spec, &record, &Call{Member: member, Digest: d, ID: recommender.ID{1}})
		fatal.If(t, err)
	}
	for i := range 30 {
		call("a", time.Duration(i)*spec.Period)
	}
	call("b", 30*spec.Period) // it returns, and a falls silent
	for i := range 6 {
		call("b", time.Duration(31+i)*spec.Period)
		if answer.Total != math.MaxInt32 {
			t.Fatalf("%+v", answer)
		}
	}
}

// Since when a member's pods find no place, or are not ready, is not known of the time of which it told nothing.
func TestWhatIsShortAfterASilenceIsShortSinceThen(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4)
	w.run(minute)
	b := w.of("b")
	b.room = 3
	w.run(30 * time.Second)
	b.silent = true
	w.run(12 * minute)
	b.silent = false
	w.call(b)
	if m := w.record.Members[1]; m.Stuck != 0 || m.CapacityUntil != 0 {
		t.Errorf("at its first call %d are not waited for, and it has a capacity of %d", m.Stuck, m.Capacity)
	}
	w.run(2 * minute)
	if m := w.record.Members[1]; m.Capacity != 3 {
		t.Errorf("two minutes later it has a capacity of %d", m.Capacity)
	}
}

// A member that has done what it was told only when the metrics have changed goes on with that.
func TestASlowMemberAtAChangeOfTheMetricsKeepsWhatItGot(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 4)
	w.run(minute)
	w.usage(75, "a", "b")
	w.run(w.spec.Period) // b decides
	a, b := w.of("a"), w.of("b")
	w.call(a)
	b.replicas = 4
	w.call(b) // it has not done it yet
	w.want("told", 6, 6)
	w.spec.Version = 8
	w.now = w.now.Add(w.spec.Period)
	w.call(a) // decides
	w.call(b)
	w.want("after the change", 6, 6)
}

// A member that does not get below what its own caller allows keeps what it has, and the others no more than the rest.
func TestWhoIsStuckAboveItsOwnMaximum(t *testing.T) {
	w := newWorld(t, utilization(50), 4, 8)
	w.spec.Engine.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
	w.periods(4, 12, noCheck)
	w.of("b").stuck, w.of("b").most = true, 4
	w.periods(12, 12, noCheck)
	w.want("b is stuck", 4, 8)
	if d := w.last(); d.Changes() {
		t.Errorf("%d becomes %d", d.Current, d.Desired)
	}
}
