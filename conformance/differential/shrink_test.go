package differential

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// What a scenario does not fail by goes, in some tens of tries; the given scenario stays.
func TestAScenarioGetsSmaller(t *testing.T) {
	t.Parallel()
	given := &recording.Scenario{}
	for i := range 40 {
		given.Steps = append(given.Steps, recording.Step{Time: time.Unix(int64(i), 0), Pods: []*corev1.Pod{{}, {}, {}, {}}})
	}
	given.Steps[17].Pods[2].Name = "bad"
	has := func(s *recording.Scenario, second int64) bool {
		for i := range s.Steps {
			if s.Steps[i].Time.Unix() == second {
				return true
			}
		}
		return false
	}
	tries := 0
	small := smaller(given, func(s *recording.Scenario) bool {
		tries++
		for i := range s.Steps {
			for _, pod := range s.Steps[i].Pods {
				if pod.Name == "bad" {
					return has(s, 3) // which it needs besides
				}
			}
		}
		return false
	})
	if len(small.Steps) != 2 || len(small.Steps[0].Pods) != 0 || len(small.Steps[1].Pods) != 1 || len(given.Steps) != 40 || len(given.Steps[17].Pods) != 4 {
		t.Errorf("left are %+v", small.Steps)
	}
	if tries > 60 {
		t.Errorf("%d tries", tries)
	}
}
