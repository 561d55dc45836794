package recording

import (
	"errors"
	"fmt"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/stages/forecast"
)

// Sums stand for the pods and the readings of a call, as the service keeps them: all that its decision needs of
// them. Quantities are in milli-units.
type Sums struct {
	// Pods is how many pods there are, Ready how many of them run and are ready.
	Pods  int32 `json:"pods,omitempty"`
	Ready int32 `json:"ready,omitempty"`
	// Metrics belong to those of the request's spec by index.
	Metrics []MetricSums `json:"metrics,omitempty"`
	// Forecast is what the forecast of the request's stages said; nil: they have none.
	Forecast *forecast.Said `json:"forecast,omitempty"`
}

// MetricSums are the sums of one metric.
type MetricSums struct {
	// Ready, Unready and Missing are groups of pods that count, of metrics of pods; Ignored is how many do not.
	Ready   GroupSums `json:"ready,omitzero"`
	Unready GroupSums `json:"unready,omitzero"`
	Missing GroupSums `json:"missing,omitzero"`
	Ignored int32     `json:"ignored,omitempty"`
	// Unlisted is how many samples there are of pods that are not listed, with that usage.
	Unlisted      int32 `json:"unlisted,omitempty"`
	UnlistedUsage int64 `json:"unlistedUsage,omitempty"`
	// Sampled reports whether there are any samples at all.
	Sampled bool `json:"sampled,omitempty"`
	// Unusable is why the samples can't be used, NoRequest which pod lacks a request.
	Unusable  string `json:"unusable,omitempty"`
	NoRequest string `json:"noRequest,omitempty"`
	// UsageWraps and RequestsWrap report sums beyond 64 bits.
	UsageWraps   bool `json:"usageWraps,omitempty"`
	RequestsWrap bool `json:"requestsWrap,omitempty"`
	// Series is how many values there are of an Object or External metric, and Sum their sum. Low and High are
	// the lowest and the highest sum of the first values, where these are not 0 and the sum, and Beyond by how
	// much it was above 64 bits.
	Series int32 `json:"series,omitempty"`
	Sum    int64 `json:"sum,omitempty"`
	Low    int64 `json:"low,omitempty"`
	High   int64 `json:"high,omitempty"`
	Beyond int64 `json:"beyond,omitempty"`
	// Error is that of the metrics API, SelectorError why the metric's selector is malformed.
	Error         string `json:"error,omitempty"`
	SelectorError string `json:"selectorError,omitempty"`
}

// GroupSums are the sums of a group of pods.
type GroupSums struct {
	Pods     int32 `json:"pods,omitempty"`
	Usage    int64 `json:"usage,omitempty"`
	Requests int64 `json:"requests,omitempty"`
	// Filled is what the pods are assumed to use where they have no sample and the others use less than the target.
	Filled int64 `json:"filled,omitempty"`
}

// check returns the first problem of the sums.
func (s *Sums) check(request *setpointv1.RecommendRequest) error {
	if len(request.GetPods())+len(request.GetPodMetrics())+len(request.GetCustomMetrics())+len(request.GetExternalMetrics())+len(request.GetMetricErrors()) > 0 {
		return errors.New("are in place of pods and readings, of which the request has some")
	}
	if n := len(request.GetSpec().GetMetrics()); len(s.Metrics) != n {
		return fmt.Errorf("of %d metrics, but the request's spec has %d", len(s.Metrics), n)
	}
	for i := range s.Metrics {
		m := &s.Metrics[i]
		for _, n := range []int32{s.Pods, s.Ready, m.Ready.Pods, m.Unready.Pods, m.Missing.Pods, m.Ignored, m.Unlisted, m.Series} {
			if n < 0 {
				return fmt.Errorf("metrics[%d]: a number of pods or series is below 0", i)
			}
		}
		if m.Low > 0 || m.High < 0 || m.Beyond < 0 {
			return fmt.Errorf("metrics[%d]: low must not be above 0, high and beyond not below", i)
		}
	}
	return nil
}
