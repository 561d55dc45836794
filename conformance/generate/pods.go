package generate

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod is one of the workload.
type pod struct {
	name     string
	template template
	// created, start and ready are instants of its life, whole seconds as in the API;
	// the later ones may be in the future.
	created, start, ready time.Time
	// deleted is when its deletion began, zero: it did not; grace is how long that
	// takes.
	deleted time.Time
	grace   time.Duration
	quirk   quirk
	canary  bool
	// share is its part of the load relative to others.
	share float64
}

func (p *pod) going() bool { return !p.deleted.IsZero() }

func (p *pod) goneBy(now time.Time) bool { return p.going() && now.Sub(p.deleted) > p.grace }

// create adds a pod created at an instant.
func (g *generator) create(at time.Time) {
	c := &g.cluster
	at = at.Truncate(time.Second)
	p := &pod{
		name: fmt.Sprintf("web-%d", c.made), template: c.template,
		created: at, share: g.real(0.5, 1.5), canary: g.chance(0.03),
	}
	p.start = at.Add(g.seconds(c.startup.low, c.startup.high))
	p.ready = p.start.Add(g.seconds(c.readiness.low, c.readiness.high))
	if g.chance(c.quirks) {
		p.quirk = g.quirk()
	}
	c.made++
	c.pods = append(c.pods, p)
}

// object returns the pod at the present instant.
func (g *generator) object(p *pod) *corev1.Pod {
	out := &corev1.Pod{}
	out.Name = p.name
	out.Labels = maps.Clone(g.cluster.selector.inside)
	if p.canary {
		out.Labels[canary] = "true"
	}
	p.template.fill(&out.Spec)
	if p.going() {
		out.DeletionTimestamp = &metav1.Time{Time: p.deleted.Truncate(time.Second)}
	}
	g.status(p, &out.Status)
	if p.quirk.pod != nil {
		p.quirk.pod(g, p, out)
	}
	return out
}

// status is the status of a pod with a normal life.
func (g *generator) status(p *pod, s *corev1.PodStatus) {
	now := g.clock.now
	if now.Before(p.start) {
		s.Phase = corev1.PodPending
		return
	}
	s.Phase = corev1.PodRunning
	s.StartTime = &metav1.Time{Time: p.start}
	if now.Before(p.ready) {
		setReady(s, corev1.ConditionFalse, p.start)
		return
	}
	setReady(s, corev1.ConditionTrue, p.ready)
}

// setReady sets the pod's only condition.
func setReady(s *corev1.PodStatus, status corev1.ConditionStatus, transition time.Time) {
	s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Time{Time: transition}}}
}

// neighbours returns pods of other workloads: with other labels, and in another
// namespace, where they may even have the same name.
func (g *generator) neighbours() []*corev1.Pod {
	if !g.chance(0.08) {
		return nil
	}
	var out []*corev1.Pod
	for i := range g.between(1, 2) {
		stranger := &pod{name: fmt.Sprintf("db-%d", i), template: g.cluster.template, start: g.clock.start.Truncate(time.Second).Add(-time.Hour)}
		stranger.ready = stranger.start
		object := g.object(stranger)
		if g.chance(0.5) {
			object.Namespace = "elsewhere"
			object.Name = fmt.Sprintf("web-%d", i)
		} else {
			object.Labels = maps.Clone(g.cluster.selector.outside)
		}
		out = append(out, object)
	}
	return out
}
