package recommender

import (
	"testing"
	"time"
)

var (
	longAgo = t0.Add(-time.Hour)
	// previous is what the status was before: its conditions in an unusual order,
	// which is kept.
	previous = Status{
		ObservedGeneration: new(int64(3)),
		LastScaleTime:      longAgo,
		CurrentReplicas:    4, DesiredReplicas: 6,
		CurrentMetrics: []MetricStatus{{Type: PodsMetric, Metric: MetricIdentifier{Name: "old"}}},
		Conditions: []Condition{
			{ScalingLimited, ConditionTrue, "TooManyReplicas", "the desired replica count is more than the maximum replica count", longAgo},
			{AbleToScale, ConditionTrue, "ReadyForNewScale", "recommended size matches current size", longAgo},
			{ScalingActive, ConditionTrue, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from pods metric old", longAgo},
		},
	}
	queueStatus = func(average int64) []MetricStatus {
		return []MetricStatus{{
			Type: ExternalMetric, Metric: MetricIdentifier{Name: "queue"},
			Current: MetricValue{AverageValue: average, HasAverageValue: true},
		}}
	}
	gotScale   = Condition{AbleToScale, ConditionTrue, "SucceededGetScale", "the HPA controller was able to get the target's current scale", longAgo}
	validQueue = Condition{ScalingActive, ConditionTrue, "ValidMetricFound",
		"the HPA was able to successfully calculate a replica count from external metric queue(nil)", longAgo}
	inRange = Condition{ScalingLimited, ConditionFalse, "DesiredWithinRange", "the desired count is within the acceptable range", t0}
)

// The paths C, F and G once it is known whether a change was applied.
func TestStatusOfASettledChange(t *testing.T) {
	later := t0.Add(7 * time.Second) // settled then; the recommendation's instant counts
	for _, tt := range []struct {
		name    string
		change  func(*Input)
		outcome Outcome
		want    Status
	}{
		{
			name: "C applied", outcome: Applied,
			change: func(in *Input) { in.Spec.MaxReplicas = 3 },
			want: Status{
				LastScaleTime: t0, CurrentReplicas: 5, DesiredReplicas: 3,
				Conditions: []Condition{previous.Conditions[0], rescaled("3"), previous.Conditions[2]},
			},
		},
		{
			name: "F applied", outcome: Applied,
			change: func(in *Input) { read(in, 0, 8*unit) },
			want: Status{
				LastScaleTime: t0, CurrentReplicas: 5, DesiredReplicas: 8, CurrentMetrics: queueStatus(1600),
				Conditions: []Condition{inRange, rescaled("8"), validQueue},
			},
		},
		{
			name: "G from C: desired kept, readings empty", outcome: Failed,
			change: func(in *Input) { in.Spec.MaxReplicas = 3 },
			want: Status{
				LastScaleTime: longAgo, CurrentReplicas: 5, DesiredReplicas: 6,
				Conditions: []Condition{previous.Conditions[0], notRescaled, previous.Conditions[2]},
			},
		},
		{
			name: "G from F: desired kept", outcome: Failed,
			change: func(in *Input) { read(in, 0, 8*unit) },
			want: Status{
				LastScaleTime: longAgo, CurrentReplicas: 5, DesiredReplicas: 6, CurrentMetrics: queueStatus(1600),
				Conditions: []Condition{inRange, notRescaled, validQueue},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := wanting(5)
			in.PreviousStatus = &previous
			tt.change(in)
			d, next := Recommend(t0, in, nil)
			s, next := mustSettle(t, next, "ns", d.ID, tt.outcome, "conflict")
			equal(t, "the settlement's status", s.Status, tt.want)
			equal(t, "the history's status", next.Status, tt.want)
			_, again := Recommend(later, in, &next)
			equal(t, "lastScaleTime later", again.Status.LastScaleTime, tt.want.LastScaleTime)
		})
	}
}

func rescaled(to string) Condition {
	return Condition{AbleToScale, ConditionTrue, "SucceededRescale", "the HPA controller was able to update the target scale to " + to, longAgo}
}

var notRescaled = Condition{AbleToScale, ConditionFalse, "FailedUpdateScale", "the HPA controller was unable to update the target scale: conflict", t0}

func TestATransitionTimeChangesWithTheStatusOnly(t *testing.T) {
	in := wanting(5)
	x := &target{in: in}
	for _, tt := range []struct {
		at     time.Duration
		error  string
		status string
		since  time.Duration
	}{
		{0, "", ConditionTrue, 0},
		{15 * time.Second, "", ConditionTrue, 0},
		{30 * time.Second, "away", ConditionFalse, 30 * time.Second},
		{45 * time.Second, "still away", ConditionFalse, 30 * time.Second},
		{60 * time.Second, "", ConditionTrue, 60 * time.Second},
	} {
		in.Readings[0].Error = tt.error
		d := x.recommend(t, tt.at)
		c := conditionByType(d.Status.Conditions, ScalingActive)
		equal(t, "ScalingActive at "+tt.at.String(), [2]any{c.Status, c.LastTransitionTime}, [2]any{tt.status, t0.Add(tt.since)})
		if tt.error == "" {
			equal(t, "its message", c.Message, validQueue.Message)
		}
	}
}

func TestAPreviousStatusCountsAtFirstSightOnly(t *testing.T) {
	in := wanting(5)
	in.PreviousStatus = &previous
	_, seen := Recommend(t0, in, nil)
	in.PreviousStatus = &Status{DesiredReplicas: 77, LastScaleTime: t0}
	in.Readings[0].Error = "away"
	d, _ := Recommend(t0.Add(time.Second), in, &seen)
	equal(t, "desired", d.Status.DesiredReplicas, int32(5))
	equal(t, "lastScaleTime", d.Status.LastScaleTime, longAgo)
}

func TestTheScaledToZeroCondition(t *testing.T) {
	is := func(status string) *Status {
		return &Status{Conditions: []Condition{{ScaledToZero, status, "before", "before", longAgo}}}
	}
	toZero := func(in *Input) { in.Spec.MinReplicas = 0; read(in, 0, 0) }
	for _, tt := range []struct {
		name    string
		gate    bool
		current int32
		before  *Status
		change  func(*Input)
		want    string
	}{
		{"to zero by an external metric", true, 3, nil, toZero, "True ScaledToZero"},
		{"to zero with cpu alone, forced by the maximum", true, 3, nil, func(in *Input) {
			in.Spec.MinReplicas, in.Spec.MaxReplicas, in.Spec.Metrics = 0, 0, []MetricSpec{cpuUtilization(50)}
		}, "False NotScaledToZero"},
		{"up from zero", true, 0, is(ConditionTrue), func(in *Input) { in.Spec.MinReplicas = 0; read(in, 0, 3*unit) }, "False NotScaledToZero"},
		{"any other change", true, 3, nil, func(in *Input) { read(in, 0, 4*unit) }, "False NotScaledToZero"},
		{"a change without the option removes it", false, 3, is(ConditionTrue), func(in *Input) { read(in, 0, 4*unit) }, ""},
		{"no change leaves it", true, 3, is(ConditionFalse), func(*Input) {}, "False before"},
		{"no change leaves it without the option too", false, 3, is(ConditionTrue), func(*Input) {}, "True before"},
		{"disabled with the option leaves it", true, 0, is(ConditionFalse), func(*Input) {}, "False before"},
		{"disabled without the option removes it", false, 0, is(ConditionTrue), func(*Input) {}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := wanting(tt.current)
			in.Options.ScaleToZero, in.PreviousStatus = tt.gate, tt.before
			tt.change(in)
			x := &target{in: in, history: *longKnown()}
			d := x.recommend(t, 0)
			if d.Changes() {
				x.settle(t, d)
			}
			equal(t, "ScaledToZero", reasonOf(x.history.Status.Conditions, ScaledToZero), tt.want)
		})
	}
}
