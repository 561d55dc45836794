package replay

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// TestTheOpenLoopDecidesAsAShadow has shadows decide beside random targets, and replays what is kept of these with the
// shadow's spec: their policies reach over many decisions, so that each change would count which did not happen. No other
// writer takes back a change that was reported: a recording knows that it was made, and a shadow does not.
func TestTheOpenLoopDecidesAsAShadow(t *testing.T) {
	t.Parallel()
	const targets, steps = 60, 40
	engine, s := kept(t, 1)
	random := rand.New(rand.NewPCG(3, 1))
	rules := func() *setpointv1.HPAScalingRules {
		r := &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(60 * random.IntN(5)))}
		for range 1 + random.IntN(2) {
			kind, most := "Pods", 3
			if random.IntN(2) == 0 {
				kind, most = "Percent", 60
			}
			r.Policies = append(r.Policies, &setpointv1.HPAScalingPolicy{Type: kind, Value: int32(1 + random.IntN(most)), PeriodSeconds: int32(30 + random.IntN(600))})
		}
		return r
	}
	spec := func() *setpointv1.HorizontalPodAutoscalerSpec {
		of := servertest.Queue(servertest.Web, 1, 1).GetSpec()
		of.MaxReplicas = 60
		of.Metrics[0].External.Target.AverageValue = new(fmt.Sprint(5 + random.IntN(20)))
		of.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: rules(), ScaleDown: rules()}
		return of
	}
	type asked struct {
		target string
		next   *setpointv1.HorizontalPodAutoscalerSpec
		shadow []int32
	}
	var all []asked
	changes := 0
	for i := range targets {
		target := fmt.Sprintf("clusters/demo/namespaces/shop/targets/w%d", i)
		live, next := spec(), spec()
		if _, err := s[0].Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: target, TargetSpec: &setpointv1.TargetSpec{
			Spec: live, Shadows: []*setpointv1.Shadow{{Name: "next", Spec: next}},
		}}); err != nil {
			t.Fatal(err)
		}
		replicas, load := int32(10), int32(100)
		var shadow []int32
		for range steps {
			load = max(0, load+random.Int32N(81)-40)
			req := servertest.Queue(target, replicas, load)
			req.Spec = live
			resp := s[0].Recommend(t, req)
			shadow = append(shadow, s[0].Target(t, target).GetShadows()[0].GetDesiredReplicas())
			reported := false
			if resp.GetDesiredReplicas() != replicas {
				switch changes++; random.IntN(4) {
				case 0:
					s[0].Report(t, target, resp.GetRecommendationId(), "FAILED", "quota exceeded")
				case 1: // nobody says so, and it did not happen
				case 2:
					s[0].Report(t, target, resp.GetRecommendationId(), "APPLIED", "")
					reported = true
					fallthrough
				default:
					replicas = resp.GetDesiredReplicas()
				}
			}
			if random.IntN(10) == 0 && !reported { // somebody else scales
				replicas = max(1, replicas+random.Int32N(5)-2)
			}
			s[0].Clock.Advance(time.Duration(5+random.IntN(40)) * time.Second)
		}
		all = append(all, asked{target, next, shadow})
	}
	s[0].StopAndWait(t)
	different := 0
	for _, of := range all {
		out := Export(of.target, chunksOf(t, engine.Chunks(0, 0), servertest.KeyOf(of.target)), time.Time{}, time.Time{})
		if len(out.Scenarios) != 1 || out.Steps != steps {
			t.Fatalf("%s: %d scenarios, %d steps, gaps %v", of.target, len(out.Scenarios), out.Steps, out.Gaps)
		}
		replayed(t, out)
		other := &autoscalingv2.HorizontalPodAutoscalerSpec{}
		if encoded, err := text(of.next); err != nil || json.Unmarshal(encoded, other) != nil {
			t.Fatal(err)
		}
		scenario := reread(t, out.Scenarios[0])
		err := NewRunner(NewEngine(), Options{Spec: other}).Run(t.Context(), scenario, func(s *Step) error {
			if got, want := s.Response.GetDesiredReplicas(), of.shadow[s.Index]; got != want {
				t.Errorf("%s step %d: the open loop decides %d, the shadow decided %d", of.target, s.Index, got, want)
			}
			if of.shadow[s.Index] != scenario.Steps[s.Index].Expect.DesiredReplicas {
				different++
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if changes < targets*steps/10 || different < targets*steps/4 {
		t.Errorf("%d changes, %d decisions of shadows that differ", changes, different)
	}
}
