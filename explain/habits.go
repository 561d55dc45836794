package explain

// habits are the differences of older controllers that need other words. The zero value is the
// current controller.
type habits struct {
	// reorders: metrics were evaluated in another order than the spec's, for specs
	// were stored so.
	reorders bool
	// byDistance: a ratio was within tolerance by its distance from 1.
	byDistance bool
	// missingAtRequest: when scaling down, a missing pod counted at 100 % of its request even
	// if the target was above that; and for averages, at nothing if exactly on target.
	missingAtRequest bool
	// ignoredCount: samples of ignored pods counted in sums and averages.
	ignoredCount bool
	// failures is the effect of a failing metric on the others.
	failures failureHabit
	// zero is when a workload without replicas was left alone.
	zero zeroHabit
	// oneSided: only the window of the proposal's direction was looked at, and it was
	// followed beyond the current count.
	oneSided bool
	// minBlocks: a selectPolicy of Min prevented all changes.
	minBlocks bool
	// delays: a change was delayed for a while after the one before, in place of windows.
	delays bool
	// toReading: the delays ran to the instant of the reading.
	toReading bool
	// perPodPercentages: utilization is the average of the pods' own percentages, of all pods;
	// and the tolerance is looked at last.
	perPodPercentages bool
}

type failureHabit int

const (
	failureBlocksDown failureHabit = iota
	failureIgnored
	failureAborts
)

type zeroHabit int

const (
	zeroByCondition zeroHabit = iota
	zeroByMinimum
	zeroAlways
)

// habitsOf has the profiles that are spoken of in other words, by their names in the trace.
var habitsOf = map[string]habits{
	"v1.28": {byDistance: true, zero: zeroByMinimum},
	"v1.19": {
		reorders: true, byDistance: true, missingAtRequest: true, ignoredCount: true,
		failures: failureIgnored, zero: zeroByMinimum, oneSided: true, minBlocks: true,
	},
	"v1.15": {reorders: true, byDistance: true, missingAtRequest: true, ignoredCount: true, zero: zeroAlways},
	"cooldown": {
		reorders: true, byDistance: true, missingAtRequest: true, ignoredCount: true,
		failures: failureAborts, zero: zeroAlways, delays: true, toReading: true,
	},
	"design-2015": {zero: zeroAlways, delays: true, perPodPercentages: true},
}
