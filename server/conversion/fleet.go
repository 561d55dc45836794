//go:build !js

package conversion

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/internal/protofields"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// DefaultPeriod is the period of a stored spec without one.
const DefaultPeriod = 15 * time.Second

const (
	// stalePeriods is after how many periods members are stale by default, and defaultLost when they are lost.
	stalePeriods = 3
	defaultLost  = 5 * time.Minute
	// leastAfter is the least of both that the structure allows.
	leastAfter = time.Second
)

// scopeNames are the words of FleetSpec.scopes.
var scopeNames = map[string]fleet.Scope{"PER_MEMBER": fleet.PerMember, "GLOBAL": fleet.Global}

// FleetMembers returns the names of a fleet's members, at most as many as there may be.
func FleetMembers(spec *setpointv1.FleetSpec) []string {
	var names []string
	for _, m := range upTo(fleet.MaxMembers, spec.GetMembers()) {
		names = append(names, m.GetTarget())
	}
	return names
}

// IsFleet reports whether a stored spec, encoded, is a fleet's. Of one that can't be read nobody knows, and it says no.
func IsFleet(stored []byte) bool {
	number := (&setpointv1.TargetSpec{}).ProtoReflect().Descriptor().Fields().ByName("fleet").Number()
	var err error
	for f := range protofields.Of(stored, &err) {
		if f.Number == number {
			return true
		}
	}
	return false
}

// Fleet reads the fleet of a stored spec whose metrics and options were read. The violations list everything
// that is wrong beside what validation.Structure and validation.Spec find; with any of them the result must not
// be used. What is out of the structure's range counts as what is in it, so that it is told once.
func Fleet(name string, spec *setpointv1.TargetSpec, in *recommender.Input) (*fleet.Spec, []validation.Violation) {
	r := &fleetReader{name: name, out: &fleet.Spec{
		Version: fleetVersion(spec, &in.Options), Engine: in.Spec, Options: in.Options, Namespace: in.Namespace,
		Period: DefaultPeriod, SurviveOne: spec.GetFleet().GetSurviveOne(), MaxMoves: min(max(spec.GetFleet().GetMaxMoves(), 0), fleet.MaxMoves),
	}}
	if period := spec.GetPeriod().AsDuration(); period > 0 {
		r.out.Period = period
	}
	if spec.GetFleet().GetOnLost() == "SHIFT" {
		r.out.OnLost = fleet.Shift
	}
	if p := in.Options.Profile; !p.AddsUp() {
		r.refuse("options.profile", "Forbidden: the profile %q has no fleets: choose one of v1.20 or later", p.Name())
	}
	if len(spec.GetQueries()) > 0 {
		r.refuse("queries", "Forbidden: a fleet fetches nothing: its members' agents read the metrics")
	}
	if spec.GetStages().GetForecast() != nil {
		r.refuse("stages.forecast", "Forbidden: a fleet has none")
	}
	if spec.GetAssumeApplied() {
		r.refuse("assumeApplied", "Forbidden: a fleet is not polled: its members tell their replicas")
	}
	if spec.GetObservationMaxAge() != nil {
		r.refuse("observationMaxAge", "Forbidden: a fleet has no observations: fleet.staleAfter is for its members")
	}
	if n := len(in.Spec.Metrics); n > fleet.MaxMetrics {
		r.refuse("spec.metrics", "Too many: %d: a fleet can have %d", n, fleet.MaxMetrics)
	}
	r.members(spec.GetFleet())
	r.ages(spec.GetFleet())
	r.scopes(spec.GetFleet().GetScopes())
	if n := len(spec.GetFleet().GetMembers()); len(r.violations) == 0 && n >= fleet.MinMembers && n <= fleet.MaxMembers { // else the structure says so
		if err := r.out.Validate(); err != nil {
			r.refuse("fleet", "Invalid value: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	return r.out, r.violations
}

// fleetVersion changes with what the members' sums depend on.
func fleetVersion(spec *setpointv1.TargetSpec, options *recommender.Options) uint64 {
	data, _ := proto.MarshalOptions{Deterministic: true}.Marshal(&setpointv1.HorizontalPodAutoscalerSpec{Metrics: spec.GetSpec().GetMetrics()})
	data = fmt.Appendf(data, "/%s/%d/%d", options.Profile.Name(), options.CPUInitializationPeriod, options.InitialReadinessDelay)
	sum := sha256.Sum256(data)
	return max(1, binary.BigEndian.Uint64(sum[:]))
}

// fleetReader reads a fleet.
type fleetReader struct {
	name       string
	out        *fleet.Spec
	violations []validation.Violation
}

func (r *fleetReader) refuse(field, format string, a ...any) {
	r.violations = append(r.violations, validation.Violation{Field: field, Description: fmt.Sprintf(format, a...)})
}

// members reads the members, sorted by name.
func (r *fleetReader) members(spec *setpointv1.FleetSpec) {
	first := make(map[string]int)
	floors, drained := int64(0), true
	for i, m := range upTo(fleet.MaxMembers, spec.GetMembers()) {
		at := fmt.Sprintf("fleet.members[%d]", i)
		out := fleet.Member{Name: m.GetTarget(), Weight: 1, Min: max(0, m.GetMinReplicas()), Max: -1}
		if m.Weight != nil {
			out.Weight = min(max(m.GetWeight(), 1), fleet.MaxWeight)
		}
		if m.MaxReplicas != nil {
			out.Max = m.GetMaxReplicas()
		}
		if out.Max > 0 && out.Min > out.Max {
			r.refuse(at+".minReplicas", "Invalid value: %d: must be at most maxReplicas, %d", out.Min, out.Max)
		}
		switch other, taken := first[out.Name]; {
		case taken:
			r.refuse(at+".target", "Duplicate value: %q: it is fleet.members[%d], too", clip(out.Name), other)
		case out.Name == r.name:
			r.refuse(at+".target", "Invalid value: %q: a fleet is no member of itself", clip(out.Name))
		case strings.HasSuffix(out.Name, target.ShadowSuffix):
			r.refuse(at+".target", "Invalid value: %q: an agent's shadow applies nothing, so it is no member: name the target without %s", clip(out.Name), target.ShadowSuffix)
		case len(out.Name) > fleet.MaxName:
			r.refuse(at+".target", "Too long: must have at most %d bytes", fleet.MaxName)
		}
		first[out.Name] = i
		if m.GetDrained() {
			out.Weight = 0
		} else {
			drained = false
			floors += int64(out.Min)
		}
		r.out.Members = append(r.out.Members, out)
	}
	switch least := r.out.Engine.MinReplicas; {
	case len(r.out.Members) == 0: // which validation.Structure tells
	case drained:
		r.refuse("fleet.members", "Invalid value: all are drained: at least one must take part")
	case floors > int64(least):
		r.refuse("fleet.members", "Invalid value: their minReplicas add up to %d, and the fleet's spec.minReplicas is %d: lower some, or raise that", floors, least)
	}
	slices.SortFunc(r.out.Members, func(a, b fleet.Member) int { return strings.Compare(a.Name, b.Name) })
}

// ages reads when members are stale and lost.
func (r *fleetReader) ages(spec *setpointv1.FleetSpec) {
	r.out.StaleAfter = stalePeriods * r.out.Period
	if after := spec.GetStaleAfter().AsDuration(); after >= leastAfter {
		r.out.StaleAfter = after
	}
	r.out.LostAfter = max(defaultLost, r.out.StaleAfter)
	if after := spec.GetLostAfter().AsDuration(); after >= leastAfter {
		r.out.LostAfter = after
	}
	if r.out.StaleAfter < r.out.Period {
		r.refuse("fleet.staleAfter", "Invalid value: %s: must be at least the period, %s", r.out.StaleAfter, r.out.Period)
	}
	if r.out.LostAfter < r.out.StaleAfter {
		r.refuse("fleet.lostAfter", "Invalid value: %s: must be at least staleAfter, %s", r.out.LostAfter, r.out.StaleAfter)
	}
}

// scopes reads what the readings of Object and External metrics cover.
func (r *fleetReader) scopes(given map[string]string) {
	metrics := upTo(fleet.MaxMetrics, r.out.Engine.Metrics)
	r.out.Scopes = make([]fleet.Scope, len(metrics))
	var named []string
	count := make(map[string]int)
	for i := range metrics {
		name := MetricName(&metrics[i])
		if metrics[i].Type != recommender.ObjectMetric && metrics[i].Type != recommender.ExternalMetric {
			continue
		}
		if named = append(named, name); count[name] == 1 {
			r.refuse("fleet.scopes", "Invalid value: the spec has several metrics named %q: a fleet tells them apart by name", clip(name))
		}
		count[name]++
		scope, told := given[name]
		if !told {
			r.refuse("fleet.scopes", "Required value: must say what each member reads of %q: PER_MEMBER, its own part, or GLOBAL, the same whole as all", clip(name))
		}
		r.out.Scopes[i] = scopeNames[scope]
	}
	has := "none that needs a scope"
	if len(named) > 0 {
		has = clip(strings.Join(clippedEach(upTo(mostTold, named)), ", "))
	}
	for _, name := range pairs(given) {
		if _, known := scopeNames[given[name]]; !known {
			r.refuse(fmt.Sprintf("fleet.scopes[%q]", clip(name)), "Unsupported value: %q: supported values: \"GLOBAL\", \"PER_MEMBER\"", clip(given[name]))
		}
		if count[name] == 0 {
			r.refuse(fmt.Sprintf("fleet.scopes[%q]", clip(name)), "Invalid value: the spec has no Object or External metric of that name: it has %s", has)
		}
	}
}

// FleetDifference returns which of a member's metrics is not the fleet's: its name, and what differs; empty:
// none.
func FleetDifference(of *fleet.Spec, member *recommender.Spec) (metric, what string) {
	theirs, own := of.Engine.Metrics, member.Metrics
	for i := range max(len(theirs), len(own)) {
		switch {
		case i >= len(own):
			return MetricName(&theirs[i]), "the fleet has it, the request does not"
		case i >= len(theirs):
			return MetricName(&own[i]), "the request has it, the fleet does not"
		case MetricName(&own[i]) != MetricName(&theirs[i]) || own[i].Type != theirs[i].Type || own[i].Container != theirs[i].Container:
			return MetricName(&own[i]), fmt.Sprintf("the fleet's metric %d is %q", i, clip(MetricName(&theirs[i])))
		case !reflect.DeepEqual(own[i].Target, theirs[i].Target):
			return MetricName(&own[i]), fmt.Sprintf("its target is %s, the fleet's is %s", targetText(&own[i].Target), targetText(&theirs[i].Target))
		case !SameSelector(own[i].Metric.Selector, theirs[i].Metric.Selector):
			return MetricName(&own[i]), "its selector is another one"
		case own[i].DescribedObject != theirs[i].DescribedObject:
			return MetricName(&own[i]), "it describes another object"
		}
	}
	return "", ""
}

// SameSelector reports whether two selectors of metrics are the same; none and an empty one select all.
func SameSelector(a, b *recommender.LabelSelector) bool {
	none := func(s *recommender.LabelSelector) bool {
		return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0
	}
	return none(a) && none(b) || a != nil && b != nil && reflect.DeepEqual(a, b)
}

// targetText is the target of a metric, for a sentence: averageUtilization 60.
func targetText(t *recommender.MetricTarget) string {
	switch {
	case t.AverageUtilization != nil:
		return fmt.Sprintf("averageUtilization %d", *t.AverageUtilization)
	case t.AverageValue != nil:
		return "averageValue " + quantity.FormatDecimal(*t.AverageValue)
	case t.Value != nil:
		return "value " + quantity.FormatDecimal(*t.Value)
	}
	return "none"
}

// FleetShare converts what a member learns.
func FleetShare(a *fleet.Answer) *setpointv1.FleetShare {
	return &setpointv1.FleetShare{
		State: a.State.String(), Drained: a.Drained, Holds: a.Holds,
		DesiredReplicas: a.Desired, ShareTotal: a.Total, UnplacedReplicas: a.Unplaced, MissingReplicas: a.Missing,
		DecisionTime: timestamp(a.Decided), Members: FleetCounts(a.Members),
	}
}

// FleetCounts converts counts of members.
func FleetCounts(c fleet.Counts) *setpointv1.FleetMemberCounts {
	return &setpointv1.FleetMemberCounts{
		Unseen: int32(c.Unseen), Fresh: int32(c.Fresh), Returning: int32(c.Returning),
		Stale: int32(c.Stale), Lost: int32(c.Lost), Drained: int32(c.Drained),
	}
}

// FleetState converts the state of a fleet at an instant.
func FleetState(name string, stored *setpointv1.TargetSpec, spec *fleet.Spec, r *fleet.Record, status *recommender.Status, adjusted *recommender.Adjusted, now time.Time) *setpointv1.Fleet {
	states, members := spec.States(r, now)
	out := &setpointv1.Fleet{
		Name: name, DesiredReplicas: r.Desired, ShareTotal: r.Total, UnplacedReplicas: r.Unplaced, MissingReplicas: r.Missing,
		DecisionTime: nanoseconds(r.Decided), Status: Status(status), MemberCounts: FleetCounts(spec.Count(states)),
		Spec: completed(stored.GetFleet(), spec), MinReplicas: spec.Engine.MinReplicas, MaxReplicas: spec.Engine.MaxReplicas,
	}
	out.Adjustments, out.PlainDesiredReplicas = Adjusted(adjusted)
	for i, m := range out.GetStatus().GetCurrentMetrics() {
		if m.GetType() == "" && i < len(spec.Engine.Metrics) { // what could not be computed keeps its name
			of := &spec.Engine.Metrics[i]
			out.Status.CurrentMetrics[i] = metricStatus(&recommender.MetricStatus{Type: of.Type, Resource: of.Resource, Container: of.Container, Metric: of.Metric, DescribedObject: of.DescribedObject})
		}
	}
	for _, k := range spec.Contradictions(states, members) {
		out.Contradictions = append(out.Contradictions, MetricName(&spec.Engine.Metrics[k]))
	}
	for i := range members {
		out.Members = append(out.Members, fleetMember(&spec.Members[i], &members[i], states[i], now))
	}
	return out
}

// completed is the fleet of a stored spec, with the defaults in place of what is absent.
func completed(stored *setpointv1.FleetSpec, spec *fleet.Spec) *setpointv1.FleetSpec {
	out := proto.CloneOf(stored)
	out.StaleAfter, out.LostAfter = durationpb.New(spec.StaleAfter), durationpb.New(spec.LostAfter)
	out.OnLost = cmp.Or(out.GetOnLost(), "HOLD")
	return out
}

func fleetMember(of *fleet.Member, m *fleet.MemberRecord, state fleet.State, now time.Time) *setpointv1.FleetMemberStatus {
	out := &setpointv1.FleetMemberStatus{Target: of.Name, State: state.String(), Drained: of.Drained(), LastCallTime: nanoseconds(m.Seen), Applied: m.Seen != 0 && m.MissedSince == 0}
	if m.HasShare {
		out.Share = &m.Share
	}
	if now.UnixNano() < m.CapacityUntil {
		out.Capacity = &m.Capacity
	}
	if m.Digest == nil {
		return out
	}
	d, err := fleet.DecodeDigest(m.Digest)
	if err != nil {
		return out
	}
	out.SpecReplicas, out.StatusReplicas = &d.Scale.SpecReplicas, &d.Scale.StatusReplicas
	if out.OwnMinReplicas = &d.Min; d.Max >= 0 {
		out.OwnMaxReplicas = &d.Max
	}
	for i := range d.Metrics {
		out.Error = cmp.Or(out.GetError(), d.Metrics[i].SelectorError, d.Metrics[i].Error)
	}
	if m.Seen > m.Told {
		out.Error = "it could not see its replicas or pods at its last call"
	}
	return out
}
