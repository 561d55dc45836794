package simulation

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// looked counts that many evaluations of each pod.
func (w *world) looked(times int) { w.work += int64(times) * int64(len(w.pods)+1) }

// The costs of creating a pod, of comparing two, and of a metric that is not of pods, in
// evaluations of a pod.
const (
	looksToMake    = 50
	looksToCompare = 5
	looksToMeasure = 6
)

// pointsOfALook is how many points of loads are added up in the time of one evaluation of a pod.
const pointsOfALook = 20

// looksOfAStep is the cost of a step besides its pods and metrics, and looksOfAPolicy that of each
// policy that a step applies, in evaluations of a pod.
const (
	looksOfAStep   = 20
	looksOfAPolicy = 2
)

// entriesOfALook is how many recommendations or changes of a history are walked through, and
// copied, in the time of one evaluation of a pod.
const entriesOfALook = 8

// remembered counts the cost of the history that a decision walked through, as windows look at each
// of its entries, and of its policies.
func (w *world) remembered(d *recommender.Decision) {
	if d.Explanation != nil {
		h := &d.Explanation.History
		w.work += int64((h.Recommendations+h.ScaleUps+h.ScaleDowns)/entriesOfALook + looksOfAPolicy*len(d.Explanation.RateLimit.Policies))
	}
}

// needsOfALook is how many metrics' needs are computed in the time of one evaluation of a pod.
const needsOfALook = 16

// sorted counts the cost of sorting pods.
func (w *world) sorted(pods []*pod) {
	w.work += int64(looksToCompare * len(pods) * bits.Len(uint(len(pods))))
}

// tooMuch returns an error when a run has exceeded its limits of time or memory, or was ended.
func (w *world) tooMuch() error {
	if w.ctx.Err() != nil {
		return fmt.Errorf("at %s: %w", w.now, context.Cause(w.ctx))
	}
	if w.overLimit() {
		return fmt.Errorf("%w: at %s it has evaluated pods and metrics %d times and has %d pods, the maxima are %d and %d; shorten it, lengthen loop.syncPeriod, or lower maxReplicas, windows or the number of policies",
			ErrTooMuch, w.now, w.work, len(w.pods), w.mostWork, w.mostPods)
	}
	if kept := int64(len(w.pods)) * w.keptOfAPod; kept > w.mostKept {
		return fmt.Errorf("%w: at %s it stores up to %d numbers for its %d pods, the maximum is %d; shorten the windows and delays of metrics, or metrics that are late or frozen",
			ErrTooMuch, w.now, kept, len(w.pods), w.mostKept)
	}
	return nil
}

// certainlyTooMuch returns an error if even a run without pods exceeds the limit of time.
func (w *world) certainlyTooMuch() error {
	steps := int64((w.scenario.Duration - w.scenario.Loop.Offset + w.syncPeriod - 1) / w.syncPeriod)
	if least := steps * (int64(w.looksAtAStep) + w.metricsAtAStep + looksOfAStep); least > w.mostWork {
		return fmt.Errorf("%w: with %d metrics its %d evaluations look at pods and metrics %d times at least, the maximum is %d; shorten it, lengthen loop.syncPeriod, or use fewer metrics",
			ErrTooMuch, len(w.metrics), steps, least, w.mostWork)
	}
	return nil
}

// limit lowers the limits of the run, which the context ends.
func (w *world) limit(ctx context.Context, l Limits) {
	w.ctx, w.keepsActions = ctx, l.Actions
	if l.Work > 0 {
		w.mostWork = min(w.mostWork, l.Work)
	}
	if l.Kept > 0 {
		w.mostKept = min(w.mostKept, l.Kept)
	}
}

// overLimit reports whether there are too many pods or evaluations, or the run was ended. Loops
// within one instant check it, too, and stop: the run ends with tooMuch.
func (w *world) overLimit() bool {
	return w.work > w.mostWork || len(w.pods) > w.mostPods || w.ctx.Err() != nil
}

// active returns the pods that count as replicas: those that are not being deleted.
func (w *world) active() []*pod {
	w.looked(1)
	active := make([]*pod, 0, len(w.pods))
	for _, p := range w.pods {
		if !p.isDeleting(w.now) {
			active = append(active, p)
		}
	}
	return active
}

// activeCount is their number.
func (w *world) activeCount() (n int32) {
	w.looked(1)
	for _, p := range w.pods {
		if !p.isDeleting(w.now) {
			n++
		}
	}
	return n
}

// reconcile creates and deletes pods until there are as many as desired, as a Deployment
// does: during a rollout some more, while new pods replace old ones.
func (w *world) reconcile() {
	for !w.overLimit() {
		if w.down.is(w.now) { // nobody makes pods
			break
		}
		active := w.active()
		outdated := slices.DeleteFunc(slices.Clone(active), func(p *pod) bool { return p.generation == w.generation })
		if len(outdated) == 0 {
			w.resize(active, int(w.replicas))
			break
		}
		if !w.rollOut(active, outdated) {
			break
		}
		if len(w.pods) > w.mostPods {
			w.removeGone()
		}
	}
	w.podsChanged()
}

// resize creates or deletes pods of the current template.
func (w *world) resize(active []*pod, want int) {
	for n := len(active); n < want; n++ {
		w.pods = append(w.pods, w.newPod(false))
	}
	if excess := len(active) - want; excess > 0 {
		w.rank(active)
		for _, p := range active[:excess] {
			w.delete(p)
		}
	}
}

// rollOut takes a step of a rolling update and reports whether there was one to take: new
// pods up to the surge, then old pods are deleted as long as enough are available; old pods
// that are not ready are deleted first, in any case.
func (w *world) rollOut(active, outdated []*pod) (progress bool) {
	replicas, surge, unavailable := int(w.replicas), int(w.surge), int(w.unavailable)
	if surge == 0 && unavailable == 0 {
		unavailable = 1 // as the Deployment controller resolves it
	}
	for n, updated := len(active), len(active)-len(outdated); n < replicas+surge && updated < replicas; n, updated = n+1, updated+1 {
		w.pods = append(w.pods, w.newPod(false))
		progress = true
	}
	available := 0
	for _, p := range w.pods {
		if !p.isDeleting(w.now) && p.ready {
			available++
		}
	}
	w.rank(outdated)
	for _, p := range outdated {
		if p.ready {
			if available <= replicas-unavailable {
				break
			}
			available--
		}
		w.delete(p)
		progress = true
	}
	return progress
}

// rank sorts pods by which is to be deleted first, as the ReplicaSet controller does
// (ActivePodsWithRanks, without nodes and deletion costs): not started, then not ready, then
// ready for a shorter time, then more restarts, then younger. Times count by their order of
// magnitude, and within one the UID decides.
func (w *world) rank(pods []*pod) {
	w.sorted(pods)
	slices.SortFunc(pods, func(a, b *pod) int {
		if c := compareFalseFirst(a.isRunning(w.now), b.isRunning(w.now)); c != 0 {
			return c
		}
		if c := compareFalseFirst(a.ready, b.ready); c != 0 {
			return c
		}
		if a.ready && a.readyChanged != b.readyChanged {
			return cmp.Or(w.compareAge(a.readyChanged, b.readyChanged), cmp.Compare(a.uid, b.uid))
		}
		if c := cmp.Compare(b.restarts, a.restarts); c != 0 {
			return c
		}
		if a.created != b.created {
			return cmp.Or(w.compareAge(a.created, b.created), cmp.Compare(a.uid, b.uid))
		}
		return cmp.Compare(a.serial, b.serial)
	})
}

func compareFalseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// compareAge compares how long ago two instants are, by the logarithm: the later one first.
func (w *world) compareAge(a, b time.Duration) int {
	return cmp.Compare(bits.Len64(uint64(max(0, w.now-a))), bits.Len64(uint64(max(0, w.now-b))))
}

// removeGone removes pods that are gone.
func (w *world) removeGone() {
	w.pods = slices.DeleteFunc(w.pods, func(p *pod) bool {
		if p.gone > w.now {
			return false
		}
		if p.onSlot {
			w.slotsTaken--
		}
		return true
	})
}

// podsChanged handles pods that were created, deleted or became ready.
func (w *world) podsChanged() {
	w.looked(1)
	w.removeGone()
	w.nextPod = never
	w.serving = w.serving[:0]
	w.ready, w.runningPods = 0, 0
	for _, p := range w.pods {
		w.nextPod = min(w.nextPod, p.next(w.now))
		if p.serves(w.now) {
			w.serving = append(w.serving, p)
		}
		if !p.isDeleting(w.now) && p.ready {
			w.ready++
		}
		if p.isRunning(w.now) {
			w.runningPods++
		}
	}
	w.capacity = w.totalCapacity()
}

// updatePods performs the due changes of each pod.
func (w *world) updatePods() {
	w.looked(1)
	changed := false
	for _, p := range w.pods {
		if p.update(w.now) {
			changed = true
		}
	}
	if changed && w.generation > 0 {
		w.reconcile() // a rollout goes on when pods become ready
		return
	}
	w.podsChanged()
}
