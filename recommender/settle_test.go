package recommender

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// scalingUp is a target of 5 replicas for which 8 have been recommended at t0.
func scalingUp(t *testing.T, behavior *Behavior) (*target, Decision) {
	t.Helper()
	in := wanting(5)
	in.Spec.Behavior = behavior
	read(in, 0, 8*unit)
	x := &target{in: in}
	d := x.recommend(t, 0)
	if d.Desired != 8 || x.history.Pending == nil {
		t.Fatalf("%d replicas, pending %+v", d.Desired, x.history.Pending)
	}
	return x, d
}

func TestAChangeIsPendingUntilItIsKnown(t *testing.T) {
	x, d := scalingUp(t, defaultBehavior())
	equal(t, "pending", *x.history.Pending, Pending{
		ID: d.ID, At: t0.UnixNano(), From: 5, To: 8, RecordsEvent: true, LongestPeriod: 15,
		Reason: "external metric queue(nil) above target",
	})
	equal(t, "events", len(x.history.ScaleUps), 0)
	equal(t, "lastScaleTime", x.history.Status.LastScaleTime, time.Time{})
	equal(t, "the last decision's outcome", x.history.Last.Outcome, Undecided)
}

func TestAnUnreportedChangeIsSettledByTheNextRequest(t *testing.T) {
	for _, tt := range []struct {
		name    string
		shown   int32
		want    Outcome
		events  []ScaleEvent
		changed time.Time
	}{
		{"applied where the count is the recommended one", 8, Applied, []ScaleEvent{{Change: 3, At: t0.UnixNano()}}, t0},
		{"dropped where it is the one before", 5, Dropped, nil, time.Time{}},
		{"dropped where it is any other", 7, Dropped, nil, time.Time{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, d := scalingUp(t, defaultBehavior())
			x.in.Scale.SpecReplicas = tt.shown
			next := x.recommend(t, 15*time.Second)
			equal(t, "settled before", next.SettledBefore, Settled{d.ID, tt.want})
			equal(t, "scale-ups", x.history.ScaleUps, tt.events)
			equal(t, "lastScaleTime", x.history.Status.LastScaleTime, tt.changed)

			s, after := mustSettle(t, x.history, "ns", d.ID, Failed, "too late")
			equal(t, "a late report", s, Settlement{Status: x.history.Status, Outcome: tt.want})
			equal(t, "the history after it", after, x.history)
		})
	}
}

func TestAnUnreadableScaleSettlesNothing(t *testing.T) {
	x, d := scalingUp(t, defaultBehavior())
	x.in.ScaleError, x.in.Scale = &ScaleError{Message: "away"}, Scale{77, 77} // which counts for nothing
	next := x.recommend(t, 15*time.Second)
	equal(t, "settled before", next.SettledBefore, Settled{})
	equal(t, "still pending", x.history.Pending.ID, d.ID)
	equal(t, "the count held", [2]int32{next.Current, next.Desired}, [2]int32{5, 5})
	equal(t, "the outcome of a late report", x.settle(t, d).Outcome, Applied)
	equal(t, "scale-ups", x.history.ScaleUps, []ScaleEvent{{Change: 3, At: t0.UnixNano()}})
}

// A condition does not change before its previous change: a late report changes it at
// the instant of the latest record.
func TestALateReportDoesNotRewriteThePast(t *testing.T) {
	t.Parallel()
	const later = 15 * time.Second
	changed := func(s Status) (string, time.Duration) {
		for _, c := range s.Conditions {
			if c.Type == AbleToScale {
				return c.Reason, c.LastTransitionTime.Sub(t0)
			}
		}
		return "", -1
	}
	for name, c := range map[string]struct {
		away    bool // the scale could not be read meanwhile
		outcome Outcome
		reason  string
		at      time.Duration
	}{
		"applied, still true":             {false, Applied, "SucceededRescale", 0},
		"failed, as it was recommended":   {false, Failed, "FailedUpdateScale", 0},
		"applied, false meanwhile":        {true, Applied, "SucceededRescale", later},
		"failed, false meanwhile already": {true, Failed, "FailedUpdateScale", later},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, d := scalingUp(t, defaultBehavior())
			if c.away {
				x.in.ScaleError = &ScaleError{Message: "away"}
				x.recommend(t, later)
			}
			s, _ := mustSettle(t, x.history, "ns", d.ID, c.outcome, "conflict")
			reason, at := changed(s.Status)
			equal(t, "AbleToScale's reason", reason, c.reason)
			equal(t, "and since when", at, c.at)
			equal(t, "scaled at", s.Status.LastScaleTime.Equal(t0), c.outcome == Applied)
		})
	}
}

func TestReportingTwiceIsHarmless(t *testing.T) {
	for _, first := range []Outcome{Applied, Failed} {
		x, d := scalingUp(t, defaultBehavior())
		_, once := mustSettle(t, x.history, "ns", d.ID, first, "conflict")
		for _, second := range []Outcome{Applied, Failed} {
			s, twice := mustSettle(t, once, "ns", d.ID, second, "other")
			equal(t, "the second report", s, Settlement{Status: once.Status, Outcome: first})
			equal(t, "the history after it", twice, once)
		}
	}
}

func TestReportsOfUnknownDecisions(t *testing.T) {
	x, d := scalingUp(t, nil)
	_, same, err := Settle(x.history, "ns", ID{9}, Applied, "")
	if !errors.Is(err, ErrUnknownRecommendation) {
		t.Errorf("an unknown change: %v", err)
	}
	equal(t, "the history after it", same, x.history)

	x.settle(t, d)
	for range MaxSettled { // each a change, so that the first one is forgotten
		read(x.in, 0, int64(x.in.Scale.SpecReplicas+1)*unit)
		x.settle(t, x.recommend(t, 0))
	}
	equal(t, "settled changes are bounded", len(x.history.Settled), MaxSettled)
	if _, _, err := Settle(x.history, "ns", d.ID, Applied, ""); !errors.Is(err, ErrUnknownRecommendation) {
		t.Errorf("a change long settled: %v", err)
	}
	if _, _, err := Settle(x.history, "ns", x.history.Settled[0].ID, Applied, ""); err != nil {
		t.Errorf("the oldest change that is kept: %v", err)
	}
}

func TestADecisionWithoutChangeHasNothingToSettle(t *testing.T) {
	x := &target{in: wanting(5)}
	d := x.recommend(t, 0)
	s, same := mustSettle(t, x.history, "ns", d.ID, Applied, "")
	equal(t, "the settlement", s, Settlement{Status: x.history.Status, Outcome: NotChanged})
	equal(t, "the history after it", same, x.history)
}

func TestTheZeroIDNamesNothing(t *testing.T) {
	if _, _, err := Settle(History{}, "ns", ID{}, Applied, ""); !errors.Is(err, ErrUnknownRecommendation) {
		t.Errorf("a report on a target never seen: %v", err)
	}
}

// An instant before the newest record is lifted to it: nothing is recorded backwards.
func TestTimeDoesNotRunBackwards(t *testing.T) {
	x := &target{in: wanting(5)}
	x.recommend(t, time.Minute)
	d := x.recommend(t, 30*time.Second)
	equal(t, "the decision's instant", d.At, t0.Add(time.Minute))
	equal(t, "the newest record", x.history.Updated, t0.Add(time.Minute))
	for _, r := range x.history.Recommendations {
		if at := time.Unix(0, r.At).UTC(); at.Before(t0.Add(time.Minute)) {
			t.Errorf("a recommendation of %v", at)
		}
	}
	d = x.recommend(t, time.Minute+1)
	equal(t, "the instant after", d.At, t0.Add(time.Minute+1))
}

// Nothing that is passed in changes, nor what was handed out before; and the same
// again gives the same.
func TestInputsAndHistoriesAreNeverWritten(t *testing.T) {
	testlength.SkipUnderRace(t)
	random := newRandom(1)
	for range 300 {
		var history History
		at := t0
		for range 8 {
			at = at.Add(time.Duration(random.Int64N(int64(2 * time.Minute))))
			in := random.input()
			in.Options.HistoryLimit = random.IntN(6)
			inBefore, historyBefore := clone(in), clone(&history)
			d, next := Recommend(at, in, &history)
			unwritten(t, "Recommend's input", in, inBefore)
			unwritten(t, "Recommend's history", &history, historyBefore)
			again, nextAgain := Recommend(at, in, &history)
			unwritten(t, "the same decision again", clone(&again), clone(&d))
			unwritten(t, "the history after it", nextAgain, next)

			nextBefore, statusBefore := clone(&next), clone(&d.Status)
			for _, outcome := range []Outcome{Applied, Failed} {
				s, _ := mustSettle(t, next, "ns", d.ID, outcome, "conflict")
				if again, _, _ := Settle(next, "ns", d.ID, outcome, "conflict"); !reflect.DeepEqual(again, s) {
					t.Fatalf("settled again:\n got %+v\nwant %+v", again, s)
				}
				unwritten(t, "Settle's history", &next, nextBefore)
			}
			Recommend(at, in, &next)
			unwritten(t, "the history of another decision", &next, nextBefore)
			if random.chance(50) {
				_, next, _ = Settle(next, "ns", d.ID, Applied, "")
			}
			Recommend(at, in, &next)
			unwritten(t, "a status handed out before", &d.Status, statusBefore)
			history = next
		}
	}
}

func unwritten(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s changed:\n got %+v\nwant %+v", what, got, want)
	}
}
