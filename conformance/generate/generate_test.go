package generate_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/conformance/generate"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// line returns the scenario as a file has it.
func line(t *testing.T, s *recording.Scenario) string {
	t.Helper()
	var out bytes.Buffer
	fatal.If(t, recording.NewWriter(&out).Write(s))
	return out.String()
}

func TestTheSameSeedMakesTheSameScenario(t *testing.T) {
	t.Parallel()
	for _, version := range generate.Versions() {
		different := 0
		previous := ""
		for seed := range uint64(25) {
			var lines [2]string
			for i := range lines {
				s, err := generate.Scenario(seed, generate.DefaultParameters(version), &follower{})
				fatal.If(t, err)
				lines[i] = line(t, s)
			}
			if lines[0] != lines[1] {
				t.Fatalf("%s, seed %d: another scenario:\n%s%s", version, seed, lines[0], lines[1])
			}
			if lines[0] != previous {
				different++
			}
			previous = lines[0]
		}
		if different < 25 {
			t.Errorf("%s: only %d of 25 seeds make a scenario of their own", version, different)
		}
	}
}

func TestScenariosReadBackAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		version := generate.Versions()[seed%uint64(len(generate.Versions()))]
		parameters := generate.DefaultParameters(version)
		parameters.Extreme = 0.2
		s, err := generate.Scenario(seed, parameters, &follower{})
		fatal.If(t, err)
		if want := fmt.Sprintf("random/%s/%d", version, seed); s.Name != want {
			t.Errorf("name %q, want %q", s.Name, want)
		}
		written := line(t, s)
		read, err := recording.NewReader("r", strings.NewReader(written)).Next()
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		if again := line(t, read); again != written {
			t.Errorf("%s: reads back otherwise:\n%s%s", s.Name, written, again)
		}
		times(t, s)
	}
}

// times checks those of the steps, and that those of pods and samples are such as
// the API can write.
func times(t *testing.T, s *recording.Scenario) {
	t.Helper()
	for i := range s.Steps {
		step := &s.Steps[i]
		if i > 0 && step.Time.Before(s.Steps[i-1].Time) {
			t.Errorf("%s, step %d: goes back in time", s.Name, i+1)
		}
		check := func(what string, at time.Time) {
			if at.Nanosecond() != 0 {
				t.Errorf("%s, step %d: %s is at %s, which is no whole second", s.Name, i+1, what, at)
			}
		}
		for _, p := range step.Pods {
			if p.Status.StartTime != nil {
				check("start of "+p.Name, p.Status.StartTime.Time)
			}
			if p.DeletionTimestamp != nil {
				check("deletion of "+p.Name, p.DeletionTimestamp.Time)
			}
			for _, c := range p.Status.Conditions {
				check("condition of "+p.Name, c.LastTransitionTime.Time)
			}
		}
		for j := range step.PodMetrics {
			check("sample", step.PodMetrics[j].Timestamp.Time)
		}
		for j := range step.CustomMetrics {
			check("value", step.CustomMetrics[j].Timestamp.Time)
		}
	}
}

// follower decides without knowledge: the count goes up and down.
type follower struct{ steps int }

func (f *follower) Start(*recording.Scenario) error { return nil }

func (f *follower) Decide(step *recording.Step) (generate.Decision, error) {
	f.steps++
	return generate.Decision{Scaled: !step.HPADeleted && f.steps%3 == 0, Replicas: int32(1 + f.steps*7%13)}, nil
}
