package generate_test

import (
	"slices"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/conformance/generate"
)

// A version's scenarios have what its API has, and seldom or never what it lacks.
func TestScenariosKeepToTheirVersion(t *testing.T) {
	t.Parallel()
	const often, seldom = 40, 30 // of 400
	for _, test := range []struct {
		version string
		// Scenarios with each, at least and at most.
		behavior, tolerance, containerResource, scaleToZero, minimumZero [2]int
	}{
		{"v1.37", [2]int{often, 400}, [2]int{often, 400}, [2]int{often, 400}, [2]int{200, 400}, [2]int{often, 400}},
		{"v1.36", [2]int{often, 400}, [2]int{often, 400}, [2]int{often, 400}, [2]int{often, 200}, [2]int{often, 200}},
		{"v1.28", [2]int{often, 400}, [2]int{0, seldom}, [2]int{often, 400}, [2]int{often, 200}, [2]int{often, 200}},
		{"v1.19", [2]int{often, 400}, [2]int{0, seldom}, [2]int{0, seldom}, [2]int{often, 200}, [2]int{often, 200}},
		{"v1.15", [2]int{0, 0}, [2]int{0, 0}, [2]int{0, seldom}, [2]int{0, 0}, [2]int{0, 0}},
	} {
		found := map[string]int{}
		for seed := range uint64(400) {
			parameters := generate.DefaultParameters(test.version)
			parameters.MaxSteps = 6
			s, err := generate.Scenario(seed, parameters, &follower{})
			if err != nil {
				t.Fatal(err)
			}
			specs := []*autoscalingv2.HorizontalPodAutoscalerSpec{&s.HPA.Spec}
			for i := range s.Steps {
				if s.Steps[i].HPA != nil {
					specs = append(specs, &s.Steps[i].HPA.Spec)
				}
			}
			count := func(what string, has func(*autoscalingv2.HorizontalPodAutoscalerSpec) bool) {
				if slices.ContainsFunc(specs, has) {
					found[what]++
				}
			}
			count("behavior", func(spec *autoscalingv2.HorizontalPodAutoscalerSpec) bool { return spec.Behavior != nil })
			count("tolerance", func(spec *autoscalingv2.HorizontalPodAutoscalerSpec) bool {
				return spec.Behavior != nil && (spec.Behavior.ScaleUp.Tolerance != nil || spec.Behavior.ScaleDown.Tolerance != nil)
			})
			count("containerResource", func(spec *autoscalingv2.HorizontalPodAutoscalerSpec) bool {
				return slices.ContainsFunc(spec.Metrics, func(m autoscalingv2.MetricSpec) bool { return m.ContainerResource != nil })
			})
			count("scaleToZero", func(*autoscalingv2.HorizontalPodAutoscalerSpec) bool { return s.Config.ScaleToZero })
			count("minimumZero", func(spec *autoscalingv2.HorizontalPodAutoscalerSpec) bool {
				if *spec.MinReplicas == 0 && !s.Config.ScaleToZero {
					t.Errorf("%s: minReplicas 0 without the feature", s.Name)
				}
				return *spec.MinReplicas == 0
			})
		}
		for what, want := range map[string][2]int{
			"behavior": test.behavior, "tolerance": test.tolerance, "containerResource": test.containerResource,
			"scaleToZero": test.scaleToZero, "minimumZero": test.minimumZero,
		} {
			if n := found[what]; n < want[0] || n > want[1] {
				t.Errorf("%s: %d of 400 scenarios have %s, want %d to %d", test.version, n, what, want[0], want[1])
			}
		}
	}
}

func TestDefaultVersionIsOne(t *testing.T) {
	t.Parallel()
	if !slices.Contains(generate.Versions(), generate.DefaultVersion) {
		t.Errorf("%s is not among %q", generate.DefaultVersion, generate.Versions())
	}
}
