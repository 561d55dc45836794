package conversion_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/forecast"
)

// threeMetrics is a spec with External:queue, Resource:cpu and External:latency.
func threeMetrics() *recommender.Input {
	external := func(name string) recommender.MetricSpec {
		return recommender.MetricSpec{Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: name}}
	}
	return &recommender.Input{Options: recommender.DefaultOptions(), Spec: recommender.Spec{
		MinReplicas: 2, MaxReplicas: 20,
		Metrics: []recommender.MetricSpec{external("queue"), {Type: recommender.ResourceMetric, Resource: "cpu"}, external("latency")},
	}}
}

// stagesOf reads stages from their JSON.
func stagesOf(t *testing.T, text string, in *recommender.Input) (*stages.Plan, []string) {
	t.Helper()
	req := &setpointv1.RecommendRequest{Stages: &setpointv1.Stages{}}
	fatal.If(t, protojson.Unmarshal([]byte(text), req.Stages))
	around, violations := conversion.Around(req, in, time.Time{})
	var texts []string
	for _, v := range violations {
		texts = append(texts, v.String())
	}
	return around.Plan, texts
}

func TestCombinersAreRead(t *testing.T) {
	for text, want := range map[string]*stages.Combine{
		`{}`:                             nil,
		`{"combine": {}}`:                {},
		`{"combine": {"method": "MAX"}}`: {},
		`{"combine": {"method": "MIN"}}`: {Method: stages.Min},
		`{"combine": {"method": "SUM"}}`: {Method: stages.Sum},
		`{"combine": {"method": "QUORUM", "quorum": 3}}`: {Method: stages.Quorum, Quorum: 3},
		`{"combine": {"method": "WEIGHTED", "weights": {"External:queue": "0.5", "Resource:cpu": "9999999.999999999", "External:latency": "0"}}}`: {
			Method: stages.Weighted, Weights: []int64{500_000_000, 9_999_999_999_999_999, 0},
		},
	} {
		plan, violations := stagesOf(t, text, threeMetrics())
		if len(violations) > 0 || !reflect.DeepEqual(plan.Combine, want) {
			t.Errorf("%s: %+v, want %+v; %v", text, plan.Combine, want, violations)
		}
	}
	plan, violations := stagesOf(t, `{"guards": {"reversals": {"count": 3, "period": "3600s"}, "ignoreSurge": true}}`, threeMetrics())
	if want := (stages.Reversals{Count: 3, Period: time.Hour, Hold: 10 * time.Minute}); len(violations) > 0 || *plan.Reversals != want || !plan.IgnoreSurge {
		t.Errorf("%+v, want %+v; %v", plan.Reversals, want, violations)
	}
	if plan, _ = stagesOf(t, `{"guards": {"reversals": {"count": 1, "period": "60s", "hold": "90s"}}}`, threeMetrics()); plan.Reversals.Hold != 90*time.Second {
		t.Errorf("hold %s", plan.Reversals.Hold)
	}
}

func TestCombinersAreRefused(t *testing.T) {
	twice := threeMetrics()
	twice.Spec.Metrics[2] = twice.Spec.Metrics[0]
	const decimal = `: must be a decimal number of at least 0 and below 10000000 with at most 9 decimals, such as "0.5"`
	for _, c := range []struct {
		name, text string
		in         *recommender.Input
		want       []string
	}{
		{"no quorum", `{"combine": {"method": "QUORUM"}}`, nil, []string{
			"stages.combine.quorum: Required value: the method QUORUM needs the number of metrics that must want as much, 1 to 3"}},
		{"too many", `{"combine": {"method": "QUORUM", "quorum": 4}}`, nil, []string{
			"stages.combine.quorum: Invalid value: 4: must be between 1 and 3, the number of metrics"}},
		{"quorum and weights of others", `{"combine": {"quorum": 2, "weights": {"External:queue": "1"}}}`, nil, []string{
			"stages.combine.quorum: Forbidden: only the method QUORUM has one",
			"stages.combine.weights: Forbidden: only the method WEIGHTED has weights"}},
		{"no weights", `{"combine": {"method": "WEIGHTED"}}`, nil, []string{
			"stages.combine.weights: Required value: the method WEIGHTED needs a weight for each metric: External:queue has none"}},
		{"all zero", `{"combine": {"method": "WEIGHTED", "weights": {"External:queue": "0", "Resource:cpu": "0.0", "External:latency": "000"}}}`, nil, []string{
			"stages.combine.weights: Invalid value: the sum of the weights must be greater than 0"}},
		{"several at once", `{"combine": {"method": "WEIGHTED", "weights": {"External:queue": "-1", "Resource:cpu": "1e3", "External:latency": "1.", "Pods:x": "1"}}}`, nil, []string{
			`stages.combine.weights["External:latency"]: Invalid value: "1."` + decimal,
			`stages.combine.weights["External:queue"]: Invalid value: "-1"` + decimal,
			`stages.combine.weights["Pods:x"]: Invalid value: "Pods:x": the spec has no such metric: it has External:queue, Resource:cpu, External:latency`,
			`stages.combine.weights["Resource:cpu"]: Invalid value: "1e3"` + decimal}},
		{"a name of two", `{"combine": {"method": "WEIGHTED", "weights": {"External:queue": "1", "Resource:cpu": "1"}}}`, twice, []string{
			`stages.combine.weights["External:queue"]: Invalid value: "External:queue": the spec has several metrics of that name`,
			"stages.combine.weights: Required value: the method WEIGHTED needs a weight for each metric: External:queue has none"}},
		{"left to the structure", `{"combine": {"method": "MEDIAN", "quorum": -1}}`, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.in == nil {
				c.in = threeMetrics()
			}
			if _, got := stagesOf(t, c.text, c.in); !slices.Equal(got, c.want) {
				t.Errorf("%q,\nwant %q", got, c.want)
			}
		})
	}
}

func TestWeights(t *testing.T) {
	for text, ok := range map[string]bool{
		"0": true, "1": true, "0.5": true, "0.000000001": true, "9999999": true, "007": true,
		"": false, ".5": false, "5.": false, "10000000": false, "0.0000000001": false, "+1": false, "-0": false, "1,5": false, "½": false, "0x1": false, " 1": false, "1.2.3": false,
	} {
		_, got := stagesOf(t, `{"combine": {"method": "WEIGHTED", "weights": {"External:queue": "`+text+`", "Resource:cpu": "1", "External:latency": "1"}}}`, threeMetrics())
		if (len(got) == 0) != ok {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestForecastsAreRead is that forecasts are read with their defaults, and that all that is wrong is told.
func TestForecastsAreRead(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	fatal.If(t, err)
	for text, want := range map[string]stages.Forecast{
		`{"timeZone": "UTC"}`: {Settings: forecast.Settings{Quantile: 90, Lead: 5 * time.Minute, Zone: time.UTC}, MostPercent: 80},
		`{"timeZone": "Europe/Berlin", "mode": "FLOOR", "season": "WEEKLY", "lead": "0s", "quantilePercent": 100, "maxPercentOfMax": 100}`: {
			Settings: forecast.Settings{Season: forecast.Weekly, Quantile: 100, Zone: berlin}, Floor: true, MostPercent: 100,
		},
		`{"timeZone": "UTC", "mode": "FORECAST_ONLY", "season": "DAILY", "lead": "3600s", "quantilePercent": 50, "maxPercentOfMax": 1}`: {
			Settings: forecast.Settings{Quantile: 50, Lead: time.Hour, Zone: time.UTC}, MostPercent: 1,
		},
	} {
		in := threeMetrics()
		plan, violations := stagesOf(t, `{"forecast": `+text+`}`, in)
		if len(violations) > 0 || plan.Forecast == nil {
			t.Errorf("%s: %v", text, violations)
			continue
		}
		got := *plan.Forecast
		if !got.Same(&want.Settings) || got.Floor != want.Floor || got.MostPercent != want.MostPercent || got.Basis.Hash() != forecastBasis(in) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	_, violations := stagesOf(t, `{"forecast": {"quantilePercent": 49, "timeZone": "Europe/Berlinn"}}`, threeMetrics())
	want := []string{
		"stages.forecast.quantilePercent: Invalid value: 49: must be between 50 and 100, or 0 for 90",
		`stages.forecast.timeZone: Invalid value: "Europe/Berlinn": the IANA time zone database has no zone of that name; did you mean Europe/Berlin?`,
	}
	if !slices.Equal(violations, want) {
		t.Errorf("%q, want %q", violations, want)
	}
	if _, violations = stagesOf(t, `{"forecast": {}}`, threeMetrics()); len(violations) != 1 || !strings.HasPrefix(violations[0], "stages.forecast.timeZone: Required value: ") {
		t.Errorf("%q", violations)
	}
}

func forecastBasis(in *recommender.Input) uint32 {
	b := stages.BasisOf(&in.Spec, nil)
	return b.Hash()
}
