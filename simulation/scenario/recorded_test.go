package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A pod's series counts while there are samples of it: from its first one to a step after
// its last one, wherever it is in the answer.
func TestSeriesCountWhileTheyAre(t *testing.T) {
	t.Parallel()
	const answer = `{"status":"success","data":{"resultType":"matrix","result":[
		{"values":[[1767571260,"10"],[1767571290,"10"]]},
		{"values":[[1767571200,"1"],[1767571230,"1"],[1767571260,"1"],[1767571290,"1"],[1767571320,"1"],[1767571350,"1"]]},
		{"values":[[1767571230,"100"]]}]}}`
	got, err := readPrometheus([]byte(answer), nil)
	if err != nil {
		t.Fatal(err)
	}
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
		_, err := readPrometheus(fmt.Appendf(nil, `{"status":"success","data":{"resultType":"matrix","result":[{"values":[[%s,"1"]]},{"values":[[1767571200,"1"]]}]}}`, first), nil)
		if err == nil || !strings.Contains(err.Error(), "the times span more than") {
			t.Errorf("from %s: %v", first, err)
		}
	}
}

// Instants that nanoseconds since the epoch can't tell are told all the same.
func TestInstantsFarAway(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"2263-01-01T00:00:00Z": 9246182400, "2500-01-01T00:00:00Z": 16725225600, "2026-01-05T00:00:00.25Z": 1767571200.25} {
		if got, err := instant(text, nil); err != nil || got != want {
			t.Errorf("%s: %f and %v, want %f", text, got, err, want)
		}
	}
	if _, err := readCSV([]byte("2500-01-01T00:00:00Z,1\n2500-01-01T00:01:00Z,1\n"), nil); err == nil || !strings.Contains(err.Error(), "invalid time") {
		t.Errorf("a load of the year 2500: %v", err)
	}
}

func seconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
