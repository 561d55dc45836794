package recommender

import "hash/maphash"

// PodGroup is how a pod counts for a metric.
type PodGroup uint8

// The groups: counted with the sample; not yet counted; without a sample; failed
// or being deleted.
const (
	PodReady PodGroup = iota
	PodUnready
	PodMissing
	PodIgnored
)

// PodRule is the rule that put a pod into its group.
type PodRule uint8

// The rules, in the order of hpa-semantics §2.
const (
	RuleSampled PodRule = iota
	RuleDeleting
	RuleFailed
	RulePending
	RuleNoSample
	RuleNoReadyCondition
	RuleNoStartTime
	RuleStartingUnready
	RuleStartingSampleTooOld
	RuleNeverReady
)

// PodCounts counts the pods by group.
type PodCounts struct {
	Ready, Unready, Missing, Ignored int32
}

// podSample is one pod as a metric sees it.
type podSample struct {
	value   int64
	request int64
	// metrics is the index of the PodMetrics that the sample is from, where it
	// is from one.
	metrics int32
	sampled bool
	group   PodGroup
	rule    PodRule
}

// sampleSet is the samples of one metric joined to the pods. Its slices are
// scratch space, used again for the next metric and the next decision.
type sampleSet struct {
	// pods has one entry a pod, in the input's order.
	pods []podSample
	// unlisted are samples of pods that the input does not list, one a name.
	// Upstream keeps and counts them.
	unlisted      []int64
	unlistedNames []string
	counts        PodCounts
	walked        int
	index         nameIndex
}

// reset makes the set ready for that many pods, without any sample.
func (s *sampleSet) reset(pods int) {
	if cap(s.pods) < pods {
		s.pods = make([]podSample, pods)
	}
	s.pods = s.pods[:pods]
	clear(s.pods)
	s.unlisted, s.unlistedNames = s.unlisted[:0], s.unlistedNames[:0]
	s.counts, s.walked, s.index.built = PodCounts{}, 0, false
}

// place returns where the sample of the pod of that name belongs: the index of
// the pod, or len(pods) plus that of the unlisted sample, which is appended for a
// name not seen before. As long as samples come in the order of pods it only
// walks on from the one before; the first that does not makes it build an index.
func (s *sampleSet) place(pods []Pod, name string) int {
	if !s.index.built {
		for i := s.walked; i < len(pods); i++ {
			if pods[i].Name == name {
				s.walked = i + 1
				return i
			}
		}
		s.index.build(pods)
	}
	return s.index.find(name, func(i int) string {
		if i < len(pods) {
			return pods[i].Name
		}
		return s.unlistedNames[i-len(pods)]
	}, func() int {
		s.unlisted = append(s.unlisted, 0)
		s.unlistedNames = append(s.unlistedNames, name)
		return len(pods) + len(s.unlisted) - 1
	})
}

// put sets the sample of a pod; of two the later one counts.
func (s *sampleSet) put(pods []Pod, name string, value int64, metrics int) {
	i := s.place(pods, name)
	if i >= len(pods) {
		s.unlisted[i-len(pods)] = value
		return
	}
	p := &s.pods[i]
	p.value, p.metrics, p.sampled = value, int32(metrics), true
}

// count is len(metrics) of upstream once ignored and unready pods are out.
func (s *sampleSet) count() int { return int(s.counts.Ready) + len(s.unlisted) }

// groupOf returns a pod's group and the rule that puts it there.
func (d *decider) groupOf(pod *Pod, sample *podSample, cpu bool) (PodGroup, PodRule) {
	switch {
	case pod.Deleting:
		return PodIgnored, RuleDeleting
	case pod.Phase == PhaseFailed:
		return PodIgnored, RuleFailed
	case pod.Phase == PhasePending:
		return PodUnready, RulePending
	case !sample.sampled:
		return PodMissing, RuleNoSample
	case !cpu:
		return PodReady, RuleSampled
	}
	if rule := d.startingRule(pod, sample); rule != RuleSampled {
		return PodUnready, rule
	}
	return PodReady, RuleSampled
}

// startingRule is the rule that keeps a starting pod's cpu sample out, and
// RuleSampled where none does. All comparisons are strict: a sample taken
// exactly one window after the pod became ready counts.
func (d *decider) startingRule(pod *Pod, sample *podSample) PodRule {
	switch {
	case pod.Ready == NoCondition:
		return RuleNoReadyCondition
	case pod.StartTime.IsZero():
		return RuleNoStartTime
	}
	if pod.StartTime.After(d.initializing) {
		metrics := &d.in.PodMetrics[sample.metrics]
		switch {
		case pod.Ready == ReadyFalse:
			return RuleStartingUnready
		case metrics.Timestamp.Before(pod.ReadyTransition.Add(metrics.Window)):
			return RuleStartingSampleTooOld
		}
		return RuleSampled
	}
	if pod.Ready == ReadyFalse && pod.StartTime.Add(d.in.Options.InitialReadinessDelay).After(pod.ReadyTransition) {
		return RuleNeverReady
	}
	return RuleSampled
}

// readyRunning counts the pods that a total is multiplied with: running and
// ready, those being deleted included.
func readyRunning(pods []Pod) int {
	n := 0
	for i := range pods {
		if pods[i].Phase == PhaseRunning && pods[i].Ready == ReadyTrue {
			n++
		}
	}
	return n
}

// nameIndex finds names: an open-addressing table of indices that is used again
// and again, so that joining allocates nothing.
type nameIndex struct {
	built bool
	used  int
	slots []int32 // index + 1; 0: free; len is a power of two
}

var indexSeed = maphash.MakeSeed()

// build fills the table with the pods, with room for as many unlisted names.
func (x *nameIndex) build(pods []Pod) {
	x.resize(4 * (len(pods) + 1))
	for i := range pods {
		name := pods[i].Name
		slot := x.slot(name)
		for x.slots[slot] != 0 {
			slot = (slot + 1) & (len(x.slots) - 1)
		}
		x.slots[slot] = int32(i) + 1
	}
	x.built, x.used = true, len(pods)
}

func (x *nameIndex) resize(atLeast int) {
	size := 8
	for size < atLeast {
		size *= 2
	}
	if cap(x.slots) < size {
		x.slots = make([]int32, size)
	}
	x.slots = x.slots[:size]
	clear(x.slots)
}

func (x *nameIndex) slot(name string) int {
	return int(maphash.String(indexSeed, name) & uint64(len(x.slots)-1))
}

// find returns the index of the name, adding it if it is not there. nameAt names
// the entry of an index, add makes a new entry.
func (x *nameIndex) find(name string, nameAt func(int) string, add func() int) int {
	slot := x.slot(name)
	for x.slots[slot] != 0 {
		if i := int(x.slots[slot] - 1); nameAt(i) == name {
			return i
		}
		slot = (slot + 1) & (len(x.slots) - 1)
	}
	i := add()
	x.slots[slot] = int32(i) + 1
	x.used++
	if 2*x.used > len(x.slots) {
		x.rehash(i+1, nameAt)
	}
	return i
}

func (x *nameIndex) rehash(n int, nameAt func(int) string) {
	x.resize(4 * n)
	for i := range n {
		slot := x.slot(nameAt(i))
		for x.slots[slot] != 0 {
			slot = (slot + 1) & (len(x.slots) - 1)
		}
		x.slots[slot] = int32(i) + 1
	}
}
