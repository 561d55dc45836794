package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Writer writes scenarios, a line each. Use it over a gzip.Writer for a compressed file. It is
// not safe for concurrent use.
type Writer struct {
	output io.Writer
}

// NewWriter returns a writer to w. Each scenario is one call of w.Write, so that a crash leaves
// whole lines.
func NewWriter(w io.Writer) *Writer {
	return &Writer{output: w}
}

// Write appends the scenario as one line, with sorted keys and without empty fields. It writes
// times of pods and metrics to the second, as the API server does. It refuses a scenario that
// could not be read again.
func (w *Writer) Write(scenario *Scenario) error {
	read := *scenario
	if err := read.readCalls(); err != nil {
		return fmt.Errorf("%s: %w", scenario.Name, err)
	}
	if err := read.check(); err != nil {
		return err
	}
	if scenario.fromCalls() {
		return fmt.Errorf("%s: its calls have become steps, which only an agent's recorder writes", scenario.Name)
	}
	line, err := encode(scenario)
	if err != nil {
		return fmt.Errorf("%s: %w", scenario.Name, err)
	}
	if len(line) > MaxLineBytes {
		return fmt.Errorf("%s: the line is longer than %d bytes", scenario.Name, MaxLineBytes)
	}
	_, err = w.output.Write(append(line, '\n'))
	return err
}

// encode writes JSON twice: Go's types write fields in their order, and the API's types write
// some that are empty.
func encode(scenario *Scenario) ([]byte, error) {
	typed, err := json.Marshal(scenario)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	decoder := json.NewDecoder(bytes.NewReader(typed))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	prune(tree, false)
	return json.Marshal(tree)
}

// prune drops the fields below node that are null or an empty object, except for those of the
// outcome in which null has a meaning. The messages of calls stay as they are: they have only what is set.
func prune(node any, outcome bool) {
	switch v := node.(type) {
	case []any:
		for _, item := range v {
			prune(item, outcome)
		}
	case map[string]any:
		for key, child := range v {
			if key == "request" || key == "answer" || key == "basis" {
				continue
			}
			prune(child, outcome || key == "expect")
			if saysNothing(key, child, outcome) {
				delete(v, key)
			}
		}
	}
}

// saysNothing reports whether a field may be omitted. In the outcome a null text is
// undetermined and a null time or generation is unset, so they stay; an empty selector prints
// differently from none, and an empty behavior limits changes where none does not, so they stay, too.
func saysNothing(key string, value any, outcome bool) bool {
	if value == nil {
		switch key {
		case "message", "error":
			return false
		case "lastScaleTime", "lastTransitionTime", "observedGeneration":
			return !outcome
		}
		return true
	}
	switch key {
	case "selector", "behavior", "scaleUp", "scaleDown":
		return false
	}
	object, ok := value.(map[string]any)
	return ok && len(object) == 0
}
