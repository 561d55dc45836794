package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// A pod's series counts while there are samples of it: from its first one to a step after
// its last one, wherever it is in the answer.
func TestSeriesCountWhileTheyAre(t *testing.T) {
	t.Parallel()
	const answer = `{"status":"success","data":{"resultType":"matrix","result":[
		{"values":[[1767571260,"10"],[1767571290,"10"]]},
		{"values":[[1767571200,"1"],[1767571230,"1"],[1767571260,"1"],[1767571290,"1"],[1767571320,"1"],[1767571350,"1"]]},
		{"values":[[1767571230,"100"]]}]}}`
	got, err := readPrometheus(t.Context(), []byte(answer), nil)
	fatal.If(t, err)
	if !got.begin.Equal(time.Unix(1767571200, 0)) {
		t.Errorf("begins at %s", got.begin)
	}
	for at, want := range map[float64]float64{0: 1, 29: 1, 30: 101, 59: 101, 60: 11, 90: 11, 119: 11, 120: 1, 150: 1} {
		if load := got.trace.At(seconds(at)); load != want {
			t.Errorf("at %g s: %g, want %g", at, load, want)
		}
	}
}

func TestSeriesTooFarApartAreRefused(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"5", "9000000000"} {
		_, err := readPrometheus(t.Context(), fmt.Appendf(nil, `{"status":"success","data":{"resultType":"matrix","result":[{"values":[[%s,"1"]]},{"values":[[1767571200,"1"]]}]}}`, first), nil)
		if err == nil || !strings.Contains(err.Error(), "the times span more than") {
			t.Errorf("from %s: %v", first, err)
		}
	}
}

// Instants that nanoseconds since the epoch can't tell are told all the same.
func TestInstantsFarAway(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"2263-01-01T00:00:00Z": 9246182400, "2500-01-01T00:00:00Z": 16725225600, "2026-01-05T00:00:00.25Z": 1767571200.25} {
		if got, err := instant(text, nil, 0); err != nil || got != want {
			t.Errorf("%s: %f and %v, want %f", text, got, err, want)
		}
	}
	if _, err := readCSV(t.Context(), []byte("2500-01-01T00:00:00Z,1\n2500-01-01T00:01:00Z,1\n"), nil); err == nil || !strings.Contains(err.Error(), "invalid time") {
		t.Errorf("a load of the year 2500: %v", err)
	}
}

// The hour in which clocks are set back is there twice, the first of it before the second.
func TestTimesOfDayThatExistTwice(t *testing.T) {
	t.Parallel()
	for zone, times := range map[string]string{
		"Europe/Berlin":       "2026-10-25 01:30,2026-10-25 02:00,2026-10-25 02:30,2026-10-25 02:00,2026-10-25 02:30,2026-10-25 03:00,2026-10-25 12:30",
		"America/New_York":    "2026-11-01 00:30,2026-11-01 01:00,2026-11-01 01:30,2026-11-01 01:00,2026-11-01 01:30,2026-11-01 02:00,2026-11-01 11:30",
		"Australia/Sydney":    "2026-04-05 01:30,2026-04-05 02:00,2026-04-05 02:30,2026-04-05 02:00,2026-04-05 02:30,2026-04-05 03:00,2026-04-05 12:30",
		"Australia/Lord_Howe": "2026-04-05 00:30,2026-04-05 01:00,2026-04-05 01:30,2026-04-05 01:30,2026-04-05 02:00,2026-04-05 02:30,2026-04-05 12:00",
		"UTC":                 "2026-10-25 01:30,2026-10-25 02:00,2026-10-25 02:30,2026-10-25 03:00,2026-10-25 03:30,2026-10-25 04:00,2026-10-25 13:30",
	} {
		in, err := time.LoadLocation(zone)
		fatal.If(t, err)
		got, err := readCSV(t.Context(), []byte("time,value\n"+strings.ReplaceAll(times, ",", ",1\n")+",1\n"), in)
		if err != nil {
			t.Errorf("%s: %v", zone, err)
			continue
		}
		if want := "[0s 30m0s 1h0m0s 1h30m0s 2h0m0s 2h30m0s 12h0m0s]"; fmt.Sprint(got.samples) != want {
			t.Errorf("%s: at %v, want %s", zone, got.samples, want)
		}
	}
	berlin, _ := time.LoadLocation("Europe/Berlin")
	if _, err := readCSV(t.Context(), []byte("2026-10-25 02:30,1\n2026-10-25 01:30,1\n"), berlin); err == nil || !strings.Contains(err.Error(), "sort the samples by time") {
		t.Errorf("a time before the other: %v", err)
	}
}

func seconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }

// Samples take the points that they become, not forty times their bytes. What other tests make at
// the same time would be counted.
func TestMemoryOfAnAnswerOfPrometheus(t *testing.T) { //nolint:paralleltest // as it says
	answer := []byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"pod":"a"},"values":[`)
	const n = 200_000
	for i := range n {
		if i > 0 {
			answer = append(answer, ',', ' ')
		}
		answer = fmt.Appendf(answer, `[%d,"%d.5"]`, 1767571200+i, i%100)
	}
	answer = append(answer, "]}]}}"...)
	got, err := readPrometheus(t.Context(), answer, nil)
	if err != nil || len(got.trace.Points()) != n || got.trace.Points()[n-1].Value != 99.5 {
		t.Fatal(err)
	}
	made := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, err := readPrometheus(b.Context(), answer, nil); err != nil {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	t.Logf("%d bytes, of which %d are made", len(answer), made)
	if made > 10*int64(len(answer)) {
		t.Errorf("%d bytes take %d", len(answer), made)
	}
}

// However many series or samples are there, no more are made than may be.
func TestAnswersOfPrometheusThatAreWrong(t *testing.T) {
	t.Parallel()
	const before, after = `{"status":"success","data":{"resultType":"matrix","result":[`, `]}}`
	for text, want := range map[string]string{
		before + strings.Repeat("{},", 1_000_000) + "{}" + after:                              "series 1: has no values",
		before + strings.Repeat(`{"values":[[1,"2"]]},`, 60) + `{"values":[[1,"2"]]}` + after: "more than 50 series",
		before + `{"values":[[1,"2"],` + strings.Repeat(`[1],`, 1000) + `[1]]}` + after:       `series 1: a sample must be a time and a value`,
		before + `{"values":[[1,2]]}` + after:                                                 `a sample must be a time and a value`,
		before + `{"values":[[1,"2",3]]}` + after:                                             `a sample must be a time and a value`,
		before + `{"values":[{"a":[1,"2"]}]}` + after:                                         `a sample must be a time and a value`,
		before + `{"values":[[[1],"2"]]}` + after:                                             `a sample must be a time and a value`,
		before + `{"values":[["]","2"]]}` + after:                                             `a sample must be a time and a value`,
		before + `{"values":[[1,"2"],[2,"x"]]}` + after:                                       `series 1: "x" is not a number`,
		before + `{"values":[["1","2"]]}` + after:                                             `is not a number`,
		before + `{"values":{"a":1}}` + after:                                                 "values: must be a list",
		before + `{"values":[[2,"2"],[1,"2"]]}` + after:                                       "sort the samples",
		`{"status":"success","data":{"resultType":"matrix","result":{"a":1}}}`:                "has 0 series",
		`{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"2"]}]}}`:    "must be a matrix",
		before + `{"values":[[1,"2"],]}` + after:                                              "is not a response of Prometheus",
	} {
		if _, err := readPrometheus(t.Context(), []byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.120s: %v, want %s", text, err, want)
		}
	}
	got, err := readPrometheus(t.Context(), []byte(before+` { "values" : [ [ 1 , "2" ] , [ 3 , "NaN" ] , [5,"+4"] ] , "metric" : { } } `+after), nil)
	if err != nil || len(got.trace.Points()) != 2 || got.noNumbers != 1 {
		t.Errorf("with spaces: %+v, %v", got, err)
	}
}

// Who no longer wants a scenario does not wait for its files.
func TestReadingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := []byte(strings.Repeat("1,2\n", 2*asked))
	for name, data := range map[string][]byte{"csv": lines, "prometheus": []byte(`{"status":"success","data":{"resultType":"matrix","result":[{"values":[` + strings.Repeat(`[1,"2"],`, 2*asked) + `[1,"2"]]}]}}`)} {
		_, err := Read(ctx, "s.yaml", scenario("  - "+name+": {file: f}"), nil, func(string) ([]byte, error) {
			cancel()
			return data, nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readCSV(ctx, lines, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("within a file: %v", err)
	}
}
