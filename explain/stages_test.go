package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/explain"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/stages"
)

const twoQueues = `{"target": "clusters/demo/namespaces/shop/targets/web", "explain": true,
	"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 20, "metrics": [
		{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
		{"type": "External", "external": {"metric": {"name": "mails"}, "target": {"type": "AverageValue", "averageValue": "10"}}}]},
	"scale": {"specReplicas": 10, "statusReplicas": 10}`

const bothRead = `, "externalMetrics": [{"metric": {"name": "queue"}, "value": "200"}, {"metric": {"name": "mails"}, "value": "120"}]`

const idle = `, "options": {"scaleToZero": true}, "previousStatus": {"desiredReplicas": 0, "conditions": [{"type": "ScaledToZero", "status": "True", "reason": "ScaledToZero"}]}`

// An answer with stages: the count that is recommended comes first, then why, and the controller's own
// steps have their own count.
func TestStagesAreExplained(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	pin := stages.Override{Name: "overrides/freeze", Pin: 5, Floor: -1, Ceiling: -1, Level: stages.OfTarget, Start: at, Expires: at.Add(2 * time.Hour), Reason: "migration", Author: "alice"}
	hold := stages.Override{Name: "overrides/freeze", Hold: true, Pin: -1, Floor: -1, Ceiling: -1, Level: stages.OfTarget, Start: at, Expires: at.Add(2 * time.Hour), Reason: "migration", Author: "alice"}
	for name, c := range map[string]struct {
		stages    string
		overrides []stages.Override
		want      []string
	}{
		"held": {`{}`, []stages.Override{hold}, []string{
			"shop/web: stays at 10 replicas\n  held at 10 by alice until 2026-11-23T14:00:00Z: \"migration\" (override freeze of the target); the recommendation would be 20\n",
			"\nStages: without stages and overrides, this step: 20\n  OVERRIDE hold: 20 → 10: held at 10 by alice",
			"asks for 20"}},
		"pinned": {`{}`, []stages.Override{pin}, []string{"shop/web: 10 → 5 replicas (scale down)\n", "OVERRIDE pin: 20 → 5: ", "reason: Overridden (overrides/freeze): migration; "}},
		"combined": {`{"combine": {"method": "MIN"}}`, nil, []string{
			"shop/web: 10 → 12 replicas (scale up)\n  MIN of External:queue 20, External:mails 12: 12; MAX would be 20\n",
			"\nStages: without stages and overrides, this step: 20\n  COMBINE MIN: 20 → 12: MIN of External:queue 20, External:mails 12: 12; MAX would be 20\n"}},
		"held by a failure": {`{"combine": {"method": "QUORUM", "quorum": 2}}, "externalMetrics": [{"metric": {"name": "queue"}, "value": "200"}]`, nil, []string{
			"shop/web: stays at 10 replicas\n",
			"the other metrics ask for at most 20, of which stages make fewer than 10; nothing scales down while a metric is unknown, so the count is held\n",
			"\nStages: without stages and overrides, this step: 20\n  COMBINE QUORUM: 20 → 10: QUORUM 2 of External:queue 20, External:mails failed: at least 0, held at 10 because a metric failed; MAX would be 20\n"}},
		"proposed by the caller": {`{}, "proposals": [{"name": "forecast", "replicas": 19, "role": "VOTER", "expireTime": "2026-11-23T12:10:00Z"}],
			"externalMetrics": [{"metric": {"name": "queue"}, "value": "120"}, {"metric": {"name": "mails"}, "value": "120"}]`, nil, []string{
			"shop/web: 10 → 19 replicas (scale up)\n  proposal/forecast asks for 19\n",
			"\n\n  proposal/forecast, by a stage: asks for 19 ← decides\n\nStabilization", "reason: proposal/forecast proposes more; ", "a replica count from proposal/forecast\n"}},
		"capped by the caller": {`{}, "proposals": [{"name": "budget", "replicas": 11, "role": "CAP", "expireTime": "2026-11-23T12:10:00Z"}]`, nil, []string{
			"shop/web: 10 → 11 replicas (scale up)\n  proposal \"budget\" limits the proposal of 20 to 11\n"}},
		"proposed by a fallback": {`{"fallbacks": [{"metric": "External:mails", "replicas": 15, "failureDuration": "0s"}]}, "externalMetrics": [{"metric": {"name": "queue"}, "value": "120"}]`, nil, []string{
			"shop/web: 10 → 15 replicas (scale up)\n  External:mails has failed for 0s, at least 0s; 15 replicas are proposed instead\n\n",
			"reason: the fallback of External:mails proposes more; ", "a replica count from the fallback of External:mails\n"}},
		"made without a failed metric": {`{"fallbacks": [{"metric": "External:mails", "ignore": true, "failureDuration": "0s"}]}, "externalMetrics": [{"metric": {"name": "queue"}, "value": "120"}]`, nil, []string{
			"shop/web: 10 → 12 replicas (scale up)\n  queue is at 120, target 10 per replica: 120 / 10 = 12\n\n"}},
		"at once by a schedule": {`{"schedules": [{"name": "day", "timeZone": "UTC", "cron": "0 0 * * *", "duration": "86400s", "minReplicas": 14},
			{"name": "night", "timeZone": "UTC", "cron": "0 0 * * *", "duration": "86400s", "maxReplicas": 12}]}`, nil, []string{
			"shop/web: 10 → 14 replicas (scale up)\n  10 is below minReplicas 14, which is enforced at once\n  schedule \"day\" raises minReplicas from 2 to 14; that counts more than the 12 of schedule \"night\"\n"}},
		"named beside a voter": {`{}, "proposals": [{"name": "forecast", "replicas": 19, "role": "VOTER", "expireTime": "2026-11-23T12:10:00Z"}]`, nil, []string{
			"queue{app=web} (External, total per replica): asks for 20 ← decides\n", "mails (External, total per replica): asks for 12\n", "proposal/forecast, by a stage: asks for 19\n"}},
		"a metric at 0 has no ratio at 0 replicas": {`{}` + idle + `,
			"externalMetrics": [{"metric": {"name": "queue"}, "value": "0"}, {"metric": {"name": "mails"}, "value": "0"}]`, nil, []string{"queue (External, total per replica): asks for 0"}},
		"woken by a schedule at 0 replicas": {`{"schedules": [{"name": "day", "timeZone": "UTC", "cron": "0 0 * * *", "duration": "86400s", "minReplicas": 5}]}` + idle + `,
			"externalMetrics": [{"metric": {"name": "queue"}, "value": "0"}, {"metric": {"name": "mails"}, "value": "0"}]`, nil, []string{
			"shop/web: 0 → 5 replicas (scale up from zero)\n  mails is at 0, target 10 per replica, so it asks for 0\n  raised to minReplicas 5\n  schedule \"day\" raises minReplicas from 0 to 5\n"}},
		"woken by a schedule at 0 replicas while metrics fail": {`{"schedules": [{"name": "day", "timeZone": "UTC", "cron": "0 0 * * *", "duration": "86400s", "minReplicas": 5}]}` + idle + `, "externalMetrics": []`, nil, []string{
			"  nor can 1 other metric\n  raised to minReplicas 5, the lowest count for a scale-up from zero\n  schedule \"day\" raises minReplicas from 0 to 5\n", "\nMetrics: none can be computed\n"}},
		"woken by a schedule at 0 replicas while pods are unknown": {`{"schedules": [{"name": "day", "timeZone": "UTC", "cron": "0 0 * * *", "duration": "86400s", "minReplicas": 5}]}` + idle + `,
			"selectorProblem": {"reason": "InvalidSelector", "message": "x"}`, nil, []string{"\n  raised to minReplicas 5, the lowest count for a scale-up from zero\n  schedule \"day\" raises minReplicas from 0 to 5\n"}},
		"nothing changed": {`{}`, nil, []string{"shop/web: 10 → 20 replicas (scale up)\n", "\nStages: they changed nothing; without stages and overrides, this step: 20\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			req := &setpointv1.RecommendRequest{}
			body := twoQueues + `, "stages": ` + c.stages
			if strings.Contains(name, "named") {
				body = strings.Replace(body, `{"name": "queue"}`, `{"name": "queue", "selector": {"matchLabels": {"app": "web"}}}`, 1)
			}
			if strings.Contains(name, "at 0") {
				body = strings.NewReplacer(`"minReplicas": 2`, `"minReplicas": 0`, `Replicas": 10`, `Replicas": 0`).Replace(body)
			}
			if !strings.Contains(body, "externalMetrics") {
				body += bothRead
			}
			if strings.Contains(name, "named") {
				body = strings.Replace(body, `[{"metric": {"name": "queue"}`, `[{"metric": {"name": "queue", "selector": {"matchLabels": {"app": "web"}}}`, 1)
			}
			fatal.If(t, protojson.Unmarshal([]byte(body+"}"), req))
			in, violations := conversion.Input(req, recommender.DefaultOptions())
			around, more := conversion.Around(req, in, at)
			if violations = append(violations, more...); len(violations) > 0 {
				t.Fatal(violations)
			}
			around.Overrides = c.overrides
			decision, _, _ := around.RecommendIn(nil, at, in, &recommender.History{}, nil)
			var text strings.Builder
			fatal.If(t, explain.Write(&text, req, conversion.Response(&decision), explain.Options{Width: 200}))
			if e := decision.Explanation; e != nil && strings.HasSuffix(name, "voter") {
				if name := conversion.Response(&decision).GetExplanation().GetMetrics()[2].GetName(); name != "proposal/forecast" {
					t.Errorf("the voter is named %q", name)
				}
			}
			// The event of a change is there if and only if there is one.
			event := fmt.Sprintf("Once applied: Normal SuccessfulRescale: New size: %d; reason: %s", decision.Desired, decision.Reason)
			if decision.Adjusted != nil {
				for i := range decision.Adjusted.Adjustments {
					event += "; " + decision.Adjusted.Adjustments[i].Message
				}
			}
			if changes := decision.Desired != decision.Current; strings.Contains(text.String(), "Once applied: ") != changes || changes && !strings.Contains(strings.Join(strings.Fields(text.String()), " "), strings.Replace(event, "reason: ; ", "reason: ", 1)) {
				t.Errorf("want %t: %q:\n%s", changes, event, text.String())
			}
			for _, want := range c.want {
				if !strings.Contains(text.String(), want) {
					t.Errorf("lacks %q:\n%s", want, text.String())
				}
			}
		})
	}
}

// When schedules start and end next is told, without the steps of their ramps.
func TestSchedulesAheadAreExplained(t *testing.T) {
	at := func(minutes int) *timestamppb.Timestamp {
		return timestamppb.New(time.Date(2026, 11, 23, 6, minutes, 0, 0, time.UTC))
	}
	resp := &setpointv1.RecommendResponse{EvaluationTime: at(0)}
	day := durationpb.New(24 * time.Hour)
	req := &setpointv1.RecommendRequest{Stages: &setpointv1.Stages{Schedules: []*setpointv1.Schedule{
		{Name: "office", TimeZone: "America/New_York", Cron: "0 2 * * *"}, {Name: "late", TimeZone: "UTC", Cron: "0 8 * * *"}, {Name: "off", Suspended: true},
		{Name: "far", TimeZone: "Asia/Tokyo", Cron: "0 8 * * *"}, {Name: "sale", TimeZone: "UTC", At: at(-1441), Duration: day},
		{Name: "fair", TimeZone: "UTC", At: at(-1439), Duration: day}, {Name: "fete", TimeZone: "UTC", At: at(-1439), EndCron: "0 4 * * *"}, {Name: "wrong", TimeZone: "Nowhere", At: at(-9999)},
	}}}
	var text strings.Builder
	fatal.If(t, explain.Write(&text, req, resp, explain.Options{Width: 200, Ahead: []*setpointv1.OutlookBounds{
		{Time: at(0), MinReplicas: 2, MaxReplicas: 50},
		{Time: at(30), MinReplicas: 2, MaxReplicas: 50, Event: "schedule \"office\x1b[31m\" begins to rise"},
		{Time: at(31), MinReplicas: 3, MaxReplicas: 50},
		{Time: at(60), MinReplicas: 20, MaxReplicas: 50, Event: `schedule "office" starts`},
		{Time: at(61), MinReplicas: 20, MaxReplicas: 40, Event: `schedule "late" starts`},
		{Time: at(1000), MinReplicas: 20, MaxReplicas: 30, Event: `schedule "far" ends`},
	}}))
	const want = "\nSchedules: minReplicas 2, maxReplicas 50 from 06:00:00 on\n" +
		"  schedule \"office[31m\" begins to rise at 06:30 UTC (in 30m): minReplicas 2, maxReplicas 50\n" +
		"  schedule \"office\" starts at 02:00 America/New_York (07:00 UTC, in 1h): minReplicas 20, maxReplicas 50\n" +
		"  schedule \"late\" starts at 07:01 UTC (in 1h1m): minReplicas 20, maxReplicas 40\n" +
		"  schedule \"far\" ends at 2026-11-24 07:40 Asia/Tokyo (22:40 UTC, in 16h40m): minReplicas 20, maxReplicas 30\n" +
		"  schedule \"off\" is suspended\n  schedule \"sale\" is over: it starts no more\n  schedule \"fete\" is over: it starts no more\n"
	if !strings.Contains(text.String(), want) {
		t.Errorf("got %q, want %q", text.String(), want)
	}
	text.Reset()
	if _ = explain.Write(&text, req, resp, explain.Options{}); !strings.Contains(text.String(), "\nSchedules\n  schedule \"off\" is suspended\n") {
		t.Errorf("no schedule starts:\n%s", text.String())
	}
	text.Reset()
	if _ = explain.Write(&text, nil, resp, explain.Options{}); strings.Contains(text.String(), "Schedules") {
		t.Errorf("schedules of a request that has none:\n%s", text.String())
	}
}

// An override that the status tells of is said at the top where nobody asked the service for overrides.
func TestAnOverrideOfTheStatusIsSaidFirst(t *testing.T) {
	t.Parallel()
	overridden := func(status string) *setpointv1.RecommendRequest {
		return &setpointv1.RecommendRequest{PreviousStatus: &setpointv1.HorizontalPodAutoscalerStatus{Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{
			{Type: "Overridden", Status: status, Reason: "Held", Message: "held at 3 by alice\x1b"},
		}}}
	}
	ended := overridden("True")
	ended.PreviousStatus.Conditions[0].Message = `held at 3 by alice until 2026-11-23T06:00:00Z: "a migration" (override o1 of the target); the recommendation would be 6`
	resp := &setpointv1.RecommendResponse{
		CurrentReplicas: 3, DesiredReplicas: 6, Reason: "above target",
		EvaluationTime: timestamppb.New(time.Date(2026, 11, 23, 6, 1, 0, 0, time.UTC)),
	}
	for name, tt := range map[string]struct {
		req     *setpointv1.RecommendRequest
		unasked bool
		want    string
	}{
		"held":            {overridden("True"), true, "3 → 6 replicas (scale up)\n  its status says that an override holds it: held at 3 by alice\n  this is the count without: the service, which has the overrides, is not asked; see setpoint override list\n  above target\n"},
		"over":            {ended, true, "\n  its status still tells of an override that is over, as nothing was decided since: " + ended.PreviousStatus.Conditions[0].Message + "\n  above target\n"},
		"not held":        {overridden("False"), true, "3 → 6 replicas (scale up)\n  above target\n"},
		"asked":           {overridden("True"), false, "3 → 6 replicas (scale up)\n  above target\n"},
		"without request": {nil, true, "3 → 6 replicas (scale up)\n  above target\n"},
	} {
		var text strings.Builder
		if err := explain.Write(&text, tt.req, resp, explain.Options{Width: 250, Unasked: tt.unasked}); err != nil || !strings.Contains(text.String(), tt.want) {
			t.Errorf("%s: %v\n%s", name, err, text.String())
		}
	}
}

// A stage may change the count without a word: so a workload that is idle goes to zero.
func TestTheCountOfStagesThatTellOfNothing(t *testing.T) {
	t.Parallel()
	for final, want := range map[int32]string{
		0: "\nStages: without stages and overrides, this step: 1\n",
		1: "\nStages: they changed nothing; without stages and overrides, this step: 1\n",
	} {
		var text strings.Builder
		resp := &setpointv1.RecommendResponse{CurrentReplicas: 1, DesiredReplicas: final, PlainDesiredReplicas: new(int32(1))}
		if err := explain.Write(&text, nil, resp, explain.Options{}); err != nil || !strings.Contains(text.String(), want) {
			t.Errorf("%d: %v\n%s", final, err, text.String())
		}
	}
}
