package recording

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
)

// openFields are the fields of a scenario in which unknown fields are ignored: objects of the
// API, which newer API servers extend. In the fields of a recording itself, and in specs, an
// unknown one is an error.
var openFields = []string{
	"hpa.metadata", "hpa.status", "steps[].hpa.metadata", "steps[].hpa.status",
	"steps[].scale", "steps[].pods", "steps[].podMetrics", "steps[].customMetrics", "steps[].externalMetrics",
}

const maxNameBytes = 1000

// parseLine reads one scenario and checks that it can be replayed.
func parseLine(line []byte) (*Scenario, error) {
	if n := bytes.Count(line, []byte("{")); n > MaxLineObjects {
		return nil, fmt.Errorf("the line has %d objects, more than %d: record fewer evaluations in a scenario", n, MaxLineObjects)
	}
	scenario := &Scenario{}
	if err := objectjson.UnmarshalStrict(line, scenario, openFields...); err != nil {
		return nil, lineError(line, err)
	}
	if len(scenario.Name) > maxNameBytes { // it is in all messages
		return nil, fmt.Errorf("name: is longer than %d bytes", maxNameBytes)
	}
	if err := scenario.readCalls(); err != nil {
		return nil, fmt.Errorf("%s: %w", scenario.Name, err)
	}
	if err := scenario.check(); err != nil {
		return nil, err
	}
	return scenario, nil
}

// lineError distinguishes a truncated line from a malformed one.
func lineError(line []byte, err error) error {
	var syntax *objectjson.SyntaxError
	switch {
	case !errors.As(err, &syntax):
		return err
	case syntax.Cut:
		return fmt.Errorf("unexpected end of line: the JSON of the scenario is cut off after %d bytes", len(line))
	default:
		return fmt.Errorf("byte %d: %w", syntax.Offset, err)
	}
}

// check returns the first problem that keeps the scenario from being replayed, with its field.
func (s *Scenario) check() error {
	switch {
	case s.Name == "":
		return errors.New("name: must be set")
	case s.fromCalls():
	case s.HPA == nil:
		return fmt.Errorf("%s: hpa: must be set", s.Name)
	case s.HPA.Name == "":
		return fmt.Errorf("%s: hpa.metadata.name: must be set", s.Name)
	case s.HPA.Namespace == "":
		return fmt.Errorf("%s: hpa.metadata.namespace: must be set", s.Name)
	}
	for i := range s.Steps {
		if err := s.checkStep(i); err != nil {
			return fmt.Errorf("%s: steps[%d].%w", s.Name, i, err)
		}
	}
	return nil
}

// fromCalls reports whether the scenario consists of calls.
func (s *Scenario) fromCalls() bool { return len(s.Steps) > 0 && s.Steps[0].Request != nil }

func (s *Scenario) checkStep(i int) error {
	step := &s.Steps[i]
	switch {
	case (step.Request != nil) != s.fromCalls():
		return errors.New("request: is of calls, and none is seen beside them")
	case step.Time.IsZero():
		return errors.New("time: must be set")
	case i > 0 && step.Time.Before(s.Steps[i-1].Time):
		return errors.New("time: is before that of the step before")
	case step.Request == nil && step.Scale == nil && step.ScaleGetError == "" && !step.HPADeleted:
		return errors.New("scale: must be set, or scaleGetError")
	}
	for j, field := range step.PlatformDependent {
		if !slices.Contains(fields, field) {
			return fmt.Errorf("platformDependent[%d]: %q is not a field of expect; must be one of %s", j, field, strings.Join(fields, ", "))
		}
	}
	for j, pod := range step.Pods {
		if pod == nil {
			return fmt.Errorf("pods[%d]: must not be null", j)
		}
	}
	for key := range step.Errors {
		if _, err := parseErrorKey(key); err != nil {
			return fmt.Errorf("errors: %w", err)
		}
	}
	return nil
}
