package differential

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestConversionsAreReplacedLineByLine(t *testing.T) {
	const source = `package p

func f(x float64, n int64) (int32, int64, int, float64) {
	const c = int32(7)
	var i int32 // int32(x) in a comment
	return int32(x * float64(int64(x))) + c + i, int64(
		n), int(n), float64(n)
}
`
	const want = `package p

func f(x float64, n int64) (int32, int64, int, float64) {
	const c = int32(7)
	var i int32 // int32(x) in a comment
	return saturatingInt32(x * float64(saturatingInt64(x))) + c + i, saturatingInt64(
		n), saturatingInt(n), float64(n)
}
`
	got, n, err := saturate([]byte(source))
	if err != nil || n != 4 || string(got) != want {
		t.Errorf("%d replaced, %v\n%s", n, err, got)
	}
}

// Each release is built with its conversions replaced, the one of the replica calculator
// that makes a count of a ratio among them.
func TestTheSaturatingOracleOfTheReference(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a controller")
	}
	into := t.TempDir()
	version := Versions()[0]
	program, err := version.BuildSaturating(t.Context(), "..", into)
	fatal.If(t, err)
	oracle, err := StartOracle(program, "")
	fatal.If(t, err)
	defer func() {
		if err := oracle.Close(); err != nil {
			t.Error(err)
		}
	}()
	scenarios, err := readFile("../../clients/kubernetes/recording/testdata/curated.jsonl.gz")
	fatal.If(t, err)
	// Known cases, which amd64 without saturating has scale down to the minimum: the
	// same counts as those of the recommender's own tests.
	want := map[string][]int32{
		"behavior/huge-percent-value":                   {90000},
		"overflow/external-value-above-int32-from-zero": {4},
		"overflow/object-average-value-above-int32":     {4},
		"overflow/pods-metric-above-int32":              {4, 4},
		"overflow/behavior-limit-of-large-counts":       {2147483647},
	}
	for _, scenario := range scenarios {
		counts, ok := want[scenario.Name]
		if !ok {
			continue
		}
		delete(want, scenario.Name)
		expects, err := oracle.Ask(bare(scenario), 1)
		if err != nil {
			t.Errorf("%s: %v", scenario.Name, err)
			continue
		}
		for i, e := range expects {
			if e.DesiredReplicas != counts[i] {
				t.Errorf("%s, step %d: the saturating controller desires %d, want %d", scenario.Name, i, e.DesiredReplicas, counts[i])
			}
		}
	}
	for name := range want {
		t.Errorf("no scenario %s", name)
	}
	if !strings.HasPrefix(program, into) {
		t.Errorf("the program is %s", program)
	}
}
