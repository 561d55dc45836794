package simulations_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// simulate returns all that is answered.
func simulate(ctx context.Context, s *servertest.Service, req *setpointv1.SimulateRequest) (all []*setpointv1.SimulateResponse, err error) {
	stream, err := s.Simulations.Simulate(ctx, req)
	if err != nil {
		return nil, err
	}
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
}

// Each spec's evaluations come, then its figures, which are of the same load.
func TestSimulateSpecsSideBySide(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	req := &setpointv1.SimulateRequest{
		Scenario: servertest.DayOfWeb,
		Specs:    []*setpointv1.SimulatedSpec{{Spec: servertest.SimulatedSpec(60, 50)}, {Name: "full", Spec: servertest.SimulatedSpec(90, 50)}},
	}
	all, err := simulate(t.Context(), s, req)
	fatal.If(t, err)
	const steps = 24 * 60 * 4
	if len(all) != 2*(steps+1) {
		t.Fatalf("%d responses, want %d", len(all), 2*(steps+1))
	}
	first, second := all[steps], all[len(all)-1]
	if first.GetSpecName() != "1" || second.GetSpecName() != "full" || first.GetFigures().GetSteps() != steps {
		t.Errorf("the figures are %v and %v", first, second)
	}
	a, b := first.GetFigures(), second.GetFigures()
	if a.GetOffered() != b.GetOffered() || a.GetReplicaHours() <= b.GetReplicaHours() || len(a.GetCauses()) == 0 {
		t.Errorf("the figures are %v and %v", a, b)
	}
	ups := int32(0)
	for _, r := range all[:steps] {
		if r.GetDesiredReplicas() > r.GetCurrentReplicas() {
			ups++
			if r.GetReason() == "" || r.GetCause() == "" {
				t.Errorf("a change without a reason: %v", r)
			}
		}
		if r.GetStatus() != nil || r.GetExplanation() != nil || r.GetFigures() != nil {
			t.Fatalf("more than was asked for: %v", r)
		}
	}
	if ups != a.GetScaleUps() {
		t.Errorf("%d changes up, and figures of %d", ups, a.GetScaleUps())
	}

	req.FiguresOnly = true
	if few, err := simulate(t.Context(), s, req); err != nil || len(few) != 2 || few[0].GetFigures().GetReplicaHours() != a.GetReplicaHours() {
		t.Errorf("figures only: %v, %v", few, err)
	}
	req.FiguresOnly, req.StepInterval, req.Explain = false, durationpb.New(time.Hour), true
	few, err := simulate(t.Context(), s, req)
	if err != nil || len(few) < 2*25 || len(few) > 2*(25+int(a.GetScaleUps()+a.GetScaleDowns())) {
		t.Errorf("an hour apart: %d, %v", len(few), err)
	}
	if few[0].GetStatus() == nil || few[0].GetExplanation() == nil {
		t.Errorf("not explained: %v", few[0])
	}
}

// A workload with its load is a scenario in short.
func TestSimulateAWorkload(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	// A unit may take less than a milli-core.
	for perLoad, scale := range map[string]float64{"100m": 1, "200u": 500} {
		all, err := simulate(t.Context(), s, &setpointv1.SimulateRequest{
			Spec: servertest.SimulatedSpec(50, 10),
			Workload: &setpointv1.SimulatedWorkload{
				PodTemplate:  &setpointv1.Pod{Name: "web", Containers: []*setpointv1.Container{{Name: "app", Requests: map[string]string{"cpu": "1"}}}},
				UsagePerLoad: []string{perLoad},
			},
			Load: []*setpointv1.LoadPoint{{Offset: durationpb.New(0), Value: 10 * scale}, {Offset: durationpb.New(time.Hour), Value: 40 * scale}},
		})
		fatal.If(t, err)
		last := all[len(all)-2]
		// 40 units at 0.1 cores are 4 cores, 8 pods at half a core.
		if len(all) != 241 || last.GetDesiredReplicas() != 8 || last.GetNeededReplicas() != 8 || last.GetTime().AsTime().Unix() != 3600-15 {
			t.Errorf("%s: %d responses, the last %v", perLoad, len(all), last)
		}
	}
}

// clusters is a fleet of two clusters, of which one goes down.
const clusters = `
duration: 1h
load: [{constant: 600}]
workload: {replicas: 12, requests: {cpu: 500m}, capacity: 60, usage: [{metric: cpu, perLoad: 5m}]}
fleet:
  lostAfter: 2m
  rules: [hold, shift]
  members: [{name: east, weight: 2}, {name: west}]
events: [{at: 20m, member: west, cluster: down, for: 20m}]
`

// The rules of a fleet come as specs do else, with the members' shares and their figures.
func TestSimulateAFleet(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	req := &setpointv1.SimulateRequest{Scenario: clusters, Spec: servertest.SimulatedSpec(60, 50), Explain: true}
	all, err := simulate(t.Context(), s, req)
	fatal.If(t, err)
	const steps = 60 * 4
	if len(all) != 2*(steps+1) {
		t.Fatalf("%d responses, want %d", len(all), 2*(steps+1))
	}
	hold, shift := all[steps], all[len(all)-1]
	for name, last := range map[string]*setpointv1.SimulateResponse{"hold": hold, "shift": shift} {
		f := last.GetFigures()
		if last.GetSpecName() != name || f.GetSteps() != steps || f.MovedReplicas == nil || len(f.GetMembers()) != 2 || f.GetMembers()[1].GetName() != "west" || //nolint:protogetter // absent is not 0
			f.GetMembers()[0].GetReplicaHours() <= f.GetMembers()[1].GetReplicaHours() {
			t.Errorf("the figures of %s are %v", name, last)
		}
	}
	if a, b := hold.GetFigures(), shift.GetFigures(); a.GetMovedReplicas() >= b.GetMovedReplicas() || a.GetShortTime().AsDuration() == 0 || proto.Equal(a, b) {
		t.Errorf("with hold %v, with shift %v", a, b)
	}
	for _, r := range all[:steps] {
		sum := [2]int32{}
		for _, m := range r.GetMembers() {
			sum[0], sum[1] = sum[0]+m.GetShare(), sum[1]+m.GetReadyReplicas()
		}
		if len(r.GetMembers()) != 2 || sum[0] < r.GetDesiredReplicas() || sum[0] != r.GetCurrentReplicas() || sum[1] != r.GetReadyReplicas() {
			t.Fatalf("the members don't add up: %v", r)
		}
	}
	if r := all[steps-1]; r.GetExplanation() == nil || r.GetStatus().GetDesiredReplicas() != r.GetDesiredReplicas() {
		t.Errorf("not explained: %v", r)
	}
	req.FiguresOnly = true
	if few, err := simulate(t.Context(), s, req); err != nil || len(few) != 2 || !proto.Equal(few[1], shift) {
		t.Errorf("figures only: %v, %v", few, err)
	}
}

func TestSimulationsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxSimulationWork = 160_000 })
	whole := func(change func(*setpointv1.SimulateRequest)) *setpointv1.SimulateRequest {
		req := &setpointv1.SimulateRequest{Scenario: servertest.DayOfWeb, Spec: servertest.SimulatedSpec(60, 50)}
		change(req)
		return req
	}
	for name, tt := range map[string]struct {
		change func(*setpointv1.SimulateRequest)
		code   codes.Code
		want   string
	}{
		"nothing":             {func(r *setpointv1.SimulateRequest) { r.Reset() }, codes.InvalidArgument, "spec: Required"},
		"no world":            {func(r *setpointv1.SimulateRequest) { r.Scenario = "" }, codes.InvalidArgument, "workload: Required"},
		"two worlds":          {func(r *setpointv1.SimulateRequest) { r.Duration = durationpb.New(time.Hour) }, codes.InvalidArgument, "duration: Forbidden"},
		"two places of specs": {func(r *setpointv1.SimulateRequest) { r.Specs = []*setpointv1.SimulatedSpec{{Spec: r.GetSpec()}} }, codes.InvalidArgument, "spec: Forbidden"},
		"two periods": {func(r *setpointv1.SimulateRequest) {
			old := &setpointv1.RecommendOptions{Profile: "cooldown"}
			r.Specs, r.Spec = []*setpointv1.SimulatedSpec{{Spec: r.GetSpec()}, {Name: "old", Spec: r.GetSpec(), Options: old}}, nil
		}, codes.InvalidArgument, "scenario.loop.syncPeriod: Required value: the specs' profiles v1.36 and cooldown evaluate every 15s and every 30s"},
		"a bad scenario": {func(r *setpointv1.SimulateRequest) { r.Scenario = "load: [{constant: -1}]\nworkload: {}\n" }, codes.InvalidArgument, "scenario:"},
		"a file that is not there": {func(r *setpointv1.SimulateRequest) {
			r.Scenario = strings.Replace(servertest.DayOfWeb, `{daily: {low: 40, high: 400, peak: "14:00"}}`, "{csv: {file: /etc/passwd}}", 1)
		}, codes.InvalidArgument, "files"},
		"rules of two specs": {func(r *setpointv1.SimulateRequest) {
			r.Scenario, r.Specs, r.Spec = clusters, []*setpointv1.SimulatedSpec{{Spec: r.GetSpec()}, {Spec: r.GetSpec()}}, nil
		}, codes.InvalidArgument, "specs: Too many: 2"},
		"a fleet of one": {func(r *setpointv1.SimulateRequest) { r.Scenario = strings.Replace(clusters, ", {name: west}", "", 1) }, codes.InvalidArgument,
			"scenario.fleet: a fleet of 1 members"},
		"a fleet of 65": {func(r *setpointv1.SimulateRequest) {
			r.Scenario = strings.Replace(clusters, "{name: west}", strings.TrimSuffix(strings.Repeat("{name: west}, ", 64), ", "), 1)
		}, codes.InvalidArgument, "fleet.members[64]: there are more than 64"},
		"no such member": {func(r *setpointv1.SimulateRequest) {
			r.Scenario = strings.Replace(clusters, "member: west", "member: north", 1)
		}, codes.InvalidArgument,
			"scenario.events[0].member: the fleet has no \"north\""},
		"too many steps of a fleet": {func(r *setpointv1.SimulateRequest) {
			r.Scenario = strings.Replace(clusters, "duration: 1h", "duration: 160h\nloop: {syncPeriod: 1s}", 1)
		}, codes.ResourceExhausted, "2 rules for 2 members over 160h0m0s in steps of 1s are 2304000 evaluations"},
		"two usages of one name": {func(r *setpointv1.SimulateRequest) {
			r.Scenario, r.Load = "", []*setpointv1.LoadPoint{{}, {Offset: durationpb.New(time.Hour), Value: 5}}
			r.Spec.Metrics = append(r.Spec.Metrics, proto.CloneOf(r.Spec.Metrics[0]))
			r.Workload = &setpointv1.SimulatedWorkload{UsagePerLoad: []string{"1m", "2m"}, IdleUsage: []string{"1m"}}
		}, codes.InvalidArgument, "workload.usagePerLoad[1]: must be that of metrics[0], which has the same name: cpu"},
		"no length": {func(r *setpointv1.SimulateRequest) {
			r.Scenario, r.Load, r.Workload = "", []*setpointv1.LoadPoint{{Value: 5}}, &setpointv1.SimulatedWorkload{UsagePerLoad: []string{"1m"}}
			r.Specs, r.Spec = []*setpointv1.SimulatedSpec{{Spec: r.GetSpec()}, {Spec: r.GetSpec()}}, nil
		}, codes.InvalidArgument, "[duration: is 0s, must be between 1s and 8784h0m0s]"},
		"too many replicas": {func(r *setpointv1.SimulateRequest) {
			r.Scenario, r.Load = "", []*setpointv1.LoadPoint{{}, {Offset: durationpb.New(time.Hour), Value: 5}}
			r.Workload = &setpointv1.SimulatedWorkload{UsagePerLoad: []string{"1m"}, InitialReplicas: new(int32(1e6))}
		}, codes.InvalidArgument, "[workload.initialReplicas: is 1000000, must be between 0 and 20000]"},
		"a usage that is too large": {func(r *setpointv1.SimulateRequest) {
			r.Scenario, r.Load = "", []*setpointv1.LoadPoint{{}, {Offset: durationpb.New(time.Hour), Value: 5}}
			r.Workload = &setpointv1.SimulatedWorkload{UsagePerLoad: []string{"10Ti"}}
		}, codes.InvalidArgument, "must be at most 9223372036854"},
		"a bad spec":        {func(r *setpointv1.SimulateRequest) { r.Spec.MaxReplicas = 0 }, codes.InvalidArgument, "spec.maxReplicas"},
		"an unknown metric": {func(r *setpointv1.SimulateRequest) { r.Spec.Metrics[0].Resource.Name = "memory" }, codes.InvalidArgument, "memory"},
		"too much":          {func(r *setpointv1.SimulateRequest) {}, codes.ResourceExhausted, "too large: at "},
		"too many metrics": {func(r *setpointv1.SimulateRequest) {
			for range 99 {
				r.Spec.Metrics = append(r.Spec.Metrics, proto.CloneOf(r.Spec.Metrics[0]))
			}
		}, codes.ResourceExhausted, "use fewer metrics"},
		"too many steps": {func(r *setpointv1.SimulateRequest) {
			r.Scenario = strings.Replace(servertest.DayOfWeb, "24h", "8000h", 1) + "loop: {syncPeriod: 1s}\n"
		}, codes.InvalidArgument, "evaluations"},
	} {
		// One after another: simulations wait for their turn for a bounded time, which is over on
		// a busy machine.
		t.Run(name, func(t *testing.T) {
			_, err := simulate(t.Context(), s, whole(tt.change))
			if text := fmt.Sprint(err, servertest.RPCProblem(err).Violations); status.Code(err) != tt.code || !strings.Contains(text, tt.want) {
				t.Error(text)
			}
		})
	}
}

// A simulation ends when its caller goes, and when the server stops; one beyond those that may
// run at once waits for its turn.
func TestSimulationsEnd(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxSimulationWork = 1_000_000_000 })
	long := &setpointv1.SimulateRequest{Scenario: strings.Replace(servertest.DayOfWeb, "24h", "8000h", 1), Spec: servertest.SimulatedSpec(60, 50)}
	ctx, cancel := context.WithCancel(t.Context())
	running, err := s.Simulations.Simulate(ctx, long)
	fatal.If(t, err)
	if _, err := running.Recv(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := simulate(t.Context(), s, &setpointv1.SimulateRequest{Scenario: servertest.DayOfWeb, Spec: servertest.SimulatedSpec(60, 50), FiguresOnly: true})
		done <- err
	}()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the one that waited: %v", err)
	}
	again, err := s.Simulations.Simulate(t.Context(), long)
	fatal.If(t, err)
	if _, err := again.Recv(); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	for err == nil {
		_, err = again.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("when the server stops: %v", err)
	}
}

// Over REST the request is JSON, and the answer a line for each response.
func TestSimulateOverREST(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	a := s.Ask(t, "POST", "/v1/simulations:run", map[string]any{
		"scenario": servertest.DayOfWeb, "figuresOnly": true, "spec": map[string]any{
			"maxReplicas": 50, "metrics": []any{map[string]any{"type": "Resource", "resource": map[string]any{
				"name": "cpu", "target": map[string]any{"type": "Utilization", "averageUtilization": 60}}}},
		},
	})
	if a.Code != 200 || !strings.HasPrefix(string(a.Raw), `{"result":{`) || !strings.Contains(string(a.Raw), `"replicaHours":`) || strings.Count(string(a.Raw), "\n") != 1 {
		t.Errorf("%d: %s", a.Code, a.Raw)
	}
}

// Stages of a request and of one of its specs decide, and so do the overrides of a scenario; what is wrong with stages
// is told where they are.
func TestSimulateStages(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	pinned := func(n int32) *setpointv1.Stages {
		return &setpointv1.Stages{Schedules: []*setpointv1.Schedule{{
			Name: "day", TimeZone: "UTC", Cron: "0 0 * * *", Duration: durationpb.New(24 * time.Hour), MinReplicas: new(n),
		}}}
	}
	req := &setpointv1.SimulateRequest{
		Scenario: servertest.DayOfWeb, FiguresOnly: true, Stages: pinned(40),
		Specs: []*setpointv1.SimulatedSpec{
			{Name: "shared", Spec: servertest.SimulatedSpec(60, 50)},
			{Name: "own", Spec: servertest.SimulatedSpec(60, 50), Stages: pinned(50)},
			{Name: "none", Spec: servertest.SimulatedSpec(60, 50), Stages: &setpointv1.Stages{}},
		},
	}
	all, err := simulate(t.Context(), s, req)
	if err != nil || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	for i, want := range []int32{40, 50, 1} {
		if f := all[i].GetFigures(); want > 1 != (f.GetCauses()[0].GetCause() == `schedule "day"`) || want > 1 && f.GetMostReplicas() != want {
			t.Errorf("%s: at most %d, decided by %v", all[i].GetSpecName(), f.GetMostReplicas(), f.GetCauses())
		}
	}
	req.Stages.Schedules[0].TimeZone = "Europe/Berln"
	req.Specs[1].Stages.Schedules[0].MinReplicas = new(int32(51))
	_, err = simulate(t.Context(), s, req)
	for _, want := range []string{"stages.schedules[0].timeZone: ", "specs[1].stages.schedules[0].minReplicas: "} {
		if text := fmt.Sprint(err, servertest.RPCProblem(err).Violations); !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	reasons := &setpointv1.SimulateRequest{Spec: servertest.SimulatedSpec(60, 50), Stages: pinned(40), Scenario: strings.Replace(servertest.DayOfWeb, "24h", "1h", 1)}
	if all, err = simulate(t.Context(), s, reasons); err != nil || !strings.Contains(all[0].GetReason(), `schedule "day" raises minReplicas from 2 to 40`) {
		t.Errorf("%v: %v", err, all[:min(len(all), 1)])
	}
	held := &setpointv1.SimulateRequest{Spec: servertest.SimulatedSpec(60, 50), FiguresOnly: true, Scenario: servertest.DayOfWeb + "\nevents: [{at: 0s, for: 24h, override: {hold: true}}]\n"}
	if all, err = simulate(t.Context(), s, held); err != nil || all[0].GetFigures().GetScaleUps() != 0 || !strings.HasPrefix(all[0].GetFigures().GetCauses()[0].GetCause(), "override ") {
		t.Errorf("held: %v, %v", all, err)
	}
}
