package playground

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/report"
	"github.com/setpoint-dev/setpoint/simulation/scenario"
)

// result exports all runs as setpoint simulate -o writes them: svg, csv or json.
func (a *asked) result(form string) answer {
	out := &bounded{}
	table, err := report.NewCSV(out) // the heading, too, is kept until Close
	lines := report.NewJSON(out)
	all := &report.Report{Name: "playground", Scenario: a.scenario}
	if a.count != nil {
		all.Recorded = report.NewPlot(a.scenario.Duration)
	}
	for i := range a.columns {
		column := &a.columns[i]
		run := report.Run{Name: column.Name, Plot: report.NewPlot(a.scenario.Duration)}
		if err == nil {
			run.Result, err = column.Run(context.Background(), a.scenario, simulation.Limits{Actions: true}, func(s *simulation.Step) error {
				switch form {
				case "csv":
					return table.Step(column.Name, s)
				case "json":
					return lines.Step(column.Name, s)
				}
				run.Plot.Add(s)
				if a.count != nil {
					if count, ok := a.count.At(s.Time); ok {
						all.Recorded.Count(s.At, count)
					}
				}
				return nil
			})
		}
		if err == nil && form == "json" {
			err = lines.Figures(a.scenario, &run)
		}
		all.Runs = append(all.Runs, run)
	}
	switch {
	case err != nil || len(all.Runs) == 0:
	case form == "svg":
		err = report.WriteSVG(out, all)
	case form == "csv":
		err = table.Close()
	}
	if err != nil {
		a.refuse(scenarioName, err.Error())
		return answer{Problems: a.problems}
	}
	return answer{Export: out.String()}
}

// bounded is what is written, up to MaxExportBytes.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > MaxExportBytes {
		return 0, fmt.Errorf("is larger than %d MiB so: shorten the scenario, or use setpoint simulate", MaxExportBytes>>20)
	}
	return b.Buffer.Write(p)
}

// shortFiles returns the recorded files in their shortest form.
func (a *asked) shortFiles(q *Question) answer {
	out := answer{Files: make(map[string]string)}
	add := func(name, content string) {
		short, err := scenario.AsCSV(context.Background(), []byte(content), a.scenario.Start.Location())
		if a.note(name, err); err == nil {
			out.Files[name] = short
		}
	}
	for name, content := range q.Files {
		add(name, content)
	}
	if q.Recorded != "" {
		add(recordedName, q.Recorded)
	}
	out.Problems = a.problems
	return out
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// patch writes the command that gives an object of the cluster the first spec: all but what it
// scales. A field that the spec leaves out becomes null, which stands for the API's default. Stages of an HPA follow as
// its annotation, in a command of their own: a JSON patch can't add to annotations that may not be there. Those
// that the spec leaves out stay, as other fields do that are not HPA's.
func (a *asked) patch() answer {
	if len(a.problems) > 0 || len(a.specs) == 0 || a.specs[0].autoscaler == nil {
		return answer{Problems: a.problems}
	}
	s := a.specs[0]
	resource, fields := "horizontalpodautoscalers.v2.autoscaling", []string{"minReplicas", "maxReplicas", "metrics", "behavior"}
	if s.own {
		resource = "autoscalers.autoscaling.setpoint.dev"
		fields = append(fields, "options", "syncPeriodSeconds", "shadow", "stages")
	}
	var operations []operation
	for i, field := range fields {
		o := operation{Op: "add", Path: "/spec/" + field}
		value, is := s.fields[field]
		if is {
			if o.Value, is = value.Any(); !is {
				a.refuse(s.name, "spec."+field+" has no form in JSON")
			}
		}
		if is || i < 4 {
			operations = append(operations, o)
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(operations); err != nil {
		a.note(s.name, errors.New("has no form in JSON: "+err.Error()))
		return answer{Problems: a.problems}
	}
	name := "NAME"
	if s.object != "" {
		name = quoted(s.object)
	}
	if s.lines["metadata.namespace"] > 0 {
		name += " --namespace=" + quoted(s.namespace)
	}
	command := fmt.Sprintf("kubectl patch %s %s --type=json --patch=%s", resource, name, quoted(strings.TrimSpace(text.String())))
	if s.stages != nil && !s.own {
		written, err := s.stagesText()
		if err != nil {
			a.note(s.name, err)
			return answer{Problems: a.problems}
		}
		command += fmt.Sprintf(" &&\n  kubectl annotate %s %s --overwrite %s", resource, name, quoted(stagesAnnotation+"="+written))
	}
	return answer{Problems: a.problems, Export: command + "\n"}
}

// stagesText are the stages as an annotation has them.
func (s *spec) stagesText() (string, error) {
	if s.annotation != nil {
		text, _ := s.annotation.Text()
		return text, nil
	}
	value, ok := s.beside.Any()
	text, err := json.Marshal(value)
	if err != nil || !ok {
		return "", errors.New("stages have no form in JSON")
	}
	return string(text), nil
}

// quoted is a word of a POSIX shell.
func quoted(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
