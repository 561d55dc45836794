package lint

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/spelling"
	"github.com/setpoint-dev/setpoint/recommender"
)

// groups are the API groups of Kubernetes' own kinds that have a count, countless those of some that have none, and own all groups
// in which nobody else defines kinds.
var (
	groups    = map[string]string{"Deployment": "apps", "StatefulSet": "apps", "ReplicaSet": "apps", "ReplicationController": ""}
	countless = map[string]string{"DaemonSet": "apps", "Job": "batch", "CronJob": "batch", "Pod": "", "Service": ""}
	own       = []string{"", "apps", "autoscaling", "batch", "extensions", "policy"}
)

// targetWithoutScale looks for kinds where they are not. Of a group's versions any will do: the
// controller asks for the group only. It takes a kind in lower case, too.
func targetWithoutScale(s *subject) {
	ref := s.spec.ScaleTargetRef
	group, _, named := strings.Cut(ref.APIVersion, "/")
	if !named {
		group = ""
	}
	if !s.Manifest || ref.Kind == "" || !slices.Contains(own, group) || group == "extensions" && s.options.Profile.Name() == "v1.15" {
		return
	}
	known := slices.Sorted(maps.Keys(groups))
	kind := ref.Kind
	if i := slices.IndexFunc(known, func(one string) bool { return strings.ToLower(one) == kind }); i >= 0 {
		kind = known[i]
	}
	of, counts := groups[kind]
	guess, near := spelling.Closest(kind, known)
	switch none, is := countless[kind]; {
	case is && none == group:
		s.report("spec.scaleTargetRef.kind", fmt.Sprintf("a %s has no count", kind), fmt.Sprintf("%s %s has no subresource scale", kind, ref.Name))
	case counts && of != group:
		s.report("spec.scaleTargetRef.apiVersion", fmt.Sprintf("there is no %s in %q", kind, ref.APIVersion), fmt.Sprintf("a %s is in %s", kind, versionOf(kind)))
	case !counts && near:
		s.report("spec.scaleTargetRef.kind", fmt.Sprintf("there is no %s in %q", kind, ref.APIVersion), fmt.Sprintf("%s has a %s", versionOf(guess), guess))
	case !counts:
		s.report("spec.scaleTargetRef.kind", fmt.Sprintf("there is no %s with a count in %q", kind, ref.APIVersion), "Kubernetes itself counts: "+strings.Join(known, ", "))
	}
}

// versionOf is the apiVersion of one of Kubernetes' own kinds that have a count.
func versionOf(kind string) string { return strings.TrimPrefix(groups[kind]+"/v1", "/") }

func targetMissing(s *subject) {
	if all := s.Beside.AllSiblings; all > 0 {
		ref := s.spec.ScaleTargetRef
		s.report("spec.scaleTargetRef.name", fmt.Sprintf("the files have no %s %s in namespace %s", ref.Kind, ref.Name, s.namespace),
			fmt.Sprintf("%d of that kind there: %s", all, someOf(s.Beside.Siblings, all)))
	}
}

// injected are the containers of service meshes, which pods have and workloads do not name.
var injected = []string{"istio-proxy", "linkerd-proxy", "consul-dataplane", "envoy-sidecar", "kuma-sidecar", "daprd", "vault-agent"}

func containerMissing(s *subject) {
	if s.Workload == nil || len(s.Workload.Containers) == 0 {
		return
	}
	var names []string
	for _, c := range s.containers() {
		names = append(names, c.Name)
	}
	for i := range s.spec.Metrics {
		m := &s.spec.Metrics[i]
		if m.Type != recommender.ContainerResourceMetric || slices.Contains(names, m.Container) || slices.Contains(injected, m.Container) || !s.failsWithout(m) {
			continue
		}
		s.report(fmt.Sprintf("spec.metrics[%d].containerResource.container", i), fmt.Sprintf("%s of container %s can't be computed: the pods of %s %s have none of that name", m.Resource, m.Container, s.spec.ScaleTargetRef.Kind, s.spec.ScaleTargetRef.Name),
			"its containers: "+strings.Join(names, ", "))
	}
}

func kedaBeside(s *subject) {
	if all := s.Beside.ScaledObjects; len(all) > 0 {
		s.report("spec.scaleTargetRef", fmt.Sprintf("ScaledObject %s scales %s %s, too", strings.Join(all[:min(len(all), 5)], ", "), s.spec.ScaleTargetRef.Kind, s.spec.ScaleTargetRef.Name),
			fmt.Sprintf("this autoscaler + %d of KEDA, 1 target", len(all)))
	}
}

func vpaSameMetric(s *subject) {
	s.utilizations(func(at string, m *recommender.MetricSpec, percent int32) {
		names := []string{m.Container}
		if m.Type == recommender.ResourceMetric && s.Workload != nil {
			names = nil
			for _, c := range s.containers() {
				names = append(names, c.Name)
			}
		}
		for _, v := range s.Beside.Verticals {
			if !slices.ContainsFunc(names, func(name string) bool { return v.controls(name, m.Resource) }) {
				continue
			}
			whose := "running pods"
			if v.Mode == "Initial" {
				whose = "new pods"
			}
			s.report(at, fmt.Sprintf("VerticalPodAutoscaler %s sets the %s request of %s, which %d %% is measured by", v.Name, m.Resource, whose, percent),
				fmt.Sprintf("updateMode %s; usage on target is %d %% of the request, and a request made equal to it makes that 100 %%: %s replicas for each one", v.Mode, percent, decimals(100/float64(percent))))
		}
	})
}

func pdbBlocksDrain(s *subject) {
	n := max(1, s.spec.MinReplicas)
	for _, b := range s.Beside.Budgets {
		amount, shown := shareOf(b.Amount, n)
		rest, sum := amount, fmt.Sprintf("%s %s of %d = %d", b.Field, shown, n, amount)
		if b.Field == "minAvailable" {
			rest, sum = n-amount, fmt.Sprintf("%d replicas − minAvailable %s = %d", n, shown, n-amount)
		}
		if rest <= 0 {
			s.report("spec.minReplicas", fmt.Sprintf("at minReplicas %d PodDisruptionBudget %s lets no pod be evicted: drains of nodes wait", s.spec.MinReplicas, b.Name), sum)
		}
	}
}

func toleranceZero(s *subject) {
	if s.spec.MinReplicas == s.spec.MaxReplicas || s.decidedBefore() {
		return
	}
	b := s.spec.Behavior
	if n := s.high() - 1; s.tolerance(recommender.Up) == 0 && n > 0 && (b == nil || b.ScaleUp.SelectPolicy != recommender.NoSelection) {
		s.report(s.toleranceField("scaleUp"), "whatever is above the target by the least bit brings a replica",
			fmt.Sprintf("%d × 1.001 = %s, rounded up %d", n, decimals3(float64(n)*1.001), n+1))
	}
	if n := s.spec.MaxReplicas; s.tolerance(recommender.Down) == 0 && n > 1 && (b == nil || b.ScaleDown.SelectPolicy != recommender.NoSelection) {
		s.report(s.toleranceField("scaleDown"), fmt.Sprintf("at %d replicas %s less usage takes one", n, percentOf(1/float64(n))),
			fmt.Sprintf("%d × (1 − %s) = %d", n, percentOf(1/float64(n)), n-1))
	}
}

// recommended matches the metric of setpoint-external-metrics, and as KEDA names it.
var recommended = regexp.MustCompile(`^(s\d+-)?recommended-replicas$`)

// decidedBefore reports whether the only metric is a count that Setpoint has decided, with tolerances and windows of its own.
func (s *subject) decidedBefore() bool {
	return len(s.spec.Metrics) == 1 && s.spec.Metrics[0].Type == recommender.ExternalMetric && recommended.MatchString(s.spec.Metrics[0].Metric.Name)
}

// decimals3 is a number of three decimal places at most.
func decimals3(f float64) string { return fmt.Sprint(math.Round(f*1000) / 1000) }

// metricTwice looks for metrics that differ in nothing but the number of their target.
func metricTwice(s *subject) {
	type same struct {
		kind                           recommender.MetricType
		resource, container, name, pod string
		described                      recommender.ObjectReference
		target                         string
	}
	first := make(map[same]int)
	for i := range s.spec.Metrics {
		m := &s.spec.Metrics[i]
		key := same{m.Type, m.Resource, m.Container, m.Metric.Name, "", m.DescribedObject, m.Target.Type}
		if m.Metric.Selector != nil {
			key.pod = fmt.Sprint(*m.Metric.Selector)
		}
		k, twice := first[key]
		if !twice {
			first[key] = i
			continue
		}
		low, high := k, i
		if a, b := number(&s.spec.Metrics[k].Target), number(&m.Target); b < a {
			low, high = i, k
			first[key] = i
		}
		a, b := number(&s.spec.Metrics[low].Target), number(&s.spec.Metrics[high].Target)
		s.report(fmt.Sprintf("spec.metrics[%d]", high), fmt.Sprintf("%s is there twice: the target of %s never decides", metricName(m), decimals(b)),
			fmt.Sprintf("usage ÷ %s ≥ usage ÷ %s: spec.metrics[%d] asks for as many replicas or more", decimals(a), decimals(b), low))
	}
}

// number is what a target is compared by: percents or units.
func number(t *recommender.MetricTarget) float64 {
	switch {
	case t.AverageUtilization != nil:
		return float64(*t.AverageUtilization)
	case t.AverageValue != nil:
		return float64(*t.AverageValue) / 1000
	case t.Value != nil:
		return float64(*t.Value) / 1000
	}
	return 0
}

// Requests that tell nothing of what a pod uses: of CPU in milli-units and of memory in milli-bytes,
// and the share of a limit.
const (
	tinyCPU    = 5
	tinyMemory = 4 << 20 * 1000
	tinyShare  = 100
)

func requestTiny(s *subject) {
	if s.Workload == nil || s.Workload.PodRequests {
		return
	}
	s.utilizations(func(at string, m *recommender.MetricSpec, percent int32) {
		request, limit, without, limited := s.amounts(m)
		if len(without) > 0 || request <= 0 {
			return
		}
		unit := func(milli int64) string { return amountOf(m.Resource, milli) }
		least := int64(tinyCPU)
		if m.Resource == "memory" {
			least = tinyMemory
		}
		switch {
		case limited && limit/request >= tinyShare:
			most := float64(limit) / float64(request)
			s.report(at, fmt.Sprintf("%s of a pod may be at %s of its request", m.Resource, percentOf(most)),
				fmt.Sprintf("limit %s ÷ request %s = %s, target %d %%: one busy pod asks for %s replicas", unit(limit), unit(request), percentOf(most), percent, decimals(math.Ceil(most*100/float64(percent)))))
		case request <= least:
			s.report(at, fmt.Sprintf("pods are on target at %d %% of %s of %s", percent, unit(request), m.Resource),
				fmt.Sprintf("request %s, target %d %%: at ten times the request a pod asks for %s replicas", unit(request), percent, decimals(math.Ceil(1000/float64(percent)))))
		}
	})
}

func metricsDefault(s *subject) {
	if s.Defaulted && s.Manifest {
		s.report("spec", "no metrics: the API server fills in cpu at 80 % of its request", "spec.metrics: none")
	}
}
