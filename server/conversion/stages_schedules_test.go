package conversion_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/schedule"
)

func TestSchedulesAreRead(t *testing.T) {
	plan, violations := stagesOf(t, `{"schedules": [
		{"name": "office", "timeZone": "Europe/Berlin", "cron": "0 8 * * 1-5", "duration": "43200s", "minReplicas": 8, "rampUp": "1800s", "rampDown": "60s", "minPace": "PACED"},
		{"name": "night", "timeZone": "UTC", "cron": "0 20 * * *", "endCron": "0 6 * * *", "maxReplicas": 10, "maxPace": "AT_ONCE", "suspended": true},
		{"name": "sale", "timeZone": "UTC", "at": "2026-11-27T08:00:00Z", "duration": "86400s", "minReplicas": 0, "maxReplicas": 60}
	]}`, threeMetrics())
	if len(violations) > 0 {
		t.Fatal(violations)
	}
	for i := range plan.Schedules {
		if plan.Schedules[i].Times == nil {
			t.Fatalf("schedule %d has no times", i)
		}
	}
	if p := plan.Schedules[2].Times.At(time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)); !p.Active {
		t.Error("the sale does not begin")
	}
	for i := range plan.Schedules {
		plan.Schedules[i].Times = nil
	}
	if want := []stages.Schedule{
		{Name: "office", Min: 8, Max: -1, RampUp: 30 * time.Minute, RampDown: time.Minute, MinPaced: true},
		{Name: "night", Min: -1, Max: 10, MaxAtOnce: true, Suspended: true},
		{Name: "sale", Min: 0, Max: 60},
	}; !reflect.DeepEqual(plan.Schedules, want) {
		t.Errorf("%+v, want %+v", plan.Schedules, want)
	}
}

func TestSchedulesThatAreRefused(t *testing.T) {
	const times = `"name": "a", "timeZone": "UTC", "cron": "0 8 * * *", "duration": "3600s"`
	for text, want := range map[string][]string{
		`{` + times + `}`: {"stages.schedules[0].minReplicas: Required value: a schedule has minReplicas, maxReplicas or both"},
		`{` + times + `, "minReplicas": 9, "maxReplicas": 8}`:                  {"stages.schedules[0].minReplicas: Invalid value: 9: must be at most maxReplicas, which is 8"},
		`{` + times + `, "maxReplicas": 8, "rampDown": "60s"}`:                 {"stages.schedules[0].rampDown: Forbidden: only minReplicas has ramps"},
		`{` + times + `, "minReplicas": 2}, {` + times + `, "minReplicas": 3}`: {`stages.schedules[1].name: Duplicate value: "a"`},
		`{"name": "a", "cron": "0 8 * * *", "duration": "3600s", "minReplicas": 2}`: {
			"stages.schedules[0].timeZone: Required value: must be a time zone of the IANA database, such as \"Europe/Berlin\", or \"UTC\"",
		},
		`{"name": "a", "timeZone": "UTC", "minReplicas": 2}`: {
			"stages.schedules[0].cron: Required value: a schedule starts at the times of a cron expression, or once, at",
			"stages.schedules[0].duration: Required value: a schedule ends after a duration, or at the times of endCron",
		},
		`{"name": "a", "timeZone": "Europe/Berlim", "cron": "0 0 30 2 *", "at": "2026-11-27T08:00:00Z", "duration": "60s", "endCron": "0 25 * * *", "minReplicas": 2}`: {
			"stages.schedules[0].at: Forbidden: the schedule has a cron expression",
			"stages.schedules[0].endCron: Forbidden: the schedule has a duration",
			`stages.schedules[0].timeZone: Invalid value: "Europe/Berlim": the IANA time zone database has no zone of that name; did you mean Europe/Berlin?`,
			`stages.schedules[0].cron: Invalid value: "0 0 30 2 *": it never fires: no date matches`,
			`stages.schedules[0].endCron: Invalid value: "0 25 * * *": hour "25": end of range (25) above maximum (23)`,
		},
		`{"name": "a", "timeZone": "UTC", "cron": "0 8 * * *", "endCron": "0 8 * * *", "minReplicas": 2}`: {
			`stages.schedules[0].endCron: Invalid value: "0 8 * * *": it ends at the instants at which it starts: it is never active`,
		},
	} {
		if _, got := stagesOf(t, `{"schedules": [`+text+`]}`, threeMetrics()); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// S7: bounds outside the spec's are refused where they are stored, and limited in a request.
func TestStoredSchedulesAreInsideTheSpec(t *testing.T) {
	s := &setpointv1.Stages{}
	const text = `{"schedules": [
		{"name": "a", "timeZone": "UTC", "cron": "0 8 * * *", "duration": "3600s", "minReplicas": 1, "maxReplicas": 60},
		{"name": "b", "timeZone": "UTC", "cron": "0 8 * * *", "duration": "3600s", "minReplicas": 2, "maxReplicas": 20}]}`
	fatal.If(t, protojson.Unmarshal([]byte(text), s))
	_, violations := conversion.Stages(nil, s, threeMetrics())
	var got []string
	for _, v := range violations {
		got = append(got, v.String())
	}
	if want := []string{
		"stages.schedules[0].minReplicas: Invalid value: 1: must be at least the spec's minReplicas, which is 2",
		"stages.schedules[0].maxReplicas: Invalid value: 60: must be at most the spec's maxReplicas, which is 20",
	}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, violations := stagesOf(t, text, threeMetrics()); len(violations) > 0 {
		t.Errorf("in a request: %q", violations)
	}
}

func TestProposalsAreRead(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(d)) }
	req := &setpointv1.RecommendRequest{Proposals: []*setpointv1.Proposal{
		{Name: "a", Replicas: 3, Role: "VOTER", ExpireTime: at(time.Hour)}, {Name: "b", Replicas: 0, Role: "CAP", ExpireTime: at(-time.Hour)},
		{Name: "c", Replicas: 9, Role: "FLOOR", ExpireTime: at(time.Minute)},
	}}
	around, violations := conversion.Around(req, threeMetrics(), now)
	if want := []stages.Proposal{
		{Name: "a", Replicas: 3, Role: stages.Voter, Expires: now.Add(time.Hour)}, {Name: "b", Role: stages.Cap, Expires: now.Add(-time.Hour)},
		{Name: "c", Replicas: 9, Role: stages.Floor, Expires: now.Add(time.Minute)},
	}; !reflect.DeepEqual(around.Proposals, want) || len(violations) > 0 || around.Plan != nil {
		t.Errorf("%+v, %v, want %+v", around.Proposals, violations, want)
	}
	req.Proposals = []*setpointv1.Proposal{
		{Name: "a", Role: "CAP", ExpireTime: at(time.Hour + 1)}, {Name: "a", Role: "CAP", ExpireTime: &timestamppb.Timestamp{Nanos: -1}}, nil,
	}
	_, violations = conversion.Around(req, threeMetrics(), now)
	if got, want := fmt.Sprint(violations), "[proposals[0].expireTime: Invalid value: 2026-11-23T13:00:00.000000001Z: must be at most 1h0m0s after the evaluation, which is at 2026-11-23T12:00:00Z "+
		`proposals[1].name: Duplicate value: "a" proposals[1].expireTime: Invalid value: must be between the years 1 and 9999]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	in := threeMetrics()
	in.Options.Profile, _ = recommender.ProfileByName("cooldown")
	_, violations = conversion.Around(req, in, now)
	if got := fmt.Sprint(violations); !strings.HasPrefix(got, `[proposals: Forbidden: the profile "cooldown" has none: `) {
		t.Error(got)
	}
}

func TestIdleIsRead(t *testing.T) {
	in := threeMetrics()
	in.Spec.MinReplicas, in.Options.ScaleToZero = 0, true
	for text, want := range map[string]*stages.Idle{
		`{}`: {Activation: map[int]int64{0: 0, 2: 0}, Cooldown: 5 * time.Minute, InitialCooldown: 5 * time.Minute},
		`{"activation": {"External:latency": "500m"}, "cooldown": "0s", "initialCooldown": "60s"}`: {Activation: map[int]int64{0: 0, 2: 500}, InitialCooldown: time.Minute},
		`{"cooldown": "60s"}`: {Activation: map[int]int64{0: 0, 2: 0}, Cooldown: time.Minute, InitialCooldown: time.Minute},
	} {
		plan, violations := stagesOf(t, `{"idle": `+text+`}`, in)
		if len(violations) > 0 || !reflect.DeepEqual(plan.Idle, want) {
			t.Errorf("%s: %+v, want %+v; %q", text, plan.Idle, want, violations)
		}
	}
	for text, want := range map[string][]string{
		`{"activation": {"External:queue": "many", "Resource:cpu": "1", "External:lag": "-1"}}`: {
			`stages.idle.activation["External:lag"]: Invalid value: "-1": must be at least 0, and in the range of the controller's arithmetic`,
			`stages.idle.activation["External:lag"]: Invalid value: "External:lag": the spec has no such metric: it has External:queue, Resource:cpu, External:latency`,
			`stages.idle.activation["External:queue"]: Invalid value: "many": `,
			`stages.idle.activation["Resource:cpu"]: Invalid value: "Resource:cpu": only Object and External metrics have a value without pods`,
		},
	} {
		_, got := stagesOf(t, `{"idle": `+text+`}`, in)
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%s:\n%s\nwant\n%s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if _, got := stagesOf(t, `{"idle": {}}`, threeMetrics()); !slices.Equal(got, []string{
		"stages.idle: Forbidden: needs spec.minReplicas 0, which is 2", "stages.idle: Forbidden: needs options.scaleToZero",
	}) {
		t.Errorf("%q", got)
	}
	in.Spec.Metrics = in.Spec.Metrics[1:2]
	if _, got := stagesOf(t, `{"idle": {}}`, in); !slices.Equal(got, []string{"stages.idle: Forbidden: needs an Object or External metric, as others have no value without pods"}) {
		t.Errorf("%q", got)
	}
}

// Absurd values, which validation.Structure refuses, are read, too.
func TestAbsurdSchedulesAreRead(t *testing.T) {
	huge := &durationpb.Duration{Seconds: 1 << 62, Nanos: -5}
	s := &setpointv1.Schedule{Name: strings.Repeat("x", 1<<16), TimeZone: strings.Repeat("../", 1<<12), Cron: strings.Repeat("*", 1<<16), EndCron: strings.Repeat("0,", 1<<10) + "0 * * * *",
		Duration: huge, RampUp: huge, RampDown: &durationpb.Duration{Seconds: -1}, MinReplicas: new(int32(-5)), MaxReplicas: new(int32(-7)), MinPace: "x", MaxPace: "y", At: &timestamppb.Timestamp{Seconds: 1 << 62}}
	req := &setpointv1.RecommendRequest{
		Stages: &setpointv1.Stages{
			Schedules: []*setpointv1.Schedule{s, nil, {}, {TimeZone: "UTC", Cron: "* * * * *", Duration: &durationpb.Duration{Seconds: -3}}},
			Idle:      &setpointv1.IdleScaling{Activation: map[string]string{"": "", strings.Repeat("y", 1<<16): strings.Repeat("9", 1<<16)}, Cooldown: huge},
		},
		Proposals: []*setpointv1.Proposal{nil, {Replicas: -5, Role: "x", ExpireTime: timestamppb.New(time.Unix(1, 0))}},
	}
	_, violations := conversion.Around(req, threeMetrics(), time.Unix(0, 0))
	for _, v := range violations {
		if len(v.String()) > 2048 {
			t.Errorf("a violation of %d bytes", len(v.String()))
		}
	}
}

// Of lists with more entries than there may be, which validation.Structure refuses, no more are read than there may
// be: each costs more than its few bytes.
func TestLongListsOfStagesAreNotRead(t *testing.T) {
	const n = 50_000
	many := map[string]string{}
	req := &setpointv1.RecommendRequest{Stages: &setpointv1.Stages{
		Combine: &setpointv1.Combine{Method: "WEIGHTED", Weights: many}, Idle: &setpointv1.IdleScaling{Activation: many},
	}}
	for i := range n {
		many[fmt.Sprint(i)] = "x"
		req.Stages.Schedules = append(req.Stages.Schedules, &setpointv1.Schedule{TimeZone: fmt.Sprint("Zone/", i), Cron: "0 0 30 2 *"})
		req.Stages.Fallbacks = append(req.Stages.Fallbacks, nil)
		req.Stages.ZeroGuards = append(req.Stages.ZeroGuards, nil)
		req.Proposals = append(req.Proposals, &setpointv1.Proposal{ExpireTime: timestamppb.New(time.Unix(1<<40, 0))})
	}
	in := threeMetrics()
	in.Spec.Metrics[0].Metric.Name = strings.Repeat("m", 1<<20)
	_, violations := conversion.Around(req, in, time.Unix(0, 0))
	if len(violations) > 1000 {
		t.Errorf("%d violations of %d entries", len(violations), 4*n)
	}
	for _, v := range violations {
		if len(v.String()) > 2048 {
			t.Errorf("a violation of %d bytes", len(v.String()))
		}
	}
	st := req.GetStages()
	for field, alone := range map[string]*setpointv1.RecommendRequest{
		"stages.schedules":       {Stages: &setpointv1.Stages{Schedules: st.GetSchedules()}},
		"stages.fallbacks":       {Stages: &setpointv1.Stages{Fallbacks: st.GetFallbacks()}},
		"stages.zeroGuards":      {Stages: &setpointv1.Stages{ZeroGuards: st.GetZeroGuards()}},
		"stages.combine.weights": {Stages: &setpointv1.Stages{Combine: st.GetCombine()}},
		"stages.idle.activation": {Stages: &setpointv1.Stages{Idle: st.GetIdle()}},
		"proposals":              {Proposals: req.GetProposals()},
	} {
		if !slices.ContainsFunc(validation.Structure(alone), func(v validation.Violation) bool { return v.Field == field }) {
			t.Errorf("nobody tells that %s has too many entries", field)
		}
	}
}

// After some zones that do not exist only those are read that need no look at the database, and the others are told.
func TestManyUnknownZones(t *testing.T) {
	stages := &setpointv1.Stages{}
	for i := range 64 {
		zone := fmt.Sprint("Europe/Nowhere-", i)
		if i == 63 {
			zone = "UTC"
		}
		stages.Schedules = append(stages.Schedules, &setpointv1.Schedule{Name: fmt.Sprint("s-", i), TimeZone: zone, Cron: "0 8 * * *", Duration: durationpb.New(time.Hour), MinReplicas: new(int32(3))})
	}
	if _, err := schedule.Zone("UTC"); err != nil {
		t.Fatal(err)
	}
	_, violations := conversion.Around(&setpointv1.RecommendRequest{Stages: stages}, threeMetrics(), time.Unix(1e9, 0))
	if len(violations) != 63 {
		t.Errorf("%d violations, want one for each unknown zone: %v", len(violations), violations)
	}
	looked := 0
	for i, v := range violations {
		if want := fmt.Sprintf("stages.schedules[%d].timeZone", i); v.Field != want {
			t.Errorf("a violation of %s, want %s", v.Field, want)
		}
		if strings.Contains(v.Description, "has no zone of that name") {
			looked++
		}
	}
	if looked != 8 || schedule.Loaded("Europe/Nowhere-40") || !schedule.Loaded("Europe/Nowhere-3") {
		t.Errorf("%d zones were looked for", looked)
	}
}
