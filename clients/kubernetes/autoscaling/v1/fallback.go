package v1

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/json"
)

// leastFailureSeconds is KEP-5679's least failureDurationSeconds, and what its absence means; mostFailureSeconds
// is that of Stages.
const leastFailureSeconds, mostFailureSeconds = 180, 3600

// SpecFallbacks reads spec.metrics[].external.fallback of a spec in JSON: the field of KEP-5679, which the
// types of autoscaling/v2 lack. The fallbacks are what [Stages] has for the same. taken are those that the stages
// have already. The error says where one is wrong, with paths below the spec.
func SpecFallbacks(spec []byte, taken []string) ([]MetricFallback, error) {
	var read struct {
		Metrics []struct {
			External *struct {
				Metric struct {
					Name string `json:"name"`
				} `json:"metric"`
				Fallback *struct {
					FailureDurationSeconds *int64 `json:"failureDurationSeconds"`
					Replicas               int32  `json:"replicas"`
				} `json:"fallback"`
			} `json:"external"`
		} `json:"metrics"`
	}
	if err := json.Unmarshal(spec, &read); err != nil {
		return nil, err
	}
	var out []MetricFallback
	for i, m := range read.Metrics {
		if m.External == nil || m.External.Fallback == nil {
			continue
		}
		f, at, name := m.External.Fallback, fmt.Sprintf("metrics[%d].external.fallback", i), "External:"+m.External.Metric.Name
		seconds := int64(leastFailureSeconds)
		if f.FailureDurationSeconds != nil {
			seconds = *f.FailureDurationSeconds
		}
		switch {
		case seconds < leastFailureSeconds, seconds > mostFailureSeconds:
			return nil, fmt.Errorf("%s.failureDurationSeconds: Invalid value: %d: must be between %d and %d (stages.fallbacks may wait for less)", at, seconds, leastFailureSeconds, mostFailureSeconds)
		case f.Replicas <= 0:
			return nil, fmt.Errorf("%s.replicas: Invalid value: %d: must be greater than 0", at, f.Replicas)
		case slices.Contains(taken, name):
			return nil, fmt.Errorf("%s: Forbidden: stages.fallbacks has one for %s, too: keep one of the two", at, name)
		}
		out = append(out, MetricFallback{
			Metric: name, FailureDuration: new(Duration(strconv.FormatInt(seconds, 10) + "s")), Replicas: new(f.Replicas),
		})
	}
	return out, nil
}

// addFallbacks adds what the metrics of a spec in JSON have of stages.
func (s *AutoscalerSpec) addFallbacks(data []byte) error {
	var taken []string
	for _, f := range cmp.Or(s.Stages, &Stages{}).Fallbacks {
		taken = append(taken, f.Metric)
	}
	added, err := SpecFallbacks(data, taken)
	if err != nil || len(added) == 0 {
		return err
	}
	if s.Stages == nil {
		s.Stages = &Stages{}
	}
	s.Stages.Fallbacks = append(s.Stages.Fallbacks, added...)
	return nil
}
