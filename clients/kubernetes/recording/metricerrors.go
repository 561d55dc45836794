package recording

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

// apis are the metrics APIs by their names in recordings.
var apis = map[string]kubernetes.MetricsAPI{
	"resource": kubernetes.ResourceMetricsAPI,
	"custom":   kubernetes.CustomMetricsAPI,
	"external": kubernetes.ExternalMetricsAPI,
}

// parseErrorKey reads "custom" or "custom:<metric>"; the metric may contain colons. Single
// resources have no key.
func parseErrorKey(key string) (kubernetes.MetricError, error) {
	name, metric, single := strings.Cut(key, ":")
	api, known := apis[name]
	if !known || single && (metric == "" || api == kubernetes.ResourceMetricsAPI) {
		return kubernetes.MetricError{}, fmt.Errorf(
			"%q: must be resource, custom, external, custom:<metric> or external:<metric>", key)
	}
	return kubernetes.MetricError{API: api, Metric: metric}, nil
}

// metricErrors returns the step's errors of metrics APIs, by key.
func (s *Step) metricErrors() ([]kubernetes.MetricError, error) {
	var out []kubernetes.MetricError
	for _, key := range slices.Sorted(maps.Keys(s.Errors)) {
		failure, err := parseErrorKey(key)
		if err != nil {
			return nil, err
		}
		failure.Message = s.Errors[key]
		out = append(out, failure)
	}
	return out, nil
}
