package replay

import (
	"reflect"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// A back-test with the recording's own spec reproduces it exactly, step by step, in all
// recordings of the real controllers.
func TestABacktestWithItsOwnSpecReproducesTheRecording(t *testing.T) {
	t.Parallel()
	for _, file := range testlength.FirstUnderRace(t, 1, recorded) {
		t.Run(file.name, func(t *testing.T) {
			t.Parallel()
			steps, changing := 0, 0
			for scenario, err := range scenarios(t, file.name) {
				if err != nil {
					t.Fatal(err)
				}
				spec := &scenario.HPA.Spec
				if changesItsSpec(scenario) {
					changing++
					spec = nil // one in place of several would be another
				}
				got, err := RunBacktest(t.Context(), scenario, &Question{Spec: spec})
				if err != nil {
					t.Fatal(err)
				}
				steps += got.Compared
				if got.Mismatched != 0 || got.Different != 0 || got.Recorded != got.Other || got.Compared != len(scenario.Steps) {
					t.Errorf("%s: %+v", scenario.Name, got)
				}
				if loop := got.ClosedLoop; loop == nil || loop.ModelledSeconds+loop.UnknownSeconds != 0 || !reflect.DeepEqual(loop.Recorded, loop.Other) {
					t.Errorf("%s, in a closed loop: %+v", scenario.Name, loop)
				}
			}
			if steps != file.steps || changing > file.scenarios*2/3 {
				t.Errorf("%d steps reproduced, want %d; %d of %d scenarios change their spec", steps, file.steps, changing, file.scenarios)
			}
		})
	}
}

func changesItsSpec(s *recording.Scenario) bool {
	for i := range s.Steps {
		if s.Steps[i].HPA != nil {
			return true
		}
	}
	return false
}

// Another spec comes to other counts where its bounds say so, and figures are those of the
// time that was recorded.
func TestABacktestWithOtherBounds(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	scaled, different := 0, 0
	for scenario, err := range scenarios(t, "fuzz") {
		if err != nil {
			t.Fatal(err)
		}
		spec := scenario.HPA.Spec.DeepCopy()
		one := int32(1)
		spec.MinReplicas, spec.MaxReplicas = &one, 1
		got, err := RunBacktest(t.Context(), scenario, &Question{Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		different += got.Different
		if got.Other.Most > 1 && got.Other.Ups > 0 {
			t.Errorf("%s: a maximum of 1, and up to %d replicas", scenario.Name, got.Other.Most)
		}
		if got.CoveredSeconds > got.SpanSeconds || len(got.Differences) > MaxDifferences || (got.Different > 0) != (len(got.Differences) > 0) {
			t.Errorf("%s: %+v", scenario.Name, got)
		}
		if most := got.Recorded.ReplicaHours; most > float64(got.Recorded.Most)*got.CoveredSeconds/3600+1e-6 {
			t.Errorf("%s: %g replica-hours of at most %d replicas in %g s", scenario.Name, most, got.Recorded.Most, got.CoveredSeconds)
		}
		scaled++
	}
	if scaled != 400 || different < 1000 {
		t.Errorf("%d scenarios, %d steps came out otherwise", scaled, different)
	}
}
