package stages_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

func proposal(role stages.Role, replicas int32) stages.Proposal {
	return stages.Proposal{Name: "forecast", Role: role, Replicas: replicas, Expires: noon.Add(time.Minute)}
}

func TestProposals(t *testing.T) {
	for name, c := range map[string]struct {
		proposals []stages.Proposal
		edit      func(g *target)
		current   int32
		queue     int64
		want      int32
		message   string
	}{
		"P1 voter": {[]stages.Proposal{proposal(stages.Voter, 14)}, nil, 9, 90, 14, `proposal "forecast" of 14 is above the metrics' 9`},
		"P2 floor": {[]stages.Proposal{proposal(stages.Floor, 14)}, func(g *target) { g.in.Spec.Behavior.ScaleUp.SelectPolicy = recommender.NoSelection }, 9, 90, 14,
			`proposal "forecast" raises minReplicas from 2 to 14`},
		"P2 voter without scale-ups": {[]stages.Proposal{proposal(stages.Voter, 14)}, func(g *target) { g.in.Spec.Behavior.ScaleUp.SelectPolicy = recommender.NoSelection }, 9, 90, 9,
			`proposal "forecast" of 14 is above the metrics' 9`},
		"P4 expired": {[]stages.Proposal{{Name: "forecast", Role: stages.Voter, Replicas: 14, Expires: noon}}, nil, 9, 90, 9,
			`proposal "forecast" of 14 expired at 2026-11-23T12:00:00Z and does not count`},
		"a voter below the metrics":  {[]stages.Proposal{proposal(stages.Voter, 5)}, nil, 9, 90, 9, ""},
		"a floor above the maximum":  {[]stages.Proposal{proposal(stages.Floor, 90)}, nil, 9, 90, 20, `proposal "forecast" raises minReplicas from 2 to 20, limited to maxReplicas 20`},
		"a voter where metrics fail": {[]stages.Proposal{proposal(stages.Voter, 14)}, nil, 9, -1, 14, `proposal "forecast" of 14 counts; no metric has a proposal`},
		"a paced minimum more than a cap": {[]stages.Proposal{proposal(stages.Cap, 6)}, func(g *target) {
			s := always(g.t, "day", 12, -1)
			s.MinPaced = true
			g.around.Plan.Schedules = []stages.Schedule{s}
		}, 9, 150, 12, `proposal "forecast" limits the proposal of 15 to 12, not to 6: schedule "day" has more`},
		"a cap below the count while a metric fails": {[]stages.Proposal{proposal(stages.Voter, 10), proposal(stages.Cap, 6)}, nil, 8, -1, 8,
			`proposal "forecast" limits the proposal of 10 to 6; held at 8 because a metric failed`},
		"a cap below the spec's minimum": {[]stages.Proposal{proposal(stages.Cap, 1)}, nil, 9, 90, 9,
			`proposal "forecast" limits the proposal of 9 to 2, not to 1: minReplicas is more`},
		"a cap below a floor": {[]stages.Proposal{proposal(stages.Cap, 1), proposal(stages.Floor, 4)}, nil, 9, 90, 9,
			`proposal "forecast" limits the proposal of 9 to 4, not to 1: proposal "forecast" raises minReplicas`},
		"a floor as high as a schedule's": {[]stages.Proposal{proposal(stages.Floor, 12)}, func(g *target) {
			g.around.Plan.Schedules = []stages.Schedule{always(g.t, "day", 12, -1)}
		}, 9, 90, 12, `schedule "day" raises minReplicas from 2 to 12`},
		"a cap as low as a schedule's": {[]stages.Proposal{proposal(stages.Cap, 6)}, func(g *target) {
			g.around.Plan.Schedules = []stages.Schedule{always(g.t, "day", -1, 6)}
		}, 9, 90, 9, `schedule "day" limits the proposal of 9 to 6`},
		"it never goes down alone": {[]stages.Proposal{proposal(stages.Voter, 4)}, nil, 9, -1, 9, `proposal "forecast" of 4 counts; no metric has a proposal`},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTarget(t)
			g.around.Proposals = c.proposals
			if c.edit != nil {
				c.edit(g)
			}
			d := g.ask(noon, c.current, c.queue)
			if d.Desired != c.want {
				t.Errorf("desired %d, want %d", d.Desired, c.want)
			}
			got := ""
			if all := messages(&d); len(all) > 0 {
				got = all[len(all)-1]
			}
			if got != c.message {
				t.Errorf("told %q, want %q", got, c.message)
			}
		})
	}
}

// The reason of a change names the stage that made the proposal, in either direction.
func TestReasons(t *testing.T) {
	limited, combined := []stages.Proposal{proposal(stages.Cap, 7)}, &stages.Combine{Method: stages.Min}
	for _, c := range []struct {
		current, queue int32
		proposals      []stages.Proposal
		combine        *stages.Combine
		want           string
	}{
		{9, 100, limited, nil, "proposal/forecast limits the proposal"},
		{5, 100, limited, nil, "proposal/forecast limits the proposal"},
		{9, 60, limited, nil, "All metrics below target"},
		{9, 90, []stages.Proposal{proposal(stages.Voter, 14)}, nil, "proposal/forecast proposes more"},
		{7, 100, limited, nil, ""},
		{9, 60, []stages.Proposal{proposal(stages.Voter, 12)}, combined, "MIN of 2 proposals below target"},
		{5, 60, []stages.Proposal{proposal(stages.Voter, 12)}, combined, "MIN of 2 proposals above target"},
	} {
		g := newTarget(t)
		g.in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32)
		g.around.Proposals, g.around.Plan.Combine = c.proposals, c.combine
		if d := g.ask(noon, c.current, int64(c.queue)); d.Reason != c.want {
			t.Errorf("%d → %d: reason %q, want %q", c.current, d.Desired, d.Reason, c.want)
		}
	}
}

// P3: a cap is a limit of the proposal, within the window.
func TestACapFollowsTheWindow(t *testing.T) {
	g := newTarget(t)
	g.ask(noon.Add(-15*time.Second), 9, 90)
	p := proposal(stages.Cap, 6)
	p.Expires = noon.Add(time.Hour)
	g.around.Proposals = []stages.Proposal{p}
	for at := noon; at.Before(noon.Add(4*time.Minute + 45*time.Second)); at = at.Add(15 * time.Second) {
		d := g.ask(at, 9, 90)
		if got := messages(&d); d.Desired != 9 || got[0] != `proposal "forecast" limits the proposal of 9 to 6` {
			t.Fatalf("%s: %d, %q", at, d.Desired, got)
		}
	}
	if d := g.ask(noon.Add(4*time.Minute+45*time.Second), 9, 90); d.Desired != 6 {
		t.Errorf("after the window: %d, want 6", d.Desired)
	}
}

// P4: under another method a voter counts as one more metric.
func TestAVoterIsCombined(t *testing.T) {
	g := newTarget(t)
	g.around.Plan.Combine = &stages.Combine{Method: stages.Min}
	g.around.Proposals = []stages.Proposal{proposal(stages.Voter, 14)}
	d := g.ask(noon, 9, 200)
	if d.Desired != 14 || messages(&d)[0] != `proposal "forecast" of 14 counts as that of one more metric` {
		t.Errorf("%d, %q, want the smaller 14 of 20 and 14", d.Desired, messages(&d))
	}
	g = newTarget(t)
	g.around.Plan.Combine = &stages.Combine{Method: stages.Weighted, Weights: []int64{1}}
	g.around.Proposals = []stages.Proposal{proposal(stages.Voter, 14)}
	d = g.ask(noon, 9, 120)
	if d.Desired != 14 || messages(&d)[0] != `proposal "forecast" of 14 has no weight: it counts where it is above the mean` {
		t.Errorf("%d, %q, want 14, above the mean of 12", d.Desired, messages(&d))
	}
}

// A paced minimum is one under each method: it neither lowers what the others want nor adds to it.
func TestAPacedMinimumIsNoMoreThanThat(t *testing.T) {
	for name, c := range map[string]struct {
		combine        stages.Combine
		least, current int32
		queue, load    int64
		want           int32
		told           string
	}{
		"MAX, below":           {stages.Combine{}, 5, 12, 12, 14, 14, ""},
		"MIN, below":           {stages.Combine{Method: stages.Min}, 5, 12, 12, 14, 12, ""},
		"MIN, above":           {stages.Combine{Method: stages.Min}, 20, 12, 12, 14, 20, `schedule "day" of 20 is above the combined 12`},
		"QUORUM, between":      {stages.Combine{Method: stages.Quorum, Quorum: 2}, 13, 12, 12, 14, 13, `schedule "day" of 13 is above the combined 12`},
		"QUORUM, above":        {stages.Combine{Method: stages.Quorum, Quorum: 2}, 20, 12, 12, 14, 20, `schedule "day" of 20 is above the combined 12`},
		"WEIGHTED":             {stages.Combine{Method: stages.Weighted, Weights: []int64{1, 1}}, 20, 12, 12, 14, 20, `schedule "day" of 20 is above the combined 13`},
		"SUM, below":           {stages.Combine{Method: stages.Sum}, 20, 13, 12, 14, 26, ""},
		"MIN, one fails":       {stages.Combine{Method: stages.Min}, 20, 12, -1, 14, 20, `schedule "day" of 20 is above the combined 0`},
		"MIN, all fail":        {stages.Combine{Method: stages.Min}, 20, 12, -1, -1, 20, `schedule "day" of 20 is above the combined 0`},
		"MIN, all fail, below": {stages.Combine{Method: stages.Min}, 9, 12, -1, -1, 12, `schedule "day" of 9 is above the combined 0`},
	} {
		g := newPair(t, stages.Plan{Combine: &c.combine})
		g.in.Spec.MaxReplicas, g.in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = 50, new(int32)
		s := always(t, "day", c.least, -1)
		s.MinPaced = true
		g.around.Plan.Schedules = []stages.Schedule{s}
		value := func(n int64, each int64) recommender.Readings {
			if n < 0 {
				return away
			}
			return series(n * each)
		}
		d := g.round(noon, c.current, value(c.queue, 10), value(c.load, 1))
		if d.Desired != c.want {
			t.Errorf("%s: %d by %v, want %d: %q", name, d.Desired, d.Path, c.want, messages(&d))
		}
		if got := told(&d, recommender.StageSchedule); c.told != "" && (len(got) != 1 || got[0] != c.told) || c.told == "" && len(got) > 0 {
			t.Errorf("%s: told %q, want %q", name, got, c.told)
		}
	}
}

// Proposals by the thousand are bounded by the request; what is told stays bounded, too.
func TestManyProposals(t *testing.T) {
	g := newTarget(t)
	for i := range 5000 {
		p := proposal(stages.Role(1+i%3), int32(i))
		p.Name = fmt.Sprint("p", i)
		g.around.Proposals = append(g.around.Proposals, p)
	}
	if d := g.ask(noon, 9, 90); len(d.Adjusted.Adjustments) > recommender.MaxAdjustments {
		t.Errorf("%d adjustments", len(d.Adjusted.Adjustments))
	}
}
