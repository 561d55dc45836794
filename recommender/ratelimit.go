package recommender

import (
	"math"
	"slices"
	"time"
)

// Without behavior one evaluation may multiply the count by this factor, and may always
// reach this count.
const (
	scaleUpLimitFactor  = 2.0
	scaleUpLimitMinimum = 4.0
)

// LimitReason is the reason of ScalingLimited, in upstream's words.
type LimitReason string

// The reasons of ScalingLimited.
const (
	DesiredWithinRange LimitReason = "DesiredWithinRange"
	ScaleUpLimit       LimitReason = "ScaleUpLimit"
	ScaleDownLimit     LimitReason = "ScaleDownLimit"
	TooManyReplicas    LimitReason = "TooManyReplicas"
	TooFewReplicas     LimitReason = "TooFewReplicas"
)

// Message returns the sentence that goes with the reason.
func (r LimitReason) Message() string {
	switch r {
	case ScaleUpLimit:
		return "the desired replica count is increasing faster than the maximum scale rate"
	case ScaleDownLimit:
		return "the desired replica count is decreasing faster than the maximum scale rate"
	case TooManyReplicas:
		return "the desired replica count is more than the maximum replica count"
	case TooFewReplicas:
		return "the desired replica count is less than the minimum replica count"
	}
	return "the desired count is within the acceptable range"
}

// RateLimit is the change that the scaling policies allow.
type RateLimit struct {
	Direction Direction
	// SelectPolicy is empty without behavior.
	SelectPolicy SelectPolicy
	// Policies are set for explanations only.
	Policies []PolicyLimit
	// Limit is the count allowed, where HasLimit.
	Limit    int32
	HasLimit bool
}

// PolicyLimit is what one policy allowed.
type PolicyLimit struct {
	Policy ScalingPolicy
	// Up and Down are the replicas added and removed within the period, Start the
	// replicas at its start, Limit the replicas allowed.
	Up, Down, Start, Limit int32
	// ReleasedAt is when the oldest counted change leaves the period, in nanoseconds
	// since the Unix epoch; 0: none is counted.
	ReleasedAt int64
	Selected   bool
}

// Bounds is a count after the rate limits and the bounds of the spec.
type Bounds struct {
	Min, Max        int32
	Wanted, Bounded int32
	Reason          LimitReason
}

// boundWithoutBehavior applies the spec's bounds and the growth limit of one
// evaluation. Upstream: convertDesiredReplicasWithRules.
func boundWithoutBehavior(spec *Spec, current, wanted int32, profile *Profile) (RateLimit, Bounds) {
	rate := RateLimit{Direction: Up, Limit: growthLimit(current), HasLimit: true}
	b := newBounds(spec, wanted)
	ceiling, reason := ceilingWithoutBehavior(spec, current)
	if profile.floorOfOne {
		b.Min = max(1, b.Min)
	}
	switch {
	case wanted < b.Min:
		b.Bounded, b.Reason = b.Min, TooFewReplicas
	case wanted > ceiling:
		b.Bounded, b.Reason = ceiling, reason
	}
	return rate, b
}

// growthLimit is the highest count after one evaluation without behavior.
func growthLimit(current int32) int32 {
	return toInt32(math.Max(scaleUpLimitFactor*float64(current), scaleUpLimitMinimum))
}

// ceilingWithoutBehavior is growthLimit or the maximum, whichever is lower, and the
// reason.
func ceilingWithoutBehavior(spec *Spec, current int32) (int32, LimitReason) {
	if limit := growthLimit(current); spec.MaxReplicas > limit {
		return limit, ScaleUpLimit
	}
	return spec.MaxReplicas, TooManyReplicas
}

func newBounds(spec *Spec, wanted int32) Bounds {
	return Bounds{Min: spec.MinReplicas, Max: spec.MaxReplicas, Wanted: wanted, Bounded: wanted, Reason: DesiredWithinRange}
}

// boundWithBehavior applies the policies of the direction of change and the
// spec's bound on that side. Upstream: convertDesiredReplicasWithBehaviorRate.
func (d *decider) boundWithBehavior(wanted int32) (RateLimit, Bounds) {
	spec := &d.in.Spec
	b := newBounds(spec, wanted)
	switch {
	case wanted > d.current:
		rate := d.limitRate(Up, &d.behavior.ScaleUp)
		rate.Limit = max(rate.Limit, d.current)
		ceiling, reason := spec.MaxReplicas, TooManyReplicas
		if spec.MaxReplicas > rate.Limit {
			ceiling, reason = rate.Limit, ScaleUpLimit
		}
		if wanted > ceiling {
			b.Bounded, b.Reason = ceiling, reason
		}
		return rate, b
	case wanted < d.current:
		rate := d.limitRate(Down, &d.behavior.ScaleDown)
		rate.Limit = min(rate.Limit, d.current)
		floor, reason := spec.MinReplicas, TooFewReplicas
		if spec.MinReplicas < rate.Limit {
			floor, reason = rate.Limit, ScaleDownLimit
		}
		if wanted < floor {
			b.Bounded, b.Reason = floor, reason
		}
		return rate, b
	}
	return RateLimit{}, b
}

// limitRate selects one of the counts that the policies of a direction allow. Upstream:
// calculateScaleUpLimitWithScalingRules and its twin.
func (d *decider) limitRate(direction Direction, rules *ScalingRules) RateLimit {
	rate := RateLimit{Direction: direction, SelectPolicy: rules.SelectPolicy, HasLimit: true}
	if rules.SelectPolicy == NoSelection {
		rate.Limit = d.current
		return rate
	}
	// The policy that allows most change has the highest limit upwards and the
	// lowest downwards.
	highest := (direction == Up) == (rules.SelectPolicy != MinChange)
	rate.Limit = math.MaxInt32
	if highest {
		rate.Limit = math.MinInt32
	}
	if d.profile.minSelectionBlocks {
		// The initial value for either selection, which Min then keeps.
		rate.Limit = 0
		if direction == Down {
			rate.Limit = math.MaxInt32
		}
	}
	selected := -1
	var counted []changes
	if len(rules.Policies) > fewPolicies {
		counted = d.changesOf(direction, rules.Policies)
	}
	for i, policy := range rules.Policies {
		var l PolicyLimit
		if counted != nil {
			l = d.limitFrom(direction, policy, counted[i])
		} else {
			l = d.limitOf(direction, policy)
		}
		if highest && l.Limit >= rate.Limit || !highest && l.Limit <= rate.Limit {
			if l.Limit != rate.Limit || selected < 0 {
				selected = i
			}
			rate.Limit = l.Limit
		}
		if d.in.Explain {
			d.warnOfLimit(direction, &l)
			rate.Policies = append(rate.Policies, l)
		}
	}
	if d.in.Explain && selected >= 0 {
		rate.Policies[selected].Selected = true
	}
	return rate
}

// changes are the changes that a policy counts: the sums of each direction, and the first instant
// at which one of them leaves the period, 0: there is none.
type changes struct {
	up, down int32
	released int64
}

// limitOf returns the count that one policy allows.
func (d *decider) limitOf(direction Direction, policy ScalingPolicy) PolicyLimit {
	var c changes
	length := policy.length()
	if direction == Up || !d.profile.ownEventsOnly {
		c.up = d.changeOf(d.next.ScaleUps, direction == Up, length, &c.released)
	}
	if direction == Down || !d.profile.ownEventsOnly {
		c.down = d.changeOf(d.next.ScaleDowns, direction == Down, length, &c.released)
	}
	return d.limitFrom(direction, policy, c)
}

// limitFrom returns the count that one policy allows, from the changes that it counts: it starts
// from the count at the start of the policy's period.
func (d *decider) limitFrom(direction Direction, policy ScalingPolicy, c changes) PolicyLimit {
	l := PolicyLimit{Policy: policy, Up: c.up, Down: c.down, ReleasedAt: c.released}
	l.Start = d.current - l.Up + l.Down
	switch {
	case policy.Type == PodsPolicy && direction == Up:
		l.Limit = l.Start + policy.Value // wraps, as upstream's int32 does
	case policy.Type == PodsPolicy:
		l.Limit = l.Start - policy.Value
	case direction == Up:
		// Rounded up, because otherwise a small count could never grow.
		l.Limit = toInt32(math.Ceil(float64(l.Start) * (1 + float64(policy.Value)/100)))
	default:
		l.Limit = toInt32(float64(l.Start) * (1 - float64(policy.Value)/100))
	}
	return l
}

func (p *ScalingPolicy) length() int64 { return int64(p.PeriodSeconds) * int64(time.Second) }

// changeWithin sums the changes after the cutoff; one exactly as old as the period does
// not count. released becomes the first instant at which one of them leaves the period.
func changeWithin(events []ScaleEvent, cutoff, length int64, released *int64) int32 {
	var sum int32
	for i := range events {
		if e := &events[i]; e.At > cutoff {
			sum += e.Change
			if leaves := e.At + length; *released == 0 || leaves < *released {
				*released = leaves
			}
		}
	}
	return sum
}

// changeOf sums the changes of the last length nanoseconds, for a policy of their own
// direction or of the other one.
//
// Beyond the history's limit two things are unknown: whether upstream has reused the
// slot of an outdated change, and how much of a sum that began before the period
// counts. Both count for their own direction, whose policies then allow less, and not
// for the other one, whose policies would allow more.
func (d *decider) changeOf(events []ScaleEvent, own bool, length int64, released *int64) int32 {
	cutoff := d.nowNanos - length
	if !d.next.EventsLimited {
		return changeWithin(events, cutoff, length, released)
	}
	counted := make([]ScaleEvent, 0, len(events))
	for _, e := range events {
		if e.At > cutoff && (e.Outdated || e.At-e.Span <= cutoff) {
			d.changesLast = true
			if !own {
				continue
			}
		}
		counted = append(counted, e)
	}
	return changeWithin(counted, cutoff, length, released)
}

// fewPolicies is how many policies may walk through all changes each.
const fewPolicies = 4

// changesOf returns for each policy what limitOf counts, in one walk through all changes: a hundred
// policies that walk through thousands each would take a millisecond.
func (d *decider) changesOf(direction Direction, policies []ScalingPolicy) []changes {
	var lengths []int64
	for i := range policies {
		lengths = append(lengths, policies[i].length())
	}
	slices.Sort(lengths)
	lengths = slices.Compact(lengths)
	ups, downs := newTally(len(lengths)), newTally(len(lengths))
	if direction == Up || !d.profile.ownEventsOnly {
		d.tally(d.next.ScaleUps, direction == Up, lengths, ups)
	}
	if direction == Down || !d.profile.ownEventsOnly {
		d.tally(d.next.ScaleDowns, direction == Down, lengths, downs)
	}
	counted := make([]changes, len(policies))
	for i := range policies {
		length := policies[i].length()
		at, _ := slices.BinarySearch(lengths, length)
		counted[i] = changes{up: ups[at].sum, down: downs[at].sum}
		if oldest := min(ups[at].oldest, downs[at].oldest); oldest != math.MaxInt64 {
			counted[i].released = oldest + length
		}
	}
	return counted
}

// tallied is the sum of the changes that a period counts, and the instant of the oldest.
type tallied struct {
	sum    int32
	oldest int64
}

func newTally(n int) []tallied {
	into := make([]tallied, n)
	for i := range into {
		into[i].oldest = math.MaxInt64
	}
	return into
}

// tally is changeOf for periods of ascending lengths: a change counts for those that are longer
// than its age.
func (d *decider) tally(events []ScaleEvent, own bool, lengths []int64, into []tallied) {
	for _, e := range events {
		first, _ := slices.BinarySearch(lengths, d.nowNanos-e.At+1)
		if d.next.EventsLimited {
			whole := len(lengths)
			if !e.Outdated {
				whole, _ = slices.BinarySearch(lengths, d.nowNanos-(e.At-e.Span)+1)
			}
			if first < whole {
				d.changesLast = true
				if !own {
					first = whole
				}
			}
		}
		if first < len(into) {
			into[first].sum += e.Change
			into[first].oldest = min(into[first].oldest, e.At)
		}
	}
	for i := 1; i < len(into); i++ {
		into[i].sum += into[i-1].sum
		into[i].oldest = min(into[i].oldest, into[i-1].oldest)
	}
}
