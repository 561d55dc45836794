package record

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
)

func TestTheIntervalFollowsTheUsualGap(t *testing.T) {
	t.Parallel()
	const usual = 15 * time.Second
	times := func(n int, gap time.Duration) (all []time.Duration) {
		for range n {
			all = append(all, gap)
		}
		return all
	}
	for _, tt := range []struct {
		name     string
		gaps     []time.Duration
		min, max time.Duration
	}{
		{"one decision", nil, 0, 0},
		{"two", times(1, usual), usual, usual},
		{"an outage of an hour, and the next call", append(times(9, usual), time.Hour, usual), usual, usual},
		{"an outage of a minute", append(times(9, 5*time.Second), time.Minute, 5*time.Second), 5 * time.Second, 5 * time.Second},
		{"an outage shorter than the controller's interval", append(times(9, 5*time.Second), 13*time.Second), 5 * time.Second, 5 * time.Second},
		{"and of a caller each second", append(times(9, time.Second), 13*time.Second), time.Second, time.Second},
		{"one outage after the other", append(times(9, usual), time.Hour, usual, time.Hour, usual), usual, usual},
		{"one call between two outages, which is forgotten after a minute and a half", append(append(times(9, usual), time.Hour, time.Hour), times(6, usual)...), usual, usual},
		{"a burst first", times(3, 3*time.Millisecond), 0, 0},
		{"regular after a burst", append(times(3, 3*time.Millisecond), usual), usual, usual},
		{"regular after a long burst", append(append(times(9, usual), times(16, time.Millisecond)...), usual, usual), usual, usual},
		{"regular after a second", []time.Duration{time.Second, usual}, usual, usual},
		{"late after a second", []time.Duration{time.Second, usual + time.Second}, usual, usual},
		{"a call repeated at once", append(times(9, usual), time.Second, usual), usual, usual},
		{"two in one millisecond", append(times(9, usual), time.Microsecond), usual, usual},
		{"twice the usual gap", append(times(9, usual), 2*usual), 2 * usual, 2 * usual},
		{"a caller each half second", append(times(1, time.Second), times(9, time.Second/2)...), time.Second / 2, time.Second / 2},
		{"two instants in one", append(times(9, usual), 0), usual, usual},
		{"a caller that asks every five minutes now", append(times(9, usual), times(6, 5*time.Minute)...), 5 * time.Minute, 5 * time.Minute},
		{"and every 15 seconds again", append(times(9, 5*time.Minute), times(25, usual)...), usual, usual},
		{"never asked again for ages", []time.Duration{100 * 365 * 24 * time.Hour}, 365 * 24 * time.Hour, 365 * 24 * time.Hour},
	} {
		r, at := Record{}, t0
		for _, gap := range append([]time.Duration{0}, tt.gaps...) {
			at = at.Add(gap)
			r = r.Next(recommender.History{Updated: at, Last: recommender.LastDecision{At: at.UnixNano()}}, Owner{})
		}
		if got := time.Duration(r.Interval) * time.Millisecond; got < tt.min || got > tt.max {
			t.Errorf("%s: %v, want %v to %v", tt.name, got, tt.min, tt.max)
		}
	}
}

// changed returns the record after a change from its last count, and after its outcome unless that is
// Undecided.
func changed(r Record, minute int, from, to int32, outcome recommender.Outcome) Record {
	at := t0.Add(time.Duration(minute) * time.Minute)
	id := recommender.ID{byte(minute), byte(minute >> 8), 1}
	next := r.History
	next.Updated, next.Seen = at, true
	next.Last = recommender.LastDecision{ID: id, At: at.UnixNano(), From: from, To: to, Outcome: recommender.Undecided}
	next.Pending = &recommender.Pending{ID: id, At: at.UnixNano(), From: from, To: to}
	after := r.Next(next, Owner{})
	if outcome == recommender.Undecided {
		return after
	}
	_, settled, err := after.Settle("n", id, outcome, "")
	if err != nil {
		panic(err)
	}
	return settled
}

func minutes(r *Record) (all []int64) {
	for _, at := range r.TurnTimes() {
		all = append(all, (at-t0.UnixMilli())/60_000)
	}
	return all
}

func TestTurns(t *testing.T) {
	t.Parallel()
	const applied, failed, pending = recommender.Applied, recommender.Failed, recommender.Undecided
	r := changed(Record{}, 1, 5, 8, applied)
	equal(t, "the first change", minutes(&r), []int64(nil))
	r = changed(r, 2, 8, 9, applied)
	equal(t, "in the same direction", minutes(&r), []int64(nil))
	try := changed(r, 3, 9, 4, pending)
	equal(t, "the other direction, pending", minutes(&try), []int64{3})
	try = changed(r, 3, 9, 4, failed)
	equal(t, "which failed", minutes(&try), []int64(nil))
	try = changed(try, 4, 9, 10, applied)
	equal(t, "up again after that", minutes(&try), []int64(nil))
	outside := changed(r, 3, 9, 4, pending)
	outside.Pending.Outside = true
	equal(t, "outside of the engine's rules", minutes(&outside), []int64(nil))
	if _, outside, err := outside.Settle("n", outside.Pending.ID, applied, ""); err != nil || minutes(&outside) != nil || outside.LastChange != r.LastChange {
		t.Errorf("and applied: %v, %v, %d", err, minutes(&outside), outside.LastChange)
	}
	r = changed(r, 3, 9, 4, applied)
	equal(t, "which was applied", minutes(&r), []int64{3})
	stored := decode(t, Append(nil, &r))
	equal(t, "read back", stored, r)
	try = changed(r, 4, 4, 3, pending)
	equal(t, "on in that direction", minutes(&try), []int64{3})
	for i := range 20 {
		r = changed(r, 4+i, 4, 4+2*int32(i%2^1)-1, applied)
	}
	if got := minutes(&r); len(got) != codec.MaxTurns || got[0] != 23 || got[15] != 8 {
		t.Errorf("of many: %v", got)
	}
	back := r.WithoutFuture(t0.Add(10 * time.Minute))
	equal(t, "without the future", minutes(&back), []int64{10, 9, 8})
	r.Incarnation = 8
	other := r.Of(7)
	equal(t, "of another incarnation", minutes(&other), []int64(nil))
}

// During an outage two instances decide on, from one record.
func TestTurnsOfAnOutageAreMerged(t *testing.T) {
	t.Parallel()
	start := changed(Record{}, 1, 5, 8, recommender.Applied)
	start.Interval = 15_000
	stored := changed(start, 2, 8, 4, recommender.Applied)
	local := changed(changed(start, 3, 8, 3, recommender.Applied), 4, 3, 6, recommender.Applied)
	merged := Merge(&stored, &local)
	equal(t, "the turns", minutes(&merged), []int64{4, 3, 2})
	equal(t, "the direction", merged.LastChange, int8(1))
	equal(t, "the interval", merged.Interval, local.Interval)
	equal(t, "merged again", Merge(&merged, &local), merged)
	local.Interval = 20_000
	for name, merged := range map[string]Record{"stored": Merge(&local, &stored), "local": Merge(&stored, &local)} {
		equal(t, name+" decided last: the direction and the interval", []any{merged.LastChange, merged.Interval}, []any{int8(1), int64(20_000)})
	}
	local.Interval, local.LastChange = 0, 0
	merged = Merge(&stored, &local)
	equal(t, "of the other one, if that has none", []any{merged.LastChange, merged.Interval}, []any{int8(-1), int64(15_000)})

	asked := changed(start, 2, 8, 4, recommender.Undecided)
	_, stored, err := asked.Settle("n", asked.Pending.ID, recommender.Applied, "")
	fatal.If(t, err)
	asked.Updated = asked.Updated.Add(time.Minute)
	merged = Merge(&stored, &asked)
	equal(t, "a change that the other one saw applied", []any{minutes(&merged), merged.LastChange}, []any{[]int64{2}, int8(-1)})
	_, stored, err = asked.Settle("n", asked.Pending.ID, recommender.Failed, "")
	fatal.If(t, err)
	merged = Merge(&stored, &asked)
	equal(t, "one that the other one saw fail", []any{minutes(&merged), merged.LastChange}, []any{[]int64(nil), int8(1)})
	asked.Pending.Outside = true
	_, stored, err = asked.Settle("n", asked.Pending.ID, recommender.Applied, "")
	fatal.If(t, err)
	merged = Merge(&stored, &asked)
	equal(t, "one outside of the engine's rules", []any{minutes(&merged), merged.LastChange}, []any{[]int64(nil), int8(1)})
}
