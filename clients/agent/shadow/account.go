package shadow

import "time"

// maxDivergences bounds the divergences kept per object; the oldest are dropped.
const maxDivergences = 20

// maxOpen bounds the unjudged reconciles of an object; a period that is shortened might leave
// many.
const maxOpen = 64

// Divergence is a period of time in which the two sides differed.
type Divergence struct {
	// From is the first reconcile that differed, To the last one.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Ended reports whether it is over: the two agreed again, or one had no opinion any more.
	Ended bool `json:"ended"`
	// Reconciles is how many differed.
	Reconciles int `json:"reconciles"`
	// Worst is the largest difference, replicas; Ours and Theirs are the sides then.
	Worst  int32 `json:"worst"`
	Ours   Side  `json:"ours"`
	Theirs Side  `json:"theirs"`
	// Explanation says in a sentence what the two sides saw or did differently.
	Explanation string `json:"explanation"`
}

// account compares one object.
type account struct {
	against string
	since   time.Time
	last    Reconcile
	// open are the reconciles that can't be judged yet.
	open             []Reconcile
	agreed, diverged int
	worst            int32
	divergences      []Divergence
	dropped          int
	timeline         timeline
	// unjudged counts the reconciles without an opinion; why is the reason of the last one.
	unjudged int
	why      string
	// reported is whether a divergence began since the last reconcile without an opinion.
	reported bool
}

// Change is the effect of a reconcile on an object's account.
type Change struct {
	// Agreed and Diverged count the reconciles judged now.
	Agreed, Diverged int
	// Began and Ended report whether a divergence began or ended.
	Began, Ended bool
	// First reports whether it is the first divergence of the object, or the first since one
	// side had no opinion.
	First bool
	// Explanation is that of the divergence that began.
	Explanation string
	// NoOpinion is why the reconcile was not compared, "" if it was; Paused reports that the
	// one before was compared, or that there was none.
	NoOpinion string
	Paused    bool
}

// note records a reconcile and judges those that can be judged now.
func (a *account) note(r Reconcile) (change Change) {
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
	// Agreement now settles what can't be judged yet.
	for len(a.open) > 0 && (r.gap() == 0 || a.open[0].due(r.At) || a.open[0].gap() == 0 || len(a.open) > maxOpen) {
		a.judge(&a.open[0], a.open[1:], &change)
		a.open[0] = Reconcile{}
		a.open = a.open[1:]
	}
	return change
}

// pause records a reconcile without an opinion. Open reconciles that would have needed this
// one's opinion count neither as agreement nor as divergence, and a running divergence ends.
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
	a.reported = false
}

// settled reports whether a reconcile counts as agreement, given the later ones.
func settled(r *Reconcile, later []Reconcile) bool {
	agrees := r.gap() == 0
	for i := 0; i < len(later) && !agrees; i++ {
		agrees = r.settledBy(&later[i])
	}
	return agrees
}

func (a *account) agree(r *Reconcile, change *Change) {
	a.timeline.add(r.At, true)
	a.agreed++
	change.Agreed++
	a.end(change)
}

// end ends the running divergence.
func (a *account) end(change *Change) {
	if d := a.running(); d != nil {
		d.Ended, change.Ended = true, true
	}
}

// judge counts a reconcile, given the later ones.
func (a *account) judge(r *Reconcile, later []Reconcile, change *Change) {
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
		change.Began, change.First, a.reported = true, !a.reported, true
	}
	d.To, d.Reconciles = r.At, d.Reconciles+1
	if r.gap() > d.Worst {
		d.Worst, d.Ours, d.Theirs = r.gap(), r.Ours, r.Theirs
		d.Explanation = explain(r)
	}
	if change.Began {
		change.Explanation = d.Explanation
	}
}

// running returns the running divergence, nil if there is none.
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
