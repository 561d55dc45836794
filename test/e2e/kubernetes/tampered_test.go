//go:build linux

package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/setpoint/answertest"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// victim is a HorizontalPodAutoscaler of 2 to 10 replicas with tampered answers.
type victim struct {
	// name is the object's; rule is the kind of tampering.
	name, rule string
	// field is the wrong field.
	field string
	// from and to are the replicas that the load wants before and after it grows.
	from, to int32
}

// milli is the load that wants so many pods.
func milli(replicas int32) int64 { return int64(replicas) * 50 }

// tamperWith has the proxy tamper with the answers about objects, and returns them.
func tamperWith(proxy *proxy, namespace string) []victim {
	target := func(name string) string { return "clusters/test/namespaces/" + namespace + "/targets/" + name }
	var all []victim
	for i, one := range answertest.Tamperings() {
		v := victim{fmt.Sprintf("changed-%d", i), one.Name, one.Field, 4, 5}
		proxy.change(target(v.name), one.Change)
		all = append(all, v)
	}
	all = append(all,
		victim{"even-a", "swapped, of equal counts", "requestId", 4, 5}, victim{"even-b", "swapped, of equal counts", "requestId", 4, 8},
		victim{"odd-a", "swapped", "requestId", 4, 5}, victim{"odd-b", "swapped", "requestId", 6, 8},
	)
	proxy.swap(target("even-a"), target("even-b"))
	proxy.swap(target("odd-a"), target("odd-b"))
	return all
}

// list returns a namespace's HorizontalPodAutoscalers by name.
func (p *place) list() map[string]*autoscalingv2.HorizontalPodAutoscaler {
	p.t.Helper()
	list, err := p.c.Client().AutoscalingV2().HorizontalPodAutoscalers(p.namespace).List(context.Background(), metav1.ListOptions{})
	must(p.t, err)
	all := make(map[string]*autoscalingv2.HorizontalPodAutoscaler)
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	return all
}

// ready returns how many ready pods each Deployment of the namespace has, where it wants
// as many.
func (p *place) ready() map[string]int32 {
	p.t.Helper()
	list, err := p.c.Client().AppsV1().Deployments(p.namespace).List(context.Background(), metav1.ListOptions{})
	must(p.t, err)
	all := make(map[string]int32)
	for _, d := range list.Items {
		if d.Status.ReadyReplicas == *d.Spec.Replicas && d.Status.Replicas == *d.Spec.Replicas {
			all[d.Name] = *d.Spec.Replicas
		}
	}
	return all
}

// However a proxy tampers with answers, even by swapping those of two objects, no scale is
// written; the object, its events and metrics report it; and once the proxy stops everything
// works again.
func TestTamperedAnswersAreNotFollowed(t *testing.T) {
	t.Parallel()
	c := kubetest.SharedWithoutNative(t)
	s := service.Start(t)
	proxy := newProxy(t, s)
	p := newPlace(t, c, hpas, "tampered")
	victims := tamperWith(proxy, p.namespace)
	for _, v := range victims {
		c.Deployment(t, p.namespace, v.name, v.from)
		c.Metrics.SetCPU(p.namespace, v.name, milli(v.from))
		p.add(v.name, kubetest.CPU(v.name, 50, 2, 10))
	}
	awaitAll := func(what string, problem func(v victim) string) {
		t.Helper()
		await(t, what, func() string {
			for _, v := range victims {
				if problem := problem(v); problem != "" {
					return fmt.Sprintf("%s (%s): %s", v.name, v.rule, problem)
				}
			}
			return ""
		})
	}
	awaitReady := func(want func(victim) int32) {
		t.Helper()
		var ready map[string]int32
		awaitAll("pods", func(v victim) string {
			if v == victims[0] {
				ready = p.ready()
			}
			if got := ready[v.name]; got != want(v) {
				return fmt.Sprintf("%d ready pods, want %d", got, want(v))
			}
			return ""
		})
	}
	awaitAble := func(want func(victim) string, holds func(victim) string) {
		t.Helper()
		var objects map[string]*autoscalingv2.HorizontalPodAutoscaler
		awaitAll("conditions", func(v victim) string {
			if v == victims[0] {
				objects = p.list()
			}
			got := ""
			for _, condition := range objects[v.name].Status.Conditions {
				if condition.Type == autoscalingv2.AbleToScale {
					got = p.words(condition)
				}
			}
			if !strings.HasPrefix(got, want(v)) || !strings.Contains(got, holds(v)) {
				return fmt.Sprintf("%q, want %q and %q in it", got, want(v), holds(v))
			}
			return ""
		})
	}
	able := func(victim) string { return "AbleToScale=True/ReadyForNewScale" }
	nothing := func(victim) string { return "" }
	awaitReady(func(v victim) int32 { return v.from })
	sizes := p.watchAll(t, deployments, wantedReplicas)
	w := &world{place: p, agent: startAgent(t, c, p.namespace, s, "--source=hpa", "--server="+proxy.address)}
	awaitAble(able, nothing)

	before, mark := p.list(), c.Mark(t)
	proxy.tamper(true)
	for _, v := range victims {
		c.Metrics.SetCPU(p.namespace, v.name, milli(v.to))
	}
	awaitAble(func(victim) string { return "AbleToScale=False/AnswerRefused" }, func(v victim) string { return ": " + v.field + ": " })
	w.awaitReconciles(t, 2*float64(len(victims)))
	for user, writes := range writers(c.Since(t, mark), p.namespace) {
		t.Errorf("%s wrote %d scales", user, writes)
	}
	refused, after := make(map[string]int), p.list()
	for _, v := range victims {
		was, is := &before[v.name].Status, &after[v.name].Status
		if is.DesiredReplicas != was.DesiredReplicas || len(is.Conditions) != len(was.Conditions) {
			t.Errorf("%s: the status became %+v, was %+v", v.rule, is, was)
		}
		label, _, _ := strings.Cut(v.field, "[")
		refused[label]++
	}
	for field, objects := range refused {
		if n := w.agent.value("setpoint_agent_answers_refused_total", "field="+field); n < float64(objects) {
			t.Errorf("%v answers are counted as refused for %s, want %d or more", n, field, objects)
		}
	}
	told := make(map[string][]string)
	awaitAll("events", func(v victim) string {
		told[v.name] = p.events(v.name)
		if text := strings.Join(told[v.name], "\n"); !strings.Contains(text, "Warning AnswerRefused: ") || !strings.Contains(text, ": "+v.field+": ") {
			return "there are " + text
		}
		return ""
	})
	for _, v := range victims {
		if len(told[v.name]) != 1 {
			t.Errorf("%s: events %q, want one", v.rule, told[v.name])
		}
	}

	proxy.tamper(false)
	awaitReady(func(v victim) int32 { return v.to })
	awaitAble(able, nothing)
	awaitAll("replicas over time, as a watch shows them", func(v victim) string {
		return difference([]string{fmt.Sprint(v.from), fmt.Sprint(v.to)}, sizes.all(t, v.name))
	})
}

// writers returns the users that wrote scales of a namespace, and how often.
func writers(requests kubetest.Requests, namespace string) map[string]int {
	all := make(map[string]int)
	for _, r := range requests {
		if r.Namespace == namespace && r.Subresource == "scale" && r.Verb != "get" && r.Code < 400 {
			all[r.User]++
		}
	}
	return all
}
