package cluster_test

import (
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2beta2"

	"github.com/setpoint-dev/setpoint/conformance/cluster"
)

func TestParseFillsInNamespaces(t *testing.T) {
	s, err := cluster.Parse[autoscalingv2.HorizontalPodAutoscaler]([]byte(`{"hpa":{"metadata":{"name":"web","namespace":"shop"}},
		"otherHpas":[{"name":"api"},{"name":"api","namespace":"own"}],
		"steps":[{"scaleGetError":"down","pods":[{},{"metadata":{"namespace":"own"}}],"podMetrics":[{},{"metadata":{"namespace":"own"}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	step := &s.Steps[0]
	for i, want := range []string{"shop", "own"} {
		for what, got := range map[string]string{
			"other HPA": s.OtherHPAs[i].Namespace, "pod": step.Pods[i].Namespace, "pod metrics": step.PodMetrics[i].Namespace,
		} {
			if got != want {
				t.Errorf("%s %d is in the namespace %q, want %q", what, i, got, want)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const hpa = `"hpa":{"metadata":{"name":"web","namespace":"shop"}}`
	for name, test := range map[string]struct{ scenario, want string }{
		"no JSON":      {`{`, "unexpected end"},
		"no HPA":       {`{"steps":[]}`, "a name and a namespace"},
		"no name":      {`{"hpa":{"metadata":{"namespace":"shop"}}}`, "a name and a namespace"},
		"no namespace": {`{"hpa":{"metadata":{"name":"web"}}}`, "a name and a namespace"},
		"no scale":     {`{` + hpa + `,"steps":[{"scaleGetError":"down"},{}]}`, "step 1: there is neither a scale"},
		"a null pod":   {`{` + hpa + `,"steps":[{"scaleGetError":"down","pods":[{},null]}]}`, "step 0: pod 1 is null"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cluster.Parse[autoscalingv2.HorizontalPodAutoscaler]([]byte(test.scenario))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
