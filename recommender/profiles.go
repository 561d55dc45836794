package recommender

// The profiles. Their differences come from that version's sources; the conformance
// module compares each with its real controller, where that still builds.

// v136 is Kubernetes v1.36, the reference.
var v136 = Profile{name: DefaultProfile}

// v137 is Kubernetes v1.37: scaling to zero is on, the status shows the generation of
// the spec, and two errors are worded otherwise.
var v137 = Profile{
	name:               "v1.37",
	scaleToZero:        true,
	observesGeneration: true,
	texts:              texts{repairedObjectErrors: true, oneOtherAutoscaler: true},
}

// v128 is Kubernetes v1.28.
var v128 = Profile{
	name:                "v1.28",
	containersOnly:      true,
	strictContainers:    true,
	toleranceByDistance: true,
	uncappedSums:        true,
	zero:                zeroByMinimum,
	keepsMetrics:        true,
	decimalMemory:       true,
	bareObjectAverages:  true,
	messagesAreFormats:  true,
}

// v119 is Kubernetes v1.19.0. Later patch releases fixed two of its bugs,
// ignoredPodsCount and minSelectionBlocks.
var v119 = Profile{
	name:                "v1.19",
	ignoredPodsCount:    true,
	containersOnly:      true,
	requestsFirst:       true,
	noContainerResource: true,
	toleranceByDistance: true,
	missingAtRequest:    true,
	missingOnTarget:     true,
	guard:               guardUtilization,
	uncappedSums:        true,
	partialFailure:      failureIgnored,
	zero:                zeroByMinimum,
	storedAsV1:          true,
	oneSidedWindows:     true,
	ownEventsOnly:       true,
	minSelectionBlocks:  true,
	keepsMetrics:        true,
	decimalMemory:       true,
	bareObjectAverages:  true,
	sharedPods:          true,
	messagesAreFormats:  true,
	texts:               texts{shortRequests: true, bareSources: true, anyReadyPods: true},
}

// v115 is Kubernetes v1.15, before behavior, without the guard of v1.15.10.
var v115 = Profile{
	name:                "v1.15",
	pendingPodsCount:    true,
	ignoredPodsCount:    true,
	containersOnly:      true,
	requestsFirst:       true,
	noContainerResource: true,
	toleranceByDistance: true,
	missingAtRequest:    true,
	missingOnTarget:     true,
	guard:               guardNone,
	uncappedSums:        true,
	podsBeforeTolerance: true,
	partialFailure:      lastFailureBlocksDown,
	zero:                zeroAlways,
	storedAsV1:          true,
	noBehavior:          true,
	floorOfOne:          true,
	keepsMetrics:        true,
	decimalMemory:       true,
	bareObjectAverages:  true,
	sharedPods:          true,
	messagesAreFormats:  true,
	texts:               texts{shortRequests: true, bareSources: true, anyReadyPods: true, podsAsObjects: true, plainExpressions: true},
}

// cooldown is the controller of v1.6 to v1.11, which forbade a change for a while after
// the previous one, with the metrics of v115. Those versions treat pods differently,
// which it does not reproduce.
var cooldown = func() Profile {
	p := v115
	p.name = "cooldown"
	p.algorithm = cooldownAlgorithm
	p.partialFailure = failureAborts
	p.texts.podsAsObjects = false // of v1.15 only
	return p
}()

// design2015 is the algorithm of the design proposal behind the first controller.
var design2015 = Profile{name: "design-2015", algorithm: designAlgorithm, keepsMetrics: true, noBehavior: true, zero: zeroAlways}

var profiles = []*Profile{&v136, &v137, &v128, &v119, &v115, &cooldown, &design2015}
