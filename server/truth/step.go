package truth

import (
	"math"
	"time"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/forecast"
)

// Step is one decision: what it was asked, and what it decided.
type Step struct {
	// At is the instant of the decision, and Before that of the record that it was made on, in nanoseconds
	// since the Unix epoch; Before 0: the target was new.
	At, Before int64
	// Spec is the hash of the spec with its options, and SpecText its text (a setpoint.v1.SpecInUse); empty:
	// it is that of an earlier step with this hash.
	Spec     uint64
	SpecText []byte
	// State is the record before, as the store keeps it; empty: it follows from the steps before.
	State []byte

	Scale recommender.Scale
	// Problem is why scale or pods could not be read.
	Problem Problem
	// Pods is how many pods there are, Ready how many of them run and are ready.
	Pods, Ready int32
	// Generation is that of the spec; below 0: unknown.
	Generation int64
	// Metrics belong to those of the spec by index.
	Metrics []fleet.MetricDigest

	// Current and Desired are the counts before and after.
	Current, Desired int32
	// StatusCurrent and StatusDesired are those of the status, which stay as they were where nothing could be read.
	StatusCurrent, StatusDesired int32
	// Basis has the bounds and what the metrics proposed.
	Basis recommender.Basis
	// Said is what the spec's forecast said; the zero value: it has none.
	Said forecast.Said
	// Proposed are the proposals of the caller.
	Proposed []stages.Proposal
	// Reason and Error are the decision's.
	Reason, Error string
	// Conditions are those of the status after the decision, without instants.
	Conditions []recommender.Condition
}

// How often a target is recorded: once in Pace, in nanoseconds, less than a second since callers are not exact; and Burst
// times at once. One that is asked more often pauses, see package recordings.
const (
	Pace  = int64(900 * time.Millisecond)
	Burst = 120
)

// ProblemKind is what could not be read.
type ProblemKind uint8

// The kinds of a Problem.
const (
	_ ProblemKind = iota
	// ScaleProblem: the scale, for the ScaleErrorReason in Code and with that message.
	ScaleProblem
	// SelectorProblem: the pods, for that reason and with that message.
	SelectorProblem
)

// Problem is why scale or pods could not be read.
type Problem struct {
	Kind ProblemKind
	Code uint8
	// Reason and Message are the problem's own; Selector and Others those of an ambiguous selector.
	Reason, Message, Selector string
	Others                    []string
}

func (p *Problem) equal(o *Problem) bool {
	if p.Kind != o.Kind || p.Code != o.Code || p.Reason != o.Reason || p.Message != o.Message || p.Selector != o.Selector || len(p.Others) != len(o.Others) {
		return false
	}
	for i := range p.Others {
		if p.Others[i] != o.Others[i] {
			return false
		}
	}
	return true
}

// Report is what a caller said of a change: it was applied, or it failed.
type Report struct {
	// Of is the instant of the decision.
	Of     int64
	Failed bool
	// Message is the caller's.
	Message string
}

// Limits of what is kept. What is beyond is cut, and a step with more metrics is not kept.
const (
	// MaxMetrics limits the metrics of a step.
	MaxMetrics = fleet.MaxMetrics
	// MaxText limits a text, in bytes, and MaxTexts how many different ones a chunk names once only.
	MaxText, maxTexts = 1 << 10, 64
	// MaxBlob limits a state and the text of a spec, in bytes.
	MaxBlob = 8 << 10
	// maxOthers limits the names of an ambiguous selector, and maxConditions the conditions.
	maxOthers, maxConditions = 64, 16
	// maxProposed limits the proposals of the caller.
	maxProposed = 8
	// MaxSteps limits the steps and reports of a chunk.
	MaxSteps = 1 << 14
	// MaxChunk limits the bytes of a chunk.
	MaxChunk = 1 << 20
)

// Bits of an item: what of it differs from the step before.
const (
	reportBit = 1 << iota
	scaleBit
	podsBit
	outcomeBit
	proposalsBit
	metricsBit
	conditionsBit
	beforeBit
	reasonBit
	boundsBit
	problemBit
	generationBit
	specBit
	specTextBit
	stateBit
	statusBit
	forecastBit
	proposedBit
	itemBits
)

// Bits of a metric.
const (
	usageBit = 1 << iota
	totalBit
	readyBit
	missingBit
	unreadyBit
	requestsBit
	seriesBit
	restBit
	textsBit
	metricBits
)

// Bits of a metric's rest.
const (
	sampledBit = 1 << iota
	usageWrapsBit
	requestsWrapBit
	restBits
)

// fits reports whether the step can be kept.
func (s *Step) fits() bool {
	return len(s.Metrics) <= MaxMetrics && s.At > 0 && s.Before >= 0 && s.At < math.MaxInt64
}
