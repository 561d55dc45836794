package check

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/lint"
	"github.com/setpoint-dev/setpoint/simulation/report"
)

// Tool is the name of the check in outputs.
const Tool = "setpoint check"

// text is what may be shown of untrusted text: it is in one line, and bounded.
func text(s string) string {
	const most = 500
	s = printable.Text(strings.ReplaceAll(s, "\n", "; "))
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return s
}

// summary is a line about all.
func (r *Report) summary() string {
	counts := make(map[Status]int)
	for _, s := range r.Specs {
		counts[s.Verdict]++
	}
	for _, f := range r.Files {
		counts[f.Status]++
	}
	if len(r.Specs)+len(r.Files) == 0 {
		if r.Range == "" {
			return fmt.Sprintf("%s: no autoscaler changes", r.Verdict)
		}
		return fmt.Sprintf("%s: no autoscaler changes in %s of YAML and JSON", r.Verdict, count(r.Read, "changed file"))
	}
	var parts []string
	for _, status := range statuses {
		if n := counts[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	changes := count(len(r.Specs), "autoscaler") + " change"
	if len(r.Specs) == 1 {
		changes += "s"
	}
	return fmt.Sprintf("%s: %s; %s", r.Verdict, changes, strings.Join(parts, ", "))
}

// count is a number of things.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// place is where a spec is.
func (s *SpecReport) place() string {
	out := s.File
	if s.Line > 0 {
		out += fmt.Sprintf(":%d", s.Line)
	}
	if s.OldFile != "" {
		out += ", before in " + s.OldFile
	}
	if s.OldObject != "" {
		out += ", before " + s.OldObject
	}
	return out
}

// object is the autoscaler's, with its cluster if that is known.
func (s *SpecReport) object() string {
	if s.Cluster == "" {
		return s.Object
	}
	return s.Object + " of cluster " + s.Cluster
}

func (s *SpecReport) title() string {
	kind := s.Kind
	kind = cmp.Or(kind, "stored spec")
	return kind + " " + s.object()
}

// rests says what the figures of a history rest on, and what nobody can know; assumptions first.
func (h *History) rests() (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	say("%s of %s, %s, %s", seconds(h.CoveredSeconds), count(h.Recordings, "recording"), count(h.Steps, "evaluation"), h.From.Format(time.RFC3339)+" to "+h.To.Format(time.RFC3339))
	if h.Other != "" {
		say("the recordings are of %s: this stored spec has no name, and is taken to be that", h.Other)
	}
	if h.AlreadySteps > 0 {
		say("%d evaluations are at times that another recording of it has already: they count once", h.AlreadySteps)
	}
	if h.AsOld {
		say("the old spec decides as the recording's own: its figures are what really happened")
	} else {
		say("the recording was made under another spec than the old one: its figures are of the closed loop, too")
	}
	if h.Uncompared > 0 {
		say("%d recordings have no outcomes: what came of each evaluation is the next count", h.Uncompared)
	}
	if h.Unmade > 0 {
		have, their := "have", "their"
		if h.Unmade == 1 {
			have, their = "has", "its"
		}
		say("%s %s counts that %s own spec did not make, as that of a shadow: by how much the model misses is not known by that", count(h.Unmade, "recording"), have, their)
	}
	say("open loop: the load and the count are as they were, each evaluation on its own; the new spec decides another count than the old one at %d of %d", h.DifferentSteps, h.Steps)
	if h.open() {
		say("closed loop: not known, because the load was not measured under the new spec's counts for %s", seconds(h.UnknownSeconds))
		return out
	}
	say("closed loop: the load is what all pods used together, and does not depend on the count; %s is as recorded, %s is modelled, with the load shared evenly by the ready pods",
		seconds(h.CoveredSeconds-h.ModelledSeconds-h.UnknownSeconds), seconds(h.ModelledSeconds))
	if m := &h.Model; m.Seconds > 0 {
		line := fmt.Sprintf("asked to reproduce what really happened, with all pods modelled, the closed loop has %s replica hours in place of %s: it misses by %.1f %%; the count is the same for %.1f %% of the time, at most one off for %.1f %%. That measures how pods start and share the load, not whether the load follows the count",
			number(m.Modelled), number(m.Recorded), m.MissPercent(), 100*m.SameSeconds/m.Seconds, 100*m.NearSeconds/m.Seconds)
		if h.LimitKnown {
			line += fmt.Sprintf(". It is short of capacity for %s in place of %s", seconds(m.ShortSeconds), seconds(m.RecordedShortSeconds))
		}
		out = append(out, line)
	}
	if h.ModelledSeconds > 0 {
		if h.PodsMeasured > 0 {
			say("new pods are ready after %s, as %d that were recorded", seconds(h.ReadySeconds), h.PodsMeasured)
		} else {
			say("assumed: new pods are ready at once; how long they take is not known, because the recording has no pod that started, or only how many there are")
		}
	}
	if len(h.AsRecorded) > 0 {
		say("not known: how another count changes %s, which is taken as it was recorded", strings.Join(h.AsRecorded, ", "))
	}
	if !h.LimitKnown {
		say("not known: whether pods were full, and hid load; the recording has no CPU limits (assume.cpuLimit), or no CPU usage, for more than a tenth of the time")
	}
	return out
}

func seconds(s float64) string { return report.Span(time.Duration(s * float64(time.Second))) }

// figures are rows of both specs.
func (h *History) figures() [][3]string {
	row := func(name string, of func(*Figures) string) [3]string {
		return [3]string{name, of(&h.Old), of(&h.New)}
	}
	rows := [][3]string{}
	if !h.open() {
		rows = append(rows,
			row("replica hours", func(f *Figures) string { return number(f.ReplicaHours) }),
			row("replicas", func(f *Figures) string { return fmt.Sprintf("%d to %d", f.Least, f.Most) }),
			row("changes, reversals", func(f *Figures) string { return fmt.Sprintf("%d, %d", f.Changes, f.Reversals) }),
		)
	}
	return append(rows,
		row("replica hours, open loop", func(f *Figures) string { return number(f.OpenReplicaHours) }),
		[3]string{"used at p50, p90, p99, most", fmt.Sprintf("%d, %d, %d, %d", h.Used[0], h.Used[1], h.Used[2], h.Used[3]), "–"},
	)
}

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var out strings.Builder
	for _, s := range r.Specs {
		fmt.Fprintf(&out, "%s: %s: %s (%s)\n", text(s.place()), text(s.title()), s.Verdict, s.What)
		table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		for _, result := range s.Results {
			fmt.Fprintf(table, "  %s\t%s\t%s\n", result.Status, text(result.Title), text(result.figures()))
		}
		_ = table.Flush() // out is a strings.Builder
		for _, f := range s.Findings {
			fmt.Fprintf(&out, "  %s  lint %s: %s [%s]\n      %s\n", s.statusOf(f), f.Severity, text(f.Message), f.Rule, text(f.Arithmetic))
		}
		if s.Existing > 0 {
			fmt.Fprintf(&out, "  %d findings of lint that the old spec has, too\n", s.Existing)
		}
		if h := s.History; h != nil && h.usable() == nil {
			out.WriteString("\n" + indent(h.draw()))
			table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
			fmt.Fprint(table, "\n  \told\tnew\n")
			for _, row := range h.figures() {
				fmt.Fprintf(table, "  %s\t%s\t%s\n", row[0], row[1], row[2])
			}
			_ = table.Flush()
			out.WriteString("\n")
			for _, line := range h.rests() {
				fmt.Fprintf(&out, "  %s\n", text(line))
			}
		}
		out.WriteString("\n")
	}
	for _, f := range r.Files {
		fmt.Fprintf(&out, "%s: %s: %s: %s\n", text(f.File), f.Status, f.Title, text(f.Why))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&out, "note: %s\n", text(note))
	}
	out.WriteString(r.summary() + "\n")
	_, err := io.WriteString(w, printable.NoCommand(out.String()))
	return err
}

func indent(lines string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", "\n  ") + "\n"
}

// figures are those of a result, with what else it says.
func (r *Result) figures() string {
	out := r.New
	if r.Old != "" && r.New != "" {
		out = r.Old + " → " + r.New
	}
	switch {
	case r.Why == "":
		return out
	case out == "":
		return r.Why
	}
	return out + "; " + r.Why
}

// WriteJSON writes the report as one object.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// findings are all results that do not pass, and those of lint, as SARIF has them.
func (r *Report) findings() (all []lint.Finding) {
	add := func(s *SpecReport, result *Result) {
		f := lint.Finding{Rule: result.Rule, Severity: lint.Error, Message: result.Title + ": " + result.Status.not(), Arithmetic: text(result.figures()), Link: Page + "#" + result.Rule}
		if s == nil {
			f.File, f.Object, f.Field = result.File, result.File, "spec"
		} else {
			f.File, f.Object, f.Field, f.Line = s.File, s.Object, "spec", s.Line
			f.Cluster = s.Cluster
		}
		if result.Status == Passed {
			return
		}
		if result.Status != Failed {
			f.Severity = lint.Warning
		}
		if result.Status == Unknown {
			f.Severity = lint.Note
		}
		all = append(all, f)
	}
	for _, s := range r.Specs {
		for i := range s.Results {
			add(s, &s.Results[i])
		}
		all = append(all, s.Findings...)
	}
	for i := range r.Files {
		add(nil, &r.Files[i])
	}
	return all
}

// not says what is the matter with a rule that does not pass.
func (s Status) not() string {
	if s == Unknown {
		return "not known"
	}
	return "does not hold"
}

// WriteSARIF writes what does not pass as one run of SARIF 2.1.0.
func (r *Report) WriteSARIF(w io.Writer, version string) error {
	return (&lint.SARIF{Tool: Tool, Version: version, More: asLint(), Page: Page}).Write(w, r.findings())
}

// JUnit's elements.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		File    string        `xml:"file,attr,omitempty"`
		Failure *junitMessage `xml:"failure,omitempty"`
		Skipped *junitMessage `xml:"skipped,omitempty"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
	}
)

// WriteJUnit writes a suite for each autoscaler, with a case for each rule. What is not known is skipped;
// a warning is a passed case that says so.
func (r *Report) WriteJUnit(w io.Writer) error {
	all := junitSuites{Name: Tool}
	suite := func(name string, cases []junitCase) {
		s := junitSuite{Name: name, Tests: len(cases), Cases: cases}
		for i := range cases {
			if cases[i].Failure != nil {
				s.Failures++
			}
			if cases[i].Skipped != nil {
				s.Skipped++
			}
		}
		all.Tests, all.Failures, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Skipped+s.Skipped
		all.Suites = append(all.Suites, s)
	}
	for _, s := range r.Specs {
		var cases []junitCase
		for i := range s.Results {
			cases = append(cases, junitOf(text(s.object()), text(s.File), &s.Results[i]))
		}
		for _, f := range s.Findings {
			result := Result{Rule: "lint/" + f.Rule, Status: s.statusOf(f), Title: f.Message, New: f.Arithmetic}
			cases = append(cases, junitOf(text(s.object()), text(s.File), &result))
		}
		suite(text(s.title()), cases)
	}
	var cases []junitCase
	for i := range r.Files {
		cases = append(cases, junitOf(text(r.Files[i].File), text(r.Files[i].File), &r.Files[i]))
	}
	if cases != nil {
		suite("files", cases)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(&all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func junitOf(class, file string, r *Result) junitCase {
	c := junitCase{Class: class, Name: r.Rule, File: file}
	said := text(r.Title + ": " + r.figures())
	switch r.Status {
	case Failed:
		c.Failure = &junitMessage{said, r.Rule}
	case Unknown:
		c.Skipped = &junitMessage{Message: said}
	case Warned:
		c.Out = "warning: " + said
	case Passed:
		c.Out = said
	}
	return c
}
