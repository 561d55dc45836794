package shadow

import "time"

// maxDivergences bounds those that are kept of an object, the last ones.
const maxDivergences = 20

// maxOpen bounds the rounds of an object that wait to be judged; a period that is
// shortened might leave many.
const maxOpen = 64

// Divergence is a time in which the two differed.
type Divergence struct {
	// From is the first round that differed, To the last one.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Ended says that they agreed again.
	Ended bool `json:"ended"`
	// Rounds that differed.
	Rounds int `json:"rounds"`
	// Worst is the largest difference, replicas; Ours and Theirs are the sides then.
	Worst  int32 `json:"worst"`
	Ours   Side  `json:"ours"`
	Theirs Side  `json:"theirs"`
	// Explanation says in a sentence what the two saw or did otherwise.
	Explanation string `json:"explanation"`
}

// account is the one of an object.
type account struct {
	against string
	since   time.Time
	last    Round
	// open are the rounds that can't be judged yet.
	open             []Round
	agreed, diverged int
	worst            int32
	divergences      []Divergence
	dropped          int
	timeline         timeline
}

// Change is what a round made of an object's account.
type Change struct {
	// Agreed and Diverged are the rounds that were judged.
	Agreed, Diverged int
	// Began says that the two have come apart, Ended that they agree again.
	Began, Ended bool
	// Explanation of the divergence that began.
	Explanation string
}

// note takes a round in and judges those that can be.
func (a *account) note(r Round) (change Change) {
	if a.since.IsZero() {
		a.since = r.At
	}
	a.last = r
	a.open = append(a.open, r)
	for len(a.open) > 0 && (a.open[0].due(r.At) || a.open[0].gap() == 0 || len(a.open) > maxOpen) {
		a.judge(&a.open[0], a.open[1:], &change)
		a.open[0] = Round{}
		a.open = a.open[1:]
	}
	return change
}

// judge counts a round, knowing those after it.
func (a *account) judge(r *Round, later []Round, change *Change) {
	agrees := r.gap() == 0
	for i := 0; i < len(later) && !agrees; i++ {
		agrees = r.settledBy(&later[i])
	}
	a.timeline.add(r.At, agrees)
	if agrees {
		a.agreed++
		change.Agreed++
		if d := a.running(); d != nil {
			d.Ended, change.Ended = true, true
		}
		return
	}
	a.diverged++
	change.Diverged++
	a.worst = max(a.worst, r.gap())
	d := a.running()
	if d == nil {
		d = a.begin(r.At)
		change.Began = true
	}
	d.To, d.Rounds = r.At, d.Rounds+1
	if r.gap() > d.Worst {
		d.Worst, d.Ours, d.Theirs = r.gap(), r.Ours, r.Theirs
		d.Explanation = explain(r)
	}
	if change.Began {
		change.Explanation = d.Explanation
	}
}

// running returns the divergence that goes on, nil if there is none.
func (a *account) running() *Divergence {
	if n := len(a.divergences); n > 0 && !a.divergences[n-1].Ended {
		return &a.divergences[n-1]
	}
	return nil
}

func (a *account) begin(at time.Time) *Divergence {
	if len(a.divergences) == maxDivergences {
		a.divergences = append(a.divergences[:0], a.divergences[1:]...)
		a.dropped++
	}
	a.divergences = append(a.divergences, Divergence{From: at})
	return &a.divergences[len(a.divergences)-1]
}
