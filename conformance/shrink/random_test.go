package shrink_test

import (
	"io"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/conformance/generate"
	"github.com/setpoint-dev/setpoint/conformance/shrink"
)

// follower decides without knowledge: the count goes up and down.
type follower struct{ steps int }

func (f *follower) Start(*recording.Scenario) error { return nil }

func (f *follower) Decide(step *recording.Step) (generate.Decision, error) {
	f.steps++
	return generate.Decision{Scaled: !step.HPADeleted && f.steps%3 == 0, Replicas: int32(1 + f.steps*7%13)}, nil
}

// Random scenarios shrink to few steps with a pod, by few calls; every candidate can
// be written to a file.
func TestRandomScenariosShrink(t *testing.T) {
	t.Parallel()
	shrunk, calls := 0, 0
	for seed := range uint64(60) {
		s, err := generate.Scenario(seed, generate.DefaultParameters("v1.36"), &follower{})
		if err != nil {
			t.Fatal(err)
		}
		fails := func(c *recording.Scenario) bool {
			calls++
			if err := recording.NewWriter(io.Discard).Write(c); err != nil {
				t.Errorf("%s: a candidate can't be written: %v", s.Name, err)
			}
			edits, pods := 0, 0
			for i := range c.Steps {
				if c.Steps[i].HPA != nil {
					edits++
				}
				for _, p := range c.Steps[i].Pods {
					if edits > 0 && p.Status.StartTime == nil {
						pods++
					}
				}
			}
			return pods > 1
		}
		small := shrink.Scenario(s, fails, shrink.Budget{Calls: 400})
		if !fails(s) {
			continue
		}
		shrunk++
		pods := 0
		for i := range small.Steps {
			pods += len(small.Steps[i].Pods)
		}
		if !fails(small) || len(small.Steps) > 2 || pods > 2 {
			t.Errorf("%s: %d steps with %d pods are left", s.Name, len(small.Steps), pods)
		}
	}
	if shrunk < 10 {
		t.Errorf("only %d scenarios fail", shrunk)
	}
	t.Logf("%d scenarios shrunk with %d calls", shrunk, calls)
}
