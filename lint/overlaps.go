//go:build !js

package lint

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
)

// overlap are the other autoscalers whose workloads select pods that an autoscaler's own workload makes, or make pods that
// its own selects.
type overlap struct {
	names []string // the first ones
	all   int
}

// crowd are the autoscalers of a namespace whose workloads have the same selector and make pods with the same labels.
type crowd struct {
	selector labels.Selector
	labels   labels.Set
	members  []int
	// each is how many of them each workload has.
	each map[*manifest.Template]int
	// shown are the first ones of different workloads.
	shown []int
}

// maxCompared bounds how often a selector is compared with labels in a namespace.
const maxCompared = 1_000_000

// overlaps has what overlaps with each autoscaler. A selector is compared only with the labels that have the rarest of the
// values that it asks for.
func (l *Linter) overlaps() []overlap {
	out, templates := make([]overlap, len(l.files)), make([]*manifest.Template, len(l.files))
	crowds, known := make(map[string][]*crowd), make(map[[3]string]*crowd)
	for i, a := range l.dump.Autoscalers {
		t := l.dump.Template(a)
		if t == nil || t.Selector == "" || l.dump.Shadow(a) {
			continue
		}
		key := [3]string{a.Namespace, t.Selector, labels.FormatLabels(t.Labels)}
		one := known[key]
		if one == nil {
			selector, err := labels.Parse(t.Selector)
			if err != nil {
				continue
			}
			one = &crowd{selector: selector, labels: t.Labels, each: make(map[*manifest.Template]int)}
			known[key], crowds[a.Namespace] = one, append(crowds[a.Namespace], one)
		}
		if templates[i] = t; one.each[t] == 0 && len(one.shown) <= mostSiblings {
			one.shown = append(one.shown, i)
		}
		one.members, one.each[t] = append(one.members, i), one.each[t]+1
	}
	for _, all := range crowds {
		near := compared(all)
		for n, one := range all {
			slices.Sort(near[n])
			near[n] = slices.Compact(near[n])
			for _, i := range one.members {
				for _, k := range near[n] {
					other := all[k]
					out[i].all += len(other.members) - other.each[templates[i]]
					for _, name := range other.shown {
						if templates[name] != templates[i] && len(out[i].names) < mostSiblings {
							out[i].names = append(out[i].names, l.dump.Autoscalers[name].Name)
						}
					}
				}
			}
		}
	}
	return out
}

// compared has for each crowd of a namespace those that overlap with it, also itself, some twice.
func compared(all []*crowd) [][]int {
	having := make(map[[2]string][]int)
	whole := make([]int, len(all))
	for n, one := range all {
		whole[n] = n
		for key, value := range one.labels {
			having[[2]string{key, value}] = append(having[[2]string{key, value}], n)
		}
	}
	near, rest := make([][]int, len(all)), maxCompared
	for n, one := range all {
		candidates := whole
		requirements, _ := one.selector.Requirements()
		for _, r := range requirements {
			if values := r.ValuesUnsorted(); r.Operator() == selection.Equals || r.Operator() == selection.In && len(values) == 1 {
				if some := having[[2]string{r.Key(), values[0]}]; len(some) < len(candidates) {
					candidates = some
				}
			}
		}
		for _, k := range candidates[:min(len(candidates), rest)] {
			if one.selector.Matches(all[k].labels) {
				near[n], near[k] = append(near[n], k), append(near[k], n)
			}
		}
		rest -= min(len(candidates), rest)
	}
	return near
}
