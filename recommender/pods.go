package recommender

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

// The rules, in the order in which they apply.
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

// groupOf returns a pod's group and the rule that puts it there.
func (d *decider) groupOf(pod *Pod, sample *podSample, cpu bool) (PodGroup, PodRule) {
	switch {
	case pod.Deleting:
		return PodIgnored, RuleDeleting
	case pod.Phase == PhaseFailed:
		return PodIgnored, RuleFailed
	case pod.Phase == PhasePending && !d.profile.pendingPodsCount:
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

// pastInitialization is a shortcut of startingRule for most pods, which are ready: it reports those
// that started in an earlier second than the first that are initializing.
func (d *decider) pastInitialization(pod *Pod) bool {
	if pod.Ready != ReadyTrue {
		return false
	}
	started := pod.StartTime.Unix() // of whole seconds, which is quicker
	return started > zeroSeconds && started < d.initializingSeconds
}

// zeroSeconds is the zero time, in seconds since 1970.
const zeroSeconds = -62135596800

// startingRule returns the rule that excludes a starting pod's cpu sample, and
// RuleSampled if none does. All comparisons are strict: a sample taken exactly one
// window after the pod became ready counts.
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

// readyRunning counts the pods that a total is multiplied with: running and ready,
// including those being deleted.
func readyRunning(pods []Pod) int {
	n := 0
	for i := range pods {
		if pods[i].Phase == PhaseRunning && pods[i].Ready == ReadyTrue {
			n++
		}
	}
	return n
}
