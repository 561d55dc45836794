//go:build linux

package ui

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// history has a target asked for every minute, with a load each, the last so many seconds ago; the
// count follows.
func (s *siteOf) history(t *testing.T, ask *setpointv1.RecommendRequest, ago int, loads ...int) {
	t.Helper()
	for i, load := range loads {
		ask.EvaluationTime = timestamppb.New(time.Now().Add(-time.Duration(ago+60*(len(loads)-1-i)) * time.Second))
		if ask.ExternalMetrics != nil {
			ask.ExternalMetrics[0].Value = fmt.Sprint(load)
		}
		got := recommend(t, s, ask).GetDesiredReplicas()
		if ask.Scale != nil {
			ask.Scale.SpecReplicas, ask.Scale.StatusReplicas = got, &got
		}
	}
}

// Each number of a target's page is that of the answer that it was drawn from, in each state that has words or steps of its own. That what an
// outlook says will come is what the engine decides, package recommender proves.
func TestATargetsPageShowsTheServicesNumbers(t *testing.T) {
	s := site(t, "--allow-evaluation-time")
	policies := func(n, seconds int32) *setpointv1.HPAScalingRules {
		return &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32), Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: n, PeriodSeconds: seconds}}}
	}
	for _, tc := range []struct {
		name  string
		loads []int
		// away is how many seconds ago the last call was.
		away int
		edit func(*setpointv1.RecommendRequest)
		// stored is the maximum of a stored spec; 0: none is stored.
		stored int32
		says   []string
	}{
		{name: "held", loads: []int{95, 95, 70, 40, 40}, says: []string{"stays at 10 replicas", "The metrics ask for 4, the count is 10: held by a higher recommendation in the window of 5 min"}},
		{name: "limited", loads: []int{95, 95, 95, 95}, edit: func(r *setpointv1.RecommendRequest) {
			r.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: policies(2, 600), ScaleDown: policies(1, 600)}
		}, says: []string{"stays at 5 replicas", "If the metrics keep asking for 10"}},
		{name: "steps", loads: []int{120, 120, 120, 50, 50}, edit: func(r *setpointv1.RecommendRequest) {
			r.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(300)), Policies: policies(2, 60).Policies}}
		}, says: []string{"If the metrics keep asking for 5", "held by the policies' limit of 10"}},
		{name: "maximum", loads: []int{250, 250, 250, 250, 250}, says: []string{"stays at 12 replicas", "asks for 25, lacks 13", "held by the maximum of 12"}},
		{name: "disabled", loads: []int{50, 50, 50}, edit: func(r *setpointv1.RecommendRequest) { r.Scale.SpecReplicas = 0 }, says: []string{"stays at 0 replicas", "Set it to 1 or more"}},
		{name: "away", loads: []int{30, 40, 30, 30}, away: 3000, says: []string{"usually somebody asks every 1 min"}},
		{name: "stored", loads: []int{40, 40, 40}, stored: 7, says: []string{"Callers send another spec than the stored one"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ask := request(tc.name, "queue", 0)
			if tc.edit != nil {
				tc.edit(ask)
			}
			if tc.stored > 0 {
				other := request(tc.name, "queue", 0)
				other.Spec.MaxReplicas = tc.stored
				if _, err := s.Targets().SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: other.GetTarget(), TargetSpec: &setpointv1.TargetSpec{Spec: other.GetSpec()}}); err != nil {
					t.Fatal(err)
				}
			}
			p := s.blank(t)
			p.keepsAnswers()
			s.history(t, ask, tc.away, tc.loads...)
			p.goTo("/ui/" + ask.GetTarget())
			target, got := p.agrees()
			if target.GetSpecInUse() == nil || target.GetOutlook() == nil || target.GetExplanation() == nil {
				t.Errorf("the service does not know all of it: %s", got.Answer)
			}
			for _, text := range tc.says {
				p.waitText(text)
			}
			p.accessible()
			p.screenshot("target-" + tc.name)
		})
	}
}

// The docs' own examples, by the docs' own command: page and explain have the same numbers.
func TestThePageExplainsTheDocsExamples(t *testing.T) {
	program, err := service.Program()
	fatal.If(t, err)
	s := site(t, "--allow-evaluation-time")
	for _, name := range []string{"decision", "missing-pods-down"} {
		t.Run(name, func(t *testing.T) {
			file := "../../../docs/concepts/scenarios/" + name + ".yaml"
			run := func(more ...string) string {
				out, err := exec.CommandContext(t.Context(), program, append([]string{"recommend", "-f", file}, more...)...).CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return string(out)
			}
			explained := strings.ReplaceAll(run(), "\u00a0", " ")
			target := "clusters/docs/namespaces/shop/targets/" + name
			var answer struct{ DesiredReplicas int }
			fatal.If(t, json.Unmarshal([]byte(run("-o", "json", "--server", s.GRPCAddr(), "--insecure", "--target", target)), &answer))
			p := s.blank(t)
			p.keepsAnswers()
			p.goTo("/ui/" + target)
			answered, got := p.agrees()
			if first, _, _ := strings.Cut(explained, "\n"); !strings.HasSuffix(first, got.Head) {
				t.Errorf("the page: %q, explain: %q", got.Head, first)
			}
			// "6 pods × 1.55 = 9.3 → 10": explain says of the pods more.
			for _, sum := range got.Sums {
				if _, product, ok := strings.Cut(sum, "×"); ok && !strings.Contains(explained, "×"+product) {
					t.Errorf("the page: %q, explain:\n%s", sum, explained)
				}
			}
			if len(got.Sums) == 0 {
				t.Errorf("the page shows nothing of %v", answered.GetExplanation())
			}
		})
	}
}
