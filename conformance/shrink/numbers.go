package shrink

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// quantityPlace is a quantity of a scenario.
type quantityPlace struct {
	value resource.Quantity
	set   func(resource.Quantity)
	// positive ones may not be 0.
	positive bool
}

// quantities returns all of a scenario, in their order.
func quantities(s *recording.Scenario) []quantityPlace {
	var out []quantityPlace
	pointer := func(q *resource.Quantity, positive bool) {
		if q != nil {
			out = append(out, quantityPlace{*q, func(v resource.Quantity) { *q = v }, positive})
		}
	}
	list := func(l corev1.ResourceList) {
		for _, name := range slices.Sorted(maps.Keys(l)) {
			out = append(out, quantityPlace{l[name], func(v resource.Quantity) { l[name] = v }, false})
		}
	}
	for _, spec := range specs(s) {
		for i := range spec.Metrics {
			if t := target(&spec.Metrics[i]); t != nil {
				pointer(t.Value, true)
				pointer(t.AverageValue, true)
			}
		}
		if b := spec.Behavior; b != nil {
			if b.ScaleUp != nil {
				pointer(b.ScaleUp.Tolerance, false)
			}
			if b.ScaleDown != nil {
				pointer(b.ScaleDown.Tolerance, false)
			}
		}
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		for _, p := range step.Pods {
			for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
				for j := range containers {
					list(containers[j].Resources.Requests)
				}
			}
			if p.Spec.Resources != nil {
				list(p.Spec.Resources.Requests)
			}
			list(p.Spec.Overhead)
		}
		for j := range step.PodMetrics {
			for k := range step.PodMetrics[j].Containers {
				list(step.PodMetrics[j].Containers[k].Usage)
			}
		}
		for j := range step.CustomMetrics {
			pointer(&step.CustomMetrics[j].Value, false)
		}
		for j := range step.ExternalMetrics {
			pointer(&step.ExternalMetrics[j].Value, false)
		}
	}
	return out
}

// ofQuantities sets quantities to the result of simpler, if that is really simpler:
// shorter, or equally long and plainer.
func ofQuantities(simpler func(quantityPlace) resource.Quantity) rule {
	return func(s *recording.Scenario) []func() {
		var out []func()
		for _, q := range quantities(s) {
			v := simpler(q)
			if simplicity(v) < simplicity(q.value) {
				out = append(out, func() { q.set(v) })
			}
		}
		return out
	}
}

// simplicity orders quantities: by the length of the text, then the number of nonzero
// digits, then their sum.
func simplicity(q resource.Quantity) int {
	text := q.String()
	digits, sum := 0, 0
	for _, c := range text {
		if c >= '1' && c <= '9' {
			digits++
			sum += int(c - '0')
		}
	}
	return len(text)<<20 + digits<<10 + sum
}

// Rules for quantities: the same number plainly, none, one, and fewer digits.
var (
	plainQuantities = ofQuantities(func(q quantityPlace) resource.Quantity {
		return *resource.NewMilliQuantity(q.value.MilliValue(), resource.DecimalSI)
	})
	zeroQuantities = ofQuantities(func(q quantityPlace) resource.Quantity {
		if q.positive {
			return q.value
		}
		return resource.MustParse("0")
	})
	oneQuantities   = ofQuantities(func(quantityPlace) resource.Quantity { return resource.MustParse("1") })
	roundQuantities = ofQuantities(func(q quantityPlace) resource.Quantity {
		return *resource.NewMilliQuantity(fewerDigits(q.value.MilliValue()), resource.DecimalSI)
	})
)

// fewerDigits drops the last nonzero digit of a number, but not the first.
func fewerDigits(i int64) int64 {
	for unit := int64(10); unit < math.MaxInt64/100; unit *= 10 {
		if i%unit != 0 && i/unit != 0 {
			return i / unit * unit
		}
	}
	return i
}

// numberPlace is a whole number of a scenario, with its minimum.
type numberPlace struct {
	value *int32
	least int32
}

// numbers returns all of a scenario, in their order.
func numbers(s *recording.Scenario) []numberPlace {
	out := []numberPlace{{&s.HPA.Status.CurrentReplicas, 0}, {&s.HPA.Status.DesiredReplicas, 0}}
	for _, spec := range specs(s) {
		if spec.MinReplicas != nil {
			out = append(out, numberPlace{spec.MinReplicas, min(1, *spec.MinReplicas)})
		}
		out = append(out, numberPlace{&spec.MaxReplicas, 1})
		for i := range spec.Metrics {
			if t := target(&spec.Metrics[i]); t != nil && t.AverageUtilization != nil {
				out = append(out, numberPlace{t.AverageUtilization, 1})
			}
		}
	}
	for _, rules := range allRules(s) {
		if rules.StabilizationWindowSeconds != nil {
			out = append(out, numberPlace{rules.StabilizationWindowSeconds, 0})
		}
		for i := range rules.Policies {
			out = append(out, numberPlace{&rules.Policies[i].Value, 1}, numberPlace{&rules.Policies[i].PeriodSeconds, 1})
		}
	}
	for i := range s.Steps {
		if scale := s.Steps[i].Scale; scale != nil {
			out = append(out, numberPlace{&scale.Spec.Replicas, 0}, numberPlace{&scale.Status.Replicas, 0})
		}
	}
	return out
}

// lowerNumbers makes each number as low as possible, and reports whether it changed
// any.
func (h *search) lowerNumbers() bool {
	changed := false
	for i := range numbers(h.best) {
		changed = h.lower(i) || changed
	}
	return changed
}

// lower searches the lowest failing number by bisection, as if all higher ones failed.
func (h *search) lower(i int) bool {
	place := numbers(h.best)[i]
	low, high := int64(place.least), int64(*place.value)
	for low < high && !h.over() {
		middle := (low + high) / 2
		if low == int64(place.least) && high == int64(*place.value) {
			middle = low // a number at its minimum is found at once
		}
		candidate := clone(h.best)
		*numbers(candidate)[i].value = int32(middle)
		if h.keep(candidate) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return high < int64(*place.value)
}
