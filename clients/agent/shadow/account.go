package shadow

import "time"

// maxDivergences bounds those that are kept of an object, the last ones.
const maxDivergences = 20

// maxOpen bounds the reconciles of an object that wait to be judged; a period that is
// shortened might leave many.
const maxOpen = 64

// Divergence is a time in which the two differed.
type Divergence struct {
	// From is the first reconcile that differed, To the last one.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Ended reports whether it is over: they agreed again, or one had no opinion any more.
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
	// open are the reconciles that can't be judged yet.
	open             []Round
	agreed, diverged int
	worst            int32
	divergences      []Divergence
	dropped          int
	timeline         timeline
	// unjudged are the reconciles without an opinion, why the reason of the last one.
	unjudged int
	why      string
	// told reports whether a divergence began since the last reconcile without an opinion.
	told bool
}

// Change is what a reconcile made of an object's account.
type Change struct {
	// Agreed and Diverged are the reconciles that were judged.
	Agreed, Diverged int
	// Began reports whether the two have come apart, Ended that this is over.
	Began, Ended bool
	// First reports whether what began is the first divergence of the object, or the first
	// since one of both had no opinion.
	First bool
	// Explanation of the divergence that began.
	Explanation string
	// NoOpinion is why the reconcile is not compared, "" if it is; Paused says that the one
	// before was, or that there was none.
	NoOpinion string
	Paused    bool
}

// note takes a reconcile in and judges those that can be.
func (a *account) note(r Round) (change Change) {
	if a.since.IsZero() {
		a.since = r.At
	}
	if change.NoOpinion = r.noOpinion(); change.NoOpinion != "" {
		change.Paused = a.last.At.IsZero() || a.last.noOpinion() == ""
		a.last, a.why = r, change.NoOpinion
		a.pause(r.At, &change)
		return change
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

// pause takes in a reconcile without an opinion. Rounds that would have had to wait for what
// comes now are neither agreement nor difference, and what was one does not go on.
func (a *account) pause(now time.Time, change *Change) {
	for i := range a.open {
		if r, later := &a.open[i], a.open[i+1:]; r.due(now) || settled(r, later) {
			a.judge(r, later, change)
		}
	}
	clear(a.open)
	a.open = a.open[:0]
	a.end(change)
	a.unjudged++
	a.told = false
}

// settled reports whether a reconcile is one of agreement, knowing those after it.
func settled(r *Round, later []Round) bool {
	agrees := r.gap() == 0
	for i := 0; i < len(later) && !agrees; i++ {
		agrees = r.settledBy(&later[i])
	}
	return agrees
}

func (a *account) agree(r *Round, change *Change) {
	a.timeline.add(r.At, true)
	a.agreed++
	change.Agreed++
	a.end(change)
}

// end ends the divergence that goes on.
func (a *account) end(change *Change) {
	if d := a.running(); d != nil {
		d.Ended, change.Ended = true, true
	}
}

// judge counts a reconcile, knowing those after it.
func (a *account) judge(r *Round, later []Round, change *Change) {
	if settled(r, later) {
		a.agree(r, change)
		return
	}
	a.timeline.add(r.At, false)
	a.diverged++
	change.Diverged++
	a.worst = max(a.worst, r.gap())
	d := a.running()
	if d == nil {
		d = a.begin(r.At)
		change.Began, change.First, a.told = true, !a.told, true
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
