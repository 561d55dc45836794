package explain

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

func TestAmounts(t *testing.T) {
	for _, test := range []struct {
		unit       unit
		milli      int64
		text, cell string
	}{
		{inCores, 0, "0", "0"},
		{inCores, 450, "450m", "450m"},
		{inCores, 1000, "1 core", "1000m"},
		{inMHz, 142465, "142.465 MHz", "142.465 MHz"},
		{inCores, 1350, "1.35 cores", "1350m"},
		{inCores, -1350, "-1.35 cores", "-1350m"},
		{inUnits, 4200000, "4200", "4200"},
		{inUnits, 20001, "20.001", "20.001"},
		{inUnits, -50, "-0.05", "-0.05"},
		{inUnits, math.MaxInt64, "9223372036854775.807", "9223372036854775.807"},
		{inUnits, math.MinInt64, "-9223372036854775.808", "-9223372036854775.808"},
		{inBytes, 512 * 1000, "512 bytes", "512 bytes"},
		{inBytes, 110 << 20 * 1000, "110Mi", "110Mi"},
		{inBytes, 1536 << 20 * 1000, "1536Mi", "1536Mi"},
		{inBytes, 20 << 30 * 1000, "20Gi", "20Gi"},
		{inBytes, 115692885333, "≈110.33Mi", "≈110.33Mi"},
		{inBytes, -115692885333, "≈-110.33Mi", "≈-110.33Mi"},
	} {
		if got := spaces(test.unit.text(test.milli)); got != test.text {
			t.Errorf("text of %d: %s, want %s", test.milli, got, test.text)
		}
		if got := spaces(test.unit.cell(test.milli)); got != test.cell {
			t.Errorf("cell of %d: %s, want %s", test.milli, got, test.cell)
		}
	}
}

func TestRatiosShowTheirSideOfTheBounds(t *testing.T) {
	ten := tolerance{low: 1 - 0.1, high: 1 + 0.1}
	for _, test := range []struct {
		tolerance tolerance
		ratio     float64
		want      string
	}{
		{ten, 1.6, "1.60"},
		{ten, 1.1, "1.10"},
		{ten, 4.0 / 3, "1.3333"},
		{ten, 1.100000001, "1.100000001"},
		{ten, 0.8999999, "0.8999999"},
		{ten, 0.99999999, "0.99999999"},
		{ten, 0, "0.00"},
		{ten, 3e9, "3e+09"},
		{ten, math.MaxFloat64, "infinite"},
		{ten, -math.MaxFloat64, "minus infinite"},
		{tolerance{low: 1 - 0.07, high: 1.07}, 0.93, "0.93"},
		{tolerance{low: 1, high: 1}, 1.00004, "1.00004"},
	} {
		if got := test.tolerance.ratioText(test.ratio); got != test.want {
			t.Errorf("%v: %s, want %s", test.ratio, got, test.want)
		}
	}
	if got := (tolerance{low: 1 - 0.07, high: 1 + 0.07}).text(); got != "0.93 to 1.07" {
		t.Error(got)
	}
}

func TestProductsShowWhyTheyAreRoundedUp(t *testing.T) {
	seven := 7.0 / 3
	for product, want := range map[float64]string{
		4.8: "4.8", 6: "6", seven * 27: "63.00000000000001", 9.84: "9.84", 2.0 / 3: "0.6667", 0.00001: "0.00001",
	} {
		if got := productText(product); got != want {
			t.Errorf("%v: %s, want %s", product, got, want)
		}
	}
}

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Millisecond: "1.5s", 45 * time.Second: "45s", time.Minute: "1m",
		192 * time.Second: "3m12s", time.Hour: "1h", time.Hour + 5*time.Second: "1h",
		125 * time.Minute: "2h5m", 76 * time.Hour: "3d4h", 59999 * time.Millisecond: "59.999s",
		time.Minute - time.Nanosecond: "60s",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestInstants(t *testing.T) {
	c := clock{now: start, zone: time.UTC}
	for _, test := range []struct {
		after          time.Duration
		time, relative string
	}{
		{0, "03:00:00", "now"},
		{192 * time.Second, "03:03:12", "in 3m12s"},
		{-1500 * time.Millisecond, "02:59:58.5", "1.5s ago"},
		{time.Nanosecond, "03:00:00", "in a moment"},
		{-time.Nanosecond, "03:00:00", "now"},
		{-4 * time.Hour, "2026-03-01 23:00:00", "4h ago"},
	} {
		at := start.Add(test.after)
		if got := spaces(c.time(at)); got != test.time {
			t.Errorf("%v: %s, want %s", test.after, got, test.time)
		}
		if got := spaces(c.relative(at)); got != test.relative {
			t.Errorf("%v: %s, want %s", test.after, got, test.relative)
		}
	}
}

func TestPercentagesShowThatTheyAreTruncated(t *testing.T) {
	for _, test := range []struct {
		usage, requests int64
		percent         int32
		want            string
	}{
		{900, 1500, 60, "60 %"},
		{549, 1000, 54, "54 % (54.9 truncated)"},
		{54999, 100000, 54, "54 % (54.9 truncated)"},
		{5400003, 10000000, 54, "54 % (truncated)"},
		{54004, 100000, 54, "54 % (54.004 truncated)"},
		{1, 0, 54, "54 %"},
		{6e12, 1, -647710720, "-647710720 %"}, // wrapped
	} {
		if got := spaces(percentOf(test.usage, test.requests, test.percent)); got != test.want {
			t.Errorf("%d of %d: %s, want %s", test.usage, test.requests, got, test.want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		text        string
		first, rest int
		want        string
	}{
		{"", 10, 10, ""},
		{"one two three", 10, 10, "one two|three"},
		{"one two three", 3, 8, "one|two|three"},
		{"a unbreakably-long b", 6, 6, "a|unbreakably-long|b"},
		{"90" + nbsp + "% of it", 4, 4, "90" + nbsp + "%|of|it"},
		{"→ × ≈ é", 3, 3, "→ ×|≈ é"},
	} {
		if got := strings.Join(wrap(test.text, test.first, test.rest), "|"); got != test.want {
			t.Errorf("%q: %q, want %q", test.text, got, test.want)
		}
	}
}

func TestTablesFitOrBecomeLists(t *testing.T) {
	tab := &table{header: []string{"NAME", "N", "WHY"}, right: []bool{false, true, false}}
	tab.add(plain, "web-0", "7", "one two three four five six seven")
	tab.add(plain, "web-11", none, "")
	for width, want := range map[int]string{
		60: "  NAME    N  WHY\n  web-0   7  one two three four five six seven\n  web-11  -\n",
		36: "  NAME    N  WHY\n  web-0   7  one two three four five\n             six seven\n  web-11  -\n",
		30: "  web-0\n    n 7, why one two three\n    four five six seven\n  web-11\n",
	} {
		p := &page{width: width}
		tab.write(p)
		if got := p.text.String(); got != want {
			t.Errorf("%d columns:\n%s\nwant:\n%s", width, got, want)
		}
	}
}

func TestNameLabels(t *testing.T) {
	for _, test := range []struct{ kind, name, want string }{
		{"Resource", "cpu resource utilization (percentage of request)", "cpu"},
		{"Resource", "memory resource", "memory"},
		{"ContainerResource", "cpu container resource utilization (percentage of request)", "cpu"},
		{"ContainerResource", "memory resource", "memory"},
		{"Pods", "pods metric requests-per-second", "requests-per-second"},
		{"Object", "Service metric hits", "hits of Service"},
		{"Object", "external metric hits(nil)", "hits"},
		{"External", "external metric queue(&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},})", "queue"},
		{"Foo", "", "a metric of type Foo"},
	} {
		if got := nameLabel(&setpointv1.MetricExplanation{Type: test.kind, Name: test.name}); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// The trace of a stored history has no sums; over no replicas there is no average either.
func TestAnAverageOverNoReplicasIsInWords(t *testing.T) {
	t.Parallel()
	m := &metric{label: "queue", target: 10000, MetricExplanation: &setpointv1.MetricExplanation{
		Calculation: averageValuePerReplica, Current: &setpointv1.MetricValueStatus{AverageValue: new("9223372036854775807m")},
	}}
	if got, want := m.reading(), "queue is at no average per replica, target 10"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// When a policy allows more is told only where more is allowed then, and not before.
func TestRoomIsToldWhereItIs(t *testing.T) {
	t.Parallel()
	policy := func(limit int32, seconds time.Duration) *setpointv1.PolicyExplanation {
		return &setpointv1.PolicyExplanation{Type: "Pods", Value: 2, PeriodSeconds: 60, ScaledUp: 2, PeriodStartReplicas: 7, Limit: limit, ReleaseTime: timestamppb.New(start.Add(seconds * time.Second))}
	}
	for _, test := range []struct {
		selects         string
		selected, other *setpointv1.PolicyExplanation
		want            bool
	}{
		{"Max", policy(9, 60), policy(8, 60), true},
		{"Max", policy(9, 60), policy(8, 15), false},
		{"Max", policy(7, 60), policy(6, 60), false},                             // then it may be the current 9
		{"Max", policy(math.MinInt32+6, 60), policy(math.MinInt32+6, 60), false}, // its value is too large
		{"Min", policy(9, 60), policy(10, 90), true},
		{"Min", policy(9, 60), policy(9, 90), false},
		{"Min", policy(9, 60), policy(9, 15), true},
	} {
		test.selected.Selected = true
		c := newCase(nil, &setpointv1.RecommendResponse{CurrentReplicas: 9, Explanation: &setpointv1.Explanation{RateLimit: &setpointv1.RateLimitExplanation{
			Direction: up, SelectPolicy: test.selects, Limit: new(int32(9)), Policies: []*setpointv1.PolicyExplanation{test.selected, test.other},
		}}}, nil)
		if got := c.limitText(); strings.Contains(got, "it allows more at") != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}
