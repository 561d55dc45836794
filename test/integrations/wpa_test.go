package integrations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	datadog "github.com/DataDog/agent-payload/v5/autoscaling/kubernetes"
)

// wpa is a WatermarkPodAutoscaler and the workload that it scales, as its controller does with
// a recommender: its rules, written anew from their description in
// controllers/datadoghq/{recommender,replica_calculator,watermarkpodautoscaler_controller}.go.
// Factors are percent, as in its spec.
type wpa struct {
	client *http.Client
	url    string
	// swapped has the bounds handed over in the wrong order, as a version of it does.
	swapped bool
	// settings are the settings of its recommender.
	settings map[string]string

	least, most                int32
	upFactor, downFactor       float64
	upForbidden, downForbidden time.Duration
	upDelay, downDelay         time.Duration
	modulo                     int32
	tolerateZero               bool
	replicas                   int32
	scaled                     time.Time
	above, below               bool
	aboveSince, belowSince     time.Time
}

// defaults are the defaults of its spec.
func defaults(url string, client *http.Client) *wpa {
	return &wpa{client: client, url: url, least: 1, most: 500, upFactor: 50, downFactor: 20,
		upForbidden: time.Minute, downForbidden: 5 * time.Minute, modulo: 1, replicas: 1}
}

// recommended has the limits that docs/guides/datadog.md recommends.
func recommended(url string, client *http.Client) *wpa {
	w := defaults(url, client)
	w.upFactor, w.downFactor, w.upForbidden, w.downForbidden = 1_000_000, 99.999, time.Second, time.Second
	return w
}

// request is the sent request.
func (w *wpa) request() *datadog.WorkloadRecommendationRequest {
	current, ready := w.replicas, w.replicas
	req := &datadog.WorkloadRecommendationRequest{
		State:       &datadog.WorkloadState{DesiredReplicas: w.replicas, CurrentReplicas: &current, ReadyReplicas: &ready},
		TargetRef:   &datadog.WorkloadTargetRef{Kind: "Deployment", Name: "web", ApiVersion: "apps/v1", Namespace: "shop"},
		Constraints: &datadog.WorkloadRecommendationConstraints{MinReplicas: w.least, MaxReplicas: w.most},
		Targets:     []*datadog.WorkloadRecommendationTarget{{Type: "cpu", LowerBound: 0.5, UpperBound: 0.7}},
	}
	if len(w.settings) > 0 {
		req.Settings = make(map[string]*structpb.Value)
		for k, v := range w.settings {
			req.Settings[k] = structpb.NewStringValue(v)
		}
	}
	return req
}

// ask asks as both of Datadog's clients do: strictly, for 10 s, and content with 200 only.
func ask(client *http.Client, url, agent string, req *datadog.WorkloadRecommendationRequest) (*datadog.WorkloadRecommendationReply, error) {
	payload, err := protojson.Marshal(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	call.Header.Set("Content-Type", "application/json")
	call.Header.Set("User-Agent", agent)
	resp, err := client.Do(call)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("unexpected response code: %d %.100s", resp.StatusCode, body)
	}
	reply := &datadog.WorkloadRecommendationReply{}
	if err := protojson.Unmarshal(body, reply); err != nil {
		return nil, fmt.Errorf("decode %s: %w", body, err)
	}
	if e := reply.GetError(); e != nil {
		return nil, fmt.Errorf("error from recommender: %d %s", e.GetCode(), e.GetMessage())
	}
	return reply, nil
}

var errIgnored = errors.New("a count of 0 is not tolerated")

// reconcile reconciles once, and returns the recommended count.
func (w *wpa) reconcile(now time.Time) (int32, error) {
	reply, err := ask(w.client, w.url, "wpa-controller", w.request())
	if err != nil {
		return 0, err
	}
	target := reply.GetTargetReplicas()
	if target == 0 && !w.tolerateZero {
		return 0, errIgnored
	}
	lower, upper := reply.GetLowerBoundReplicas(), reply.GetUpperBoundReplicas()
	if w.swapped {
		lower, upper = upper, lower
	}
	above, below, proposal := w.replicas < lower, w.replicas > upper, w.rounded(target)
	switch {
	case target > w.replicas:
		proposal = max(proposal, w.replicas)
	case target < w.replicas:
		proposal = min(proposal, w.replicas)
	default:
		above, below, proposal = false, false, w.replicas
	}
	if above != w.above || w.aboveSince.IsZero() {
		w.above, w.aboveSince = above, now
	}
	if below != w.below || w.belowSince.IsZero() {
		w.below, w.belowSince = below, now
	}
	desired := w.normalized(proposal)
	if w.mayScale(now, desired, !above && !below) {
		w.replicas, w.scaled = desired, now
	}
	return target, nil
}

// rounded rounds up to the modulo.
func (w *wpa) rounded(n int32) int32 {
	if rest := n % w.modulo; rest > 0 {
		n += w.modulo - rest
	}
	return n
}

// normalized applies the limits of a step, and the bounds.
func (w *wpa) normalized(desired int32) int32 {
	current := float64(w.replicas)
	milli := func(percent float64) float64 { return math.Round(percent*1000) / 1000 }
	downTo := int32(current - math.Max(1, math.Floor(milli(w.downFactor)*current/100)))
	upTo := int32(current + math.Max(1, math.Floor(milli(w.upFactor)*current/100)))
	least := w.least
	switch {
	case w.least == 0:
		least = 1
	case desired < downTo:
		least = max(downTo, w.least)
	}
	most := w.most
	if desired > upTo {
		most = min(upTo, w.most)
	}
	return min(max(desired, least), most)
}

// mayScale applies the forbidden windows and the delays.
func (w *wpa) mayScale(now time.Time, desired int32, stable bool) bool {
	if desired == w.replicas {
		return false
	}
	if w.scaled.IsZero() {
		return true
	}
	forbidden, delay, since, out := w.upForbidden, w.upDelay, w.aboveSince, w.above
	if desired < w.replicas {
		forbidden, delay, since, out = w.downForbidden, w.downDelay, w.belowSince, w.below
	}
	if w.scaled.Add(forbidden).After(now) {
		return false
	}
	return delay == 0 || stable || out && now.Sub(since) >= delay
}
