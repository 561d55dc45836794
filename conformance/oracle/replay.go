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
	"runtime"
	"testing"
)

// replayRuns is how often Replay runs a scenario: forwards and backwards.
const replayRuns = 2

// maxReported limits the scenarios with differences that Replay reports.
const maxReported = 20

// Recorded counts what is compared with recordings.
type Recorded struct {
	Scenarios, Steps int
}

const (
	// Recordings is the folder of the recordings, seen from that of a version.
	Recordings = "../../clients/kubernetes/recording/testdata/"
	// CommonRecordings are those of v1.36, made by a driver of its own.
	CommonRecordings = Recordings + "[cf]u*.jsonl.gz"
)

// InCommonRecordings are as many.
var InCommonRecordings = Recorded{Scenarios: 827, Steps: 9577}

// Replay serves every scenario of the recordings that match pattern, gzip-compressed
// files of one scenario a line, and fails the test if the outcome of a step is not the
// recorded one, or there are not as many. Undetermined texts, in the recording or here,
// match any text.
//
// Known, unless nil, returns this version's words for a recorded text.
func Replay(t *testing.T, driver Driver, pattern string, known func(text string) string, want Recorded) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("recorded on amd64; numbers out of range come out otherwise here")
	}
	var total Recorded
	reported := 0
	eachLine(t, pattern, func(line []byte) {
		name, steps, problem := replay(t, driver, line, known)
		total.Scenarios++
		total.Steps += steps
		if problem != nil && reported < maxReported {
			t.Errorf("%s: %v", name, problem)
			reported++
		}
	})
	if total != want {
		t.Errorf("%+v came out as recorded, want %+v", total, want)
	}
}

// AnswerRecordings runs every scenario of the common recordings, and fails the test if
// one has no outcome. What the outcomes are in other versions than v1.36 was not recorded.
func AnswerRecordings(t *testing.T, driver Driver) {
	t.Helper()
	var total Recorded
	eachLine(t, CommonRecordings, func(line []byte) {
		total.Scenarios++
		answer, err := Ask(t, driver, line, replayRuns)
		if err != nil {
			t.Fatalf("scenario %d: %v", total.Scenarios, err)
		}
		total.Steps += len(answer)
	})
	if total != InCommonRecordings {
		t.Errorf("%+v have answers, want %+v", total, InCommonRecordings)
	}
}

// eachLine calls f with each line of the gzip-compressed files that match pattern.
func eachLine(t *testing.T, pattern string, f func(line []byte)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings match %s: %v", pattern, err)
	}
	for _, file := range files {
		if err := lines(file, f); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// lines calls f with each line of a gzip-compressed file.
func lines(file string, f func(line []byte)) error {
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
			f(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Ask returns the outcome of each step of a scenario that runs that many times, through
// the protocol of the harness. The error is that of the answer, if it has one.
func Ask(t *testing.T, driver Driver, scenario []byte, runs int) ([]Outcome, error) {
	t.Helper()
	request, err := json.Marshal(Request{Runs: runs, Scenario: scenario})
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := Serve(t, driver, bytes.NewReader(request), &text); err != nil {
		return nil, err
	}
	var answer Answer
	if err := json.Unmarshal(text.Bytes(), &answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	return answer.Steps, nil
}

// replay compares the outcome of one scenario with the recorded one.
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
	answered, err := Ask(t, driver, line, replayRuns)
	switch {
	case err != nil:
		return recorded.Name, 0, err
	case len(answered) != len(recorded.Steps):
		return recorded.Name, 0, fmt.Errorf("%d steps, recorded are %d", len(answered), len(recorded.Steps))
	}
	for i := range recorded.Steps {
		want := &recorded.Steps[i].Expect
		want.reword(known)
		if err := want.compare(&answered[i]); err != nil {
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
		// A missing or undetermined error is null.
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
	case o.ObservedGeneration.Known && !o.ObservedGeneration.equal(got.ObservedGeneration):
		return differ("observedGeneration", o.ObservedGeneration, got.ObservedGeneration)
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

// sameJSON compares texts regardless of the order of keys.
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
