//go:build !js

package lint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/printable"
)

// WriteText writes findings for people, and a last line that counts them, and what is invalid.
func WriteText(w io.Writer, findings []Finding, autoscalers, invalid int) error {
	var out strings.Builder
	// Names of metrics may be any text, and those of files, too.
	plain := printable.Text
	for _, f := range findings {
		at := plain(f.File)
		if f.Line > 0 {
			at += fmt.Sprintf(":%d", f.Line)
		}
		fmt.Fprintf(&out, "%s: %s: %s: %s [%s]\n    %s\n    %s", at, plain(f.of()), f.Severity, plain(f.Message), f.Rule, plain(f.Field), plain(f.Arithmetic))
		if f.Simulated {
			out.WriteString(" (simulated)")
		}
		fmt.Fprintf(&out, "\n    %s\n", f.Link)
	}
	if len(findings) > ruleCountsFrom {
		writeCounts(&out, findings)
	}
	writeTotal(&out, findings, autoscalers, invalid)
	_, err := io.WriteString(w, printable.NoCommand(out.String()))
	return err
}

func writeTotal(out *strings.Builder, findings []Finding, autoscalers, invalid int) {
	counts := make(map[Severity]int)
	for _, f := range findings {
		counts[f.Severity]++
	}
	fmt.Fprintf(out, "%d autoscalers: %d errors, %d warnings, %d notes", autoscalers, counts[Error], counts[Warning], counts[Note])
	if invalid > 0 {
		fmt.Fprintf(out, "; %d invalid: see the errors", invalid)
	}
	out.WriteByte('\n')
}

// ruleCountsFrom is from how many findings on WriteText counts them by rule as well.
const ruleCountsFrom = 20

// WriteRules writes what WriteText does, in place of the findings how many there are of each rule,
// and where the first ones are.
func WriteRules(w io.Writer, findings []Finding, autoscalers, invalid int) error {
	var out strings.Builder
	writeCounts(&out, findings)
	writeTotal(&out, findings, autoscalers, invalid)
	_, err := io.WriteString(w, out.String())
	return err
}

// writeCounts writes a line for each rule that has findings, in the order of Rules.
func writeCounts(out *strings.Builder, findings []Finding) {
	const shown = 3
	counts := make(map[string]int)
	objects := make(map[string][]string)
	for _, f := range findings {
		counts[f.Rule]++
		if all := objects[f.Rule]; len(all) <= shown && !slices.Contains(all, f.of()) {
			objects[f.Rule] = append(all, f.of())
		}
	}
	for i := range Rules {
		r := &Rules[i]
		all := objects[r.ID]
		if len(all) == 0 {
			continue
		}
		names := strings.Join(all[:min(len(all), shown)], ", ")
		if len(all) > shown {
			names += ", …"
		}
		fmt.Fprintf(out, "%5d  %-7s  %s: %s\n", counts[r.ID], r.Severity, r.ID, printable.Text(names))
	}
}

// WriteJSON writes a finding a line.
func WriteJSON(w io.Writer, findings []Finding) error {
	encoder := json.NewEncoder(w)
	for i := range findings {
		if err := encoder.Encode(&findings[i]); err != nil {
			return err
		}
	}
	return nil
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifRule struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Short   sarifText `json:"shortDescription"`
	Full    sarifText `json:"fullDescription"`
	Help    sarifText `json:"help"`
	HelpURI string    `json:"helpUri"`
	Default struct {
		Level string `json:"level"`
	} `json:"defaultConfiguration"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
	// Fingerprints tell the same finding in two runs.
	Fingerprints map[string]string `json:"partialFingerprints"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	} `json:"physicalLocation"`
	Logical []sarifLogical `json:"logicalLocations"`
}

type sarifRegion struct {
	StartLine int `json:"startLine"`
}

type sarifLogical struct {
	Name     string `json:"fullyQualifiedName"`
	Kind     string `json:"kind"`
	Property string `json:"name"`
}

// uriOf is a file's name as a relative reference; of standard input it is "stdin".
func uriOf(file string) string {
	if file == "-" {
		return "stdin"
	}
	return (&url.URL{Path: filepath.ToSlash(file)}).String() // ./ before a first colon
}

// ofSpec matches the paths of an autoscaler's spec, and of what is stored beside it.
var ofSpec = regexp.MustCompile(`^(spec|stages|fleet)\.`)

// Refused are an error of Read or Check as findings, one for each of its lines. file is whose the error is, unless it is a Refusal.
func Refused(file string, err error) (all []Finding) {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		for _, one := range joined.Unwrap() {
			all = append(all, Refused(file, one)...)
		}
		return all
	}
	if err == nil {
		return nil
	}
	f := Finding{Rule: Invalid.ID, Severity: Invalid.Severity, File: file, Link: Page + "#" + Invalid.ID}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		f.File, f.Object, f.Cluster = refusal.File, refusal.Object, refusal.Cluster
	}
	for line := range strings.Lines(err.Error()) {
		f.Line, f.Field, f.Message = 0, "spec", strings.TrimPrefix(strings.TrimSuffix(line, "\n"), f.File+":")
		if number, rest, found := strings.Cut(f.Message, ": "); found {
			if n, err := strconv.Atoi(strings.TrimPrefix(number, " line ")); err == nil {
				f.Line, f.Message = n, rest
			}
		}
		f.Message = strings.TrimPrefix(strings.TrimSpace(f.Message), f.Object+": ")
		if path, rest, found := strings.Cut(f.Message, ": "); found && ofSpec.MatchString(path) {
			f.Field, f.Message = path, rest
		}
		all = append(all, f)
	}
	return all
}

// WriteSARIF writes the findings as one run of SARIF 2.1.0, which code hosts read.
func WriteSARIF(w io.Writer, findings []Finding, version string) error {
	return (&SARIF{Tool: "setpoint lint", Version: version, More: []Rule{Invalid}, Page: Page}).Write(w, findings)
}

// SARIF is a run of a tool whose findings are of Rules, or of More, whose anchors are on the page at the
// address Page.
type SARIF struct {
	Tool, Version string
	More          []Rule
	Page          string
}

// text is what a finding says, without the parts that it does not have.
func (f *Finding) text() string {
	text := f.Message
	if of := f.of(); of != "" {
		text = of + ": " + text
	}
	if f.Arithmetic != "" {
		text += " (" + f.Arithmetic + ")"
	}
	return text
}

// Write writes the run with its findings.
func (of *SARIF) Write(w io.Writer, findings []Finding) error {
	type driver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		URI     string      `json:"informationUri"`
		Rules   []sarifRule `json:"rules"`
	}
	type tool struct {
		Driver driver `json:"driver"`
	}
	type run struct {
		Tool    tool          `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	out := struct {
		Schema  string `json:"$schema"`
		Version string `json:"version"`
		Runs    []run  `json:"runs"`
	}{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []run{{
		Tool: tool{driver{Name: of.Tool, Version: of.Version, URI: of.Page, Rules: []sarifRule{}}}, Results: []sarifResult{},
	}}}
	r := &out.Runs[0]
	places := make(map[string]int)
	for i, rule := range slices.Concat(Rules, of.More) {
		page := Page
		if i >= len(Rules) {
			page = of.Page
		}
		places[rule.ID] = i
		s := sarifRule{
			ID: rule.ID, Name: rule.ID, Short: sarifText{rule.Title}, Full: sarifText{rule.Why},
			Help: sarifText{rule.Mend}, HelpURI: page + "#" + rule.ID,
		}
		s.Default.Level = string(rule.Severity)
		r.Tool.Driver.Rules = append(r.Tool.Driver.Rules, s)
	}
	for _, f := range findings {
		var at sarifLocation
		at.Physical.Artifact.URI = uriOf(f.File)
		if f.Line > 0 {
			at.Physical.Region = &sarifRegion{f.Line}
		}
		object := cmp.Or(f.of(), f.File)
		at.Logical = []sarifLogical{{Name: object + "/" + f.Field, Kind: "object", Property: f.Field}}
		r.Results = append(r.Results, sarifResult{
			RuleID: f.Rule, RuleIndex: places[f.Rule], Level: string(f.Severity),
			Message:      sarifText{f.text()},
			Locations:    []sarifLocation{at},
			Fingerprints: map[string]string{"setpointFinding/v1": f.Rule + ":" + object + ":" + f.Field},
		})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(&out)
}
