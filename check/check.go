// Package check judges changes of specs before they are merged: it finds which autoscalers change, asks
// recordings what the old and the new spec would have decided, asks lint, and comes to a verdict by rules that a
// team writes down.
//
//	settings, err := check.ReadSettings(name, data)
//	changes, err := repository.Changes(ctx, range, settings, options)
//	report, err := check.Run(ctx, &check.Input{Settings: settings, Changes: changes, Recordings: recordings})
//	err = report.WriteMarkdown(os.Stdout)
//
// It decides nothing itself: package replay runs the specs, package lint has the findings. What can't be known it
// says: the open loop takes the load and the count as they were, the closed loop assumes that the load does not
// depend on the count, and how much that misses is measured with the recording's own spec.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/lint"
	"github.com/setpoint-dev/setpoint/replay"
)

// Status is what comes of a rule, a change or a check.
type Status string

// The statuses, the worst first. Unknown fails nothing: what decides then is the rule history.
const (
	Failed  Status = "failed"
	Warned  Status = "warning"
	Unknown Status = "not known"
	Passed  Status = "passed"
)

// statuses are all of them, the worst first.
var statuses = []Status{Failed, Warned, Unknown, Passed}

func worst(all ...Status) Status {
	return slices.MinFunc(all, func(a, b Status) int { return slices.Index(statuses, a) - slices.Index(statuses, b) })
}

// Input is what is checked.
type Input struct {
	Settings *Settings
	Changes  *Changes
	// Range is nil for files that the user named.
	Range      *Range
	Recordings []Recording
	// Notes are what else the report says.
	Notes []string
	// Tell is given what is wrong with single lines of recordings.
	Tell func(error)
}

// Recording is a file of recordings.
type Recording struct {
	Name string
	// Named: the user named this very file, which must be readable. Base: the range removes or alters it, and
	// this is what it was before.
	Named, Base bool
	Open        func() (io.ReadCloser, error)
}

// Report is what came of a check.
type Report struct {
	Verdict Status `json:"verdict"`
	Range   string `json:"range,omitempty"`
	// Read is how many changed files of a range were read.
	Read int `json:"read,omitempty"`
	// Specs are the autoscalers that change, in the order of files.
	Specs []*SpecReport `json:"specs"`
	// Files are results about files that can't be read.
	Files []Result `json:"files"`
	Notes []string `json:"notes"`
}

// SpecReport is about one autoscaler.
type SpecReport struct {
	Verdict Status `json:"verdict"`
	Object  string `json:"object"`
	Kind    string `json:"kind,omitempty"`
	File    string `json:"file"`
	OldFile string `json:"oldFile,omitempty"`
	// Cluster of a stored spec, empty: it says none, as no manifest does.
	Cluster string `json:"cluster,omitempty"`
	// OldObject is what it was called before, if that was another name.
	OldObject string `json:"oldObject,omitempty"`
	Line      int    `json:"line,omitempty"`
	What      string `json:"what"`
	// Results are of the rules, in their order.
	Results []Result `json:"results"`
	// Findings of lint are those of the new spec; Existing is how many of the old spec's are still there
	// and left out.
	Findings []lint.Finding `json:"findings"`
	Existing int            `json:"existing"`
	// History is nil if no recording is of this autoscaler.
	History *History `json:"history,omitempty"`

	failOn lint.Severity
}

// Result is what came of one rule.
type Result struct {
	Rule   string `json:"rule"`
	Status Status `json:"status"`
	// Title says what must hold.
	Title string `json:"title"`
	// Old and New are the figures, empty: not known, or there is none.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Why says more: why it is not known, or does not fail.
	Why  string `json:"why,omitempty"`
	File string `json:"file,omitempty"`
}

// Run checks the changes.
func Run(ctx context.Context, in *Input) (*Report, error) {
	c := in.Changes
	c.Old.ready()
	c.New.ready()
	c.Old.around(c.New)
	all := c.Old.pair(c.New, in.Range == nil)
	out := &Report{Specs: []*SpecReport{}, Files: []Result{}, Notes: append(append([]string{}, c.notes...), in.Notes...)}
	if in.Range != nil {
		out.Range, out.Read = in.Range.Text, c.checked
		all = c.hidden(all, out)
	} else {
		all = withoutRemoved(all, out)
	}
	if len(all) > MaxChanges {
		return nil, fmt.Errorf("%d autoscalers change, more than %d: check them in parts", len(all), MaxChanges)
	}
	measured := &histories{changes: all, measured: make(map[*change]*History), assumed: in.Settings.Assumed, others: make(map[string]bool)}
	if in.Range != nil {
		measured.touched = c.Touched
	}
	for _, r := range in.Recordings {
		if err := measured.file(ctx, r, in.Tell); err != nil {
			return nil, err
		}
	}
	findings, problems, err := c.New.findings(ctx, in.Settings, all, func(c *change) *lint.Spec { return c.new })
	if err != nil {
		return nil, err
	}
	if problems != nil {
		out.Notes = append(out.Notes, problems.Error())
	}
	before, _, err := c.Old.findings(ctx, in.Settings, all, func(c *change) *lint.Spec { return c.old })
	if err != nil {
		return nil, err
	}
	if len(measured.unread) > 0 {
		out.Notes = append(out.Notes, "recordings that can't be read: "+strings.Join(measured.unread, "; "))
	}
	none, lost := measured.none()
	for _, c := range all {
		c.none, c.lost = none, lost
		h := measured.measured[c]
		if h != nil {
			h.finish()
		}
		out.Specs = append(out.Specs, judge(in.Settings, c, h, findings[c], before[c]))
	}
	for _, p := range c.invalid {
		out.Files = append(out.Files, Result{Rule: refused, Status: Failed, Title: "valid spec", Why: p.err.Error(), File: p.file})
	}
	unchecked := ruleOf("unchecked")
	for _, p := range c.unchecked {
		if l := in.Settings.limit(unchecked.Key, ""); l.Level != Off {
			out.Files = append(out.Files, Result{Rule: unchecked.ID, Status: l.broken(), Title: unchecked.title(0), Why: p.err.Error(), File: p.file})
		}
	}
	if l := in.Settings.limit(unchecked.Key, ""); len(c.beside) > 0 && l.Level != Off {
		out.Files = append(out.Files, Result{
			Rule: unchecked.ID, Status: l.broken(), Title: unchecked.title(0), File: c.beside[0],
			Why: "changed files that may scale something and were not checked: " + Some(c.beside),
		})
	}
	if len(measured.others) > 0 && len(measured.measured) < len(all) {
		out.Notes = append(out.Notes, "recordings of others, which do not change: "+Some(slices.Sorted(maps.Keys(measured.others))))
	}
	var twice, around, reads, unjudged []string
	for _, of := range all {
		if of.around {
			around = append(around, objectOf(of.new))
		}
		if slices.Contains(of.beside, queries) {
			reads = append(reads, objectOf(of.new))
		}
		if rest := slices.DeleteFunc(slices.Clone(of.beside), func(name string) bool { return name == queries }); len(rest) > 0 {
			unjudged = append(unjudged, fmt.Sprintf("%s (%s)", objectOf(of.new), strings.Join(rest, ", ")))
		}
		if of.what != Added || in.Range == nil {
			continue
		}
		others := slices.Clone(c.New.places[of.new.Kind+" "+identity(of.new)])
		if i := slices.Index(others, of.new.File); i >= 0 { // its own
			others = slices.Delete(others, i, i+1)
		}
		if len(others) > 0 {
			twice = append(twice, fmt.Sprintf("%s of %s is in %s, too", objectOf(of.new), of.new.File, others[0]))
		}
	}
	if len(around) > 0 {
		out.Notes = append(out.Notes, "lint alone judges the change of a workload, or of what is beside it, because recordings are of before: "+Some(around))
	}
	if len(reads) > 0 {
		out.Notes = append(out.Notes, "warning: queries change, and nothing is known of what the new ones read: recordings have what the old ones did: "+Some(reads))
	}
	if len(unjudged) > 0 {
		out.Notes = append(out.Notes, "what no rule judges changes, too: "+Some(unjudged))
	}
	if len(twice) > 0 {
		out.Notes = append(out.Notes, "warning: what is added is defined already; if both are applied to one cluster, the last one holds: "+Some(slices.Compact(twice)))
	}
	out.Verdict = Passed
	for _, s := range out.Specs {
		out.Verdict = worst(out.Verdict, s.Verdict)
	}
	for _, f := range out.Files {
		out.Verdict = worst(out.Verdict, f.Status)
	}
	if out.Verdict == Unknown {
		out.Verdict = Passed
	}
	return out, nil
}

// withoutRemoved leaves out what only the old files have: files that the user named are not all there are.
func withoutRemoved(all []*change, out *Report) []*change {
	var gone []string
	kept := slices.DeleteFunc(all, func(c *change) bool {
		if c.what == Removed {
			gone = append(gone, objectOf(c.old))
		}
		return c.what == Removed
	})
	if n := len(gone); n > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d autoscalers of the old files are in none of the new ones, and not checked: %s", n, Some(gone)))
	}
	return kept
}

// hidden takes out what is removed only because its file can't be read any more: that fails.
func (c *Changes) hidden(all []*change, out *Report) []*change {
	return slices.DeleteFunc(all, func(of *change) bool {
		if of.what != Removed || c.unread[of.old.File] == nil {
			return false
		}
		if slices.ContainsFunc(c.invalid, func(p problem) bool { return p.file == of.old.File }) {
			return true // Run says so
		}
		out.Files = append(out.Files, Result{
			Rule: refused, Status: Failed, Title: "valid spec", File: of.old.File,
			Why: objectOf(of.old) + " was in this file, of which nothing can be read now: it " + c.unread[of.old.File].Error(),
		})
		return true
	})
}

// Some lists the first few names.
func Some(names []string) string { return printable.Some(names, maxProblems) }

// findings runs lint on one side's specs, and notes which new ones the service would refuse. problems are about what else it
// could not check.
func (s *Side) findings(ctx context.Context, settings *Settings, all []*change, of func(*change) *lint.Spec) (out map[*change][]lint.Finding, problems, err error) {
	wanted := make(map[int]*change) // by Index
	for _, c := range all {
		if spec := of(c); spec != nil && c.what != Removed {
			wanted[spec.Index] = c
		}
	}
	s.linter.Ignore = settings.LintIgnore
	s.linter.Only = func(index int) bool { return wanted[index] != nil }
	found, told := s.linter.Check(ctx)
	if err := ctx.Err(); err != nil || errors.Is(told, lint.ErrTooMany) {
		return nil, nil, errors.Join(err, told)
	}
	refused, each := make(map[*change][]error), []error{told}
	if joined, is := told.(interface{ Unwrap() []error }); is { // those that Check has joined
		each = joined.Unwrap()
	}
	var rest []error
	for _, one := range each {
		var refusal *lint.Refusal
		if !errors.As(one, &refusal) {
			rest = append(rest, one)
		} else if c := wanted[refusal.Index]; c != nil && of(c) == c.new {
			refused[c] = append(refused[c], refusal)
		}
	}
	for c, why := range refused {
		if c.refused == nil { // the engine tells it otherwise
			c.refused = errors.Join(why...)
		}
	}
	out = make(map[*change][]lint.Finding)
	for _, f := range found {
		if c := wanted[f.Index]; c != nil {
			out[c] = append(out[c], f)
		}
	}
	return out, errors.Join(rest...), nil
}

// broken is what comes of a rule that does not hold.
func (l *Limit) broken() Status {
	if l.Level == Error {
		return Failed
	}
	return Warned
}

// judge judges one change.
func judge(s *Settings, c *change, h *History, found, before []lint.Finding) *SpecReport {
	of := c.of()
	out := &SpecReport{
		Object: objectOf(of), Kind: of.Kind, File: of.File, Line: of.Line, What: c.what, History: h, Verdict: Passed,
		Results: []Result{}, Findings: []lint.Finding{}, failOn: s.FailOn,
	}
	if name, named := target.Parse(of.Stored.GetName()); named {
		out.Cluster = name.Cluster
	}
	if c.old != nil && c.new != nil && c.old.File != c.new.File {
		out.OldFile = c.old.File
	}
	if c.old != nil && c.new != nil && objectOf(c.old) != objectOf(c.new) {
		out.OldObject = objectOf(c.old)
	}
	switch {
	case c.what == Same && len(c.beside) > 0:
		out.What = Beside + strings.Join(c.beside, ", ")
	case c.what == Same && c.around:
		out.What = Around
	}
	known := make(map[string]bool)
	for _, f := range before {
		known[f.Rule+" "+f.Field] = true
	}
	for _, f := range found {
		if known[f.Rule+" "+f.Field] && !s.Existing {
			out.Existing++
			continue
		}
		out.Findings = append(out.Findings, f)
		out.Verdict = worst(out.Verdict, out.statusOf(f))
	}
	switch {
	case c.refused != nil:
		out.Results = append(out.Results, Result{Rule: refused, Status: Failed, Title: "valid spec", Why: c.refused.Error()})
	case c.what != Same:
		out.Results = append(out.Results, s.results(c, h)...)
	}
	for _, r := range out.Results {
		out.Verdict = worst(out.Verdict, r.Status)
	}
	return out
}

// statusOf is what the check makes of a finding.
func (s *SpecReport) statusOf(f lint.Finding) Status {
	switch {
	case s.failOn != "" && f.Severity.AtLeast(s.failOn):
		return Failed
	case f.Severity.AtLeast(lint.Warning):
		return Warned
	}
	return Passed
}

// judged is a figure of a rule: what is compared with the limit, and how it reads.
type judged struct {
	value, old float64
	// hasOld reports whether a change that breaks the limit, but no more than the old spec did, only warns.
	hasOld        bool
	oldText, text string
	unknown, why  string
	atLeast       bool
	notLookedAt   bool
	// missing: value is what is missing, which must be 0; the limit is in it already.
	missing        bool
	withinTheModel float64
}

// results judges the rules, in their order.
func (s *Settings) results(c *change, h *History) (out []Result) {
	object, usable := objectOf(c.of()), h.usable()
	if h != nil && h.Other != "" {
		object = h.Other
	}
	for i := range Rules {
		r := &Rules[i]
		l := s.limit(r.Key, object)
		if usable != nil && measures[r.Key] != nil {
			// Nothing is known of any figure, which the rule history says.
			if r.Key == "history" && c.what != Removed {
				result := Result{Rule: r.ID, Status: Unknown, Title: r.title(l.Limit), New: "none", Why: "not checked by history: " + usable.Error()}
				if h == nil && c.none != "" {
					result.Why = "not checked by history: " + c.none
				}
				if l.Level != Off {
					result.Status = l.broken()
					if c.lost || h != nil && h.mixed != nil && h.added {
						result.Status = Failed // it would be a way around all the others
					}
				}
				out = append(out, result)
			}
			continue
		}
		if l.Level == Off || r.Key == "unchecked" || (r.Key == "removed") != (c.what == Removed) {
			continue
		}
		if r.Key == "removed" {
			out = append(out, Result{Rule: r.ID, Status: l.broken(), Title: r.title(0), Why: "nothing scales its target any more, if nothing else does"})
			continue
		}
		j := measures[r.Key](c, h, l.Limit)
		if j.notLookedAt {
			continue
		}
		result := Result{Rule: r.ID, Status: Passed, Title: r.title(l.Limit), Old: j.oldText, New: j.text, Why: j.why}
		limit := l.Limit
		if j.missing {
			limit = 0
		}
		broken := j.value > limit+exact
		if j.atLeast {
			broken = j.value < limit-exact
		}
		switch {
		case j.unknown != "":
			result.Status, result.Why = Unknown, j.unknown
		case broken && j.hasOld && j.value <= j.old+exact:
			result.Status, result.Why = Warned, joined(result.Why, "no worse than the old spec")
		case broken:
			result.Status = l.broken()
		}
		if miss := j.withinTheModel; result.Status != Unknown && miss > 0 && j.value > l.Limit-miss && j.value <= l.Limit+miss {
			result.Why = joined(result.Why, "nearer to the limit than the model is exact, ± "+number(miss)+" %")
		}
		out = append(out, result)
	}
	return out
}

func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), "; ")
}

// exact is by how much figures differ that are the same.
const exact = 1e-9

// measures are the figures of rules by key, of a history that is usable.
var measures = map[string]func(c *change, h *History, limit float64) judged{
	"replicaHours":    replicaHours,
	"usedReplicas":    usedReplicas,
	"changesPerHour":  changesPerHour,
	"atMaximum":       atMaximum,
	"shortOfCapacity": shortOfCapacity,
	"different":       different,
	"modelMiss":       modelMiss,
	"history":         enoughHistory,
}

const byOpenLoop = "by the open loop: the load under this count was not measured"

func replicaHours(_ *change, h *History, limit float64) judged {
	old, now, why := h.Old.ReplicaHours, h.New.ReplicaHours, ""
	if h.open() {
		old, now, why = h.Old.OpenReplicaHours, h.New.OpenReplicaHours, byOpenLoop
	}
	if old == 0 {
		return judged{unknown: "the old spec has no replicas in that time", oldText: "0", text: number(now)}
	}
	more, sign := 100*(now-old)/old, ""
	if more >= 0 {
		sign = "+"
	}
	j := judged{value: more, oldText: number(old), text: fmt.Sprintf("%s (%s%s)", number(now), sign, percent(more, limit)), why: why}
	if !h.open() && h.ModelledSeconds > 0 {
		j.withinTheModel = h.Model.MissPercent()
	}
	return j
}

func usedReplicas(c *change, h *History, limit float64) judged {
	used, most := h.used(limit), c.new.Object.Spec.MaxReplicas
	j := judged{missing: true, value: float64(used - most), text: fmt.Sprintf("max %d, used %d", most, used)}
	if c.old != nil {
		before := c.old.Object.Spec.MaxReplicas
		j.hasOld, j.old, j.oldText = true, float64(used-before), fmt.Sprintf("max %d", before)
	}
	return j
}

func changesPerHour(_ *change, h *History, _ float64) judged {
	if h.open() {
		return judged{unknown: "the load under this spec's counts was not measured"}
	}
	return judged{
		value: float64(h.New.MostInAnHour), old: float64(h.Old.MostInAnHour), hasOld: true,
		oldText: fmt.Sprint(h.Old.MostInAnHour), text: fmt.Sprint(h.New.MostInAnHour),
	}
}

// share is a time as a percentage of what is covered.
func (h *History) share(seconds float64) float64 { return 100 * seconds / h.CoveredSeconds }

// percent prints a percentage.
func percent(f, limit float64) string {
	return sided(f, limit, 1, func(places int) string { return strconv.FormatFloat(f, 'f', places, 64) }) + " %"
}

// sided prints a figure with a number of digits, or with as many more as show on which side of its limit it is.
func sided(f, limit float64, digits int, print func(digits int) string) string {
	const more = 8
	for most := digits + more; ; digits++ {
		text := print(digits)
		shown, _ := strconv.ParseFloat(text, 64)
		if digits == most || math.Abs(f-limit) <= exact || cmp.Compare(shown, limit) == cmp.Compare(f, limit) {
			return text
		}
	}
}

func atMaximum(_ *change, h *History, limit float64) judged {
	if !h.bound[1] {
		return judged{notLookedAt: true}
	}
	old, now, why := h.Old.AtMaximumSeconds, h.New.AtMaximumSeconds, ""
	if h.open() {
		old, now, why = h.Old.OpenAtMaximumSeconds, h.New.OpenAtMaximumSeconds, byOpenLoop
	}
	j := judged{value: h.share(now), text: percent(h.share(now), limit), why: why}
	if h.bound[0] {
		j.old, j.hasOld, j.oldText = h.share(old), true, percent(h.share(old), limit)
	}
	return j
}

func shortOfCapacity(_ *change, h *History, limit float64) judged {
	switch {
	case h.open():
		return judged{unknown: "the load under this spec's counts was not measured"}
	case !h.LimitKnown:
		return judged{unknown: "the recording has no CPU limits, which assume.cpuLimit may say, or no CPU usage, for more than a tenth of the time"}
	}
	old, now := h.share(h.Old.ShortSeconds), h.share(h.New.ShortSeconds)
	return judged{value: now, old: old, hasOld: true, oldText: percent(old, limit), text: percent(now, limit)}
}

func different(_ *change, h *History, limit float64) judged {
	share := 100 * float64(h.DifferentSteps) / float64(max(1, h.Steps))
	return judged{value: share, text: fmt.Sprintf("%d of %d (%s)", h.DifferentSteps, h.Steps, percent(share, limit)), why: "open loop"}
}

func modelMiss(_ *change, h *History, limit float64) judged {
	if h.open() || h.Model.Seconds == 0 {
		return judged{notLookedAt: true}
	}
	m := &h.Model
	return judged{value: m.MissPercent(), text: percent(m.MissPercent(), limit), why: fmt.Sprintf("same count for %.1f %% of the time, at most one off for %.1f %%", 100*m.SameSeconds/m.Seconds, 100*m.NearSeconds/m.Seconds)}
}

func enoughHistory(_ *change, h *History, limit float64) judged {
	j := judged{atLeast: true, value: h.CoveredSeconds / 3600}
	j.text = sided(j.value, limit, 4, func(figures int) string { return printable.Figures(j.value, figures) }) + " h"
	if h.UnusableCount > 0 {
		j.why = fmt.Sprintf("%d recordings were not used: %s", h.UnusableCount, h.Unusable[0])
	}
	return j
}

// Assume replaces what flags set.
func (s *Settings) Assume(a replay.Assumed) {
	if a.CPULimit > 0 {
		s.Assumed.CPULimit = a.CPULimit
	}
	if a.Idle != nil {
		s.Assumed.Idle = a.Idle
	}
}
