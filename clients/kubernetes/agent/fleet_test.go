package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

const fleetName = "clusters/f/namespaces/shop/targets/web"

func TestFleetsOfObjects(t *testing.T) {
	t.Parallel()
	const wrong = "must be the whole name of a fleet, clusters/CLUSTER/namespaces/NAMESPACE/targets/TARGET, not "
	for name, tt := range map[string]struct{ annotation, text, want, problem string }{
		"none":           {"other", "x", "", ""},
		"a fleet":        {v1.FleetAnnotation, fleetName, fleetName, ""},
		"a short name":   {v1.FleetAnnotation, "web", "", "annotation setpoint.dev/fleet: " + wrong + `"web"`},
		"an empty name":  {v1.FleetAnnotation, "", "", "annotation setpoint.dev/fleet: " + wrong + `""`},
		"places":         {v1.FleetAnnotation, "clusters/-/namespaces/shop/targets/web", "", "annotation setpoint.dev/fleet: " + wrong},
		"another's name": {"autoscaling.setpoint.dev/fleet", fleetName, "", "annotation autoscaling.setpoint.dev/fleet: is not read; did you mean setpoint.dev/fleet?"},
		"a plural name":  {"setpoint.dev/fleets", fleetName, "", "annotation setpoint.dev/fleets: is not read; did you mean setpoint.dev/fleet?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hpa := newHPA("shop", "web")
			hpa.Annotations = map[string]string{tt.annotation: tt.text}
			o := objectOfHPA(hpa, settings{period: period})
			want(t, "fleet", o.fleet, tt.want)
			if problem := fmt.Sprint(o.problem); (o.problem != nil) != (tt.problem != "") || o.problem != nil && !strings.HasPrefix(problem, tt.problem) {
				t.Errorf("problem: got %s, want %s", problem, tt.problem)
			}
		})
	}
	// What was invalid is the same as none, but for the problem: the agent follows at once when it is mended.
	for _, annotation := range []string{v1.FleetAnnotation, v1.StagesAnnotation, ShadowAnnotation} {
		wrong, mended := newHPA("shop", "web"), newHPA("shop", "web")
		wrong.Annotations = map[string]string{annotation: "?"}
		want(t, "the same once "+annotation+" is mended", objectOfHPA(mended, settings{}).sameAs(objectOfHPA(wrong, settings{})), false)
	}
	a := autoscaler("mine", "web", 5)
	a.Spec.Fleet = fleetName
	o := objectOfAutoscaler(a, settings{period: period})
	want(t, "fleet of an Autoscaler", o.fleet, fleetName)
	other := a.DeepCopy()
	other.Spec.Fleet = "clusters/f/namespaces/shop/targets/other"
	want(t, "the same after a change of the fleet", o.sameAs(objectOfAutoscaler(other, settings{period: period})), false)
	other.Spec.Fleet = "web"
	want(t, "problem", fmt.Sprint(objectOfAutoscaler(other, settings{period: period}).problem), "spec.fleet: "+wrong+`"web"`)
}

// ofFleet answers members with a share, which is what the service would have decided for them alone.
type ofFleet struct {
	setpointv1.RecommendationServiceServer
	share *setpointv1.FleetShare
}

func (f *ofFleet) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	alone := proto.CloneOf(req)
	alone.Fleet = ""
	answer, err := f.RecommendationServiceServer.Recommend(ctx, alone)
	if answer != nil && req.GetFleet() != "" {
		answer.Fleet = proto.CloneOf(f.share)
	}
	return answer, err
}

// An Autoscaler shows its share, and an event tells what needs attention. A member whose fleet is not named
// right, or whose service knows no fleets, keeps its count.
func TestAMemberShowsItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		service := &ofFleet{w.service, &setpointv1.FleetShare{State: "FRESH", ShareTotal: 12, DecisionTime: timestamppb.Now(), Members: &setpointv1.FleetMemberCounts{Fresh: 2, Lost: 1}}}
		w.service = service
		w.workload("shop/web", 3, 30)
		hpa := newHPA("shop", "web")
		key := w.add(&v1.Autoscaler{ObjectMeta: hpa.ObjectMeta, Spec: v1.AutoscalerSpec{HorizontalPodAutoscalerSpec: hpa.Spec, Fleet: fleetName}})
		settle()
		want(t, "explanation", w.autoscaler(key).Status.Explanation,
			"Kept at 3: recommended size matches current size. Share 3 of 12 of fleet "+fleetName+"; lost members: 1.")
		want(t, "events", fmt.Sprint(w.events()), "[Warning Fleet share 3 of 12 of fleet "+fleetName+"; lost members: 1]")
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 50)
		w.service = &ofFleet{w.service, nil} // knows no fleets
		hpa := newHPA("shop", "web")
		hpa.Annotations = map[string]string{v1.FleetAnnotation: fleetName}
		key := w.add(hpa)
		time.Sleep(2 * period)
		want(t, "replicas", w.count("shop/web"), 3)
		want(t, "condition", w.able(key), "False "+agent.ReasonAnswerRefused)
		message := conditionOf(&w.hpa(key).Status, autoscalingv2.AbleToScale).Message
		if !strings.Contains(message, "fleet: is missing, although the target is a member of one: it was decided alone") {
			t.Errorf("message: %s", message)
		}
		w.change(key, func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Annotations[v1.FleetAnnotation] = "web" })
		time.Sleep(2 * period)
		want(t, "replicas", w.count("shop/web"), 3)
		want(t, "condition", w.able(key), "False "+agent.ReasonInvalidObject)
		w.change(key, func(hpa *autoscalingv2.HorizontalPodAutoscaler) { delete(hpa.Annotations, v1.FleetAnnotation) })
		time.Sleep(2 * period)
		want(t, "replicas, alone", w.count("shop/web"), 5)
	})
}
