//go:build linux

package redis

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// The recordings of the Kubernetes controller are replayed three times: against one
// service that keeps the histories to itself and is left alone; against three that
// share a Redis, each step and each report sent to another one than the last; and the
// same with all three killed by SIGKILL and started again after every step. All
// scenarios go on side by side, so that there are as many restarts as the longest has
// steps.
//
// Every answer of the first is as recorded, and the others give the same ones, field by
// field but for the ids of recommendations, with explanations: nothing of a history is
// in a process.
func TestRestartsAndChangesOfInstanceChangeNoAnswer(t *testing.T) {
	scenarios := readRecordings(t)
	flags := []string{"--allow-evaluation-time"}
	replay := func(services []*service.Instance, after func()) *replayed {
		began := time.Now()
		r := replayOn(t, scenarios, services, after)
		r.took = time.Since(began)
		return r
	}
	alone := replay(service.StartAll(t, 1, flags...), func() {})
	if differences := alone.asRecorded(); len(differences) > 0 {
		t.Errorf("%d steps are not as recorded:\n%s", len(differences), show(differences))
	}
	t.Logf("%d scenarios, %d of them with specs that the service refuses; %d steps and %d reports on one instance in %v",
		len(scenarios), alone.refused, alone.steps, alone.reports, alone.took.Round(time.Millisecond))

	shared := service.StartAll(t, 3, append(flags, "--redis="+redistest.Start(t, redistest.Config{}).URL())...)
	turns := replay(shared, func() {})
	check := func(what string, r *replayed) {
		differences := r.differences(alone)
		t.Logf("%s: %d steps and %d reports in %v, %d differences to one instance", what, r.steps, r.reports, r.took.Round(time.Millisecond), len(differences))
		if len(differences) > 0 {
			t.Errorf("%s:\n%s", what, show(differences))
		}
	}
	check("three instances in turn", turns)

	restarted := service.StartAll(t, 3, append(flags, "--redis="+redistest.Start(t, redistest.Config{}).URL())...)
	restarts := 0
	killed := replay(restarted, func() {
		for _, s := range restarted {
			s.Kill()
		}
		service.RestartAll(restarted)
		restarts += len(restarted)
	})
	check(fmt.Sprintf("three instances in turn, killed after every step (%d restarts)", restarts), killed)
}

// So that the test above can fail: with histories that go with the process, answers are
// others.
func TestHistoriesThatAreLostChangeAnswers(t *testing.T) {
	var scenarios []*recording.Scenario
	for _, scenario := range readRecordings(t) {
		if len(scenario.Steps) > 1 && len(scenario.Steps) <= 8 {
			scenarios = append(scenarios, scenario)
		}
	}
	flags := []string{"--allow-evaluation-time"}
	kept := replayOn(t, scenarios, service.StartAll(t, 1, flags...), func() {})
	forgetful := service.StartAll(t, 1, flags...)
	lost := replayOn(t, scenarios, forgetful, func() {
		forgetful[0].Kill()
		forgetful[0].Restart()
	})
	differences := lost.differences(kept)
	if len(differences) == 0 {
		t.Error("all answers are the same")
	}
	t.Logf("%d other answers in %d steps", len(differences), kept.steps)
}

func readRecordings(t *testing.T) (scenarios []*recording.Scenario) {
	t.Helper()
	for _, name := range []string{"curated", "fuzz"} {
		path := "../../../clients/kubernetes/recording/testdata/" + name + ".jsonl.gz"
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for scenario, err := range recording.NewReader(path, file).All() {
			if err != nil {
				t.Fatal(err)
			}
			scenarios = append(scenarios, scenario)
		}
	}
	return scenarios
}

// replayed is the outcome of all scenarios.
type replayed struct {
	plays                   []*play
	refused, steps, reports int
	took                    time.Duration
}

// play is a running scenario.
type play struct {
	number   int
	scenario *recording.Scenario
	player   *recording.Player
	target   string // empty: nothing is stored
	refused  bool
	steps    []played
}

// played is a step; both are nil where the autoscaler is deleted.
type played struct {
	response *setpointv1.RecommendResponse
	report   *setpointv1.ReportScaleResponse
}

// playing bounds concurrent calls.
const playing = 8

// replayOn plays the scenarios, all their first steps, then all their second ones and so
// on, and calls after after each.
func replayOn(t *testing.T, scenarios []*recording.Scenario, services []*service.Instance, after func()) *replayed {
	t.Helper()
	r := &replayed{}
	longest := 0
	for i, scenario := range scenarios {
		r.plays = append(r.plays, &play{number: i, scenario: scenario, player: recording.NewPlayer(scenario)})
		longest = max(longest, len(scenario.Steps))
	}
	for step := range longest {
		errs := make([]error, len(r.plays))
		var wg sync.WaitGroup
		places := make(chan struct{}, playing)
		for i, p := range r.plays {
			if p.refused || step >= len(p.scenario.Steps) {
				continue
			}
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				errs[i] = p.play(t.Context(), step, services)
			})
		}
		wg.Wait()
		for i, err := range errs {
			if err != nil {
				t.Fatalf("%s, step %d: %v", r.plays[i].scenario.Name, step+1, err)
			}
		}
		after()
	}
	for _, p := range r.plays {
		if p.refused {
			r.refused++
			continue
		}
		for _, s := range p.steps {
			r.steps++
			if s.report != nil {
				r.reports++
			}
		}
	}
	return r
}

// play plays a step, each call at another service than the one before.
func (p *play) play(ctx context.Context, step int, services []*service.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	turn := func(n int) *service.Instance { return services[(p.number+step+n)%len(services)] }
	recorded := &p.scenario.Steps[step]
	request, err := p.player.Request(recorded, fmt.Sprintf("replay-%d", p.number))
	if err != nil {
		return err
	}
	if request == nil {
		p.steps = append(p.steps, played{})
		if p.target == "" {
			return nil
		}
		_, err := turn(0).Targets().DeleteTarget(ctx, &setpointv1.DeleteTargetRequest{Name: p.target}, grpc.WaitForReady(true))
		p.target = ""
		if status.Code(err) == codes.NotFound {
			return nil // the next answers show whether there should have been a target
		}
		return err
	}
	request.Explain = true
	var s played
	s.response, err = turn(0).Recommendations().Recommend(ctx, request, grpc.WaitForReady(true))
	if status.Code(err) == codes.InvalidArgument {
		p.refused = true
		return nil
	}
	if err != nil {
		return err
	}
	p.target = request.GetTarget()
	if s.response.GetDesiredReplicas() != s.response.GetCurrentReplicas() {
		report := &setpointv1.ReportScaleRequest{
			Target: p.target, RecommendationId: s.response.GetRecommendationId(),
			Outcome: "APPLIED", Message: recorded.ScaleUpdateError,
		}
		if recorded.ScaleUpdateError != "" {
			report.Outcome = "FAILED"
		}
		if s.report, err = turn(1).Recommendations().ReportScale(ctx, report, grpc.WaitForReady(true)); err != nil {
			return err
		}
	}
	p.steps = append(p.steps, s)
	return nil
}

// asRecorded returns where steps are not as the recording expects.
func (r *replayed) asRecorded() (differences []string) {
	for _, p := range r.plays {
		for i, s := range p.steps {
			recorded := &p.scenario.Steps[i]
			outcome := recording.Outcome{}
			if s.response != nil {
				outcome = recording.OutcomeOf(s.response, s.report, recorded.ScaleUpdateError == "")
			}
			for _, d := range recorded.Differences(outcome) {
				differences = append(differences, fmt.Sprintf("%s, step %d: %s", p.scenario.Name, i+1, d))
			}
		}
	}
	return differences
}

// differences returns the differences from another replay's answers.
func (r *replayed) differences(other *replayed) (differences []string) {
	for i, p := range r.plays {
		q := other.plays[i]
		if p.refused != q.refused || len(p.steps) != len(q.steps) {
			differences = append(differences, fmt.Sprintf("%s: refused %v after %d steps, not %v after %d", p.scenario.Name, p.refused, len(p.steps), q.refused, len(q.steps)))
			continue
		}
		for k := range p.steps {
			got, want := p.steps[k], q.steps[k]
			for _, pair := range [][2]proto.Message{
				{withoutID(got.response), withoutID(want.response)},
				{reportWithoutID(got.report), reportWithoutID(want.report)},
			} {
				if !proto.Equal(pair[0], pair[1]) {
					differences = append(differences, fmt.Sprintf("%s, step %d:\n  got  %s\n  want %s", p.scenario.Name, k+1, protojson.Format(pair[0]), protojson.Format(pair[1])))
				}
			}
		}
	}
	return differences
}

// withoutID returns the answer without the id of the recommendation, which is random.
func withoutID(answer *setpointv1.RecommendResponse) *setpointv1.RecommendResponse {
	if answer == nil {
		return nil
	}
	answer = proto.CloneOf(answer)
	answer.RecommendationId = ""
	return answer
}

// reportWithoutID does so with the answer to a report.
func reportWithoutID(answer *setpointv1.ReportScaleResponse) *setpointv1.ReportScaleResponse {
	if answer == nil {
		return nil
	}
	answer = proto.CloneOf(answer)
	answer.RecommendationId = ""
	return answer
}
