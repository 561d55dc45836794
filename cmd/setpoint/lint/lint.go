package lint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/simulate"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Severity says how bad a finding is.
type Severity string

// The severities: what can't work, what is likely not meant, and what is worth knowing.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Severities are all of them, the worst first.
var Severities = []Severity{Error, Warning, Note}

// AtLeast tells whether a severity is as bad as another, or worse.
func (s Severity) AtLeast(other Severity) bool {
	return slices.Index(Severities, s) <= slices.Index(Severities, other)
}

// Page is the address of the rules' page; a rule's anchor is its ID.
const Page = "https://github.com/setpoint-dev/setpoint/blob/main/docs/lint.md"

// Finding is one thing that was found.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	// File as the user named it, Object as namespace/name, and Field as a path in the object.
	File   string `json:"file"`
	Object string `json:"object"`
	Field  string `json:"field"`
	// Message is what was found, Arithmetic how that comes, with the spec's own numbers.
	Message    string `json:"message"`
	Arithmetic string `json:"arithmetic"`
	// Simulated says that the engine was run with this spec to find out.
	Simulated bool   `json:"simulated"`
	Link      string `json:"link"`
}

// MaxAutoscalers bounds the autoscalers of all files together.
const MaxAutoscalers = 20_000

// Linter gathers files, which may refer to each other's objects.
type Linter struct {
	// Options are the controller's settings.
	Options *setpointv1.RecommendOptions

	dump  manifest.Dump
	files []string // of the dump's autoscalers, in their order
}

// Read takes a file in: autoscalers, and anything else; of that workloads are looked at.
func (l *Linter) Read(name string, r io.Reader) error {
	if err := l.dump.Read(name, r); err != nil {
		return err
	}
	for len(l.files) < len(l.dump.Autoscalers) {
		l.files = append(l.files, name)
	}
	if len(l.files) > MaxAutoscalers {
		return fmt.Errorf("%s: there are more than %d HorizontalPodAutoscalers", name, MaxAutoscalers)
	}
	return nil
}

// Autoscalers is how many were read.
func (l *Linter) Autoscalers() int { return len(l.files) }

// Check returns what was found, in the order of the files and of Rules. The error tells of
// specs that the service would refuse; the rest is checked all the same.
func (l *Linter) Check(ctx context.Context) ([]Finding, error) {
	// The same name twice is one object in two files.
	scalers := make(map[string]map[string]bool)
	for _, a := range l.dump.Autoscalers {
		target := targetOf(a)
		if scalers[target] == nil {
			scalers[target] = make(map[string]bool)
		}
		scalers[target][a.Name] = true
	}
	var all []Finding
	var refused []error
	for i, written := range l.dump.Autoscalers {
		a, err := simulate.NewAutoscaler(l.files[i], written.DeepCopy(), l.Options)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		s := &subject{
			file: l.files[i], written: written, namespace: a.Namespace, spec: &a.Spec, options: &a.Options,
			template: l.dump.Template(written), scalers: len(scalers[targetOf(written)]),
		}
		for r := range Rules {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			s.rule = &Rules[r]
			s.rule.check(s)
		}
		all = append(all, s.found...)
	}
	return all, errors.Join(refused...)
}

// targetOf names the object that an autoscaler scales.
func targetOf(a *autoscalingv2.HorizontalPodAutoscaler) string {
	ref := a.Spec.ScaleTargetRef
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	return strings.Join([]string{a.Namespace, group, ref.Kind, ref.Name}, "/")
}

// subject is one autoscaler that is looked at.
type subject struct {
	file      string
	written   *autoscalingv2.HorizontalPodAutoscaler // as it was written, without defaults
	namespace string
	spec      *recommender.Spec
	options   *recommender.Options
	template  *manifest.Template // nil: not known
	scalers   int                // autoscalers of the same target

	rule     *Rule
	found    []Finding
	up, down *way // between the bounds, nil: not tried yet
}

// report notes a finding of the rule at hand.
func (s *subject) report(field, message, arithmetic string) {
	s.found = append(s.found, Finding{
		Rule: s.rule.ID, Severity: s.rule.Severity, File: s.file, Object: s.namespace + "/" + s.written.Name, Field: field,
		Message: message, Arithmetic: arithmetic, Simulated: s.rule.Simulated, Link: Page + "#" + s.rule.ID,
	})
}
