package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/setpoint/answertest"
)

// newTampered is a world with 4 replicas of 2 to 10, of which the service wants 5, whose
// answers are changed in transit. It checks what the log says about that.
func newTampered(t *testing.T, tamper answertest.Change) (*world, Key) {
	t.Helper()
	w := newWorld(t, period)
	w.start(func(o *agent.Options) { o.Log = zap.NewNop() })
	w.workload("shop/web", 4, 50)
	hpa := evaluatedHPA("shop", "web")
	hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas = new(int32(2)), 10
	w.with(func() { w.tamper = tamper })
	return w, w.add(hpa)
}

// A newer service says what this agent does not know: it acts, and the object's status has it.
func TestAnswersOfANewerServiceAreFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, key := newTampered(t, answertest.Newer)
		time.Sleep(2 * period)
		want(t, "replicas", w.count("shop/web"), 5)
		if !slices.ContainsFunc(w.hpa(key).Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == "FutureType" }) {
			t.Errorf("the status has %v", w.hpa(key).Status.Conditions)
		}
	})
}

// Whichever field of an answer is missing or wrong, the count is either unchanged or the one
// really recommended.
func TestNoFieldScalesWhenItIsLostOrFlipped(t *testing.T) {
	t.Parallel()
	var paths []string
	collect(&paths, "", (&setpointv1.RecommendResponse{}).ProtoReflect().Descriptor(), 3)
	if len(paths) < 30 {
		t.Fatalf("only %d fields: %v", len(paths), paths)
	}
	for _, path := range paths {
		for _, flip := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/flip=%t", path, flip), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w, key := newTampered(t, func(a *setpointv1.RecommendResponse) {
						harm(a.ProtoReflect(), strings.Split(path, "."), flip)
					})
					before := w.hpa(key).Status
					time.Sleep(3 * period)
					if n := w.count("shop/web"); n != 4 && n != 5 {
						t.Errorf("scaled to %d", n)
					}
					status := w.hpa(key).Status
					if n := status.DesiredReplicas; n != before.DesiredReplicas && n != 4 && n != 5 {
						t.Errorf("the status wants %d", n)
					}
					if len(status.Conditions) < len(before.Conditions) {
						t.Errorf("conditions are lost: %v", status.Conditions)
					}
				})
			})
		}
	}
}

func collect(paths *[]string, prefix string, md protoreflect.MessageDescriptor, depth int) {
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		path := prefix + string(fd.Name())
		*paths = append(*paths, path)
		if fd.Message() != nil && depth > 1 && fd.Name() != "explanation" {
			collect(paths, path+".", fd.Message(), depth-1)
		}
	}
}

// harm clears the field at the path, or changes its value; in lists, that of the first element.
func harm(m protoreflect.Message, path []string, flip bool) {
	fd := m.Descriptor().Fields().ByName(protoreflect.Name(path[0]))
	if len(path) > 1 {
		switch {
		case !m.Has(fd):
		case fd.IsList():
			harm(m.Mutable(fd).List().Get(0).Message(), path[1:], flip)
		default:
			harm(m.Mutable(fd).Message(), path[1:], flip)
		}
		return
	}
	if !flip || fd.IsList() || fd.IsMap() || fd.Message() != nil {
		m.Clear(fd)
		return
	}
	switch fd.Kind() {
	case protoreflect.Int32Kind:
		m.Set(fd, protoreflect.ValueOfInt32(int32(m.Get(fd).Int())+7))
	case protoreflect.Int64Kind:
		m.Set(fd, protoreflect.ValueOfInt64(-m.Get(fd).Int()-1))
	case protoreflect.StringKind:
		m.Set(fd, protoreflect.ValueOfString("\u00e4 "+m.Get(fd).String()))
	default:
		m.Clear(fd)
	}
}

// A valid answer to the previous request is invalid for the next one. What is shown of one that is refused leaves the rest
// of the status as it is.
func TestAnAnswerCountsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var first *setpointv1.RecommendResponse
		w, key := newTampered(t, func(a *setpointv1.RecommendResponse) {
			if first == nil {
				a.RequestId = nil // an older service says of no answer which request it is to
				first = proto.CloneOf(a)
			}
			proto.Reset(a)
			proto.Merge(a, first)
		})
		settle()
		want(t, "replicas", w.count("shop/web"), 5)
		before := w.hpa(key).Status
		w.workload("shop/web", 4, 50) // as they were: the answer fits
		time.Sleep(3 * period)
		want(t, "replicas", w.count("shop/web"), 4)
		want(t, "condition", w.able(key), "False "+agent.ReasonAnswerRefused)
		status := w.hpa(key).Status
		want(t, "desired in the status", status.DesiredReplicas, before.DesiredReplicas)
		want(t, "other conditions", fmt.Sprint(status.Conditions[1:]), fmt.Sprint(before.Conditions[1:]))
		want(t, "events", strings.Count(fmt.Sprint(w.events()), "Warning "+agent.ReasonAnswerRefused+" "), 1) // in several reconciles
		if n := w.counted("setpoint_agent_answers_refused_total", "field", "recommendationId"); n < 2 {
			t.Errorf("%v answers counted as refused", n)
		}
	})
}

// An object was recreated while the service was away: the new object has neither its namesake's
// history, nor its unsent report, nor its state.
func TestAnObjectIsMadeAgainWhileTheServiceIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.start(func(o *agent.Options) { o.Log = zap.NewNop() })
		w.workload("shop/web", 3, 50)
		w.fault = func(call string, _ int) error {
			if call == "report" {
				return errAway
			}
			return nil
		}
		again := newHPA("shop", "web")
		again.Spec.Behavior = nil // the downscale window holds recommendations made within it
		first := again.DeepCopy()
		w.add(first)
		settle()
		want(t, "replicas", w.count("shop/web"), 5)
		w.with(func() { w.fault = func(string, int) error { return errAway } })
		w.workload("shop/web", 2, 20)
		key := w.add(again)
		time.Sleep(2 * period)
		w.calls()
		told := len(w.events())
		w.with(func() { w.fault = nil })
		time.Sleep(2 * period)
		want(t, "calls", fmt.Sprint(w.calls()), "[delete clusters/demo/namespaces/shop/targets/web delete clusters/demo/namespaces/shop/targets/web]")
		want(t, "replicas, which its namesake's recommendation of 5 would raise", w.count("shop/web"), 2)
		want(t, "events", strings.Join(w.events()[told:], "; "), "Normal RecommenderAvailable the recommender answers again")
		want(t, "condition", w.able(key), "True ReadyForNewScale")
	})
}

// A user who may write a status can't lock its object out.
func TestABadStatusIsTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 4, 50)
		hpa := evaluatedHPA("shop", "web")
		conditions := hpa.Status.Conditions
		conditions[0].Message = strings.Repeat("ä", 100_000)
		conditions[1].Reason = strings.Repeat("x", 100_000)
		for range 1000 {
			hpa.Status.Conditions = append(hpa.Status.Conditions, conditions[0], conditions[1])
			hpa.Status.Conditions[len(hpa.Status.Conditions)-1].Type = "Foo"
		}
		hpa.Status.CurrentReplicas, hpa.Status.DesiredReplicas = -1, -7
		key := w.add(hpa)
		time.Sleep(2 * period)
		want(t, "replicas", w.count("shop/web"), 5)
		want(t, "condition", w.able(key), "True ReadyForNewScale")
		want(t, "conditions", len(w.hpa(key).Status.Conditions), 3)
	})
}

// Two shadows of one name and of both kinds have separate histories.
func TestShadowsOfOneName(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, source := range []Source{HPA, Autoscaler} {
		for _, shadow := range []bool{true, false} {
			name := (&object{key: source.Key("shop", "web"), shadow: shadow}).target()
			if shadow {
				name += agent.ShadowSuffix // by the loop
			}
			names[name] = true
		}
	}
	want(t, "names", len(names), 3)
}
