package scenario

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/stages"
)

func nothing(name string) ([]byte, error) { return nil, errors.New(name + ": no such file") }

func TestEverythingThatAScenarioCanSay(t *testing.T) {
	t.Parallel()
	got, err := Read(t.Context(), "s.yaml", []byte(`
start: 2026-03-28T00:00:00+01:00
timezone: Europe/Berlin
duration: 48h
seed: 7
price: 0.04
load:
  - constant: 5
  - spike: {at: 1h, height: 10, for: 10m}
    scale: 2
workload:
  replicas: 3
  containers:
    - {name: app, requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: "1"}}
    - {name: proxy, requests: {cpu: 50m, memory: 64Mi}, usage: {cpu: 10m}}
  capacity: 80
  startup: 20s
  startupMax: 60s
  warmup: 1m
  schedulingDelay: 2s
  slots: 10
  nodeDelay: 90s
  drain: 5s
  grace: 30s
  imbalance: 0.1
  queue: {size: 100, timeout: 10s}
  retries: {count: 3, delay: 1s, factor: 2}
  usage:
    - {metric: cpu, perLoad: 10m, idle: 20m, warmup: 300m}
    - {metric: depth, perLoad: 1, follows: queueLength, window: 30s, delay: 5s}
loop: {syncPeriod: 10s, offset: 1s, applyDelay: 2s, resolution: 20s, scrapeOffset: 3s}
events:
  - {at: 1h, kill: 3}
  - {at: 2h, crash: 0.5, for: 10m}
  - {at: 3h, metrics: late, by: 1m, for: 10m, metric: cpu}
  - {at: 4h, writes: fail, for: 5m}
  - {at: 5h, replicas: 10}
  - {at: 6h, rollout: {surge: 2, unavailable: 1}}
  - {at: 7h, for: 1h, override: {pin: 4}}
`), nil, nothing)
	fatal.If(t, err)
	if at := got.Load.At(time.Hour); at != 25 {
		t.Errorf("a load of %g at 1h, want 5 + 2·10", at)
	}
	if zone := got.Start.Location().String(); zone != "Europe/Berlin" || !got.Start.Equal(time.Date(2026, 3, 27, 23, 0, 0, 0, time.UTC)) {
		t.Errorf("starts at %s", got.Start)
	}
	replicas := int32(3)
	want := simulation.Scenario{
		Start: got.Start, Load: got.Load, Duration: 48 * time.Hour, Seed: 7, Price: 0.04,
		Workload: simulation.Workload{
			Replicas: &replicas,
			Containers: []simulation.Container{
				{
					Name: "app", Requests: []recommender.ResourceUsage{{Resource: "cpu", Milli: 500}, {Resource: "memory", Milli: 1 << 30 * 1000}},
					Limits: []recommender.ResourceUsage{{Resource: "cpu", Milli: 1000}},
				},
				{
					Name: "proxy", Requests: []recommender.ResourceUsage{{Resource: "cpu", Milli: 50}, {Resource: "memory", Milli: 64 << 20 * 1000}},
					Usage: []recommender.ResourceUsage{{Resource: "cpu", Milli: 10}},
				},
			},
			Capacity: 80, Startup: simulation.Startup{Kind: simulation.UniformStartup, From: 20 * time.Second, To: time.Minute},
			Warmup: time.Minute, SchedulingDelay: 2 * time.Second, Slots: 10, NodeDelay: 90 * time.Second,
			Drain: 5 * time.Second, Grace: 30 * time.Second, Imbalance: 0.1,
			Queue:   simulation.Queue{Size: 100, Timeout: 10 * time.Second},
			Retries: simulation.Retries{Count: 3, Delay: time.Second, Factor: 2},
			Usage: []simulation.Usage{
				{Metric: "cpu", PerLoad: 10, Idle: 20, Warmup: 300},
				{Metric: "depth", PerLoad: 1000, Follows: simulation.QueueLength, Window: 30 * time.Second, Delay: 5 * time.Second},
			},
		},
		Loop: simulation.Loop{SyncPeriod: 10 * time.Second, Offset: time.Second, ApplyDelay: 2 * time.Second, Resolution: 20 * time.Second, ScrapeOffset: 3 * time.Second},
		Events: []simulation.Event{
			{At: 1 * time.Hour, Kind: simulation.KillPods, Pods: 3},
			{At: 2 * time.Hour, Kind: simulation.CrashPods, Share: 0.5, For: 10 * time.Minute},
			{At: 3 * time.Hour, Kind: simulation.MetricsLate, By: time.Minute, For: 10 * time.Minute, Metric: "cpu"},
			{At: 4 * time.Hour, Kind: simulation.WritesFail, For: 5 * time.Minute},
			{At: 5 * time.Hour, Kind: simulation.SetReplicas, Replicas: 10},
			{At: 6 * time.Hour, Kind: simulation.Rollout, Surge: 2, Unavailable: 1},
			// The service requires a reason, which a sentence about the change ends with.
			{At: 7 * time.Hour, Kind: simulation.Override, For: time.Hour, Override: &stages.Override{
				Name: "overrides/scenario", Level: stages.OfTarget, Pin: 4, Floor: -1, Ceiling: -1, Author: "the scenario", Reason: "simulated",
			}},
		},
	}
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", *got, want)
	}
}

// scenario is the rest of a scenario around some load.
func scenario(load string) []byte {
	return []byte("load:\n" + load + "\nworkload: {usage: [{metric: cpu, perLoad: 10m}]}\n")
}

func TestShapesOfLoad(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		load     string
		at       time.Duration
		want     float64
		duration time.Duration
	}{
		{"  - constant: 0", time.Hour, 0, 24 * time.Hour},
		{"  - points: [{at: 0s, value: 1}, {at: 2h, value: 3}]", time.Hour, 2, 2 * time.Hour},
		{"  - step: {from: 1, to: 5, at: 1h}", time.Hour, 5, 24 * time.Hour},
		{"  - ramp: {to: 4, for: 2h}", time.Hour, 2, 24 * time.Hour},
		{"  - daily: {low: 2, high: 4, peak: 13:00}", time.Hour, 2, 24 * time.Hour},
		{"  - spike: {height: 3, at: 30m, for: 1h}", time.Hour, 3, 24 * time.Hour},
		{"  - flashCrowd: {height: 8, at: 49m, rise: 1m}", time.Hour, 4, 24 * time.Hour},
		{"  - sawtooth: {low: 0, high: 6, period: 2h}", time.Hour, 3, 24 * time.Hour},
		{"  - onOff: {high: 7, on: 50m, off: 20m}", time.Hour, 0, 24 * time.Hour},
		{"  - csv: {file: load.csv}\n  - constant: 1", time.Minute, 31, 2 * time.Minute},
		{"  - csv: {file: instants.csv}", time.Minute, 6, time.Minute},
		{"  - prometheus: {file: range.json}", 30 * time.Second, 2 + 20, time.Minute},
	} {
		open := func(name string) ([]byte, error) {
			return map[string][]byte{
				"load.csv":     []byte("time,value\n0,10\n60,30\n120,20\n"),
				"instants.csv": []byte("2026-05-01T00:00:00Z, 5\n2026-05-01T00:01:00Z, 6\n"),
				"range.json": []byte(`{"status":"success","data":{"resultType":"matrix","result":[
					{"metric":{"pod":"a"},"values":[[1767571200,"1"],[1767571230,"2"],[1767571260,"3"]]},
					{"metric":{"pod":"b"},"values":[[1767571200,"10"],[1767571260,"30"]]}]}}`),
			}[name], nil
		}
		got, err := Read(t.Context(), "s.yaml", scenario(tt.load), nil, open)
		if err != nil {
			t.Errorf("%s: %v", tt.load, err)
			continue
		}
		if at := got.Load.At(tt.at); at < tt.want-1e-9 || at > tt.want+1e-9 || got.Duration != tt.duration {
			t.Errorf("%s: %g at %s, %s long, want %g and %s", tt.load, at, tt.at, got.Duration, tt.want, tt.duration)
		}
		if strings.Contains(tt.load, "instants") && !got.Start.Equal(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%s: starts at %s", tt.load, got.Start)
		}
	}
}

// Without a start a simulation begins with a Monday of its zone, whose weekends and hours the load has.
func TestASimulationBeginsWithItsZonesMonday(t *testing.T) {
	t.Parallel()
	for zone, want := range map[string]string{"UTC": "2026-01-05T00:00:00Z", "America/New_York": "2026-01-05T00:00:00-05:00", "Asia/Kolkata": "2026-01-05T00:00:00+05:30"} {
		got, err := Read(t.Context(), "s.yaml", []byte("timezone: "+zone+"\nduration: 1h\nload: [{constant: 5}]\nworkload: {usage: [{metric: cpu, perLoad: 10m}]}\n"), nil, nothing)
		if err != nil || got.Start.Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v", zone, got.Start, err)
		}
	}
	for _, zone := range []string{"Local", "right/Europe/Berlin", "localtime"} { // which each machine has its own of, or none
		if _, err := Read(t.Context(), "s.yaml", []byte("timezone: "+zone+"\nload: [{constant: 5}]\nworkload: {usage: [{metric: cpu, perLoad: 10m}]}\n"), nil, nothing); err == nil {
			t.Errorf("%s is a zone", zone)
		}
	}
}

// All that is wrong is told at once, with lines and paths.
func TestWhatIsWrongWithAScenario(t *testing.T) {
	t.Parallel()
	_, err := Read(t.Context(), "s.yaml", []byte(`duration: 2
timezone: Mars
load:
  - constant: -1
  - daily: {low: 5, high: 3}
  - step: {to: 1}
  - spikes: {}
  - constant: 1
    spike: {at: 1s, height: 1, for: 1s}
  - csv: {file: nowhere.csv}
workload:
  replica: 3
  requests: {cpu: lots, gpu: 1}
  usage:
    - {metric: cpu, perLoad: 10m}
    - {metric: cpu, perLoad: 10m, follows: me}
    - {metric: memory, perLoad: 10Ti}
events:
  - {at: 1s, crash: 2}
`), nil, nothing)
	if err == nil {
		t.Fatal("no error")
	}
	// The load is read once the rest is right.
	for _, want := range []string{
		`s.yaml:1: duration: must be a duration such as "30s"`,
		"s.yaml:2: timezone: the IANA time zone database has no zone of that name",
		"s.yaml:12: workload: unknown key replica, did you mean replicas?",
		`s.yaml:13: workload.requests.cpu: must be a quantity of at least 0, such as "250m" or "1Gi"`,
		"s.yaml:13: workload.requests: unknown key gpu",
		"s.yaml:16: workload.usage[1].follows: must be one of [served offered queueLength queueAge]",
		"s.yaml:16: workload.usage[1]: duplicate metric",
		"s.yaml:17: workload.usage[2].perLoad: must be at most 9223372036854",
		"s.yaml:19: events[0].crash: must be a number between 0 and 1",
		"s.yaml:4: load[0].constant: must be a number between 0 and 1e+12",
		"s.yaml:5: load[1].daily: high is below low",
		"s.yaml:6: load[2].step: at is missing",
		"s.yaml:7: load[3]: unknown key spikes, did you mean spike?",
		"s.yaml:8: load[4]: must have one of constant, points",
		"s.yaml:10: load[5].csv: nowhere.csv: no such file",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("does not say %q:\n%v", want, err)
		}
	}
}

// Two values are compared only if both could be read.
func TestAHighThatCantBeReadIsNotBelow(t *testing.T) {
	t.Parallel()
	_, err := Read(t.Context(), "s.yaml", []byte("load: [{daily: {low: 5, high: .inf}}]\nworkload: {usage: [{metric: cpu, perLoad: 1}]}"), nil, nothing)
	if want := "s.yaml:1: load[0].daily.high: must be a number between 0 and 1e+12"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestEventsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for event, want := range map[string]string{
		"{at: 1s}":                                            "must have one of kill, crash",
		"{at: 1s, kill: 1, crash: 0.5}":                       "must have one of kill, crash",
		"{at: 1s, crash: 0.5}":                                `needs "for"`,
		"{at: 1s, kill: 1, for: 5s}":                          `needs "for"`,
		"{at: 1s, metrics: late, for: 5s}":                    `needs "by"`,
		"{at: 1s, kill: 1, metric: cpu}":                      `"metric" belongs to metrics`,
		"{at: 1s, metrics: broken, for: 5s}":                  "must be one of [gone frozen zero late]",
		"{at: 1s, override: {hold: true}}":                    `needs "for"`,
		"{at: 1s, for: 5s, override: {reason: x}}":            "events[0].override: must have at least one of hold, pin",
		"{at: 1s, for: 5s, override: {hold: false}}":          "events[0].override: must have at least one of hold, pin",
		"{at: 1s, for: 5s, override: {hold: true, pin: 3}}":   "events[0].override: can't have both hold and pin",
		"{at: 1s, for: 5s, override: {floor: 3, ceiling: 2}}": "events[0].override: can't have a floor above the ceiling",
		"{at: 1s, for: 5s, override: {pin: -1}}":              "events[0].override.pin",
		"{at: 1s, for: 5s, override: {hold: yes please}}":     "events[0].override.hold",
		"{at: 1s, for: 5s, override: {hold: true}, kill: 1}":  "must have one of kill, crash",
		"{kill: 1}":          "at is missing",
		"{at: 25h, kill: 1}": "s.yaml:4: events[0]: at 25h0m0s: must be before the end, 24h0m0s",
	} {
		_, err := Read(t.Context(), "s.yaml", append(scenario("  - constant: 1"), []byte("events: ["+event+"]\n")...), nil, nothing)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", event, err, want)
		}
	}
}

func TestInvalidRecordedLoads(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, data, want string }{
		{"csv", "", "a load needs at least one point"},
		{"csv", "time,value\n", "a load needs at least one point"},
		{"csv", "0,1\nyesterday,2\n", "line 2: the time must be seconds, or an instant"},
		{"csv", "0,1\n1,much\n", `line 2: "much" is not a number; write it with a decimal point and without a unit`},
		{"csv", "0,1\n1," + strings.Repeat("1", 1000) + "\n", `line 2: "` + strings.Repeat("1", 40) + `…" is not a number; write it with a decimal point and without a unit`},
		{"csv", "0,1\n1,-2\n", "line 2: the value is -2, must be between 0 and"},
		{"csv", "time,value\n0,1\n1,Infinity\n", "line 3: the value is +Inf, must be between 0 and"},
		{"csv", "5,1\n1,2\n", "line 2: its time is 4s before the previous sample's; sort"},
		{"csv", "0,1\n0,2\n0,3\n", "is the third one at that instant"},
		{"csv", `{"status":"success"}`, "is JSON, not CSV"},
		{"csv", "0,1,2\n", "line 1: has 3 columns, must have two: time and value"},
		{"csv", "0,1\n" + strings.Repeat(",", 200), "line 2: has more than 100 columns"},
		{"csv", "0,1\n1,2\n" + strings.Repeat("\"\n\",", 200), "line 104: has more than 100 columns"},
		{"csv", "0,1\n99999999,2\n", "the times span more than"},
		{"prometheus", "<html>", "is not a response of Prometheus"},
		{"prometheus", `{"status":"error","error":"bad query"}`, "bad query"},
		{"prometheus", `{"status":"success","data":{"resultType":"vector","result":[]}}`, "must be a matrix"},
		{"prometheus", `{"status":"success","data":{"resultType":"matrix","result":[]}}`, "has 0 series"},
		{"prometheus", `{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"NaN"]]}]}}`, "has 1 samples, none of which is a number"},
		{"prometheus", `{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"+Inf"]]}]}}`, "must be between 0 and"},
		{"csv", "time,value\n0,NaN\n15,\n", "has 2 samples, none of which is a number"},
		{"recording", "0,1\n1,2\n", "is no recording as setpoint targets export writes it"},
		{"recording", `{"name":"a from t","calls":[` + call(0, 1, 1), "is no recording as setpoint targets export writes it"},
		{"recording", `{"name":"a","steps":[{}]}`, "has pods in place of sums"},
		{"recording", `{"name":"a","calls":[{"request":{}}]}`, "call 1: has pods in place of sums"},
		{"recording", `{"name":"a","calls":{}}`, "calls are no list"},
		{"recording", `{"name":"a from t1"}` + "\n" + `{"name":"b from t2"}`, `it has several targets, "a" and "b": export one`},
		{"recording", `{"name":"a","calls":[{"x":"` + strings.Repeat("x", 1<<20) + `"}]}`, "call 1 has more than 1048576 bytes"},
		{"recording", `{"name":"a","calls":[]}`, "a load needs at least one point"},
		{"recording", `{"name":"a","calls":[` + call(0, 0, 0) + `]}`, "has 1 samples, none of which is a number"},
	} {
		_, err := Read(t.Context(), "s.yaml", scenario("  - "+tt.name+": {file: f}"), nil, func(string) ([]byte, error) { return []byte(tt.data), nil })
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %q: %v, want %q", tt.name, tt.data, err, tt.want)
		}
	}
}

// Lists that are too long are refused before anything is made of them.
func TestLongListsAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"parts":  string(scenario(strings.Repeat("  - constant: 1\n", MaxParts+1))),
		"events": string(scenario("  - constant: 1")) + "events:\n" + strings.Repeat("  - {at: 1s, kill: 1}\n", simulation.MaxEvents+1),
		"usage":  "load: [{constant: 1}]\nworkload:\n  usage:\n" + usages(101),
	} {
		if _, err := Read(t.Context(), "s.yaml", []byte(text), nil, nothing); err == nil || !strings.Contains(err.Error(), "more than") && !strings.Contains(err.Error(), "at most") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Parts multiply: a line of a periodic one makes two million points, and a file may be named by
// each part. What all of them make and read is bounded together.
func TestPartsAreBoundedTogether(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	var lines, series strings.Builder
	for i := range simulation.MaxPoints/2 + 1 {
		fmt.Fprintf(&lines, "%d,1\n", i)
		fmt.Fprintf(&series, `,[%d,"1"]`, i)
	}
	file := func(kind string) string { return "  - " + kind + ": {file: f}\n" }
	one := `{"values":[` + series.String()[1:] + `]}`
	for name, tt := range map[string]struct{ load, data, want string }{
		"periodic": {strings.Repeat("  - onOff: {high: 1, on: 1m, off: 1m}\n", 2), "", "s.yaml:4: load[1].onOff: the parts, up to this one, have more than 2000000 points together"},
		"points":   {strings.Repeat(file("csv"), 2), lines.String(), "load[1].csv: f: the files of recorded load, up to here, have more than 2000000 points together"},
		"bytes":    {strings.Repeat(file("csv"), 2), "0,1\n1,1" + strings.Repeat(" ", MaxLoadBytes/2), "load[1].csv: f: the files of recorded load, up to here, have more than 67108864 bytes together"},
		"series": {file("prometheus"), `{"status":"success","data":{"resultType":"matrix","result":[` + one + "," + one + `]}}`,
			"series 2: there are more than 2000000 points in total"},
	} {
		text := append([]byte("duration: 8784h\n"), scenario(strings.TrimSuffix(tt.load, "\n"))...)
		_, err := Read(t.Context(), "s.yaml", text, nil, func(string) ([]byte, error) { return []byte(tt.data), nil })
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %.300v, want %q", name, err, tt.want)
		}
	}
}

func usages(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "    - {metric: m%d, perLoad: 1}\n", i)
	}
	return out.String()
}

// FuzzRead reads scenarios, and simulates a little of those that are some: nothing panics,
// takes longer than its size allows, or loses load.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"web.yaml"} {
		text := testpages.Read(f, "../../examples/simulation/"+name)
		f.Add([]byte(text), []byte("0,1\n60,5\n"))
	}
	f.Add(scenario("  - csv: {file: a}\n  - prometheus: {file: b}\n  - onOff: {high: 7, on: 50m, off: 20m}"), []byte(`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"2"]]}]}}`))
	f.Add([]byte("load: [{constant: 30}]\nduration: 10m\nnoise: {variation: 0.2, every: 10s}\nworkload: {capacity: 10, slots: 2, nodeDelay: 30s, imbalance: 0.3, queue: {size: 50, timeout: 5s}, retries: {count: 2, delay: 1s}, usage: [{metric: cpu, perLoad: 10m}]}\nevents: [{at: 1m, crash: 0.5, for: 1m}, {at: 2m, rollout: {surge: 1}}, {at: 3m, metrics: frozen, for: 1m}, {at: 4m, kill: 2}]\n"), []byte(nil))
	f.Add([]byte("load: [{constant: 30}]\nduration: 5m\nworkload: {replicas: 4, capacity: 10, usage: [{metric: cpu, perLoad: 10m}]}\nfleet: {rules: [shift, karmada, independent, surviveOne], lostAfter: 1m, members: [{name: a, load: [{ramp: {from: 0, to: 20, at: 1m, for: 1m}}], startup: 20s}, {name: b, weight: 3, maxReplicas: 4, slots: 2}]}\nevents: [{at: 1m, cluster: down, member: a, for: 2m}, {at: 90s, calls: late, by: 40s, member: b, for: 1m}, {at: 3m, calls: gone, member: b, for: 1m}, {at: 2m, writes: late, by: 20s, member: b, for: 1m}]\n"), []byte(nil))
	f.Fuzz(func(t *testing.T, text, file []byte) {
		if len(text) > 1<<14 || len(file) > 1<<14 {
			return
		}
		s, err := Read(t.Context(), "s.yaml", text, nil, func(string) ([]byte, error) { return file, nil })
		if err != nil {
			return
		}
		s.Duration = min(s.Duration, 10*time.Minute)
		utilization := int32(60)
		a := &simulation.Autoscaler{Options: recommender.DefaultOptions(), Spec: recommender.Spec{MinReplicas: 1, MaxReplicas: 20, Metrics: []recommender.MetricSpec{{
			Type: recommender.ResourceMetric, Resource: "cpu", Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: &utilization},
		}}}}
		if s.Workload.Replicas != nil && *s.Workload.Replicas > 100 {
			return
		}
		conserves := func(result *simulation.Result, err error) {
			if err != nil {
				return
			}
			g := &result.Figures
			if kept := g.Served + g.Lost + g.Queued + g.Returning; kept < g.Offered*(1-1e-6)-1e-6 || kept > g.Offered*(1+1e-6)+1e-6 {
				t.Errorf("offered %g, of which %g are served, %g lost, %g queued, %g about to come back", g.Offered, g.Served, g.Lost, g.Queued, g.Returning)
			}
		}
		if s.Fleet == nil {
			conserves(simulation.Run(s, a, nil))
			return
		}
		if len(s.Fleet.Members) > 5 || slices.ContainsFunc(s.Fleet.Members, func(m simulation.FleetMember) bool { return m.Replicas != nil && *m.Replicas > 100 }) {
			return
		}
		for _, rule := range s.Fleet.Compared() {
			conserves(simulation.RunFleet(t.Context(), s, a, rule, nil))
		}
	})
}

// call is one of a recording: of cpu, after so many seconds, of so many pods that use so much together, and of a queue.
func call(seconds, pods, milli int) string {
	return fmt.Sprintf(`{"time":%q,"request":{"spec":{"metrics":[{"type":"Resource","resource":{"name":"cpu"}},{"type":"External","external":{"metric":{"name":"queue"}}}]}},"answer":{},`+
		`"sums":{"pods":%d,"metrics":[{"ready":{"pods":%d,"usage":%d},"unready":{"usage":5}},{"series":2,"sum":%d}]}}`,
		time.Unix(1772409600+int64(seconds), 0).UTC().Format(time.RFC3339), pods, pods, milli, 2*milli)
}

// A recording of the service is the load that its pods had together.
func TestALoadOfARecording(t *testing.T) {
	t.Parallel()
	file := `{"name":"web from t1","source":"service","state":"AAAA","calls":[` + call(0, 2, 995) + "," + call(15, 0, 7) + "," + call(30, 3, 1495) + "]}\n" +
		`{"name":"web from t2","calls":[` + call(90, 1, 1995) + "]}\n"
	for metric, want := range map[string][]float64{"": {1, 1.5, 2}, "cpu": {1, 1.5, 2}, "queue": {1.99, .014, 2.99, 3.99}} {
		of := "{file: f}"
		if metric != "" {
			of = "{file: f, metric: " + metric + "}"
		}
		s, err := Read(t.Context(), "s.yaml", scenario("  - recording: "+of), nil, func(string) ([]byte, error) { return []byte(file), nil })
		if err != nil {
			t.Errorf("%q: %v", metric, err)
			continue
		}
		var got []float64
		for _, p := range s.Load.Points() {
			got = append(got, p.Value)
		}
		if !slices.Equal(got, want) || s.Duration != 90*time.Second || !s.Start.Equal(time.Unix(1772409600, 0)) {
			t.Errorf("%q: %v for %v from %v, want %v", metric, got, s.Duration, s.Start, want)
		}
	}
	exported := `{"calls":[` + call(0, 2, 995) + "," + call(30, 3, 1495) + "," + call(90, 1, 1995) + `],"name":"web from t1"}`
	if short, err := AsCSV(t.Context(), []byte(exported), time.UTC); err != nil || short != "1772409600,1\n1772409630,1.5\n1772409690,2\n" {
		t.Errorf("as exported: %q, %v", short, err)
	}
	if short, err := AsCSV(t.Context(), []byte(file), time.UTC); err != nil || short != "1772409600,1\n1772409630,1.5\n1772409690,2\n" {
		t.Errorf("%q, %v", short, err)
	}
	// What two exports have is there once, and is no sample without a value, such as that of no pods.
	first, second, _ := strings.Cut(file, "\n")
	if short, err := AsCSV(t.Context(), []byte(second+first), time.UTC); err != nil || short != "1772409600,1\n1772409630,1.5\n1772409690,2\n" {
		t.Errorf("the later one first: %q, %v", short, err)
	}
	again := file + `{"name":"web from t1","calls":[` + call(30, 3, 1495) + "," + call(90, 1, 1995) + "," + call(120, 1, 995) + "]}\n"
	if got, err := readRecording(t.Context(), []byte(again), "cpu"); err != nil || len(got.samples) != 4 || got.noNumbers != 1 {
		t.Errorf("two exports have %d samples, and %d without a value: %v", len(got.samples), got.noNumbers, err)
	}
	// Of a spec that changes on the way it is one metric all the same.
	_, others, _ := strings.Cut(call(60, 5, 5000), `"metrics":[{"type":"Resource","resource":{"name":"cpu"}},`)
	changed := `{"calls":[` + call(0, 2, 995) + `,{"time":"2026-03-02T00:01:00Z","request":{"spec":{"metrics":[` + strings.Replace(others, `{"ready":{"pods":5,"usage":5000},"unready":{"usage":5}},`, "", 1) + "," + call(90, 1, 1995) + `],"name":"web from t1"}`
	if short, err := AsCSV(t.Context(), []byte(changed), time.UTC); err != nil || short != "1772409600,1\n1772409690,2\n" {
		t.Errorf("of a spec that changes: %q, %v\n%s", short, err, changed)
	}
	_, err := Read(t.Context(), "s.yaml", scenario("  - recording: {file: f, metric: memory}"), nil, func(string) ([]byte, error) { return []byte(file), nil })
	if err == nil || !strings.Contains(err.Error(), `has no metric "memory"; it has cpu, queue`) {
		t.Error(err)
	}
}

// What was read of a metric is read again as it was, unless the scenario says how it is measured.
func TestReadingsAreNotAveraged(t *testing.T) {
	t.Parallel()
	files := map[string]string{"f": `{"calls":[` + call(0, 2, 995) + `],"name":"web from t1"}`, "c": "0,1\n15,2\n"}
	for _, tt := range []struct {
		load, usage string
		want        bool
	}{
		{"recording: {file: f, metric: queue}", "metric: queue", true},
		{"recording: {file: f}", "metric: cpu", true},
		{"recording: {file: f}", "metric: queue", false},
		{"csv: {file: c, metric: queue}", "metric: queue", true},
		{"csv: {file: c}", "metric: queue", false},
		{"recording: {file: f, metric: queue}", "metric: queue, delay: 1m", true},
		{"recording: {file: f, metric: queue}", "metric: queue, follows: served", false},
		{"recording: {file: f, metric: queue}", "metric: queue, window: 1m", false},
	} {
		text := "load: [{" + tt.load + "}]\nworkload: {usage: [{" + tt.usage + ", perLoad: 1}]}\n"
		s, err := Read(t.Context(), "s.yaml", []byte(text), nil, func(name string) ([]byte, error) { return []byte(files[name]), nil })
		if err != nil || s.Workload.Usage[0].Recorded != tt.want {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
	}
}

// 0s would mean the default, without a word.
func TestADurationOfNothingIsRefused(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"s.yaml:3: duration: is 0s, must be longer":                    "duration: 0s\n",
		"s.yaml:3: loop.syncPeriod: is 0s, must be longer":             "loop: {syncPeriod: 0s}\n",
		"s.yaml:3: loop.resolution: is 0s, must be longer":             "loop: {resolution: 0s}\n",
		"s.yaml:3: fleet.staleAfter: is 0s, must be longer":            "fleet: {members: [{name: a}, {name: b}], staleAfter: 0s}\n",
		"s.yaml:3: fleet.lostAfter: is 0s, must be longer":             "fleet: {members: [{name: a}, {name: b}], lostAfter: 0s}\n",
		"s.yaml:3: fleet.members[0].startupMax: is 0s, must be longer": "fleet: {members: [{name: a, startupMax: 0s}, {name: b}]}\n",
		"s.yaml:3: fleet.members[0].startupP95: is 0s, must be longer": "fleet: {members: [{name: a, startupP95: 0s}, {name: b}]}\n",
		"s.yaml:2: workload.startupMax: is 0s, must be longer":         "startupMax: 0s",
		"s.yaml:2: workload.startupP95: is 0s, must be longer":         "startupP95: 0s",
		"s.yaml:2: workload.queue.timeout: is 0s, must be longer":      "queue: {size: 1, timeout: 0s}",
		"s.yaml:2: workload.usage[1].window: is 0s, must be longer":    "usage: [{metric: cpu, perLoad: 1m}, {metric: queue, perLoad: 1, window: 0s}]",
	} {
		workload := "capacity: 1, usage: [{metric: cpu, perLoad: 1m}]"
		switch {
		case strings.HasPrefix(text, "usage: "):
			workload, text = text, ""
		case !strings.HasSuffix(text, "\n"):
			workload, text = workload+", "+text, ""
		}
		_, err := Read(t.Context(), "s.yaml", []byte("load: [{constant: 1}]\nworkload: {"+workload+"}\n"+text), nil, nil)
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A unit of load may take less than a milli-unit; what a pod requests is rounded up, as the API server does.
func TestLoadMayUsePartsOfAMilliUnit(t *testing.T) {
	t.Parallel()
	s, err := Read(t.Context(), "s.yaml", []byte("load: [{constant: 1}]\nworkload: {requests: {cpu: 1200u}, usage: [{metric: cpu, perLoad: 200u, idle: 0.0015, warmup: 7n}]}\n"), nil, nil)
	fatal.If(t, err)
	if u := s.Workload.Usage[0]; u.PerLoad != 0.2 || u.Idle != 1.5 || u.Warmup != 7e-6 || s.Workload.Containers[0].Requests[0].Milli != 2 {
		t.Errorf("%+v, %v", u, s.Workload.Containers)
	}
}

// What has a limit and no request requests that, as the API server has it; what has a request keeps it.
func TestALimitIsTheRequestWhereNoneIsWritten(t *testing.T) {
	t.Parallel()
	for workload, want := range map[string]string{
		"limits: {cpu: 500m}":                                  "[{app [{cpu 500}] [{cpu 500}] []}]",
		"requests: {cpu: 100m}, limits: {cpu: 500m}":           "[{app [{cpu 100}] [{cpu 500}] []}]",
		"requests: {cpu: 100m}, limits: {memory: 1}":           "[{app [{cpu 100} {memory 1000}] [{memory 1000}] []}]",
		"containers: [{name: a, limits: {cpu: 1}}, {name: b}]": "[{a [{cpu 1000}] [{cpu 1000}] []} {b [] [] []}]",
	} {
		s, err := Read(t.Context(), "s.yaml", []byte("load: [{constant: 1}]\nworkload: {usage: [{metric: cpu, perLoad: 1m}], "+workload+"}\n"), nil, nil)
		if err != nil || fmt.Sprint(s.Workload.Containers) != want {
			t.Errorf("%s: %v, %v, want %s", workload, s, err, want)
		}
	}
}
