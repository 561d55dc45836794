package shadows

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/telemetry"
	"github.com/setpoint-dev/setpoint/stages"
)

const (
	// MaxBytes limits the encoded spec of a shadow, which the record of its target carries.
	MaxBytes = 16 << 10
	// maxHistory limits the encoded history of a shadow.
	maxHistory = 64 << 10
	// maxProblem limits the text why a shadow decides nothing, in bytes.
	maxProblem = 256
	// formerFor is how long the history of a spec is kept that is in use no more.
	formerFor = time.Hour
)

// Specs returns what a record keeps of the shadows of a stored spec; nil: it has none.
func Specs(spec *setpointv1.TargetSpec) []byte {
	kept := &storedv1.Shadows{}
	for _, s := range spec.GetShadows() {
		encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(s)
		if err != nil {
			continue // it was decoded before
		}
		kept.Specs = append(kept.Specs, &storedv1.ShadowSpec{
			Name: s.GetName(), Hash: conversion.HashOfSpec(s.GetSpec(), s.GetOptions(), s.GetStages()), Shadow: encoded,
		})
	}
	return encode(kept)
}

// OfStored is Specs of an encoded stored spec; nil also for one that can't be read.
func OfStored(value []byte) []byte {
	spec := &setpointv1.TargetSpec{}
	if proto.Unmarshal(value, spec) != nil {
		return nil
	}
	return Specs(spec)
}

// WithSpecs returns what a record kept with the specs of other, whose histories are left out; changed reports whether
// that is something else.
func WithSpecs(kept, other []byte) (next []byte, changed bool) {
	to := decode(other)
	to.Histories = decode(kept).GetHistories()
	next = encode(to)
	return next, !bytes.Equal(next, kept)
}

// WithoutHistories returns the specs alone, as for another object of the same name.
func WithoutHistories(kept []byte) []byte {
	next, _ := WithSpecs(nil, kept)
	return next
}

func encode(kept *storedv1.Shadows) []byte {
	if len(kept.GetSpecs()) == 0 {
		return nil
	}
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(kept)
	return b
}

// decode decodes what a record keeps. What can't be read counts as nothing: no decision fails because of a shadow.
func decode(kept []byte) *storedv1.Shadows {
	s := &storedv1.Shadows{}
	if proto.Unmarshal(kept, s) != nil {
		return &storedv1.Shadows{}
	}
	return s
}

// Set is the shadows of a target at one decision.
type Set struct {
	// Basis is the record to decide on: the known one, with the history of the decision's spec.
	Basis record.Record
	// Moved reports whether that history is not the known record's. Settled is then what became of the known
	// record's pending change.
	Moved   bool
	Settled recommender.Settled
	// Same, Different and Off count the shadows after Decide.
	Same, Different, Off int
	// Shown are those that are not off, after Decide.
	Shown []telemetry.Shadow

	known *record.Record
	hash  uint64
	kept  *storedv1.Shadows
}

// Open returns the shadows of a known record before a decision of which the call has all but the decision itself, with
// the spec of that hash.
func Open(known *record.Record, hash uint64, c *Call) *Set {
	s := &Set{Basis: *known, known: known, hash: hash, kept: decode(known.Shadows)}
	if known.Spec.Hash == 0 || known.Spec.Hash == hash {
		return s
	}
	h := s.own(c)
	of, ok := s.recordOf(h)
	if !ok || h.GetProblem() != "" {
		// An edited spec, which has none, goes on with the history of the one before, and so does one that decided nothing as
		// a shadow: its own ended when that began.
		return s
	}
	replicas := c.Input.Scale.SpecReplicas
	s.Moved = true
	// Reports of changes that were recommended before find them settled.
	of.Settled = slices.Clone(known.Settled)
	if p := known.Pending; p != nil {
		s.Settled = recommender.Settled{ID: p.ID, Outcome: recommender.Dropped}
		if p.To == replicas {
			s.Settled.Outcome = recommender.Applied
		}
		of.Settled = append(of.Settled[max(0, len(of.Settled)-recommender.MaxSettled+1):], s.Settled)
	}
	s.Basis.History, s.Basis.Stages, s.Basis.Adjusted = of.History, of.Stages, nil
	s.restart(&s.Basis.History, c, c.Input)
	return s
}

// restart has the windows of a history begin anew after a pause, as those of the known record have.
func (s *Set) restart(h *recommender.History, c *Call, in *recommender.Input) {
	if c.RestartAfterPause {
		s.known.RestartAfterPause(h, c.Now, in)
	}
}

// own returns the history of the decision's spec; nil: there is none. Where no hash is that of the spec, it is that of a
// shadow which means the same: the Kubernetes API fills in what a user leaves out, and agents name the workload.
func (s *Set) own(c *Call) *storedv1.ShadowHistory {
	of := func(hash uint64) *storedv1.ShadowHistory {
		i := slices.IndexFunc(s.kept.GetHistories(), func(h *storedv1.ShadowHistory) bool { return h.GetHash() == hash })
		if i < 0 {
			return nil
		}
		return s.kept.GetHistories()[i]
	}
	if h := of(s.hash); h != nil {
		return h
	}
	for _, spec := range s.kept.GetSpecs() {
		if spec.GetHash() == s.known.Spec.Hash {
			continue // the known record has its history
		}
		in, plan, problem := read(c, spec)
		if problem != "" {
			continue
		}
		in.Options.Named = c.Input.Options.Named // whoever set them
		if in.Options == c.Input.Options && reflect.DeepEqual(in.Spec, c.Input.Spec) && reflect.DeepEqual(plan, c.Around.Plan) {
			return of(spec.GetHash())
		}
	}
	return nil
}

// recordOf decodes a history, whose instants are none that the known record has not seen.
func (s *Set) recordOf(h *storedv1.ShadowHistory) (record.Record, bool) {
	r, err := record.Decode(h.GetRecord())
	if err != nil {
		return record.Record{}, false
	}
	return r.WithoutFuture(s.known.Updated), true
}

// Call is a decision beside which the shadows decide.
type Call struct {
	// Input and Around are what decided, and Decision what it led to; Adjusted counts are those after stages.
	Input    *recommender.Input
	Around   stages.Around
	Decision *recommender.Decision
	// Now is when it is made. RestartAfterPause reports whether windows that a pause has emptied begin anew.
	Now               time.Time
	RestartAfterPause bool
	// Options are the server's for the caller, nil: the controller's; and Least and Most its caps of bounds; nil: there are none.
	Options     *recommender.Options
	Least, Most *int32
	// Budget is what the shadows may cost; nil: it is unlimited.
	Budget Budget
}

// Budget limits the pods or samples that are evaluated, of one metric each: Cells spends some, if there are as many left.
type Budget interface{ Cells(n int) bool }

// past is what is known of the target's past for a shadow's forecast: what the forecast of the spec in use said, whose
// past alone is kept.
func (c *Call) past(of *stages.Forecast) *stages.Past {
	if live := c.Around.Plan; live != nil && live.Forecast != nil && c.Around.Past != nil {
		if past := live.Forecast.Beside(c.Around.Past.Said, of); past != nil {
			return past
		}
	}
	return &stages.Past{Basis: of.Basis, Problem: "only what the forecast of the spec in use says is known, which has none like this one"}
}

// affords spends what a decision costs, and reports whether it may: with stages the plain count is another one.
func (c *Call) affords(in *recommender.Input, alone bool) bool {
	cells := conversion.Cells(in)
	if !alone {
		cells *= 2
	}
	return c.Budget == nil || c.Budget.Cells(cells)
}

// Decide lets each shadow decide, and returns what the next record keeps.
func (s *Set) Decide(c *Call) []byte {
	next := &storedv1.Shadows{Specs: s.kept.GetSpecs()}
	for i, spec := range s.kept.GetSpecs() {
		h := s.decide(c, i, spec)
		next.Histories = append(next.Histories, h)
		if h.GetProblem() != "" {
			s.Off++
			continue
		}
		s.Shown = append(s.Shown, telemetry.Shadow{Name: h.GetName(), Desired: h.GetDesired()})
		switch {
		case h.GetDesired() != h.GetLive():
			s.Different++
		default:
			s.Same++
		}
	}
	for _, h := range s.former(c.Decision.At) {
		if !slices.ContainsFunc(next.GetHistories(), func(n *storedv1.ShadowHistory) bool { return n.GetHash() == h.GetHash() }) {
			next.Histories = append(next.Histories, h)
			break
		}
	}
	return encode(next)
}

// former returns histories of specs that had been in use: of the known record's, if another took its place, then one
// kept.
func (s *Set) former(now time.Time) (all []*storedv1.ShadowHistory) {
	if s.Moved {
		all = append(all, s.displaced())
	}
	for _, h := range s.kept.GetHistories() {
		if h.GetName() != "" || h.GetHash() == s.hash {
			continue
		}
		if r, ok := s.recordOf(h); ok && now.Sub(r.Updated) < formerFor {
			all = append(all, h)
		}
	}
	return all
}

// displaced is the history of the known record.
func (s *Set) displaced() *storedv1.ShadowHistory {
	return &storedv1.ShadowHistory{Hash: s.known.Spec.Hash, Record: historyOf(&s.known.History, s.known.Stages)}
}

func historyOf(h *recommender.History, staged []byte) []byte {
	return record.Append(nil, &record.Record{History: *h, Frame: codec.Frame{Stages: staged}})
}

// find returns what a shadow goes on with: its own history; else that of its spec, which was in use; else, after an
// edit, its own with comparisons from the beginning; else that of the decisions.
func (s *Set) find(spec *storedv1.ShadowSpec) (of record.Record, before *storedv1.ShadowHistory) {
	all := s.kept.GetHistories()
	for _, is := range []func(*storedv1.ShadowHistory) bool{
		func(h *storedv1.ShadowHistory) bool {
			return h.GetName() == spec.GetName() && h.GetHash() == spec.GetHash()
		},
		func(h *storedv1.ShadowHistory) bool { return h.GetHash() == spec.GetHash() },
		func(h *storedv1.ShadowHistory) bool { return h.GetName() == spec.GetName() },
	} {
		i := slices.IndexFunc(all, is)
		if i < 0 {
			if s.known.Spec.Hash == spec.GetHash() {
				return *s.known, &storedv1.ShadowHistory{}
			}
			continue
		}
		if of, ok := s.recordOf(all[i]); ok {
			if before = all[i]; before.GetName() != spec.GetName() || before.GetHash() != spec.GetHash() {
				before = &storedv1.ShadowHistory{}
			}
			return of, before
		}
	}
	return *s.known, &storedv1.ShadowHistory{}
}

// decide lets one shadow decide.
func (s *Set) decide(c *Call, index int, spec *storedv1.ShadowSpec) *storedv1.ShadowHistory {
	of, before := s.find(spec)
	next := &storedv1.ShadowHistory{Name: spec.GetName(), Hash: spec.GetHash(), Record: before.GetRecord(), Spans: before.GetSpans()}
	in, plan, problem := read(c, spec)
	around := stages.Around{
		Plan: plan, Proposals: c.Around.Proposals, Overrides: c.Around.Overrides, OverridesAt: c.Around.OverridesAt, Turns: c.Around.Turns, Deleted: c.Around.Deleted,
	}
	if plan != nil && plan.Forecast != nil {
		around.Past = c.past(plan.Forecast)
	}
	if problem == "" {
		s.restart(&of.History, c, in)
	}
	alone := problem == "" && around.Alone(in, &of.History, of.Stages, false)
	if problem == "" && !c.affords(in, alone) {
		problem = "the call has too many pods and metrics for one more decision: ask for less at once"
	}
	if problem != "" {
		if next.Record == nil {
			next.Record = historyOf(&of.History, of.Stages)
		}
		next.Problem = clip(problem)
		return next
	}
	in.ID[0] ^= byte(1 + index) // reports of changes are not about its own
	var d recommender.Decision
	var history recommender.History
	var staged []byte
	if alone {
		d, history = recommender.RecommendIn(nil, c.Decision.At, in, &of.History)
	} else {
		d, history, staged = around.RecommendIn(nil, c.Decision.At, in, &of.History, of.Stages)
	}
	if next.Record = historyOf(&history, staged); len(next.Record) > maxHistory {
		next.Record, next.Problem = nil, fmt.Sprintf("its history would take more than %d bytes", maxHistory)
		return next
	}
	if why := uncomputed(&d); why != "" && uncomputed(c.Decision) == "" {
		next.Problem = clip("it can't compute a count: " + why)
		return next
	}
	next.Desired, next.Live = d.Desired, c.Decision.Desired
	spans := spansOf(before.GetSpans())
	spans.add(c.Decision.At.UnixMilli(), s.known.Last.At/int64(time.Millisecond), before.GetLive(), before.GetDesired(), before.GetProblem() == "" && before.GetRecord() != nil)
	spans.compare(next.GetLive(), next.GetDesired())
	if next.Spans = spans.encode(); next.GetLive() != next.GetDesired() {
		if next.DiffersSince = before.GetDiffersSince(); next.DiffersSince == 0 {
			next.DiffersSince = c.Decision.At.UnixMilli()
		}
	}
	return next
}

// uncomputed is why a decision keeps the count for want of a proposal; empty: it does not.
func uncomputed(d *recommender.Decision) string {
	if d.Changes() {
		return ""
	}
	if d.Error != "" && len(d.Status.Conditions) == 0 {
		return d.Error // the profile design-2015 has no conditions
	}
	for _, c := range d.Status.Conditions {
		if c.Type == recommender.ScalingActive && c.Status != recommender.ConditionTrue && c.Reason != recommender.ScalingDisabled {
			return c.Message
		}
	}
	return ""
}

// read returns the input and the plan of a shadow, or why it can't decide.
func read(c *Call, spec *storedv1.ShadowSpec) (*recommender.Input, *stages.Plan, string) {
	m := &setpointv1.Shadow{}
	if err := proto.Unmarshal(spec.GetShadow(), m); err != nil {
		return nil, nil, "its spec can't be read: store it again"
	}
	in := *c.Input
	in.Explain, in.Notes, in.Summed, in.Seam = false, nil, nil, nil
	options := recommender.DefaultOptions()
	if c.Options != nil {
		options = *c.Options
	}
	own, options, wrong := conversion.Spec(m.GetSpec(), m.GetOptions(), options)
	if len(wrong) > 0 {
		return nil, nil, "its spec is invalid: " + wrong[0].Field + ": " + wrong[0].Description
	}
	if c.Most != nil {
		own.MaxReplicas = min(own.MaxReplicas, *c.Most)
		own.MinReplicas = min(own.MinReplicas, own.MaxReplicas)
	}
	if c.Least != nil {
		own.MinReplicas = max(own.MinReplicas, min(*c.Least, own.MaxReplicas))
	}
	own.ScaleTargetRef = in.Spec.ScaleTargetRef // which its texts name; it is the same workload
	live := in.Spec.Metrics
	in.Spec, in.Options = own, options
	var missing string
	if in.Readings, missing = readings(own.Metrics, live, in.Readings); missing != "" {
		return nil, nil, "its metric " + missing + " is none of the spec in use, so it is not read"
	}
	plan, wrong := conversion.Stages(m.GetSpec(), m.GetStages(), &in)
	if len(wrong) > 0 {
		return nil, nil, "its stages are invalid: " + wrong[0].Field + ": " + wrong[0].Description
	}
	if plan != nil && plan.Freshness != nil && (c.Around.Plan == nil || c.Around.Plan.Freshness == nil) {
		return nil, nil, "it has the stage freshness, and the spec in use has not, so the age of values is not read"
	}
	return &in, plan, ""
}

// readings returns those of a shadow's metrics out of those of the spec in use; each serves one of them, so that a
// shadow costs no more than that. missing is a metric that there is none for.
func readings(own, live []recommender.MetricSpec, all []recommender.Readings) (out []recommender.Readings, missing string) {
	out = make([]recommender.Readings, len(own))
	taken := make([]bool, len(live))
	for i := range own {
		at := slices.IndexFunc(live, func(m recommender.MetricSpec) bool { return isSame(&m, &own[i]) })
		for at >= 0 && taken[at] {
			more := slices.IndexFunc(live[at+1:], func(m recommender.MetricSpec) bool { return isSame(&m, &own[i]) })
			if at += 1 + more; more < 0 {
				at = -1
			}
		}
		if at < 0 {
			return nil, strconv.Quote(stages.MetricName(&own[i]))
		}
		if taken[at] = true; at < len(all) {
			out[i] = all[at]
		}
	}
	return out, ""
}

// isSame reports whether two metrics have the same readings.
func isSame(a, b *recommender.MetricSpec) bool {
	return a.Type == b.Type && a.Resource == b.Resource && a.Container == b.Container && a.Metric.Name == b.Metric.Name &&
		a.DescribedObject == b.DescribedObject && conversion.SameSelector(a.Metric.Selector, b.Metric.Selector)
}

func clip(s string) string {
	if len(s) > maxProblem {
		s = s[:maxProblem-len("…")] + "…"
	}
	return strings.ToValidUTF8(s, "")
}

// Merge returns what a merged record keeps: the specs of the store's side, which those who store specs write, and the
// histories of the side that decided last.
func Merge(stored, local []byte, localLater bool) []byte {
	if !localLater || len(stored) == 0 {
		return stored
	}
	next, _ := WithSpecs(local, stored)
	return next
}
