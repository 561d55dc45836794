package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/lint"
	"github.com/setpoint-dev/setpoint/replay"
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
	// LimitKnown reports whether there are CPU limits, AsRecorded names the metrics that the count does not
	// change. PodsMeasured is how many pods were seen to start, ReadySeconds how long they took.
	LimitKnown   bool     `json:"limitKnown"`
	AsRecorded   []string `json:"asRecorded,omitempty"`
	PodsMeasured int      `json:"podsMeasured"`
	ReadySeconds float64  `json:"readySeconds"`
	// Uncompared are recordings without outcomes, so that nothing shows whether they are reproduced.
	Uncompared int `json:"uncompared"`
	// Other is the object whose recording was used, if that has another name; empty: it has this one's.
	Other string `json:"other,omitempty"`
	// Unusable says why recordings were not used, the first few of UnusableCount.
	Unusable      []string `json:"unusable,omitempty"`
	UnusableCount int      `json:"unusableCount,omitempty"`
	// Plot has the counts over the covered time.
	Plot Plot `json:"plot"`

	points []point
	max    [2]int32
	bound  [2]bool
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
	changes  []*change
	measured map[*change]*History
	assumed  replay.Assumed
	// alone: there is one change, of files that the user named, so that a recording may have another name.
	alone            bool
	scenarios, steps int
	// others are the objects of recordings that no change has.
	others map[string]bool
}

// read takes a recording in. tell is given what is wrong with single lines.
func (h *histories) read(ctx context.Context, name string, r io.Reader, tell func(error)) error {
	told := 0
	for scenario, err := range recording.NewReader(name, r).All() {
		if ended := ctx.Err(); ended != nil {
			return ended
		}
		if err != nil {
			if told++; told <= maxProblems {
				tell(err)
			}
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

// recordedObject is the namespace/name of what a scenario is about.
func recordedObject(s *recording.Scenario) string {
	if s.HPA != nil {
		return s.HPA.Namespace + "/" + s.HPA.Name
	}
	if len(s.Steps) > 0 && s.Steps[0].Request != nil {
		if name, ok := target.Parse(s.Steps[0].Request.GetTarget()); ok {
			return name.Namespace + "/" + name.Target
		}
	}
	return ""
}

// take measures the changes that a scenario is about.
func (h *histories) take(ctx context.Context, file string, scenario *recording.Scenario) error {
	object, matched := recordedObject(scenario), false
	for _, c := range h.changes {
		if c.new == nil {
			continue
		}
		same := objectOf(c.new) == object || c.old != nil && objectOf(c.old) == object
		if !same {
			continue
		}
		matched = true
		if err := h.measure(ctx, file, scenario, c, ""); err != nil {
			return err
		}
	}
	if matched {
		return nil
	}
	if h.alone && len(h.changes) == 1 && h.changes[0].new != nil {
		got := h.measured[h.changes[0]]
		if got == nil || got.Other == object {
			return h.measure(ctx, file, scenario, h.changes[0], object)
		}
	}
	if len(h.others) < maxProblems {
		h.others[object] = true
	}
	return nil
}

// measure adds a scenario to a change's history.
func (h *histories) measure(ctx context.Context, file string, scenario *recording.Scenario, c *change, other string) error {
	if c.what == Same || c.refused != nil {
		return nil
	}
	got := h.measured[c]
	if got == nil {
		got = &History{Other: other}
		h.measured[c] = got
	}
	if h.steps += len(scenario.Steps); h.steps > MaxSteps {
		return fmt.Errorf("%s: the recordings of changed specs have more than %d steps; give a shorter time", file, MaxSteps)
	}
	next, stages := specOf(c.new)
	asked := []*replay.Question{{Assumed: h.assumed}, {Spec: next, Stages: stages, Assumed: h.assumed}, {Assumed: h.assumed, Modelled: true}}
	if c.old != nil && c.oldRefused == nil {
		asked[0].Spec, asked[0].Stages = specOf(c.old)
	}
	var b [3]*replay.Backtest
	var failed [3]error
	var running sync.WaitGroup
	for i, q := range asked {
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
	got.max[1] = next.MaxReplicas
	got.bound[1] = next.MinReplicas == nil || *next.MinReplicas < next.MaxReplicas
	if spec := asked[0].Spec; spec != nil {
		got.max[0], got.bound[0] = spec.MaxReplicas, spec.MinReplicas == nil || *spec.MinReplicas < spec.MaxReplicas
	}
	got.add(b[0], b[1], b[2])
	return nil
}

// specOf is a spec as a back-test takes it.
func specOf(s *lint.Spec) (*autoscalingv2.HorizontalPodAutoscalerSpec, *setpointv1.Stages) {
	object := s.Object.DeepCopy()
	kubernetes.Defaults(object)
	return &object.Spec, s.Stages()
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
	h.Steps += next.Steps
	h.CoveredSeconds += next.CoveredSeconds
	h.ModelledSeconds += next.ClosedLoop.ModelledSeconds
	h.UnknownSeconds += next.ClosedLoop.UnknownSeconds
	if next.Compared == 0 {
		h.Uncompared++
	}
	as := old.Different == 0 && old.ClosedLoop.ModelledSeconds+old.ClosedLoop.UnknownSeconds == 0
	h.AsOld = as && (first || h.AsOld)
	h.LimitKnown = h.LimitKnown || next.ClosedLoop.LimitKnown
	h.PodsMeasured += next.ClosedLoop.PodsMeasured
	h.ReadySeconds = max(h.ReadySeconds, next.ClosedLoop.ReadySeconds)
	for _, name := range next.ClosedLoop.AsRecorded {
		if !slices.Contains(h.AsRecorded, name) {
			h.AsRecorded = append(h.AsRecorded, name)
		}
	}
	h.Old.add(&old.ClosedLoop.Other, first)
	h.New.add(&next.ClosedLoop.Other, first)
	for i := range next.Instants {
		was, is := &old.Instants[i], &next.Instants[i]
		h.points = append(h.points, point{is.Time, is.Length, is.Recorded, was.Closed, is.Closed})
		if was.Open != is.Open {
			h.DifferentSteps++
		}
		h.Old.instant(was, h.max[0], i > 0 && old.Instants[i-1].Closed != was.Closed)
		h.New.instant(is, h.max[1], i > 0 && next.Instants[i-1].Closed != is.Closed)
	}
	for i := range own.Instants {
		if at := &own.Instants[i]; !at.Unknown {
			h.Model.add(at)
		}
	}
}

func (f *Figures) add(s *replay.ClosedSide, first bool) {
	f.ReplicaHours += s.ReplicaHours
	f.Changes += s.Ups + s.Downs
	f.Reversals += s.Reversals
	if first {
		f.Least = s.Least
	}
	f.Least, f.Most = min(f.Least, s.Least), max(f.Most, s.Most)
	if s.ShortSeconds != nil {
		f.ShortSeconds += *s.ShortSeconds
	}
}

func (f *Figures) instant(at *replay.Instant, most int32, changed bool) {
	seconds := at.Length.Seconds()
	f.OpenReplicaHours += float64(at.Open) * at.Length.Hours()
	if most > 0 && at.Closed >= most {
		f.AtMaximumSeconds += seconds
	}
	if most > 0 && at.Open >= most {
		f.OpenAtMaximumSeconds += seconds
	}
	if changed {
		f.changes = append(f.changes, at.Time)
	}
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
func (h *History) open() bool { return h.UnknownSeconds > 0.1*h.CoveredSeconds }

// errNone is why a change is not checked by history.
var errNone = errors.New("there is no recording of it")

// usable is nil, or why a change is not checked by history.
func (h *History) usable() error {
	switch {
	case h == nil:
		return errNone
	case h.Recordings == 0 && h.UnusableCount > 0:
		return errors.New(h.Unusable[0])
	case h.Recordings == 0 || h.CoveredSeconds == 0:
		return errors.New("its recordings cover no time")
	}
	return nil
}
