package stages

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Override is an override of recommendations.
type Override struct {
	// Name is the resource's, and Level how specific it is: of a cluster, a namespace or a target.
	Name  string
	Level Level
	// Hold keeps the count. Pin, Floor and Ceiling are below 0 where there is none.
	Hold                    bool
	Pin, Floor, Ceiling     int32
	NoScaleDown, NoScaleUp  bool
	Start, Expires, Created time.Time
	Reason, Author          string
}

// Level is what an override is for.
type Level uint8

// The levels.
const (
	OfCluster Level = iota + 1
	OfNamespace
	OfTarget
)

// InForce reports whether the override counts at that instant.
func (o *Override) InForce(now time.Time) bool { return !now.Before(o.Start) && now.Before(o.Expires) }

// InForce returns those of the overrides that count at that instant: all itself, if all of them do.
func InForce(all []Override, now time.Time) []Override {
	for i := range all {
		if all[i].InForce(now) {
			continue
		}
		some := all[:i:i]
		for j := i + 1; j < len(all); j++ {
			if all[j].InForce(now) {
				some = append(some, all[j])
			}
		}
		return some
	}
	return all
}

// Overridden begins the reason of a change that an override made, and is the type of the condition that
// is there while one is in force: True where it decides the count.
const Overridden = "Overridden"

// overriddenReasons are the condition's reasons, by the rule.
var overriddenReasons = map[string]string{
	"hold": "Held", "pin": "Pinned", "floor": "Floor", "ceiling": "Ceiling", "contradiction": "Contradiction",
	"no-scale-down": "NoScaleDown", "no-scale-up": "NoScaleUp",
}

// NotOverriding is the condition's reason where the overrides in force agree with the count.
const NotOverriding = "NotOverriding"

// effect is what the overrides in force say together.
type effect struct {
	replicas int32
	rule     string
	// did says what was done, without the count that it came to, and more what follows that: "held at ". limited is the
	// bound that the object sets to it.
	did, more, limited string
	// first did it, with second if that is not nil.
	first, second *Override
}

// instead says what an override in one direction keeps another one from doing.
func (e *effect) instead() string {
	if e.rule == "" {
		return ""
	}
	return " to the " + e.rule + " of " + itoa(e.replicas) + e.limited + ", " + e.first.title()
}

// id is the last segment of the name.
func (o *Override) id() string { return o.Name[strings.LastIndexByte(o.Name, '/')+1:] }

// title names an override in a sentence, without what it is for.
func (o *Override) title() string { return string(o.appendTitle(make([]byte, 0, 64))) }

func (o *Override) appendTitle(b []byte) []byte {
	b = append(b, "override"...)
	if id := o.id(); id != "" {
		b = append(append(b, ' '), id...)
	}
	return append(b, [...]string{OfCluster: " of the cluster", OfNamespace: " of the namespace", OfTarget: " of the target"}[o.Level]...)
}

// within returns the effect's count within the bounds of a spec, and notes the one that limits it.
func (e *effect) within(in *recommender.Input) int32 {
	spec := &in.Spec
	switch {
	case e.replicas > spec.MaxReplicas:
		e.limited = " (limited to maxReplicas " + itoa(spec.MaxReplicas) + ")"
		return spec.MaxReplicas
	case e.replicas < spec.MinReplicas:
		e.limited = " (limited to minReplicas " + itoa(spec.MinReplicas) + ")"
		return spec.MinReplicas
	case e.replicas == 0 && in.Options.Profile.StaysAtZero():
		e.limited = " (limited to 1, as profile " + in.Options.Profile.Name() + " starts nothing that is at 0)"
		return 1
	}
	return e.replicas
}

// effectOf returns what overrides make of a decided count, and the count itself: within the bounds of the spec, or the
// current one.
func effectOf(inForce []*Override, in *recommender.Input, current, decided int32) (e effect, replicas int32) {
	hold := func(rule, more string, first, second *Override) (effect, int32) {
		return effect{current, rule, "held at ", more, "", first, second}, current
	}
	for _, o := range inForce {
		if o.Hold {
			return hold("hold", "", o, nil)
		}
	}
	e.replicas = decided
	if i := slices.IndexFunc(inForce, func(o *Override) bool { return o.Pin >= 0 }); i >= 0 {
		o := inForce[i]
		e = effect{o.Pin, "pin", "pinned to ", "", "", o, nil}
	}
	var floor, ceiling *Override
	for _, o := range inForce {
		if o.Floor >= 0 && (floor == nil || o.Floor > floor.Floor) {
			floor = o
		}
		if o.Ceiling >= 0 && (ceiling == nil || o.Ceiling < ceiling.Ceiling) {
			ceiling = o
		}
	}
	if floor != nil && ceiling != nil && floor.Floor > ceiling.Ceiling {
		return hold("contradiction", " (the floor of "+itoa(floor.Floor)+
			" contradicts the ceiling of "+itoa(ceiling.Ceiling)+", "+ceiling.title()+")", floor, ceiling)
	}
	if floor != nil && e.replicas < floor.Floor {
		e = effect{floor.Floor, "floor", "raised to the floor of ", "", "", floor, nil}
	}
	if ceiling != nil && e.replicas > ceiling.Ceiling {
		e = effect{ceiling.Ceiling, "ceiling", "lowered to the ceiling of ", "", "", ceiling, nil}
	}
	if replicas = e.replicas; e.rule != "" && replicas != current { // what runs may stay
		replicas = e.within(in)
	}
	for _, o := range inForce {
		switch {
		case o.NoScaleDown && replicas < current:
			return hold("no-scale-down", " (no scale-down"+e.instead()+")", o, nil)
		case o.NoScaleUp && replicas > current:
			return hold("no-scale-up", " (no scale-up"+e.instead()+")", o, nil)
		}
	}
	return e, replicas
}

// Override is what overrides make of a count that something else decides, as they would of the engine's, within
// the bounds of the input's spec: the count, why it is another one, the status' conditions with that on
// overrides, and what was adjusted, nil without overrides in force.
func (a *Around) Override(now time.Time, in *recommender.Input, current, decided int32, conditions []recommender.Condition) (replicas int32, reason string, with []recommender.Condition, adjusted *recommender.Adjusted) {
	r := a.start(&noPlan, now, in)
	defer r.free()
	r.adjusted.Plain = decided
	replicas, reason = r.override(current, decided)
	c := recommender.ConditionsAt(now, conditions)
	r.Report(c)
	if len(a.Overrides) > 0 {
		adjusted = r.adjustments()
	}
	return replicas, reason, c.List(), adjusted
}

// Agrees ends what is told of an override that changes nothing of the recommendation.
const Agrees = "as is the recommendation"

// override replaces the count by what the overrides in force say, within the bounds of the object.
func (r *run) override(current, decided int32) (replicas int32, reason string) {
	if len(r.inForce) == 0 {
		return decided, ""
	}
	e, replicas := effectOf(r.inForce, r.original, current, decided)
	if e.rule == "" {
		r.unchanged = true
		return decided, ""
	}
	if r.original.HoldDown && replicas < current {
		e.limited = " (not below the current count while the store is away)"
		replicas = current
	}
	first := e.first
	author, until, reason, note, other := cmp.Or(first.Author, "somebody"), first.Expires, first.Reason, "", ""
	if second := e.second; second != nil && second != first { // the floor and the ceiling are whose they are, and the hold ends with the first of them
		other = " and the other"
		if by := cmp.Or(second.Author, "somebody"); by != author {
			author += " and " + by
		}
		if second.Reason != reason {
			reason += "; " + second.Reason
		}
		switch {
		case second.Expires.Before(until):
			until, note = second.Expires, " (the end of the ceiling)"
		case until.Before(second.Expires):
			note = " (the end of the floor)"
		}
	}
	sentence := func(why string) string {
		b := make([]byte, 0, 256) // on the stack
		b = append(appendInt(append(b, e.did...), e.replicas), e.more...)
		b = append(append(append(append(b, e.limited...), " by "...), author...), " until "...)
		b = append(append(until.UTC().AppendFormat(b, time.RFC3339), note...), ": "...)
		b = first.appendTitle(append(strconv.AppendQuote(b, why), " ("...))
		b = append(append(b, other...), "); "...)
		if decided == replicas {
			return string(append(b, Agrees...))
		}
		return string(appendInt(append(b, "the recommendation would be "...), decided))
	}
	message := sentence(reason)
	if excess := len(message) - recommender.MaxAdjustmentText; excess > 0 {
		message = sentence(strings.ToValidUTF8(reason[:max(0, len(reason)-excess-len("…"))], "") + "…")
	}
	r.overridden, r.overriding = message, overriddenReasons[e.rule]
	if replicas == decided {
		return decided, ""
	}
	r.tell(recommender.Adjustment{
		Stage: recommender.StageOverride, Rule: e.rule, Before: decided, After: replicas, Message: message, Until: until,
	})
	return replicas, Overridden + " (" + first.Name + "): " + reason
}

// inForce appends the overrides in force at that instant, the most specific first, of one level the newest.
func (a *Around) inForce(at time.Time, out []*Override) []*Override {
	for i := range a.Overrides {
		if o := &a.Overrides[i]; o.InForce(at) {
			out = append(out, o)
		}
	}
	slices.SortStableFunc(out, func(a, b *Override) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), b.Created.Compare(a.Created), strings.Compare(a.Name, b.Name))
	})
	return out
}
