package recording_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// line is a scenario of one step.
const line = `{"config":{"tolerance":0.1},"hpa":{"metadata":{"name":"web","namespace":"shop"},"spec":{"maxReplicas":3}},` +
	`"name":"one","steps":[{"scale":{"spec":{"replicas":2},"status":{"replicas":2}},"time":"2026-03-02T09:00:00.000000001Z"}]}`

// compressed returns text compressed with gzip.
func compressed(t testing.TB, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, w.Close())
	return out.Bytes()
}

func TestReaderReadsPlainAndCompressed(t *testing.T) {
	two := line + "\n" + strings.Replace(line, "one", "two", 1)
	for _, test := range []struct {
		name    string
		content []byte
		want    []string
	}{
		{"nothing", nil, nil},
		{"lines", []byte(two + "\n"), []string{"one", "two"}},
		{"a last line without an end", []byte(two), []string{"one", "two"}},
		{"empty lines and line ends of another system", []byte("\n \r\n" + two + "\r\n\n"), []string{"one", "two"}},
		{"compressed", compressed(t, two), []string{"one", "two"}},
		{"compressed twice, one after the other", append(compressed(t, line+"\n"), compressed(t, two)...), []string{"one", "one", "two"}},
		{"compressed nothing", compressed(t, ""), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for scenario, err := range recording.NewReader("r.jsonl", bytes.NewReader(test.content)).All() {
				fatal.If(t, err)
				got = append(got, scenario.Name)
			}
			if strings.Join(got, " ") != strings.Join(test.want, " ") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestReaderNamesWhatIsWrong(t *testing.T) {
	replaced := func(old, replacement string) string {
		if !strings.Contains(line, old) {
			t.Fatalf("%s is not in the line", old)
		}
		return strings.Replace(line, old, replacement, 1)
	}
	for _, test := range []struct{ name, text, want string }{
		{"cut off in the middle of a line", line + "\n" + line[:100], "r.jsonl:2: unexpected end of line: the JSON of the scenario is cut off after 100 bytes"},
		{"cut off, and more lines", line[:100] + "\n" + line, "r.jsonl:1: unexpected end of line:"},
		{"malformed", "\n" + replaced(`"hpa":`, `"hpa"`), `r.jsonl:2: byte 34: invalid character '{' after object key`},
		{"Latin-1 in a later line", line + "\n" + replaced(`"one"`, "\"gr\xfcn\""), "r.jsonl:2: is not UTF-8: save the file"},
		{"no object", "[]", "r.jsonl:1: this is no recording"},
		{"no object later", line + "\n[]", "r.jsonl:2: json: cannot unmarshal array"},
		{"two scenarios in a line", line + line, "r.jsonl:1: byte"},
		{"an unknown field", replaced(`"steps":[{`, `"steps":[{"scaleUpdateErr":"x",`), `r.jsonl:1: unknown field "steps[0].scaleUpdateErr"`},
		{"an unknown field of the spec", replaced(`"maxReplicas"`, `"maxReplica"`), `r.jsonl:1: unknown field "hpa.spec.maxReplica"`},
		{"unknown fields of objects", replaced(`"scale":{`, `"pods":[{"new":1,"spec":{"containers":[],"new":2}}],"scale":{"new":3,`), ""},
		{"a value of another type", replaced(`"replicas":2`, `"replicas":"2"`), "r.jsonl:1: steps.scale.spec.replicas: expected int32, found string"},
		{"a malformed time", replaced("2026-03-02T09", "2026-03-02 09"), `r.jsonl:1: parsing time "2026-03-02 09`},
		{"no name", replaced(`"one"`, `""`), "r.jsonl:1: name: must be set"},
		{"no autoscaler", replaced(`"hpa":{"metadata":{"name":"web","namespace":"shop"},"spec":{"maxReplicas":3}},`, ""), "r.jsonl:1: one: hpa: must be set"},
		{"an autoscaler without a name", replaced(`"name":"web",`, ""), "r.jsonl:1: one: hpa.metadata.name: must be set"},
		{"an autoscaler without a namespace", replaced(`,"namespace":"shop"`, ""), "r.jsonl:1: one: hpa.metadata.namespace: must be set"},
		{"a step without a time", replaced(`,"time":"2026-03-02T09:00:00.000000001Z"`, ""), "r.jsonl:1: one: steps[0].time: must be set"},
		{"a step back in time", replaced(`"steps":[`, `"steps":[{"hpaDeleted":true,"time":"2026-03-02T09:00:00.000000002Z"},`),
			"r.jsonl:1: one: steps[1].time: is before that of the step before"},
		{"a step at the same time", replaced(`"steps":[`, `"steps":[{"hpaDeleted":true,"time":"2026-03-02T09:00:00.000000001Z"},`), ""},
		{"a step without a scale", replaced(`"scale":{"spec":{"replicas":2},"status":{"replicas":2}},`, ""), "r.jsonl:1: one: steps[0].scale: must be set, or scaleGetError"},
		{"a step whose scale can't be read", replaced(`"scale":{"spec":{"replicas":2},"status":{"replicas":2}},`, `"scaleGetError":"x",`), ""},
		{"a pod that is null", replaced(`"scale":{`, `"pods":[null],"scale":{`), "r.jsonl:1: one: steps[0].pods[0]: must not be null"},
		{"an error of no API", replaced(`"scale":{`, `"errors":{"pods":"down"},"scale":{`), `r.jsonl:1: one: steps[0].errors: "pods": must be resource, custom, external, custom:<metric> or external:<metric>`},
		{"an error of one resource", replaced(`"scale":{`, `"errors":{"resource:cpu":"down"},"scale":{`), `r.jsonl:1: one: steps[0].errors: "resource:cpu": must be`},
		{"an unknown name of the platform's", replaced(`"scale":{`, `"platformDependent":["events","replicas"],"scale":{`), `r.jsonl:1: one: steps[0].platformDependent[1]: "replicas" is not a field of expect; must be one of desiredReplicas,`},
		{"a part of a field of the platform's", replaced(`"scale":{`, `"platformDependent":["conditions[0].message"],"scale":{`), `r.jsonl:1: one: steps[0].platformDependent[0]: "conditions[0].message" is not a field`},
		{"fields of the platform's", replaced(`"scale":{`, `"platformDependent":["scaled","error","lastScaleTime"],"scale":{`), ""},
		{"an error of a metric with colons", replaced(`"scale":{`, `"errors":{"external:job:rps":"down"},"scale":{`), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := firstError(recording.NewReader("r.jsonl", strings.NewReader(test.text)))
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)):
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func firstError(reader *recording.Reader) error {
	for _, err := range reader.All() {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestReaderGoesOnAfterABadLine(t *testing.T) {
	reader := recording.NewReader("r.jsonl", strings.NewReader("{\n"+line+"\n"+line[:9]))
	var got []string
	for scenario, err := range reader.All() {
		if err != nil {
			got = append(got, err.Error()[:9])
			continue
		}
		got = append(got, scenario.Name)
	}
	if strings.Join(got, " ") != "r.jsonl:1 one r.jsonl:3" {
		t.Errorf("got %q", got)
	}
	if _, err := reader.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end got %v, want io.EOF", err)
	}
}

func TestReaderDetectsATruncatedArchive(t *testing.T) {
	whole := compressed(t, strings.Repeat(line+"\n", 3))
	for _, test := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"in its data", whole[:len(whole)-12], ":4: unexpected end of file: the compressed data is cut off"},
		{"in its checksum", whole[:len(whole)-4], ":4: unexpected end of file: the compressed data is cut off"},
		{"in its header", whole[:5], ": unexpected end of file: the compressed data is cut off"},
		{"damaged", append(append([]byte{}, whole[:len(whole)-8]...), 0, 0, 0, 0, 0, 0, 0, 0), ":4: gzip: invalid checksum"},
	} {
		t.Run(test.name, func(t *testing.T) {
			reader := recording.NewReader("r.jsonl.gz", bytes.NewReader(test.content))
			err := firstError(reader)
			if err == nil || !strings.HasPrefix(err.Error(), "r.jsonl.gz") || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if _, again := reader.Next(); !errors.Is(again, err) {
				t.Errorf("then got %v", again)
			}
		})
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(line))
	f.Add([]byte(line + "\n" + line[:50]))
	f.Add(compressed(f, line))
	for i, scenario := range readRecordings(f, "curated.jsonl.gz") {
		if len(scenario.Steps) == 1 && i%20 == 0 {
			var out bytes.Buffer
			fatal.If(f, recording.NewWriter(&out).Write(scenario))
			f.Add(out.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for scenario, err := range recording.NewReader("fuzz", bytes.NewReader(content)).All() {
			if err != nil {
				continue
			}
			player := recording.NewPlayer(scenario)
			for i := range scenario.Steps {
				if request, err := player.Request(&scenario.Steps[i], "replay"); err == nil && request != nil {
					scenario.Steps[i].Differences(recording.Outcome{Status: request.GetPreviousStatus()})
				}
			}
			if err := recording.NewWriter(io.Discard).Write(scenario); err != nil {
				t.Errorf("read, but not to be written: %v", err)
			}
		}
	})
}

// A few bytes of gzip may hold any number of empty lines: a bound ends them.
func TestEmptyLinesAreBounded(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"\n", " \n", strings.Repeat(" ", 100_000) + "\r\n"} {
		r := recording.NewReader("f", strings.NewReader(strings.Repeat(line, 2+recording.MaxEmptyBytes/len(line))))
		if _, err := r.Next(); err == nil || !strings.Contains(err.Error(), "empty lines have more than") {
			t.Errorf("lines of %d bytes: %v", len(line), err)
		}
	}
}

// What goes on for ever and is no recording is not read for ever.
func TestUnreadableLinesAreBounded(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"CSV": "time,value\n0,1\n", "a manifest": "\nkind: List\n"} {
		var told []string
		for _, err := range recording.NewReader("f", strings.NewReader(strings.Repeat(text, 100))).All() {
			told = append(told, err.Error())
		}
		if len(told) != 1 || !strings.Contains(told[0], `is no recording, of which each line is a scenario in JSON, {"name": `) {
			t.Errorf("of %s it says %q", name, told)
		}
	}
	told := 0
	var last error
	for _, err := range recording.NewReader("f", strings.NewReader(strings.Repeat("{}\n", 2*recording.MaxUnreadable))).All() {
		told, last = told+1, err
	}
	if told != recording.MaxUnreadable || last == nil || !strings.Contains(last.Error(), "f:1000: ") || !strings.Contains(last.Error(), "is this a recording?") {
		t.Errorf("%d lines were told of, the last one: %v", told, last)
	}
}
