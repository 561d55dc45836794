package playground

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/lint"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/report"
	"github.com/setpoint-dev/setpoint/simulation/scenario"
)

// Bounds of a question.
const (
	// MaxSpecs bounds the specs that run side by side.
	MaxSpecs = 4
	// MaxSpecBytes bounds the text of a spec.
	MaxSpecBytes = 1 << 18
	// MaxExportBytes bounds an export of all steps.
	MaxExportBytes = 32 << 20
)

// Question is a request of the page.
type Question struct {
	// Ask is check, simulate, step or lint, or what to export: of the first spec hpa, autoscaler or
	// patch; of the scenario k6, or its recorded files in their shortest form: files; of the result
	// svg, csv or json; or what Chunks have: recorded.
	Ask string `json:"ask"`
	// Chunks are those of a recording, as TargetService.GetRecording returns them.
	Chunks [][]byte `json:"chunks"`
	// Scenario is a scenario of setpoint simulate, as YAML; Files are the files that it names.
	Scenario string            `json:"scenario"`
	Files    map[string]string `json:"files"`
	// Recorded is the count that there really was, as CSV or a response of Prometheus; empty: not
	// known.
	Recorded string `json:"recorded"`
	// Specs run side by side. Profile is the profile of their decisions; empty: the service's
	// default.
	Specs   []SpecText `json:"specs"`
	Profile string     `json:"profile"`
	// Spec and Step say which step of which run is to be explained, from 0: of a spec, or of a rule of a fleet.
	Spec int `json:"spec"`
	Step int `json:"step"`
	// Now is when lint looks at schedules, as RFC 3339: the engine has no clock. Empty: it leaves them out.
	Now string `json:"now"`
}

// SpecText is a spec as YAML or JSON, and its name.
type SpecText struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Problem is an error in a text.
type Problem struct {
	// In is the name of the spec, "scenario" or "recorded".
	In string `json:"in"`
	// Line from 1, 0: the whole.
	Line int    `json:"line,omitempty"`
	Path string `json:"path,omitempty"`
	Text string `json:"text"`
}

// answer is the answer to any question.
type answer struct {
	Problems []Problem   `json:"problems,omitempty"`
	Findings []finding   `json:"findings,omitempty"`
	Run      *runAnswer  `json:"run,omitempty"`
	Step     *stepAnswer `json:"step,omitempty"`
	Export   string      `json:"export,omitempty"`
	// Files are the recorded files in their shortest form, with the recorded count as "recorded".
	Files    map[string]string `json:"files,omitempty"`
	Recorded *recordedAnswer   `json:"recorded,omitempty"`
}

// finding is a finding of lint, with its line.
type finding struct {
	lint.Finding
	Line int `json:"line,omitempty"`
}

// Problem.In for problems of the scenario, and of the recorded count.
const (
	scenarioName = "scenario"
	recordedName = "recorded"
)

// Answer answers a question; both are JSON. Errors in texts are problems of the answer.
func Answer(question []byte) []byte {
	var q Question
	decoder := json.NewDecoder(bytes.NewReader(question))
	decoder.DisallowUnknownFields()
	var out answer
	if err := decoder.Decode(&q); err != nil {
		out.Problems = []Problem{{In: "question", Text: err.Error()}}
	} else {
		out = q.answer()
	}
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(&out); err != nil {
		return []byte(fmt.Sprintf(`{"problems":[{"in":"answer","text":%q}]}`, err.Error()))
	}
	return bytes.TrimSuffix(encoded.Bytes(), []byte("\n"))
}

// asked is a question as read.
type asked struct {
	scenario *simulation.Scenario
	// files says that the load is recorded, and leftOut how many of its samples have no value; count is the recorded count, nil: not known.
	files    bool
	leftOut  int
	covered  *float64 // see runAnswer
	count    *scenario.Series
	specs    []*spec
	problems []Problem
	// columns are the runs, once the scenario is read.
	columns []simulation.Column
}

// specOf is the spec of a column.
func (a *asked) specOf(column int) *spec {
	if a.scenario.Fleet != nil {
		return a.specs[0]
	}
	return a.specs[column]
}

func (q *Question) answer() answer {
	a := &asked{}
	if len(q.Specs) > MaxSpecs {
		a.refuse("question", fmt.Sprintf("at most %d specs run side by side", MaxSpecs))
		return answer{Problems: a.problems}
	}
	for _, text := range q.Specs {
		a.spec(text, q.Profile)
	}
	switch q.Ask {
	case "lint":
		return a.lint(q.Now)
	case "hpa":
		return a.export(horizontalPodAutoscaler)
	case "autoscaler":
		return a.export(autoscaler)
	case "patch":
		return a.patch()
	case "recorded":
		return a.recorded(q.Chunks)
	}
	a.world(q)
	if len(a.problems) > 0 {
		return answer{Problems: a.problems}
	}
	switch q.Ask {
	case "check":
		return answer{}
	case "simulate":
		return a.simulate()
	case "step":
		return a.step(q)
	case "k6":
		if f := a.scenario.Fleet; f != nil && slices.ContainsFunc(f.Members, func(m simulation.FleetMember) bool { return m.Own != nil }) {
			a.refuse(scenarioName, "members of the fleet have load of their own, which is not one load")
			return answer{Problems: a.problems}
		}
		var out strings.Builder
		if err := report.WriteK6(&out, "the playground", a.scenario); err != nil {
			a.refuse(scenarioName, err.Error())
		}
		return answer{Problems: a.problems, Export: out.String()}
	case "files":
		return a.shortFiles(q)
	case "svg", "csv", "json":
		return a.result(q.Ask)
	}
	a.refuse("question", fmt.Sprintf("ask %q is unknown", q.Ask))
	return answer{Problems: a.problems}
}

func (a *asked) refuse(in, text string) { a.problems = append(a.problems, Problem{In: in, Text: text}) }

// lineIn finds the line in an error of the YAML parser.
var lineIn = regexp.MustCompile(`\bline (\d+): `)

// note notes an error, or each of several joined ones, with its line.
func (a *asked) note(in string, err error) {
	if err == nil {
		return
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, each := range joined.Unwrap() {
			a.note(in, each)
		}
		return
	}
	p := Problem{In: in, Text: strings.TrimPrefix(err.Error(), in+": ")}
	var placed *document.Problem
	if errors.As(err, &placed) {
		p.Line, p.Path, p.Text = placed.Line, placed.Path, placed.Text
	} else if at := lineIn.FindStringSubmatchIndex(p.Text); at != nil {
		p.Line, _ = strconv.Atoi(p.Text[at[2]:at[3]])
		p.Text = p.Text[:at[0]] + p.Text[at[1]:]
	}
	a.problems = append(a.problems, p)
}

// world reads the scenario, and checks the specs against it.
func (a *asked) world(q *Question) {
	if len(q.Scenario) > scenario.MaxScenarioBytes {
		a.refuse(scenarioName, fmt.Sprintf("is longer than %d bytes", scenario.MaxScenarioBytes))
		return
	}
	s, recorded, err := scenario.ReadRecorded(context.Background(), scenarioName, []byte(q.Scenario), nil, func(name string) ([]byte, error) {
		content, is := q.Files[name]
		if !is {
			return nil, fmt.Errorf("there is no file %q: add it to the load", name)
		}
		return []byte(content), nil
	})
	if a.note(scenarioName, err); err != nil {
		return
	}
	var all []*simulation.Autoscaler
	for _, spec := range a.specs {
		all = append(all, spec.autoscaler)
	}
	if err := s.PacedBy(all...); err != nil {
		a.refuse(scenarioName, "loop.syncPeriod: "+err.Error())
		return
	}
	a.scenario, a.files, a.leftOut = s, len(recorded.Files) > 0, recorded.NoNumbers
	if part := recorded.Covered.Seconds() / s.Duration.Seconds(); part < 0.9995 { // 100.0 % is all
		a.covered = &part
	}
	if q.Recorded != "" {
		a.count, err = scenario.ReadSeries(context.Background(), []byte(q.Recorded), s.Start.Location())
		a.note(recordedName, err)
	}
	if s.Fleet != nil && len(a.specs) > 1 {
		a.refuse(scenarioName, "fleet: its rules are compared by one spec: remove the other")
		return
	}
	for _, spec := range a.specs {
		if spec.autoscaler != nil {
			column := simulation.Column{Name: spec.name, Autoscaler: spec.autoscaler}
			a.note(spec.name, column.Check(s))
			a.columns = append(a.columns, column)
		}
	}
	a.columns = s.Columns(a.columns)
}

// spec reads a spec.
func (a *asked) spec(text SpecText, profile string) {
	s := &spec{name: text.Name}
	a.specs = append(a.specs, s)
	if len(text.Text) > MaxSpecBytes {
		a.refuse(s.name, fmt.Sprintf("is longer than %d bytes", MaxSpecBytes))
		return
	}
	if err := s.read([]byte(text.Text)); err != nil {
		a.note(s.name, err)
		return
	}
	if s.options == nil {
		s.options = &setpointv1.RecommendOptions{}
	}
	s.options.Profile = cmp.Or(s.options.Profile, profile)
	found, violations := hpa.FromMessage(s.namespace, s.message, s.options)
	for _, v := range violations {
		a.problems = append(a.problems, Problem{In: s.name, Line: s.lines.Of(v.Field), Path: v.Field, Text: v.Description})
	}
	if s.autoscaler = found; found != nil {
		a.plan(s)
	}
}

func (a *asked) lint(at string) answer {
	out := answer{Findings: []finding{}}
	now, err := time.Parse(time.RFC3339, at)
	if err != nil && at != "" {
		a.refuse("question", "now must be an instant as RFC 3339 has it")
	}
	for _, s := range a.specs {
		if s.autoscaler == nil {
			continue
		}
		b, plan := s.message.GetBehavior(), s.autoscaler.Stages
		if now.IsZero() {
			plan = withoutSchedules(plan)
		}
		found, err := lint.Check(context.Background(), &lint.Subject{
			File: s.name, Name: s.object, Autoscaler: s.autoscaler,
			Manifest: s.manifest, Stages: plan, Now: now, Behavior: b != nil, Up: len(b.GetScaleUp().GetPolicies()) > 0, Down: len(b.GetScaleDown().GetPolicies()) > 0,
		})
		a.note(s.name, err)
		for _, f := range found {
			at := f.Field
			if below, is := strings.CutPrefix(at, "spec.stages"); is {
				at = s.stagesAt + below
				if !s.manifest {
					f.Field = at // they are beside the spec
				}
			}
			out.Findings = append(out.Findings, finding{f, s.lines.Of(at)})
		}
	}
	out.Problems = a.problems
	return out
}
