package replay

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// recorded are the files of recordings and their contents: of the reference, and of the
// profiles.
var recorded = []struct {
	name             string
	scenarios, steps int
	// saturated is how many readings are out of range.
	saturated int
}{
	{"curated", 427, 1897, 34},
	{"fuzz", 400, 7680, 65},
	{"v1.37", 120, 1467, 0},
	{"v1.28", 112, 1354, 0},
	{"v1.19", 110, 1420, 0},
	{"v1.15", 113, 1484, 0},
}

// refused are the recorded scenarios whose specs the Kubernetes API server would refuse: the
// engine decides them, the service refuses them.
var refused = []string{
	"external/average-value-wins-when-both-targets-are-set",
	"metrics/external-without-any-target",
	"metrics/object-without-any-target",
	"metrics/resource-without-any-target",
	"metrics/unknown-source-type",
	"resource/average-value-wins-when-both-targets-are-set",
	"target/invalid-api-version",
	"zero/feature-off-min-zero",
	"zero/min-zero-without-object-or-external-metric",
}

// The engine decides each step as recorded. Where upstream leaves a conversion to the platform, out-of-range numbers
// saturate: those of a status that divides by zero replicas are the largest, or 0, and counts are as below.
func TestTheEngineDecidesEveryRecordedStepAsRecorded(t *testing.T) {
	t.Parallel()
	for _, file := range testlength.FirstUnderRace(t, 1, recorded) {
		t.Run(file.name, func(t *testing.T) {
			t.Parallel()
			scenarioCount, steps, compared, saturated := 0, 0, 0, 0
			runner := NewRunner(NewEngine(), Options{})
			for scenario := range scenarios(t, file.name) {
				scenarioCount++
				var counts []int32
				dependent := false
				err := runner.Run(t.Context(), scenario, func(s *Step) error {
					steps++
					compared += reportDifferences(t, s)
					saturated += reportUnsaturated(t, s)
					dependent = dependent || slices.Contains(scenario.Steps[s.Index].PlatformDependent, "desiredReplicas")
					counts = append(counts, s.Outcome.Status.GetDesiredReplicas())
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				if want := countsOutOfRange[scenario.Name]; dependent && file.name == "curated" && slices.Contains(scenario.Tags, "platform-dependent") && !slices.Equal(counts, want) {
					t.Errorf("%s: got %v, want %v", scenario.Name, counts, want)
				}
			}
			if scenarioCount != file.scenarios || steps != file.steps || compared != file.steps || saturated != file.saturated {
				t.Errorf("replayed %d scenarios and %d steps, compared %d, and found %d saturated readings, want %d, %d, all compared, and %d",
					scenarioCount, steps, compared, saturated, file.scenarios, file.steps, file.saturated)
			}
		})
	}
}

// deleting is a backend that looks at how its targets are deleted.
type deleting struct {
	*Engine
	deleted []error
}

func (d *deleting) Delete(ctx context.Context, target string) error {
	d.deleted = append(d.deleted, ctx.Err())
	return d.Engine.Delete(ctx, target)
}

// A replay that is interrupted deletes its target, for which its own context no longer serves.
func TestAnInterruptedReplayDeletesItsTarget(t *testing.T) {
	t.Parallel()
	for scenario := range scenarios(t, "curated") {
		backend := &deleting{Engine: NewEngine()}
		ctx, cancel := context.WithCancel(t.Context())
		err := NewRunner(backend, Options{}).Run(ctx, scenario, func(*Step) error { cancel(); return ctx.Err() })
		if !errors.Is(err, context.Canceled) || len(backend.deleted) != 1 || backend.deleted[0] != nil {
			t.Errorf("it ends with %v; deletions: %v", err, backend.deleted)
		}
		return
	}
}

func TestTheServiceDecidesEveryRecordedStepAsRecorded(t *testing.T) {
	t.Parallel()
	backend := NewServer(servertest.Start(t).Conn)
	for _, file := range testlength.FirstUnderRace(t, 1, recorded) {
		t.Run(file.name, func(t *testing.T) {
			t.Parallel()
			var refusedHere []string
			steps, inRefused := 0, 0
			runner := NewRunner(backend, Options{Cluster: file.name})
			for scenario := range scenarios(t, file.name) {
				err := runner.Run(t.Context(), scenario, func(s *Step) error {
					steps += reportDifferences(t, s)
					return nil
				})
				if status.Code(errors.Unwrap(err)) == codes.InvalidArgument {
					refusedHere = append(refusedHere, scenario.Name)
					inRefused += len(scenario.Steps)
					continue
				}
				if err != nil {
					t.Error(err)
				}
			}
			slices.Sort(refusedHere)
			want := refused
			if file.name != "curated" {
				want = nil
			}
			if !slices.Equal(refusedHere, want) {
				t.Errorf("refused %q, want %q", refusedHere, want)
			}
			if steps+inRefused < file.steps || steps == 0 {
				t.Errorf("compared %d steps, and %d are of scenarios that are refused, want %d in all", steps, inRefused, file.steps)
			}
			t.Logf("%d steps compared; refused with INVALID_ARGUMENT, as the API server would: %q", steps, refusedHere)
		})
	}
}

// reportDifferences fails the test if a step differs, or was not compared. It returns the
// number of compared steps: 1 or 0.
func reportDifferences(t *testing.T, s *Step) (compared int) {
	t.Helper()
	if !s.Compared {
		t.Errorf("%s, step %d: expects nothing", s.Scenario.Name, s.Index+1)
		return 0
	}
	for _, d := range s.Differences {
		t.Errorf("%s, step %d: %s", s.Scenario.Name, s.Index+1, d)
	}
	return 1
}

// reportUnsaturated fails the test if a reading that the platform decides is neither as recorded nor saturated. It returns
// how many are saturated.
func reportUnsaturated(t *testing.T, s *Step) (saturated int) {
	t.Helper()
	const leastOnAMD64, largest = "-9223372036854775808m", "9223372036854775807m"
	expect := s.Scenario.Steps[s.Index]
	if !slices.Contains(expect.PlatformDependent, "currentMetrics") {
		return 0
	}
	for i := range expect.Expect.CurrentMetrics {
		want, got := &expect.Expect.CurrentMetrics[i], s.Outcome.Status.GetCurrentMetrics()[i]
		var recorded, average string
		switch {
		case want.Object != nil && want.Object.Current.AverageValue != nil:
			recorded, average = want.Object.Current.AverageValue.String(), got.GetObject().GetCurrent().GetAverageValue()
		case want.External != nil && want.External.Current.AverageValue != nil:
			recorded, average = want.External.Current.AverageValue.String(), got.GetExternal().GetCurrent().GetAverageValue()
		}
		switch {
		case recorded != leastOnAMD64 && recorded != average:
			t.Errorf("%s, step %d, metric %d: got %s, want %s", s.Scenario.Name, s.Index+1, i, average, recorded)
		case recorded == leastOnAMD64 && average != largest && average != "0":
			t.Errorf("%s, step %d, metric %d: got %s, want it saturated", s.Scenario.Name, s.Index+1, i, average)
		case recorded == leastOnAMD64:
			saturated++
		}
	}
	return saturated
}

// countsOutOfRange are the counts of the recorded scenarios in which a proposal or a limit is out of range.
var countsOutOfRange = map[string][]int32{
	// The limit of a percent policy far beyond any count: not limited.
	"behavior/huge-percent-value": {90000},
	// A proposal far beyond any count, held by the limit of 4, or of twice
	// the count, where amd64 scales down to the minimum.
	"overflow/external-value-above-int32-from-zero": {4},
	"overflow/object-average-value-above-int32":     {4},
	"overflow/pods-metric-above-int32":              {4, 4},
	// Twice 1,500,000,000 replicas.
	"overflow/behavior-limit-of-large-counts": {2147483647},
}
