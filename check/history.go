package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/lint"
	"github.com/setpoint-dev/setpoint/replay"
	"github.com/setpoint-dev/setpoint/simulation"
)

// Bounds of recordings: scenarios that are read, and steps that are decided, for all changes together.
const (
	MaxScenarios = 20_000
	MaxSteps     = 1_000_000
	// maxProblems bounds what is said of recordings that can't be used.
	maxProblems = 5
)

// History is what recordings say of a change. Old and New are figures of the closed loop: the load is what
// was measured, and the count changes what each pod has of it. The open loop takes each recorded evaluation on
// its own: the load is as it was.
type History struct {
	Recordings int       `json:"recordings"`
	Steps      int       `json:"steps"`
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	// CoveredSeconds is the recorded time that was used. UnknownSeconds of it have no measured load under the
	// new spec's count, ModelledSeconds have pods that are modelled.
	CoveredSeconds  float64 `json:"coveredSeconds"`
	ModelledSeconds float64 `json:"modelledSeconds"`
	UnknownSeconds  float64 `json:"unknownSeconds"`
	// DifferentSteps are the evaluations at which old and new spec decide another count, in the open loop.
	DifferentSteps int     `json:"differentSteps"`
	Old            Figures `json:"old"`
	New            Figures `json:"new"`
	// AsOld reports whether the old spec decides as the recording's own, so that Old is what really was.
	AsOld bool  `json:"asOld"`
	Model Model `json:"model"`
	// Used are the counts at the percentiles 50, 90, 99 and 100 of the recorded time.
	Used [4]int32 `json:"used"`
	// LimitKnown reports whether there are CPU limits and CPU usage, of nine tenths of the time at least, AsRecorded names the metrics that the count does not
	// change. PodsMeasured is how many pods were seen to start, ReadySeconds how long they took.
	LimitKnown   bool     `json:"limitKnown"`
	AsRecorded   []string `json:"asRecorded,omitempty"`
	PodsMeasured int      `json:"podsMeasured"`
	ReadySeconds float64  `json:"readySeconds"`
	// Uncompared are recordings without outcomes, so that nothing shows whether they are reproduced.
	Uncompared int `json:"uncompared"`
	// Unmade are recordings whose own spec did not make the counts, as that of a shadow: no model is asked for them.
	Unmade int `json:"unmade,omitempty"`
	// Other is the object whose recording was used, if that has another name; empty: it has this one's.
	Other string `json:"other,omitempty"`
	// Unusable says why recordings were not used, the first few of UnusableCount.
	Unusable      []string `json:"unusable,omitempty"`
	UnusableCount int      `json:"unusableCount,omitempty"`
	// Plot has the counts over the covered time.
	Plot Plot `json:"plot"`

	// AlreadySteps are evaluations at times that another recording, or scenario, has already: they count once.
	AlreadySteps int `json:"alreadySteps,omitempty"`

	points []point
	// limitedSeconds are those of recordings that have CPU limits and CPU usage.
	limitedSeconds float64

	max   [2]int32
	bound [2]bool
	// backtests are those of scenarios until finish adds them: the order of files says nothing.
	backtests []backtests
	// spans are the times that are covered, in order and apart.
	spans []span
	// cluster of the recordings, empty: none says it. mixed tells of recordings of several objects, added whether
	// the range adds one of them.
	cluster string
	mixed   error
	added   bool
}

type span struct{ from, to time.Time }

// backtests are those of a scenario: of the old spec, the new one, and its own with all pods modelled. added: the range
// adds the recording, so that it comes after what was there before.
type backtests struct {
	added          bool
	old, next, own *replay.Backtest
}

func (b *backtests) compare(o *backtests) int {
	added := func(b *backtests) int {
		if b.added {
			return 1
		}
		return 0
	}
	first, last := b.next.Instants, o.next.Instants
	return cmp.Or(added(b)-added(o), first[0].Time.Compare(last[0].Time), last[len(last)-1].Time.Compare(first[len(first)-1].Time),
		cmp.Compare(b.next.Scenario, o.next.Scenario))
}

// Figures are those of one spec.
type Figures struct {
	ReplicaHours float64 `json:"replicaHours"`
	// OpenReplicaHours are those of the open loop.
	OpenReplicaHours float64 `json:"openReplicaHours"`
	Least            int32   `json:"least"`
	Most             int32   `json:"most"`
	Changes          int     `json:"changes"`
	Reversals        int     `json:"reversals"`
	// MostInAnHour is the most changes within 60 minutes.
	MostInAnHour int `json:"mostInAnHour"`
	// AtMaximumSeconds and OpenAtMaximumSeconds are the time at maxReplicas, ShortSeconds that short of CPU.
	AtMaximumSeconds     float64 `json:"atMaximumSeconds"`
	OpenAtMaximumSeconds float64 `json:"openAtMaximumSeconds"`
	ShortSeconds         float64 `json:"shortSeconds"`

	changes []time.Time
	last    time.Time
	up      bool
}

// Model is how near the closed loop comes to what really happened, with the recording's own spec and all pods
// modelled.
type Model struct {
	Seconds float64 `json:"seconds"`
	// Recorded and Modelled are replica hours.
	Recorded float64 `json:"recordedReplicaHours"`
	Modelled float64 `json:"modelledReplicaHours"`
	// SameSeconds have the recorded count, NearSeconds one that is one off at most. ShortSeconds and
	// RecordedShortSeconds are the time short of CPU.
	SameSeconds          float64 `json:"sameSeconds"`
	NearSeconds          float64 `json:"nearSeconds"`
	ShortSeconds         float64 `json:"shortSeconds"`
	RecordedShortSeconds float64 `json:"recordedShortSeconds"`
}

// MissPercent is by how much the model's replica hours are off.
func (m *Model) MissPercent() float64 {
	if m.Recorded == 0 {
		return 0
	}
	return 100 * math.Abs(m.Modelled-m.Recorded) / m.Recorded
}

// point is an instant of a change's history.
type point struct {
	at                  time.Time
	length              time.Duration
	recorded, old, next int32
}

// histories measures changes by recordings.
type histories struct {
	changes []*change
	// touched reports whether a range adds or alters a file; nil: there is no range.
	touched  func(name string) bool
	measured map[*change]*History
	// going is where the specs are after the last recording: the old one, the new one, and the recording's own.
	going            map[*change]*[3]replay.Continuation
	assumed          replay.Assumed
	scenarios, steps int
	// added: the recording that is read is one that the range adds.
	added bool
	// others are the objects of recordings that no change has.
	others map[string]bool
	// unread are the first problems with recordings that can't be read, lost that of one which the range removes
	// or alters.
	unread []string
	lost   string
}

// file reads a recording. One that the user named must be readable.
func (h *histories) file(ctx context.Context, r Recording, tell func(error)) error {
	bad := func(err error) {
		err = errors.New(text(err.Error())) // it may have names of the recording
		if tell(err); len(h.unread) < maxProblems {
			h.unread = append(h.unread, err.Error())
		}
		if r.Base && h.lost == "" {
			h.lost = err.Error()
		}
	}
	h.added = h.touched != nil && !r.Base && h.touched(r.Name)
	told := 0
	problem := func(err error) {
		if told++; told <= maxProblems {
			bad(err)
		}
	}
	before := h.scenarios
	file, err := r.Open()
	if err == nil {
		err = errors.Join(h.read(ctx, r.Name, file, problem), file.Close())
	} else if !r.Named {
		bad(err)
		return nil
	}
	switch {
	case err != nil || !r.Named:
	case told > 0:
		err = fmt.Errorf("%s can't be read", text(r.Name))
	case h.scenarios == before:
		err = fmt.Errorf("%s is empty: what should have written this recording may have failed", text(r.Name))
	}
	return err
}

// none says why a change has no history, and whether that may be by the change itself.
func (h *histories) none() (why string, lost bool) {
	switch {
	case h.lost != "":
		return "a recording that this change removes or alters can't be read as it was before: " + h.lost, true
	case len(h.unread) > 0:
		return errNone.Error() + " that can be read: " + h.unread[0], false
	}
	return errNone.Error(), false
}

// read takes a recording in. tell is given what is wrong with single lines.
func (h *histories) read(ctx context.Context, name string, r io.Reader, tell func(error)) error {
	for scenario, err := range recording.NewReader(name, r).All() {
		if ended := ctx.Err(); ended != nil {
			return ended
		}
		if err != nil {
			tell(err)
			continue
		}
		if h.scenarios++; h.scenarios > MaxScenarios {
			return fmt.Errorf("%s: there are more than %d scenarios; give fewer recordings", name, MaxScenarios)
		}
		if err := h.take(ctx, name, scenario); err != nil {
			return err
		}
	}
	return nil
}

// recordedObject is the namespace/name of what a scenario is about, and its cluster; empty: not known.
func recordedObject(s *recording.Scenario) (object, cluster string) {
	if len(s.Steps) > 0 && s.Steps[0].Request != nil {
		if name, ok := target.Parse(s.Steps[0].Request.GetTarget()); ok {
			object, cluster = name.Namespace+"/"+name.Target, name.Cluster
		}
	}
	if s.HPA != nil {
		object = s.HPA.Namespace + "/" + s.HPA.Name
	}
	return object, cluster
}

// take measures the changes that a scenario is about.
func (h *histories) take(ctx context.Context, file string, scenario *recording.Scenario) error {
	object, cluster := recordedObject(scenario)
	object = strings.TrimSuffix(object, target.ShadowSuffix) // what an agent's shadow was asked is what its object was
	if c := h.nameless(); c != nil {
		return h.measure(ctx, file, scenario, c, object, cluster)
	}
	same := func(s *lint.Spec) bool {
		if s == nil || objectOf(s) != object {
			return false
		}
		name, named := target.Parse(s.Stored.GetName())
		return !named || cluster == "" || name.Cluster == cluster
	}
	matched := false
	for _, c := range h.changes {
		if !same(c.new) && !same(c.old) {
			continue
		}
		matched = true
		if c.new == nil {
			continue
		}
		if err := h.measure(ctx, file, scenario, c, "", cluster); err != nil {
			return err
		}
	}
	if !matched {
		h.others[object] = true
	}
	return nil
}

// nameless is the only change, if it is of a stored spec without a name: the recordings say what it is; else nil.
func (h *histories) nameless() *change {
	if len(h.changes) != 1 {
		return nil
	}
	c := h.changes[0]
	if c.new == nil || c.new.Kind != "" || c.new.Named() || c.old != nil && (c.old.Kind != "" || c.old.Named()) {
		return nil
	}
	return c
}

// measure adds a scenario to a change's history.
func (h *histories) measure(ctx context.Context, file string, scenario *recording.Scenario, c *change, other, cluster string) error {
	if c.what == Same || c.refused != nil {
		return nil
	}
	got := h.measured[c]
	if got == nil {
		got = &History{Other: other}
		h.measured[c] = got
	}
	got.added = got.added || h.added
	switch {
	case got.Other != other:
		got.mixed = errors.New("the recordings are of several autoscalers, and this stored spec has no name: give it one (name), or give the recordings of one")
		return nil
	case got.cluster == "":
		got.cluster = cluster
	case cluster != "" && cluster != got.cluster:
		got.mixed = fmt.Errorf("the recordings are of several clusters, %s and %s: give those of one, or give a stored spec's name, which has its cluster", got.cluster, cluster)
		return nil
	}
	if h.steps += len(scenario.Steps); h.steps > MaxSteps {
		return fmt.Errorf("%s: the recordings of changed specs have more than %d steps; give a shorter time", file, MaxSteps)
	}
	next := questionOf(c.new, c.options)
	if h.going == nil {
		h.going = make(map[*change]*[3]replay.Continuation)
	}
	going := h.going[c]
	if going == nil {
		going = &[3]replay.Continuation{}
		h.going[c] = going
	}
	asked := []*replay.Question{{}, next, {Modelled: true}}
	if c.old != nil && c.oldRefused == nil {
		asked[0] = questionOf(c.old, c.oldOptions)
	}
	var b [3]*replay.Backtest
	var failed [3]error
	var running sync.WaitGroup
	for i, q := range asked {
		q.Assumed, q.After = h.assumed, &going[i]
		running.Go(func() { b[i], failed[i] = replay.RunBacktest(ctx, scenario, q) })
	}
	running.Wait()
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	for i, err := range failed {
		if err == nil && b[i].Mismatched > 0 {
			err = fmt.Errorf("%s: its own spec decides otherwise at %d of %d steps, so that nothing can be said of another", scenario.Name, b[i].Mismatched, b[i].Compared)
		}
		if err != nil {
			got.unusable(fmt.Errorf("%s: %w", file, err))
			return nil
		}
	}
	if len(b[0].Instants) != len(b[1].Instants) || len(b[0].Instants) == 0 {
		got.unusable(fmt.Errorf("%s: %s: no time is covered", file, scenario.Name))
		return nil
	}
	for i, q := range asked[:2] {
		if spec := q.Spec; spec != nil {
			got.max[i], got.bound[i] = spec.MaxReplicas, spec.MinReplicas == nil || *spec.MinReplicas < spec.MaxReplicas
		}
	}
	got.backtests = append(got.backtests, backtests{h.added, b[0], b[1], b[2]})
	return nil
}

// questionOf is a spec with its options as a back-test takes it.
func questionOf(s *lint.Spec, options *setpointv1.RecommendOptions) *replay.Question {
	object := s.Object.DeepCopy()
	kubernetes.Defaults(object)
	return &replay.Question{Spec: &object.Spec, Stages: s.Stages(), Options: options}
}

func (h *History) unusable(err error) {
	if h.UnusableCount++; len(h.Unusable) < maxProblems {
		h.Unusable = append(h.Unusable, err.Error())
	}
}

// add takes the back-tests of a scenario: of the old spec, the new one, and its own with all pods modelled.
func (h *History) add(old, next, own *replay.Backtest) {
	first := h.Recordings == 0
	h.Recordings++
	if next.Compared == 0 {
		h.Uncompared++
	}
	as := old.Different == 0 && old.ClosedLoop.ModelledSeconds+old.ClosedLoop.UnknownSeconds == 0
	h.AsOld = as && (first || h.AsOld)
	h.PodsMeasured += next.ClosedLoop.PodsMeasured - next.ClosedLoop.PodsBefore
	h.ReadySeconds = max(h.ReadySeconds, next.ClosedLoop.ReadySeconds)
	for _, name := range next.ClosedLoop.AsRecorded {
		if !slices.Contains(h.AsRecorded, name) {
			h.AsRecorded = append(h.AsRecorded, name)
		}
	}
	if !next.Continued {
		h.Old.last, h.New.last = time.Time{}, time.Time{}
	}
	trimmed := make([]part, len(next.Instants))
	for i := range next.Instants {
		is := next.Instants[i]
		trimmed[i] = h.uncovered(is.Time, is.Length)
		if trimmed[i].decided {
			h.Steps++
			if old.Instants[i].Open != is.Open {
				h.DifferentSteps++
			}
		} else if h.AlreadySteps++; trimmed[i].length == 0 {
			continue
		}
		was := trimmed[i].of(old.Instants[i])
		is = trimmed[i].of(is)
		seconds := is.Length.Seconds()
		h.CoveredSeconds += seconds
		if next.ClosedLoop.LimitKnown {
			h.limitedSeconds += seconds
		}
		if is.Modelled {
			h.ModelledSeconds += seconds
		}
		if is.Unknown {
			h.UnknownSeconds += seconds
		}
		h.Old.instant(&was, h.max[0], len(h.points) == 0)
		h.New.instant(&is, h.max[1], len(h.points) == 0)
		h.points = append(h.points, point{is.Time, is.Length, is.Recorded, was.Closed, is.Closed})
	}
	if 10*own.ClosedLoop.Unmade > len(own.Instants) {
		h.Unmade++ // its own spec, as that of a shadow, did not make the counts, so that no model has them of it
		own = &replay.Backtest{}
	}
	for i, at := range own.Instants {
		if i < len(trimmed) {
			at = trimmed[i].of(at)
		}
		if !at.Unknown {
			h.Model.add(&at)
		}
	}
	h.cover(next.Instants)
}

// part is what a step stands for that no other scenario has; decided: its evaluation counts.
type part struct {
	from    time.Time
	length  time.Duration
	decided bool
}

// of is the instant for that part. A change before it is another scenario's.
func (p part) of(at replay.Instant) replay.Instant {
	if at.Time, at.Length = p.from, p.length; !p.decided {
		at.From = at.Closed
	}
	return at
}

// uncovered is what earlier scenarios do not have of the time of a step. Their last step stands for none.
func (h *History) uncovered(at time.Time, length time.Duration) part {
	i, exact := slices.BinarySearchFunc(h.spans, at, func(s span, at time.Time) int { return s.from.Compare(at) })
	p, end := part{at, length, true}, at.Add(length)
	if exact {
		i++
	}
	if i > 0 && !at.After(h.spans[i-1].to) {
		p.from, p.decided = h.spans[i-1].to, false
	}
	if i < len(h.spans) && end.After(h.spans[i].from) {
		end = h.spans[i].from
	}
	p.length = max(0, end.Sub(p.from))
	return p
}

// cover adds the times of a scenario.
func (h *History) cover(instants []replay.Instant) {
	for i := range instants {
		next := span{instants[i].Time, instants[i].Time.Add(instants[i].Length)}
		if n := len(h.spans); n > 0 && i > 0 && h.spans[n-1].to.Equal(next.from) {
			h.spans[n-1].to = next.to
		} else {
			h.spans = append(h.spans, next)
		}
	}
	slices.SortFunc(h.spans, func(a, b span) int { return a.from.Compare(b.from) })
	kept := h.spans[:1]
	for _, s := range h.spans[1:] {
		if last := &kept[len(kept)-1]; s.from.After(last.to) {
			kept = append(kept, s)
		} else if s.to.After(last.to) {
			last.to = s.to
		}
	}
	h.spans = kept
}

func (f *Figures) instant(at *replay.Instant, most int32, first bool) {
	seconds := at.Length.Seconds()
	f.ReplicaHours += float64(float64(at.Closed) * at.Length.Hours())
	if first {
		f.Least = at.Closed
	}
	f.Least, f.Most = min(f.Least, at.Closed), max(f.Most, at.Closed)
	if at.Short {
		f.ShortSeconds += seconds
	}
	f.OpenReplicaHours += float64(at.Open) * at.Length.Hours()
	if most > 0 && at.Closed >= most {
		f.AtMaximumSeconds += seconds
	}
	if most > 0 && at.Open >= most {
		f.OpenAtMaximumSeconds += seconds
	}
	if at.Closed == at.From {
		return
	}
	f.Changes++
	f.changes = append(f.changes, at.Time)
	up := at.Closed > at.From
	if !f.last.IsZero() && f.up != up && at.Time.Sub(f.last) <= simulation.ReversalTime {
		f.Reversals++
	}
	f.last, f.up = at.Time, up
}

func (m *Model) add(at *replay.Instant) {
	seconds := at.Length.Seconds()
	m.Seconds += seconds
	m.Recorded += float64(at.Recorded) * at.Length.Hours()
	m.Modelled += float64(at.Closed) * at.Length.Hours()
	if off := at.Recorded - at.Closed; off == 0 {
		m.SameSeconds += seconds
		m.NearSeconds += seconds
	} else if off == 1 || off == -1 {
		m.NearSeconds += seconds
	}
	if at.Short {
		m.ShortSeconds += seconds
	}
	if at.RecordedShort {
		m.RecordedShortSeconds += seconds
	}
}

// finish computes what needs all recordings.
func (h *History) finish() {
	slices.SortStableFunc(h.backtests, func(a, b backtests) int { return a.compare(&b) })
	for _, b := range h.backtests {
		h.add(b.old, b.next, b.own)
	}
	h.backtests = nil
	h.LimitKnown = h.limitedSeconds > 0 && h.CoveredSeconds-h.limitedSeconds <= unknownPart*h.CoveredSeconds
	slices.SortStableFunc(h.points, func(a, b point) int { return a.at.Compare(b.at) })
	if len(h.points) == 0 {
		return
	}
	last := h.points[len(h.points)-1]
	h.From, h.To = h.points[0].at.UTC(), last.at.Add(last.length).UTC()
	for i, p := range []float64{50, 90, 99, 100} {
		h.Used[i] = h.used(p)
	}
	h.Old.MostInAnHour, h.New.MostInAnHour = mostInAnHour(h.Old.changes), mostInAnHour(h.New.changes)
	h.Plot = plotOf(h.points)
}

// used is the recorded count that was enough for a percentile of the covered time.
func (h *History) used(percentile float64) int32 {
	spent := make(map[int32]time.Duration)
	total := time.Duration(0)
	for _, p := range h.points {
		spent[p.recorded] += p.length
		total += p.length
	}
	counts := make([]int32, 0, len(spent))
	for count := range spent {
		counts = append(counts, count)
	}
	slices.Sort(counts)
	sum := time.Duration(0)
	for _, count := range counts {
		if sum += spent[count]; float64(sum) >= percentile/100*float64(total) {
			return count
		}
	}
	return 0
}

// mostInAnHour is the most instants within 60 minutes.
func mostInAnHour(at []time.Time) (most int) {
	slices.SortFunc(at, time.Time.Compare)
	from := 0
	for i := range at {
		for at[i].Sub(at[from]) >= time.Hour {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// open reports whether figures are those of the open loop, because too much of the load is not known.
func (h *History) open() bool { return h.UnknownSeconds > unknownPart*h.CoveredSeconds }

// unknownPart is how much of the time may be unknown.
const unknownPart = 0.1

// errNone is why a change is not checked by history.
var errNone = errors.New("there is no recording of it")

// usable is nil, or why a change is not checked by history.
func (h *History) usable() error {
	switch {
	case h == nil:
		return errNone
	case h.mixed != nil:
		return h.mixed
	case h.Recordings == 0 && h.UnusableCount > 0:
		return errors.New(h.Unusable[0])
	case h.Recordings == 0 || h.CoveredSeconds == 0:
		return errors.New("its recordings cover no time")
	}
	return nil
}
