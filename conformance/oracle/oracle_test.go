package oracle_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// runs is a driver that gives the outcomes of a function of the run's number.
type runs struct {
	steps func(run int) ([]oracle.Outcome, error)
	run   int
}

func (r *runs) Prepare([]byte) (oracle.Run, error) { return r, nil }

func (r *runs) Steps() ([]oracle.Outcome, error) {
	r.run++
	return r.steps(r.run)
}

func serve(t *testing.T, driver oracle.Driver, request string) string {
	t.Helper()
	var out bytes.Buffer
	if err := oracle.Serve(t, driver, strings.NewReader(request), &out); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

func failing(text string) []oracle.Outcome {
	return []oracle.Outcome{{
		Conditions:     []oracle.Condition{{Type: "ScalingActive", Message: oracle.Text{Value: text}}},
		CurrentMetrics: []json.RawMessage{},
		Events:         []oracle.Event{},
		Error:          &oracle.Text{Value: "always"},
	}}
}

func TestTextsThatDifferBetweenRunsAreUndetermined(t *testing.T) {
	driver := &runs{steps: func(run int) ([]oracle.Outcome, error) { return failing("web-" + string(rune('0'+run%2))), nil }}
	got := serve(t, driver, `{"runs":3,"scenario":{}}`)
	const want = `{"steps":[{"desiredReplicas":0,"currentReplicas":0,"scaled":false,` +
		`"conditions":[{"type":"ScalingActive","status":"","reason":"","message":null}],"currentMetrics":[],"events":[],"error":"always"}]}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestCountsMayNotDifferBetweenRuns(t *testing.T) {
	driver := &runs{steps: func(run int) ([]oracle.Outcome, error) {
		return []oracle.Outcome{{DesiredReplicas: int32(run)}}, nil
	}}
	if got := serve(t, driver, `{"runs":2,"scenario":{}}`); !strings.Contains(got, "different counts") {
		t.Errorf("got %s", got)
	}
}

func TestFailuresAreAnswered(t *testing.T) {
	for name, test := range map[string]struct {
		steps func(int) ([]oracle.Outcome, error)
		want  string
	}{
		"error":         {func(int) ([]oracle.Outcome, error) { return nil, errors.New("no such thing") }, `{"error":"no such thing"}`},
		"panic":         {func(int) ([]oracle.Outcome, error) { panic("nil pointer") }, `{"error":"panic: nil pointer\n`},
		"back in time":  {func(int) ([]oracle.Outcome, error) { return nil, oracle.SleepUntil(time.Unix(0, 0)) }, `is before 2000-01-01`},
		"ahead in time": {func(int) ([]oracle.Outcome, error) { return nil, oracle.SleepUntil(time.Now().Add(time.Hour)) }, `{}`},
	} {
		if got := serve(t, &runs{steps: test.steps}, `{"scenario":{}}`); !strings.Contains(got, test.want) {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
	if got := serve(t, &runs{}, `{"scenario":`); !strings.Contains(got, "malformed request") {
		t.Errorf("got %s", got)
	}
}

func TestAnUndeterminedErrorIsReadAsOne(t *testing.T) {
	for text, want := range map[string]*oracle.Text{
		`{}`:               nil,
		`{"error":null}`:   {Undetermined: true},
		`{"error":"down"}`: {Value: "down"},
	} {
		outcome := oracle.Outcome{Error: &oracle.Text{Value: "left over"}}
		if err := json.Unmarshal([]byte(text), &outcome); err != nil {
			t.Fatal(err)
		}
		if (outcome.Error == nil) != (want == nil) || want != nil && *outcome.Error != *want {
			t.Errorf("%s was read as %+v", text, outcome.Error)
		}
	}
}

func TestReplayRewordsAndCountsRecordings(t *testing.T) {
	const recording = `{"name":"one","steps":[{"expect":{"desiredReplicas":0,"currentReplicas":0,"scaled":false,` +
		`"conditions":[{"type":"ScalingActive","status":"","reason":"","message":"old words"}],"currentMetrics":[],"events":[],"error":null}}]}`
	file := filepath.Join(t.TempDir(), "one.jsonl.gz")
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(recording)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, zipped.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	driver := &runs{steps: func(int) ([]oracle.Outcome, error) { return failing("new words"), nil }}
	oracle.Replay(t, driver, file, func(text string) string { return strings.ReplaceAll(text, "old", "new") }, oracle.Recorded{Scenarios: 1, Steps: 1})
}

func TestUndetermineMarksTextsWhereverTheyAre(t *testing.T) {
	outcome := oracle.Outcome{
		Conditions: []oracle.Condition{{Message: oracle.Text{Value: "a list"}}, {Message: oracle.Text{Value: "no such"}}},
		Events:     []oracle.Event{{Message: oracle.Text{Value: "a list"}}, {Message: oracle.Text{Value: "no such"}}},
		Error:      &oracle.Text{Value: "a list"},
	}
	outcome.Undetermine(func(text string) bool { return strings.Contains(text, "list") })
	unknown, kept := oracle.Text{Undetermined: true}, oracle.Text{Value: "no such"}
	if outcome.Conditions[0].Message != unknown || outcome.Events[0].Message != unknown || *outcome.Error != unknown {
		t.Errorf("a list is left in %+v", outcome)
	}
	if outcome.Conditions[1].Message != kept || outcome.Events[1].Message != kept {
		t.Errorf("too much is marked in %+v", outcome)
	}
}

// HPAs that select the same pods are named in the order of a map: runs that differ in
// that alone have a text that is determined.
func TestNamesOfHPAsAreASet(t *testing.T) {
	const text = "pods by selector a=b are controlled by multiple HPAs: "
	driver := &runs{steps: func(run int) ([]oracle.Outcome, error) {
		steps := failing(text + [2]string{"[ns/a ns/b]", "[ns/b ns/a]"}[run%2])
		steps[0].Events = []oracle.Event{{Message: steps[0].Conditions[0].Message}}
		steps[0].Error = &oracle.Text{Value: "failed: " + steps[0].Events[0].Message.Value}
		steps[0].SortNames()
		return steps, nil
	}}
	got := serve(t, driver, `{"runs":4,"scenario":{}}`)
	if strings.Contains(got, "null") || strings.Count(got, text+"[ns/a ns/b]") != 3 {
		t.Errorf("got %s", got)
	}
}

// A time that is known is answered, null where it is known not to be set; two runs must
// have the same.
func TestTimesAreAnsweredWhereTheyAreKnown(t *testing.T) {
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	steps := func(apart time.Duration) []oracle.Outcome {
		steps := failing("same")
		steps[0].Conditions[0].LastTransitionTime.Time = at.Add(apart)
		steps[0].KnowAll()
		return steps
	}
	got := serve(t, &runs{steps: func(int) ([]oracle.Outcome, error) { return steps(0), nil }}, `{"runs":2,"scenario":{}}`)
	if !strings.Contains(got, `"lastScaleTime":null,"observedGeneration":null`) || !strings.Contains(got, `"lastTransitionTime":"2026-03-02T09:00:00Z"`) {
		t.Errorf("got %s", got)
	}
	got = serve(t, &runs{steps: func(run int) ([]oracle.Outcome, error) { return steps(time.Duration(run)), nil }}, `{"runs":2,"scenario":{}}`)
	if !strings.Contains(got, "two runs set condition 0 differently") {
		t.Errorf("got %s", got)
	}
}
