package stages_test

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/schedule"
)

// At the outlook's instants, and at no decision in between, the count changes as the outlook says, with overrides
// that begin and end and schedules that act at once.
func TestPropertyTheOutlookKnowsOverridesAndSchedules(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 2))
	changes, ends, overridden := 0, 0, 0
	for n := range 1000 {
		g := newTarget(t)
		g.in.Options.Tolerance = 0 // else a proposal may be the count that it was made for
		down := *g.in.Spec.Behavior
		down.ScaleDown.StabilizationWindowSeconds = new([]int32{0, 30, 90}[r.IntN(3)])
		if r.IntN(2) == 0 {
			down.ScaleDown.Policies = []recommender.ScalingPolicy{{Type: recommender.PodsPolicy, Value: 1 + r.Int32N(3), PeriodSeconds: 20}}
		}
		g.in.Spec.Behavior = &down
		g.around.Plan.WindowThroughFailures = r.IntN(2) == 0
		for i := range r.IntN(3) {
			from := noon.Add(time.Duration(r.IntN(400)-100) * time.Second)
			times, err := schedule.Compile(schedule.Text{Zone: "UTC", At: from, Duration: time.Minute + time.Duration(r.IntN(120))*time.Second})
			fatal.If(t, err)
			s := stages.Schedule{Name: string(rune('a' + i)), Times: times, Min: -1, Max: -1, MaxAtOnce: true}
			if r.IntN(2) == 0 {
				s.Max = 2 + r.Int32N(18)
			} else {
				s.Min, s.RampUp, s.RampDown = 2+r.Int32N(18), time.Duration(r.IntN(60))*time.Second, time.Duration(r.IntN(60))*time.Second
			}
			g.around.Plan.Schedules = append(g.around.Plan.Schedules, s)
		}
		for range r.IntN(3) {
			begin := noon.Add(time.Duration(r.IntN(400)-100) * time.Second)
			o := stages.Override{Level: stages.Level(1 + r.IntN(3)), Pin: -1, Floor: -1, Ceiling: -1, Start: begin, Expires: begin.Add(time.Duration(1+r.IntN(200)) * time.Second), Created: begin, Reason: "x"}
			switch r.IntN(5) {
			case 0:
				o.Hold = true
			case 1:
				o.Pin = r.Int32N(25)
			case 2:
				o.Floor = r.Int32N(25)
			case 3:
				o.Ceiling = r.Int32N(25)
			case 4:
				o.NoScaleDown = true
			}
			g.around.Overrides = append(g.around.Overrides, o)
		}
		if stage := g.around.Unforeseen(noon); stage != 0 {
			t.Fatalf("%s is unforeseen", stage)
		}
		replicas, queue := 2+r.Int32N(18), int64(0)
		var last recommender.Decision
		for i := range 1 + r.IntN(10) {
			if queue = 10 * r.Int64N(25); r.IntN(8) == 0 {
				queue = -1
			}
			last = g.ask(noon.Add(time.Duration(i*10)*time.Second), replicas, queue)
			replicas = last.Desired
		}
		now, period := noon.Add(time.Duration(100+r.IntN(30))*time.Second), time.Duration(1+r.IntN(3))*time.Second
		in := g.in
		in.Readings = nil
		before := *g.history
		o, known := g.around.Outlook(g.history, &in, &last.Basis, now, period)
		if !known || !reflect.DeepEqual(before, *g.history) || o.Replicas != replicas {
			t.Fatalf("case %d: known %v, from %d of %d", n, known, o.Replicas, replicas)
		}
		if o.Hold.Reason == stages.Overridden {
			overridden++
		}
		expected := o.Changes
		for i := range 200 {
			at := now.Add(time.Duration(i) * period)
			if !o.Until.IsZero() && !at.Before(o.Until) {
				break
			}
			d := g.ask(at, replicas, queue)
			due := len(expected) > 0 && expected[0].At.Equal(at)
			if due != d.Changes() || due && expected[0].Replicas != d.Desired {
				t.Fatalf("case %d (queue %d, last %v %+v %v): after %v %d become %d (%s), the outlook has %+v until %v\n%+v\n%+v", n, queue, last.Path, last.Basis, last.Status.Conditions, at.Sub(now), d.Current, d.Desired, d.Reason, expected, o.Until.Sub(now), g.around.Overrides, g.around.Plan.Schedules)
			}
			if due {
				changes++
				expected = expected[1:]
				replicas = d.Desired
			}
		}
		if o.Until.IsZero() {
			ends++
		}
	}
	t.Logf("%d changes, %d outlooks with an end, %d held by overrides", changes, ends, overridden)
	if changes < 2000 || ends < 500 || overridden < 80 {
		t.Errorf("%d changes, %d outlooks with an end, %d held by overrides", changes, ends, overridden)
	}
}

// Of other stages it says which one is not foreseen.
func TestUnforeseenStages(t *testing.T) {
	once, err := schedule.Compile(schedule.Text{Zone: "UTC", At: noon.Add(-2 * time.Hour), Duration: time.Hour})
	fatal.If(t, err)
	for want, a := range map[recommender.Stage]stages.Around{
		0:                          {Plan: &stages.Plan{WindowThroughFailures: true, IgnoreSurge: true, Combine: &stages.Combine{Method: stages.Max}, Schedules: []stages.Schedule{{Min: 3, Max: -1}, {Min: -1, Max: 9, Suspended: true}, {Min: 5, Max: 9, MinPaced: true, Times: once}}}},
		recommender.StageProposal:  {Proposals: make([]stages.Proposal, 1)},
		recommender.StageFreshness: {Plan: &stages.Plan{Freshness: &stages.Freshness{}}},
		recommender.StageZeroGuard: {Plan: &stages.Plan{ZeroGuards: make([]stages.ZeroGuard, 1)}},
		recommender.StageIdle:      {Plan: &stages.Plan{Idle: &stages.Idle{}}},
		recommender.StageFallback:  {Plan: &stages.Plan{Fallbacks: make([]stages.Fallback, 1)}},
		recommender.StageCombine:   {Plan: &stages.Plan{Combine: &stages.Combine{Method: stages.Min}}},
		recommender.StageReversals: {Plan: &stages.Plan{Reversals: &stages.Reversals{}}},
		recommender.StageSchedule:  {Plan: &stages.Plan{Schedules: []stages.Schedule{{Min: 5, Max: -1, MinPaced: true, RampDown: 61 * time.Minute, Times: once}}}},
	} {
		if got := a.Unforeseen(noon); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, last := range []time.Time{noon.Add(-3 * time.Hour), noon.Add(-90 * time.Minute)} { // before it, and while it is active
		a := stages.Around{Plan: &stages.Plan{Schedules: []stages.Schedule{{Min: -1, Max: 9, Times: once}}}}
		if got := a.Unforeseen(last); got != recommender.StageSchedule {
			t.Errorf("at %v: %s", last, got)
		}
	}
}

// A schedule whose end is too far away to be known ends the outlook: its count is not told as one that stays.
func TestAnOutlookEndsWithWhatIsKnownOfASchedule(t *testing.T) {
	g := newTarget(t)
	times, err := schedule.Compile(schedule.Text{Zone: "UTC", Cron: "* 8-17 * * *", Duration: time.Minute})
	fatal.If(t, err)
	g.around.Plan.Schedules = []stages.Schedule{{Name: "day", Times: times, Min: 10, Max: -1}}
	for i := range 30 { // longer than the window
		g.ask(noon.Add(time.Duration(i-30)*15*time.Second), 10, 50)
	}
	last := g.ask(noon, 10, 50)
	in := g.in
	in.Readings = nil
	o, known := g.around.Outlook(g.history, &in, &last.Basis, noon.Add(15*time.Second), 15*time.Second)
	if end := noon.Add(6 * time.Hour); !known || len(o.Changes) > 0 || o.Until.IsZero() || !o.Until.Before(end) {
		t.Errorf("%+v, want nothing known before %s", o, end)
	}
}
