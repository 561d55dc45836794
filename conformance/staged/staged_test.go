package staged

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/conformance/cluster"
	"github.com/setpoint-dev/setpoint/conformance/differential"
	"github.com/setpoint-dev/setpoint/conformance/generate"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	instant, err := time.Parse(time.RFC3339, text)
	fatal.If(t, err)
	return instant
}

// The walk knows the rules of wall times by itself: the design's examples, and half an hour.
func TestTheWalkAlongClocks(t *testing.T) {
	for name, test := range map[string]struct {
		zone, cron, from, to string
		want                 []string
	}{
		"an hour that is skipped":      {"Europe/Berlin", "30 2 * * *", "2027-03-27T12:00:00Z", "2027-03-28T12:00:00Z", []string{"2027-03-28T01:00:00Z"}},
		"an hour that comes twice":     {"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", []string{"2026-10-25T00:30:00Z"}},
		"half an hour that is skipped": {"Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00Z", "2026-10-04T12:00:00Z", []string{"2026-10-03T15:30:00Z"}},
		"lists, ranges and steps":      {"UTC", "*/30 3-4 * * 1,3", "2026-11-23T00:00:00Z", "2026-11-24T23:00:00Z", []string{"2026-11-23T03:00:00Z", "2026-11-23T03:30:00Z", "2026-11-23T04:00:00Z", "2026-11-23T04:30:00Z"}},
		"a day of either":              {"UTC", "0 0 24 * 1", "2026-11-23T00:00:00Z", "2026-11-26T00:00:00Z", []string{"2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			zone, err := time.LoadLocation(test.zone)
			fatal.If(t, err)
			cron, err := parseCron(test.cron)
			fatal.If(t, err)
			w := &walk{crontab: cron, zone: zone, next: at(t, test.from)}
			w.to(at(t, test.to))
			var got []string
			for _, found := range w.found {
				got = append(got, found.Format(time.RFC3339))
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

// S1: the minimum of a schedule rises along its ramp.
func TestRampsOfTheWalk(t *testing.T) {
	s := &setpointv1.Schedule{
		TimeZone: "Europe/Berlin", Cron: "0 8 * * 1-5", Duration: durationpb.New(12 * time.Hour), MinReplicas: proto.Int32(20),
		RampUp: durationpb.New(30 * time.Minute), RampDown: durationpb.New(30 * time.Minute),
	}
	c, err := newCalendar(s, at(t, "2026-11-23T06:00:00Z"))
	fatal.If(t, err)
	for _, test := range []struct {
		now  string
		want int32 // 0: none
	}{
		{"06:29:00", 0}, {"06:30:00", 0}, {"06:40:00", 8}, {"06:45:00", 11}, {"06:59:00", 20}, {"07:00:00", 20}, {"18:59:59", 20}, {"19:00:00", 20}, {"19:10:00", 14}, {"19:30:00", 0},
	} {
		now := at(t, "2026-11-23T"+test.now+"Z")
		active, ended, next := c.at(now)
		if got, _ := minimumAt(now, s, active, ended, next, 2); got != test.want {
			t.Errorf("%s: %d, want %d", test.now, got, test.want)
		}
	}
}

// An override's effect, by the contract of the message.
func TestOverridesOfTheReference(t *testing.T) {
	now := at(t, "2026-11-23T12:00:00Z")
	override := func(level int, edit func(*setpointv1.Override)) generate.Override {
		o := &setpointv1.Override{StartTime: timestamppb.New(now), ExpireTime: timestamppb.New(now.Add(time.Minute))}
		edit(o)
		return generate.Override{Level: level, Override: o}
	}
	floor := func(n int32) func(*setpointv1.Override) { return func(o *setpointv1.Override) { o.Floor = &n } }
	ceiling := func(n int32) func(*setpointv1.Override) { return func(o *setpointv1.Override) { o.Ceiling = &n } }
	pin := func(n int32) func(*setpointv1.Override) { return func(o *setpointv1.Override) { o.Pin = &n } }
	for name, test := range map[string]struct {
		all           []generate.Override
		decided, want int32
	}{
		"O1 hold":             {[]generate.Override{override(1, func(o *setpointv1.Override) { o.Hold = true })}, 20, 10},
		"O2 pin":              {[]generate.Override{override(3, pin(6))}, 20, 6},
		"O3 no scale-down":    {[]generate.Override{override(3, func(o *setpointv1.Override) { o.NoScaleDown = true })}, 3, 10},
		"O3 up":               {[]generate.Override{override(3, func(o *setpointv1.Override) { o.NoScaleDown = true })}, 15, 15},
		"O4 contradiction":    {[]generate.Override{override(2, floor(8)), override(1, ceiling(6))}, 20, 10},
		"O5 beyond maximum":   {[]generate.Override{override(3, pin(30))}, 5, 20},
		"O5b below minimum":   {[]generate.Override{override(3, pin(0))}, 5, 2},
		"the nearest pin":     {[]generate.Override{override(1, pin(4)), override(3, pin(6))}, 20, 6},
		"a floor":             {[]generate.Override{override(3, floor(15))}, 5, 15},
		"a pin and a ceiling": {[]generate.Override{override(1, ceiling(4)), override(3, pin(6))}, 20, 4},
		"none":                {nil, 7, 7},
	} {
		t.Run(name, func(t *testing.T) {
			least := int32(2)
			s := &step{input: &input{hpa: &autoscalingv2.HorizontalPodAutoscaler{}, overrides: test.all}}
			s.hpa.Spec.MinReplicas, s.hpa.Spec.MaxReplicas = &least, 20
			s.HPA, s.Time, s.Scale = s.hpa, now, scaleOf(10)
			if got, _ := s.overridden(test.decided); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
			want := cluster.Counts{Least: math.MaxInt32, Most: -1}
			for n := range s.hpa.Spec.MaxReplicas + 1 {
				if after, _ := s.becomes(n); after == n && n != 10 {
					want.Least, want.Most = min(want.Least, n), n
				}
			}
			if s.limit(); s.ScaleUpdates != nil && *s.ScaleUpdates != want {
				t.Errorf("%v may be written, want %v", *s.ScaleUpdates, want)
			}
		})
	}
}

// Every stage that is drawn is compared, alone and mixed, and the report tells of each.
func TestTheTableOfStages(t *testing.T) {
	r := &Report{Results: []*Result{{Plan: Plan{Version: differential.Versions()[0]}, Counts: map[string]*Counts{}, Elapsed: map[string]time.Duration{}}}}
	mixed := map[string]bool{}
	for seed := range uint64(300) {
		stages, p := drawn(Mixed, seed, "v1.36")
		for _, s := range stages {
			mixed[s] = true
		}
		if again, _ := drawn(Mixed, seed, "v1.36"); !reflect.DeepEqual(stages, again) {
			t.Fatalf("seed %d: %v, then %v", seed, stages, again)
		}
		if p.Extreme != 0 {
			t.Fatal("numbers out of range")
		}
	}
	for _, s := range Stages {
		r.Results[0].Plan.Stages = append(r.Results[0].Plan.Stages, s.Name)
		r.Results[0].Counts[s.Name] = &Counts{Differences: map[string]int{}}
		if s.Name != Mixed && s.Name != Fleets && !mixed[s.Name] {
			t.Errorf("%s is in no mixture", s.Name)
		}
	}
	file := filepath.Join(t.TempDir(), "REPORT.md")
	fatal.If(t, os.WriteFile(file, []byte("# Report\n\nbefore\n"), 0o600))
	var text string
	for range 2 { // the second time it replaces the first
		fatal.If(t, r.Replace(file))
		b, err := os.ReadFile(file)
		fatal.If(t, err)
		text = string(b)
	}
	if !strings.HasPrefix(text, "# Report\n\nbefore\n\n## Stages\n") || strings.Count(text, "## Stages") != 1 {
		t.Errorf("the section is not in its place:\n%s", text)
	}
	for _, s := range Stages {
		if strings.Count(text, "| `"+s.Name+"` |") != 2 {
			t.Errorf("%s is not in both tables", s.Name)
		}
	}
	for _, d := range Differences {
		if !strings.Contains(text, d.Reason) {
			t.Errorf("the difference %s is not told", d.Name)
		}
	}
	if _, err := Named("schedules,none"); err == nil {
		t.Error("an unknown stage is accepted")
	}
}

func scaleOf(replicas int32) *autoscalingv1.Scale {
	return &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
}
