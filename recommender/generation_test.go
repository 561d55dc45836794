package recommender

import (
	"testing"
	"time"
)

// The status shows the generation of the spec that was evaluated last, with profiles
// that observe it. What does not evaluate it keeps the one there was.
func TestObservedGeneration(t *testing.T) {
	absent := int64(-1)
	for _, tt := range []struct {
		name   string
		steps  []*int64 // generations, nil: none in the request
		change func(step int, in *Input)
		report Outcome // on what changes the count
		// want holds the observed generations with v1.37; others with all others.
		want, others []int64
	}{
		{name: "it follows the spec", steps: []*int64{new(int64(1)), new(int64(1)), new(int64(7)), new(int64(0))}, want: []int64{1, 1, 7, 0}},
		{name: "no generation shows none", steps: []*int64{nil, new(int64(2)), nil}, want: []int64{absent, 2, absent}},
		{
			name: "a scale that can't be read keeps it", steps: []*int64{new(int64(1)), new(int64(2)), nil, new(int64(3))}, want: []int64{1, 1, 1, 3},
			change: func(step int, in *Input) {
				if in.ScaleError = nil; step == 1 || step == 2 {
					in.ScaleError = &ScaleError{Message: "away"}
				}
			},
		},
		{
			name: "metrics that fail show it", steps: []*int64{new(int64(1)), new(int64(2))}, want: []int64{1, 2},
			change: func(step int, in *Input) {
				if step == 1 {
					in.Readings[0] = Readings{Error: "away"}
				}
			},
		},
		{
			name: "no replicas", steps: []*int64{new(int64(1)), new(int64(2))}, want: []int64{1, 2},
			change: func(step int, in *Input) { in.Scale = Scale{} },
		},
		{
			name: "a change that is applied", steps: []*int64{new(int64(1)), new(int64(2))}, want: []int64{1, 2}, report: Applied,
			change: func(step int, in *Input) { read(in, 0, 9*unit) },
		},
		{
			name: "a change that fails", steps: []*int64{new(int64(1)), new(int64(2))}, want: []int64{1, 2}, report: Failed,
			change: func(step int, in *Input) { read(in, 0, 9*unit) },
		},
		{
			name: "that of a status of before", steps: []*int64{new(int64(8)), new(int64(9))}, want: []int64{4, 9}, others: []int64{4, absent},
			change: func(step int, in *Input) {
				in.PreviousStatus = &Status{ObservedGeneration: new(int64(4)), CurrentReplicas: 3, DesiredReplicas: 3}
				if in.ScaleError = nil; step == 0 {
					in.ScaleError = &ScaleError{Message: "away"}
				}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, p := range profiles {
				want := tt.others
				if p == &v137 {
					want = tt.want
				}
				x := &target{in: wanting(3)}
				x.in.Options.Profile = p
				for i, generation := range tt.steps {
					x.in.HasGeneration = generation != nil
					if x.in.Generation = 99; generation != nil {
						x.in.Generation = *generation
					}
					if tt.change != nil {
						tt.change(i, x.in)
					}
					d := x.recommend(t, time.Duration(i)*time.Minute)
					status := d.Status
					if d.Changes() && tt.report != NotChanged {
						settled, next := mustSettle(t, x.history, "ns", x.in.ID, tt.report, "no")
						status = settled.Status
						x.keep(t, next)
					}
					shown := absent
					if status.ObservedGeneration != nil {
						shown = *status.ObservedGeneration
					}
					expected := absent
					if want != nil {
						expected = want[i]
					}
					if shown != expected {
						t.Errorf("%s, step %d: %d, want %d", p.Name(), i, shown, expected)
					}
				}
			}
		})
	}
}

// A history keeps the generation it has seen, whatever comes after it.
func TestObservedGenerationIsNotShared(t *testing.T) {
	in := wanting(3)
	in.Options.Profile, in.Generation, in.HasGeneration = &v137, 1, true
	_, first := Recommend(t0, in, longKnown())
	in.Generation = 2
	_, second := Recommend(t0.Add(time.Minute), in, &first)
	if got := *first.Status.ObservedGeneration; got != 1 {
		t.Errorf("the history before has %d, want 1", got)
	}
	if got := *second.Status.ObservedGeneration; got != 2 {
		t.Errorf("the history has %d, want 2", got)
	}
}
