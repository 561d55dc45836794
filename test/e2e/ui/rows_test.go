//go:build linux

package ui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// short is a target's own name.
func short(name string) string { return name[strings.LastIndex(name, "/")+1:] }

// listRow is a row of the list as somebody reads it.
type listRow struct {
	Name, Bounds, Lack, Metric, MetricName, Why string
	Counts, States                              []string
}

// shownRows are those of the page, with all of their states: chips that have no room are counted in the last one, whose title has them.
const shownRows = `[...document.querySelectorAll(".row:not(.group)")].map(r => ({
	Name: r.querySelector(".c-name a").title, Bounds: r.querySelector(".c-replicas .where").innerText,
	Counts: r.querySelector(".count").textContent.match(/[\d\u2009]+|\?/g), Lack: (r.querySelector(".c-lack strong") ?? r.querySelector(".c-lack")).innerText.trim(),
	Metric: r.querySelector(".c-metric").childNodes[0].textContent, MetricName: r.querySelector(".c-metric .where")?.innerText ?? "", Why: r.querySelector(".c-why").innerText,
	States: [...r.querySelectorAll(".chip")].flatMap(c => /^\+\d+$/.test(c.innerText) ? c.title.split(", ") : [c.innerText.replace(/^\S\s*/, "")]).sort(),
}))`

var stateChips = map[string]string{
	"METRICS_FAILING": "Failing", "SCALE_UNREADABLE": "No scale", "UPDATE_FAILED": "Refused", "INVALID": "Invalid", "DISABLED": "Disabled",
	"AT_MAXIMUM": "At max", "AT_MINIMUM": "At min", "LIMITED": "Limited", "HELD": "Held", "OVERRIDDEN": "Overridden",
}

// of is what the row of a target of the API has to show.
func of(target *setpointv1.Target, now time.Time) listRow {
	last := target.GetLastDecision()
	want := listRow{Name: target.GetName(), Lack: "–", Metric: "no reading"}
	for _, word := range last.GetStates() {
		want.States = append(want.States, stateChips[word])
	}
	current, decided := target.GetStatus().GetCurrentReplicas(), last.GetDesiredReplicas()
	want.Counts = []string{fmt.Sprint(current)}
	if decided != current {
		want.Counts = append(want.Counts, fmt.Sprint(decided))
	}
	if slices.Contains(last.GetStates(), "SCALE_UNREADABLE") {
		want.Counts = []string{"?"}
	}
	// The bounds that were in force, or else those of the spec.
	basis, spec := last.GetBasis(), target.GetSpecInUse().GetSpec()
	least, most := int32(1), spec.GetMaxReplicas()
	if spec.GetMinReplicas() != 0 || spec.MinReplicas != nil {
		least = spec.GetMinReplicas()
	}
	if basis.GetMaxReplicas() > 0 {
		least, most = basis.GetMinReplicas(), basis.GetMaxReplicas()
	}
	want.Bounds = fmt.Sprintf("%d to %d", least, most)
	if basis != nil && basis.Proposal != nil && want.Counts[0] != "?" {
		want.Lack = fmt.Sprint(max(0, basis.GetProposal()-decided))
	}
	readings := 0
	for i, m := range target.GetStatus().GetCurrentMetrics() {
		name, read := readingOf(m)
		if read == "" {
			continue
		}
		if readings++; readings > 1 {
			continue
		}
		want.Metric, want.MetricName = read, name
		if i < len(spec.GetMetrics()) {
			want.Metric = strings.TrimSuffix(read, each) + " / " + aimOf(spec.GetMetrics()[i])
		}
	}
	if readings > 1 {
		want.MetricName += fmt.Sprintf(", +%d", readings-1)
	}
	if now.Before(target.GetFlappingUntilTime().AsTime()) {
		want.States = append(want.States, "Flapping")
	}
	if now.After(target.GetNotAskedTime().AsTime()) {
		want.States = append(want.States, "Not asked")
	}
	if last.GetOutcome() == "PENDING" {
		want.States = append(want.States, "Pending")
	}
	if len(want.States) == 0 {
		want.States = []string{"Steady"}
	}
	slices.Sort(want.States)
	return want
}

// differs says what a row has otherwise; the controller's sentence is not compared.
func (r listRow) differs(want listRow) string {
	r.Why, want.Why = "", ""
	if got, want := fmt.Sprintf("%q", r), fmt.Sprintf("%q", want); got != want {
		return fmt.Sprintf("the list shows\n%s, the service says\n%s", got, want)
	}
	return ""
}

// each is of an average.
const each = " per replica"

// readingOf is what a metric is called, and what was read; "": nothing.
func readingOf(m *setpointv1.MetricStatus) (name, read string) {
	value := func(v *setpointv1.MetricValueStatus) string {
		return inWords(v.AverageUtilization, v.AverageValue, v.Value)
	}
	switch {
	case m.GetResource() != nil:
		return m.GetResource().GetName(), value(m.GetResource().GetCurrent())
	case m.GetContainerResource() != nil:
		return m.GetContainerResource().GetName() + " of " + m.GetContainerResource().GetContainer(), value(m.GetContainerResource().GetCurrent())
	case m.GetPods() != nil:
		return m.GetPods().GetMetric().GetName(), value(m.GetPods().GetCurrent())
	case m.GetObject() != nil:
		return m.GetObject().GetMetric().GetName(), value(m.GetObject().GetCurrent())
	case m.GetExternal() != nil:
		return m.GetExternal().GetMetric().GetName(), value(m.GetExternal().GetCurrent())
	}
	return "", ""
}

// aimOf is what a metric should be.
func aimOf(m *setpointv1.MetricSpec) string {
	for _, aim := range []*setpointv1.MetricTarget{m.GetResource().GetTarget(), m.GetContainerResource().GetTarget(), m.GetPods().GetTarget(), m.GetObject().GetTarget(), m.GetExternal().GetTarget()} {
		if aim != nil {
			return inWords(aim.AverageUtilization, aim.AverageValue, aim.Value)
		}
	}
	return ""
}

// inWords is the first of the three that is there.
func inWords(percent *int32, average, total *string) string {
	switch {
	case percent != nil:
		return fmt.Sprintf("%d %%", *percent)
	case average != nil && *average != "":
		return digits(*average) + each
	case total != nil && *total != "":
		return digits(*total)
	}
	return ""
}

// digits are the three of a quantity that matter.
func digits(text string) string {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return text
	}
	n := quantity.AsApproximateFloat64()
	for _, unit := range []struct {
		factor float64
		suffix string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= unit.factor*0.9995 {
			return strconv.FormatFloat(n/unit.factor, 'g', 3, 64) + unit.suffix
		}
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}
