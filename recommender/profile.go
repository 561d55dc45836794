package recommender

import "time"

// Profile is a version of the controller to decide as: a set of switches, each read
// by the one step that it concerns. The zero value of every switch is what
// Kubernetes v1.36 does, so a profile names what differs from it. The profiles are
// in profiles.go.
type Profile struct {
	name string
	// algorithm is the way to a count.
	algorithm algorithm
	// scaleToZero is the default of the HPAScaleToZero feature.
	scaleToZero bool

	// Pods, their samples and requests.

	// pendingPodsCount lets a pending pod with a sample count as any other, and be
	// missing without one. From v1.19 on it is unready.
	pendingPodsCount bool
	// ignoredPodsCount leaves the samples of failed pods, and of those being
	// deleted, in sums and averages, though not in the number of ready pods.
	ignoredPodsCount bool
	// containersOnly takes requests from containers alone: not from sidecars nor
	// from the pod's level; a container that a pod does not have requests 0.
	containersOnly bool
	// requestsFirst looks for requests before it looks whether there are samples.
	requestsFirst bool
	// strictContainers fails a ContainerResource metric where one pod's sample
	// lacks the container. Later the pod is missing.
	strictContainers bool
	// noContainerResource does not know the ContainerResource type.
	noContainerResource bool

	// What a metric proposes.

	// toleranceByDistance is |1-ratio| <= tolerance, for which a ratio of 1.1 is
	// out of 0.1; and behavior has no tolerances of its own.
	toleranceByDistance bool
	// missingAtRequest takes pods without a sample for using 100 % of their
	// request on a way down, also where the target is above that.
	missingAtRequest bool
	// missingOnTarget takes them for using nothing also where the others are exactly
	// on target: for averages, not for utilization.
	missingOnTarget bool
	// guard says for which metrics a proposal that goes against the dampened ratio
	// is dropped.
	guard directionGuard
	// uncappedSums lets sums of series wrap, and negative ones be.
	uncappedSums bool
	// podsBeforeTolerance fails External values without pods also on target.
	podsBeforeTolerance bool

	// From proposals to a count.

	// partialFailure says what a metric that fails does to the others.
	partialFailure partialFailure
	// zero says when a workload without replicas is left alone.
	zero zeroRule
	// storedAsV1 keeps specs and statuses as autoscaling/v1, which changes the order
	// of metrics and shows averages with a total of 0: see Input.asStored.
	storedAsV1 bool
	// noBehavior does not know spec.behavior.
	noBehavior bool
	// oneSidedWindows searches only the window of the direction of the proposal, and
	// follows what it finds beyond the current count.
	oneSidedWindows bool
	// ownEventsOnly counts in a policy's period the changes of its own direction.
	ownEventsOnly bool
	// minSelectionBlocks is a mistake of the first versions with behavior: a
	// selectPolicy of Min lets nothing change.
	minSelectionBlocks bool
	// floorOfOne keeps one replica where minReplicas is 0; and what is below the
	// minimum is explained with the sentence of the maximum.
	floorOfOne bool

	// Status and texts.

	// keepsMetrics leaves the status' metrics as they were where no count could be
	// computed or applied.
	keepsMetrics bool
	// observesGeneration shows the generation of the spec that was evaluated.
	observesGeneration bool
	// decimalMemory shows memory without binary suffixes.
	decimalMemory bool
	// bareObjectAverages shows averages of Object metrics without the object.
	bareObjectAverages bool
	// sharedPods does not mind if another autoscaler selects the same pods.
	sharedPods bool
	// messagesAreFormats prints texts as formats, so that a percent sign in an
	// error comes out garbled.
	messagesAreFormats bool
	texts              texts
}

// algorithm is a way from an observation to a count.
type algorithm uint8

const (
	// controllerAlgorithm is that of the controller since v1.12.
	controllerAlgorithm algorithm = iota
	// cooldownAlgorithm is that of v1.6 to v1.11, with delays after each change.
	cooldownAlgorithm
	// designAlgorithm is that of the design proposal of 2015.
	designAlgorithm
)

// directionGuard says which proposals may not go against their dampened ratio.
type directionGuard uint8

const (
	guardAll directionGuard = iota
	guardUtilization
	guardNone
)

// partialFailure says what a metric that fails does to the others.
type partialFailure uint8

const (
	// failureBlocksDown: the others may scale up, not down, and the failure is
	// reported either way.
	failureBlocksDown partialFailure = iota
	// failureIgnored: the others decide as if it were not there.
	failureIgnored
	// lastFailureBlocksDown: they may scale up and not down; only what blocks is
	// reported, by its last failure.
	lastFailureBlocksDown
	// failureAborts: the first one ends the evaluation.
	failureAborts
)

// zeroRule says when a workload without replicas is left alone.
type zeroRule uint8

const (
	// zeroByCondition: unless it was the autoscaler that scaled to zero.
	zeroByCondition zeroRule = iota
	// zeroByMinimum: unless minReplicas is 0.
	zeroByMinimum
	// zeroAlways: always.
	zeroAlways
)

// texts is the wording of errors where it changed over the versions.
type texts struct {
	// repairedObjectErrors has the parts of an Object metric's error in place.
	repairedObjectErrors bool
	// oneOtherAutoscaler words an ambiguous selector without a list.
	oneOtherAutoscaler bool
	// shortRequests leaves out whose request is missing.
	shortRequests bool
	// bareSources leaves out which kind of source an error is of; and calls
	// usage utilization.
	bareSources bool
	// anyReadyPods is how a lack of samples was put.
	anyReadyPods bool
	// plainExpressions prints the expressions of a selector as Go does by itself.
	plainExpressions bool
	// podsAsObjects calls a Pods metric that fails an object metric.
	podsAsObjects bool
}

// Name returns the profile's name, for example "v1.36".
func (p *Profile) Name() string { return p.name }

// Sidecars reports whether requests of restartable init containers count, as v1.28 and those
// before it don't.
func (p *Profile) Sidecars() bool { return !p.containersOnly }

// ScaleToZero reports whether that version has the HPAScaleToZero feature on
// unless it is turned off.
func (p *Profile) ScaleToZero() bool { return p.scaleToZero }

// SyncPeriod is how long that version waits between two evaluations of an object unless
// it is told otherwise: v1.12 came down from 30 s to 15 s. Decisions don't depend on it;
// it is for those who ask.
func (p *Profile) SyncPeriod() time.Duration {
	if p.algorithm == controllerAlgorithm {
		return 15 * time.Second
	}
	return 30 * time.Second
}

// ProfileByName returns the profile of that name and whether there is one.
func ProfileByName(name string) (*Profile, bool) {
	for _, p := range profiles {
		if p.name == name {
			return p, true
		}
	}
	return nil, false
}

// ProfileNames returns the names of all profiles, the reference first.
func ProfileNames() []string {
	names := make([]string, len(profiles))
	for i, p := range profiles {
		names[i] = p.name
	}
	return names
}

// guards reports whether a proposal may not go against its dampened ratio.
func (p *Profile) guards(utilization bool) bool {
	return p.guard == guardAll || p.guard == guardUtilization && utilization
}
