package oracle

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// replayRuns is how often Replay runs a scenario: forwards and backwards.
const replayRuns = 2

// maxReported is how many scenarios with differences Replay reports.
const maxReported = 20

// Recorded is how much Replay has compared.
type Recorded struct {
	Scenarios, Steps int
}

// Replay serves every scenario of the recordings that match pattern, gzip-compressed
// files of one scenario a line, and fails the test where a step does not come out as
// recorded. Texts that are undetermined, in the recording or here, match any text.
//
// Known, unless nil, gives the words that this version has for a recorded text.
func Replay(t *testing.T, driver Driver, pattern string, known func(text string) string) (total Recorded) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings match %s: %v", pattern, err)
	}
	reported := 0
	for _, file := range files {
		err := lines(file, func(line []byte) error {
			name, steps, problem := replay(t, driver, line, known)
			total.Scenarios++
			total.Steps += steps
			if problem != nil && reported < maxReported {
				t.Errorf("%s: %v", name, problem)
				reported++
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return total
}

// lines calls f with each line of a gzip-compressed file.
func lines(file string, f func(line []byte) error) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	reader := bufio.NewReaderSize(unzipped, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := f(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// replay compares one scenario, by way of what a harness would send and read.
func replay(t *testing.T, driver Driver, line []byte, known func(string) string) (name string, steps int, problem error) {
	var recorded struct {
		Name  string `json:"name"`
		Steps []struct {
			Expect Outcome `json:"expect"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(line, &recorded); err != nil {
		return "", 0, err
	}
	request, err := json.Marshal(Request{Runs: replayRuns, Scenario: line})
	if err != nil {
		return recorded.Name, 0, err
	}
	var text bytes.Buffer
	if err := Serve(t, driver, bytes.NewReader(request), &text); err != nil {
		return recorded.Name, 0, err
	}
	var answer Answer
	if err := json.Unmarshal(text.Bytes(), &answer); err != nil {
		return recorded.Name, 0, err
	}
	switch {
	case answer.Error != "":
		return recorded.Name, 0, errors.New(answer.Error)
	case len(answer.Steps) != len(recorded.Steps):
		return recorded.Name, 0, fmt.Errorf("%d steps, recorded are %d", len(answer.Steps), len(recorded.Steps))
	}
	for i := range recorded.Steps {
		want := &recorded.Steps[i].Expect
		want.reword(known)
		if err := want.compare(&answer.Steps[i]); err != nil {
			return recorded.Name, i, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return recorded.Name, len(recorded.Steps), nil
}

// reword changes all texts.
func (o *Outcome) reword(known func(string) string) {
	if known == nil {
		return
	}
	for i := range o.Conditions {
		o.Conditions[i].Message.Value = known(o.Conditions[i].Message.Value)
	}
	for i := range o.Events {
		o.Events[i].Message.Value = known(o.Events[i].Message.Value)
	}
	if o.Error != nil {
		o.Error.Value = known(o.Error.Value)
	}
}

// compare returns the first difference between the recorded outcome and got.
func (o *Outcome) compare(got *Outcome) error {
	differ := func(field string, want, got any) error {
		// An error that is not there, or not determined, is null.
		w, _ := json.Marshal(want)
		g, _ := json.Marshal(got)
		return fmt.Errorf("%s: recorded\n\t%s\ngot\n\t%s", field, w, g)
	}
	switch {
	case o.DesiredReplicas != got.DesiredReplicas:
		return differ("desiredReplicas", o.DesiredReplicas, got.DesiredReplicas)
	case o.CurrentReplicas != got.CurrentReplicas:
		return differ("currentReplicas", o.CurrentReplicas, got.CurrentReplicas)
	case o.Scaled != got.Scaled:
		return differ("scaled", o.Scaled, got.Scaled)
	case o.ScaledTo != got.ScaledTo:
		return differ("scaledTo", o.ScaledTo, got.ScaledTo)
	case len(o.Conditions) != len(got.Conditions):
		return differ("conditions", o.Conditions, got.Conditions)
	case len(o.Events) != len(got.Events):
		return differ("events", o.Events, got.Events)
	case !sameJSON(o.CurrentMetrics, got.CurrentMetrics):
		return differ("currentMetrics", o.CurrentMetrics, got.CurrentMetrics)
	case (o.Error == nil) != (got.Error == nil), o.Error != nil && !o.Error.matches(*got.Error):
		return differ("error", o.Error, got.Error)
	}
	for i, want := range o.Conditions {
		c := got.Conditions[i]
		if want.Type != c.Type || want.Status != c.Status || want.Reason != c.Reason || !want.Message.matches(c.Message) {
			return differ(fmt.Sprintf("conditions[%d]", i), want, c)
		}
	}
	for i, want := range o.Events {
		e := got.Events[i]
		if want.Type != e.Type || want.Reason != e.Reason || !want.Message.matches(e.Message) {
			return differ(fmt.Sprintf("events[%d]", i), want, e)
		}
	}
	return nil
}

func (t Text) matches(other Text) bool {
	return t.Undetermined || other.Undetermined || t.Value == other.Value
}

// sameJSON compares texts but for the order of keys.
func sameJSON(a, b []json.RawMessage) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		var x, y any
		if json.Unmarshal(a[i], &x) != nil || json.Unmarshal(b[i], &y) != nil || !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}
