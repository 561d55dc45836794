//go:build linux

package kubernetes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// The same workloads twice, one under the native controller, one under the agent,
// driven through the same load: same replicas, same statuses, same events.

func TestSideBySideTheAgentDoesWhatTheNativeControllerDoes(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.Shared(t))
	s := service.Start(t)
	play(t, newPair(t, c, s), scenes)
}

func TestSideBySideMetricsThatFail(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.Shared(t))
	s := service.Start(t)
	playApart(t, c, s, failingScenes)
}

// A hanging metrics API holds counts as with the native controller, with the same message: that
// of the API server, whose timeout comes first.
func TestSideBySideMetricsThatHang(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.Start(t, kubetest.Config{Native: true, APIServerFlags: []string{"--request-timeout=" + apiPatience.String()}}))
	playApart(t, c, service.Start(t), hangingScenes)
}

// apiPatience is how long the API server waits for an aggregated API. It is less than the
// agent's own.
const apiPatience = 6 * time.Second

// playApart plays scenes in namespaces of their own, each.
func playApart(t *testing.T, c *kubetest.Cluster, s recommender, scenes []scene) {
	t.Helper()
	for _, one := range scenes {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			play(t, newPair(t, c, s), []scene{one})
		})
	}
}

// readingAge is how old a reading may be that the agent shares between autoscalers.
const readingAge = time.Second

// pair are two places, the first under the native controller, the second under the agent.
type pair struct {
	service recommender
	places  [2]*place
	sizes   [2]*history
	courses [2]*history
}

func newPair(t *testing.T, c *kubetest.Cluster, s recommender) *pair {
	t.Helper()
	pair := &pair{service: s}
	for i, k := range []kind{hpas, autoscalers} {
		p := newPlace(t, c, k, []string{"native", "setpoint"}[i])
		c.Kubelet.Decide(p.namespace, fate)
		pair.places[i] = p
		pair.sizes[i] = p.watchAll(t, deployments, wantedReplicas)
		pair.courses[i] = p.watchAll(t, k.resource, p.course)
	}
	startAgent(t, c, pair.places[1].namespace, s, "--source=autoscaler")
	return pair
}

// course is the ordered part of a status: the reasons of conditions.
func (p *place) course(object *unstructured.Unstructured) string {
	var reasons []string
	for _, condition := range p.statusOf(object).Conditions {
		reasons = append(reasons, fmt.Sprintf("%s=%s/%s", condition.Type, condition.Status, condition.Reason))
	}
	return strings.Join(reasons, " ")
}

// attempts bounds the attempts at a scene. With little processor time a controller may take
// another path by chance; a real difference of behaviour shows each time.
const attempts = 3

func play(t *testing.T, pair *pair, scenes []scene) {
	pair.prepare(scenes)
	t.Run("scenes", func(t *testing.T) {
		for i, scene := range scenes {
			t.Run(scene.name, func(t *testing.T) {
				t.Parallel()
				d := pair.play(t, scene)
				for n := 1; d != "" && n < attempts; n++ {
					t.Logf("attempt %d: %s", n, d)
					another := newPair(t, pair.places[0].c, pair.service)
					another.prepare(scenes[i : i+1])
					d = another.play(t, scene)
				}
				if d != "" {
					t.Error(d)
				}
			})
		}
	})
}

// prepare makes the workloads of scenes.
func (both *pair) prepare(scenes []scene) {
	for _, scene := range scenes {
		for _, p := range both.places {
			p.c.Deployment(p.t, p.namespace, scene.name, scene.replicas)
		}
	}
	for _, scene := range scenes {
		for _, p := range both.places {
			p.awaitPods(scene.name, scene.replicas, readyOf(scene))
		}
	}
}

// play runs a scene, and returns the differences.
func (both *pair) play(t *testing.T, scene scene) string {
	native, ours := both.places[0].in(t), both.places[1].in(t)
	for i, step := range scene.steps {
		step.do(native, scene.name)
		step.do(ours, scene.name)
		if i == 0 {
			// Decisions before the first load depend on chance.
			time.Sleep(readingAge)
			native.add(scene.name, scene.spec(scene.name))
			ours.add(scene.name, scene.spec(scene.name))
		}
		for _, p := range []*place{native, ours} {
			if d := awaitNone(within, func() string { return p.not(scene, step) }); d != "" {
				return fmt.Sprintf("step %d, under %s, not within %s: %s", i+1, p.kind.name, within, d)
			}
		}
		if d := awaitNone(within, func() string {
			was, is := native.settled(scene.name), ours.settled(scene.name)
			for _, words := range [][]string{was, is} {
				if len(words) < 3 { // no condition: what comes first would be a matter of chance
					return "not reconciled yet"
				}
				// It passes with the next reconcile: the course would be a matter of chance.
				if text := strings.Join(words, "\n"); strings.Contains(text, "/SucceededRescale") {
					return "still scaled by the last reconcile: " + text
				}
			}
			return difference(was, is)
		}); d != "" {
			return fmt.Sprintf("the status after step %d: %s", i+1, d)
		}
	}
	if d := difference(both.sizes[0].all(t, scene.name), both.sizes[1].all(t, scene.name)); d != "" {
		return "replicas over time " + d
	}
	was, is := both.courses[0].all(t, scene.name), both.courses[1].all(t, scene.name)
	if d := difference(was, is); d != "" && !native.lostStatuses(scene.name, was, is) {
		return "conditions over time " + d
	}
	return awaitNone(sameEvents, func() string {
		if d := difference(native.told(scene.name), ours.told(scene.name)); d != "" {
			return "events " + d
		}
		return ""
	})
}

// lostStatuses reports whether a controller's course lacks only statuses right after a change
// of the count, and it reported failed writes: its cache was behind its own last write. The
// count itself is compared as well.
func (p *place) lostStatuses(name string, course, other []string) bool {
	p.t.Helper()
	said := slices.ContainsFunc(p.events(name), func(event string) bool { return strings.HasPrefix(event, "Warning FailedUpdateStatus: ") })
	if !said {
		return false
	}
	for _, status := range other {
		switch {
		case len(course) > 0 && course[0] == status:
			course = course[1:]
		case !strings.Contains(status, "/SucceededRescale"):
			return false
		}
	}
	p.t.Logf("%s: a status was lost to a cache that was behind, by its own word", p.kind.name)
	return len(course) == 0
}

// told are the events about an autoscaler, without those that occur by chance: about an
// outdated cache, or about a request that the API server aborted.
func (p *place) told(name string) []string {
	p.t.Helper()
	return slices.DeleteFunc(p.events(name), func(event string) bool {
		return strings.HasPrefix(event, "Warning FailedUpdateStatus: ") || strings.HasSuffix(event, "; INTERNAL_ERROR; received from peer")
	})
}

// sameEvents bounds the delay of events.
const sameEvents = 20 * time.Second

// awaitNone waits until problem returns "", and returns the last problem otherwise.
func awaitNone(within time.Duration, problem func() string) (last string) {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(poll) {
		if last = problem(); last == "" {
			return ""
		}
	}
	return last
}

// not says what is not as a step leads to, "" if all is.
func (p *place) not(scene scene, step step) string {
	p.t.Helper()
	if got := p.replicas(scene.name); got != step.replicas {
		return fmt.Sprintf("%d replicas, want %d; %s", got, step.replicas, strings.Join(p.settled(scene.name), "\n"))
	}
	if step.condition == "" {
		return ""
	}
	of, _, _ := strings.Cut(step.condition, "=")
	if got := p.condition(scene.name, autoscalingv2.HorizontalPodAutoscalerConditionType(of)); !strings.HasPrefix(got, step.condition) {
		return fmt.Sprintf("condition %q, want %q", got, step.condition)
	}
	return ""
}

// settled describes a status without its times and transient parts.
func (p *place) settled(name string) []string {
	p.t.Helper()
	status := p.status(name)
	current, err := json.Marshal(status.CurrentMetrics)
	must(p.t, err)
	words := []string{
		fmt.Sprintf("%d current, %d desired replicas, scaled before: %v", status.CurrentReplicas, status.DesiredReplicas, status.LastScaleTime != nil),
		"metrics: " + p.neutral(string(current)),
	}
	for _, condition := range status.Conditions {
		words = append(words, p.words(condition))
	}
	return words
}

// difference compares two lists line by line, "" if equal.
func difference(native, ours []string) string {
	if slices.Equal(native, ours) {
		return ""
	}
	return fmt.Sprintf("differ:\nnative:\n\t%s\nagent:\n\t%s", strings.Join(native, "\n\t"), strings.Join(ours, "\n\t"))
}

// readyOf is how many replicas are ready at the start.
func readyOf(s scene) int32 {
	if s.name == unready {
		return 0
	}
	return s.replicas
}
