package recommender

import "time"

// Profile is a version of the controller to decide as: a set of switches, each read
// by the one step that it concerns. The zero value of every switch is what
// Kubernetes v1.36 does, so a profile names what differs from it. The profiles are
// in profiles.go.
type Profile struct {
	name string
	// algorithm computes the count.
	algorithm algorithm
	// scaleToZero is the default of the HPAScaleToZero feature.
	scaleToZero bool

	// Pods, their samples and requests.

	// pendingPodsCount treats a pending pod with a sample as any other, and one without
	// as missing. From v1.19 on it is unready.
	pendingPodsCount bool
	// ignoredPodsCount leaves the samples of failed pods, and of those being
	// deleted, in sums and averages, though not in the number of ready pods.
	ignoredPodsCount bool
	// containersOnly takes requests from containers alone, not from sidecars or the
	// pod's level; a container that a pod does not have requests 0.
	containersOnly bool
	// requestsFirst looks for requests before samples.
	requestsFirst bool
	// strictContainers fails a ContainerResource metric where one pod's sample
	// lacks the container. Later the pod is missing.
	strictContainers bool
	// noContainerResource lacks the ContainerResource type.
	noContainerResource bool

	// What a metric proposes.

	// toleranceByDistance is |1-ratio| <= tolerance, by which a ratio of 1.1 is out of
	// a tolerance of 0.1; and behavior has no tolerances of its own.
	toleranceByDistance bool
	// missingAtRequest assumes that pods without a sample use 100 % of their request on
	// the way down, even where the target is above that.
	missingAtRequest bool
	// missingOnTarget assumes that they use nothing even where the others are exactly
	// on target: for averages, not for utilization.
	missingOnTarget bool
	// guard selects the metrics for which a proposal against the dampened ratio is
	// dropped.
	guard directionGuard
	// uncappedSums lets sums of series wrap, and keeps negative ones.
	uncappedSums bool
	// podsBeforeTolerance makes External values fail without pods even on target.
	podsBeforeTolerance bool

	// From proposals to a count.

	// partialFailure is how a failed metric affects the others.
	partialFailure partialFailure
	// zero is when a workload without replicas is left alone.
	zero zeroRule
	// storedAsV1 keeps specs and statuses as autoscaling/v1, which changes the order
	// of metrics and shows averages with a total of 0: see Input.asStored.
	storedAsV1 bool
	// noBehavior lacks spec.behavior.
	noBehavior bool
	// oneSidedWindows searches only the window of the direction of the proposal, and
	// follows what it finds beyond the current count.
	oneSidedWindows bool
	// ownEventsOnly counts in a policy's period the changes of its own direction.
	ownEventsOnly bool
	// minSelectionBlocks is a bug of the first versions with behavior: a selectPolicy
	// of Min prevents any change.
	minSelectionBlocks bool
	// floorOfOne keeps one replica where minReplicas is 0; and a count below the
	// minimum is explained with the sentence for the maximum.
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
	// sharedPods tolerates another autoscaler that selects the same pods.
	sharedPods bool
	// messagesAreFormats prints texts as format strings, so that a percent sign in an
	// error comes out garbled.
	messagesAreFormats bool
	texts              texts
}

// algorithm computes a count from an observation.
type algorithm uint8

const (
	// controllerAlgorithm is that of the controller since v1.12.
	controllerAlgorithm algorithm = iota
	// cooldownAlgorithm is that of v1.6 to v1.11, with delays after each change.
	cooldownAlgorithm
	// designAlgorithm is that of the design proposal of 2015.
	designAlgorithm
)

// directionGuard selects the proposals that must not go against their dampened ratio.
type directionGuard uint8

const (
	guardAll directionGuard = iota
	guardUtilization
	guardNone
)

// partialFailure is how a failed metric affects the others.
type partialFailure uint8

const (
	// failureBlocksDown: the others may scale up, not down, and the failure is
	// reported either way.
	failureBlocksDown partialFailure = iota
	// failureIgnored: the others decide as if it were not there.
	failureIgnored
	// lastFailureBlocksDown: they may scale up and not down; only a failure that blocks
	// is reported, the last one.
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

// texts are wordings of errors that changed between versions.
type texts struct {
	// repairedObjectErrors has the parts of an Object metric's error in place.
	repairedObjectErrors bool
	// oneOtherAutoscaler words an ambiguous selector without a list.
	oneOtherAutoscaler bool
	// shortRequests omits whose request is missing.
	shortRequests bool
	// bareSources omits the kind of source of an error, and calls usage utilization.
	bareSources bool
	// anyReadyPods is another wording for a lack of samples.
	anyReadyPods bool
	// plainExpressions prints the expressions of a selector as Go does by itself.
	plainExpressions bool
	// podsAsObjects calls a failing Pods metric an object metric.
	podsAsObjects bool
}

// DefaultProfile is the name of the reference, which decides where options name no profile.
const DefaultProfile = "v1.36"

// FollowsController reports whether the profile decides as a version of the HPA controller.
func (p *Profile) FollowsController() bool { return p.algorithm == controllerAlgorithm }

// StaysAtZero reports whether a workload without replicas is left alone, whoever scaled it to zero.
func (p *Profile) StaysAtZero() bool {
	return p != nil && p.zero == zeroAlways && p.algorithm != designAlgorithm // which enforces a minimum of 1
}

// Name returns the profile's name, for example "v1.36"; that of a nil one is DefaultProfile.
func (p *Profile) Name() string {
	if p == nil {
		return DefaultProfile
	}
	return p.name
}

// Sidecars reports whether requests of restartable init containers count, as v1.28 and those
// before it don't.
func (p *Profile) Sidecars() bool { return !p.containersOnly }

// Behavior reports whether the version has spec.behavior; a nil profile is DefaultProfile.
func (p *Profile) Behavior() bool { return p == nil || !p.noBehavior }

// ScaleToZero reports whether the version has the HPAScaleToZero feature enabled by
// default.
func (p *Profile) ScaleToZero() bool { return p.scaleToZero }

// SyncPeriod is the version's default time between two evaluations of an object: v1.12
// lowered it from 30 s to 15 s. No decision depends on it; it is for callers that
// schedule evaluations.
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

// guards reports whether a proposal must not go against its dampened ratio.
func (p *Profile) guards(utilization bool) bool {
	return p.guard == guardAll || p.guard == guardUtilization && utilization
}
