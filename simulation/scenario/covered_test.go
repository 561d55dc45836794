package scenario

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// What is not covered is between samples that are further apart than one stands for, before the
// first and after the last one, in any of the files.
func TestCoverageOfRecordedLoad(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"a.csv": "2026-03-02T00:10:00Z,1\n2026-03-02T00:12:00Z,1\n2026-03-02T01:00:00Z,1\n2026-03-02T01:05:00Z,1\n",
		"b.csv": "2026-03-02T00:00:00Z,1\n2026-03-02T00:15:00Z,NaN\n2026-03-02T00:30:00Z,1\n2026-03-02T01:10:00Z,1\n",
		"c.csv": "0,1\n60,1\n120,1\n",
	}
	for _, tt := range []struct {
		load string
		want []Gap
	}{
		{"load: [{csv: {file: a.csv}}]", []Gap{{7 * time.Minute, 50 * time.Minute}}},
		{"load: [{csv: {file: a.csv}}]\nstart: 2026-03-02T00:00:00Z\nduration: 70m", []Gap{{0, 10 * time.Minute}, {17 * time.Minute, time.Hour}, {65 * time.Minute, 70 * time.Minute}}},
		{"load: [{csv: {file: a.csv}}, {csv: {file: b.csv}}]", []Gap{{0, 70 * time.Minute}}},
		{"load: [{csv: {file: c.csv}}]", nil},
		{"load: [{csv: {file: c.csv}}, {constant: 3}]\nduration: 3m", []Gap{{2 * time.Minute, 3 * time.Minute}}},
		{"load: [{constant: 3}]", nil},
		// Load that belongs to a member of a fleet is recorded, too.
		{"load: [{constant: 3}]\nfleet: {members: [{name: a}, {name: b, load: [{csv: {file: b.csv}}]}]}", []Gap{{5 * time.Minute, 30 * time.Minute}, {35 * time.Minute, 70 * time.Minute}}},
		{"load: [{csv: {file: a.csv}}]\nfleet: {members: [{name: a, load: [{csv: {file: b.csv}}]}, {name: b}]}", []Gap{{0, 70 * time.Minute}}},
	} {
		s, got, err := ReadRecorded(t.Context(), "s.yaml", []byte(tt.load+"\nworkload: {usage: [{metric: cpu, perLoad: 1}]}"), nil, func(name string) ([]byte, error) {
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, errors.New("no such file")
		})
		if err != nil {
			t.Errorf("%s: %v", tt.load, err)
			continue
		}
		left := s.Duration
		for _, g := range got.Gaps {
			left -= g.To - g.From
		}
		if !slices.Equal(got.Gaps, tt.want) || got.Covered != left || len(got.Files) != strings.Count(tt.load, "file") || (got.NoNumbers > 0) != strings.Contains(tt.load, "b.csv") {
			t.Errorf("%s: %+v of %s, want gaps %v", tt.load, got, s.Duration, tt.want)
		}
	}
}

// Files as spreadsheets, dashboards and people write them.
func TestFormsOfCSV(t *testing.T) {
	t.Parallel()
	const want = 1772413200 // 2026-03-02T01:00:00Z
	for name, text := range map[string]string{
		"instants":              "2026-03-02T01:00:00Z,5\n2026-03-02T01:01:00Z,7\n",
		"Windows line ends":     "time,value\r\n2026-03-02T01:00:00Z,5\r\n2026-03-02T01:01:00Z,7\r\n",
		"a byte order mark":     "\ufefftime,value\n2026-03-02T01:00:00Z,5\n2026-03-02T01:01:00Z,7\n",
		"the time second":       "rps, Timestamp\n5,1772413200\n7,1772413260\n",
		"the value is a time":   "time,time\n1772413200,5\n1772413260,7\n",
		"semicolons":            "Zeit;Wert\n2026-03-02T01:00:00Z;5\n2026-03-02T01:01:00Z;7\n",
		"tabs":                  "2026-03-02T01:00:00Z\t5\n2026-03-02T01:01:00Z\t7\n",
		"quotes":                "\"Time\",\"Value #A\"\n\"2026-03-02T01:00:00Z\",\"5\"\n\"2026-03-02T01:01:00Z\",\"7\"\n",
		"seconds":               "1772413200,5\n1772413260,7\n",
		"milliseconds":          "1772413200000,5\n1772413260000,7\n",
		"an offset":             "2026-03-02T03:00:00+02:00,5\n2026-03-02T03:01:00+02:00,7\n",
		"the scenario's zone":   "2026-03-02 02:00:00,5\n2026-03-02 02:01:00,7\n",
		"the zone, T":           "2026-03-02T02:00:00,5\n2026-03-02T02:01:00,7\n",
		"minutes":               "2026-03-02 02:00,5\n2026-03-02 02:01,7\n",
		"an exponent":           "1.7724132e9,5e0\n1.77241326e9,0.7e1\n",
		"samples without value": "1772413200,5\n1772413215,NaN\n1772413230,\n1772413245,null\n1772413260,7\n",
		"exported twice":        "1772413200,5\n1772413200,5\n1772413200,5\n1772413260,7\n",
		"blank lines":           "1772413200,5\n\n1772413260,7\n\n",
	} {
		got, err := readCSV(t.Context(), []byte(text), time.FixedZone("CET", 3600))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !got.begin.Equal(time.Unix(want, 0)) || got.trace.At(0) != 5 || got.trace.At(time.Minute) != 7 || got.trace.At(30*time.Second) != 6 || len(got.samples) != 2 {
			t.Errorf("%s: from %s, %v", name, got.begin, got.trace.Points())
		}
		if (got.noNumbers == 3) != (name == "samples without value") {
			t.Errorf("%s: %d samples have no value", name, got.noNumbers)
		}
	}
}

// A count is the newest sample's, as long as one stands for it.
func TestSeriesAreStepsOfSamples(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"time,replicas\n1772413200,3\n1772413260,5\n",
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1772413200,"3"],[1772413230,"NaN"],[1772413260,"5"]]}]}}`,
	} {
		s, err := ReadSeries(t.Context(), []byte(text), nil)
		fatal.If(t, err)
		for after, want := range map[int]float64{-1: -1, 0: 3, 59: 3, 60: 5, 360: 5, 361: -1} {
			got, ok := s.At(time.Unix(1772413200+int64(after), 0))
			if !ok {
				got = -1
			}
			if math.Abs(got-want) > 0 {
				t.Errorf("%d s after the first sample: %g, want %g", after, got, want)
			}
		}
	}
	for text, want := range map[string]string{"0,3\n15,3\n": "must be instants", "{": "is not a response of Prometheus", "a;b;c\n": "must have two"} {
		if _, err := ReadSeries(t.Context(), []byte(text), nil); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
