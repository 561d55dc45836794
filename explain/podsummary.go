package explain

import (
	"slices"
	"strconv"
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// remarkable returns the pods to list if there are too many: those that did not simply count,
// and if these are too many, some of each kind, in order.
func remarkable(pods []*setpointv1.PodExplanation) []*setpointv1.PodExplanation {
	kinds := make(map[string]int)
	// rank is each pod's position within its kind.
	rank := make(map[*setpointv1.PodExplanation]int)
	for _, pod := range pods {
		if pod.GetGroup() != podReady {
			rank[pod] = kinds[kindOf(pod)]
			kinds[kindOf(pod)]++
		}
	}
	each := 0
	for total := 0; each < len(pods); each++ {
		for _, n := range kinds {
			if n > each {
				total++
			}
		}
		if total > maxPods {
			break
		}
	}
	var out []*setpointv1.PodExplanation
	for _, pod := range pods {
		if n, ok := rank[pod]; ok && n < each {
			out = append(out, pod)
		}
	}
	return out
}

// kindOf is why a pod did not simply count.
func kindOf(pod *setpointv1.PodExplanation) string {
	return strings.ToLower(pod.GetGroup()) + ": " + podReason(pod.GetReason())
}

// unlistedSummary describes in a few lines the pods that are not in the table:
// "… and 980 ready pods between 40 % and 95 %, median 62 %".
func (m *metric) unlistedSummary(listed []*setpointv1.PodExplanation) []string {
	var lines []string
	if text := m.readySummary(); text != "" {
		lines = append(lines, text)
	}
	shown := make(map[*setpointv1.PodExplanation]bool, len(listed))
	for _, pod := range listed {
		shown[pod] = true
	}
	var kinds []string
	counts := make(map[string]int)
	for _, pod := range m.GetPods() {
		if pod.GetGroup() == podReady || shown[pod] {
			continue
		}
		kind := kindOf(pod)
		if counts[kind] == 0 {
			kinds = append(kinds, kind)
		}
		counts[kind]++
	}
	for _, kind := range kinds {
		lines = append(lines, "… and "+strconv.Itoa(counts[kind])+" more "+kind)
	}
	return lines
}

// readySummary is the range and the median of the counted pods.
func (m *metric) readySummary() string {
	var values []int64
	ready := 0
	ofRequest := false
	for _, pod := range m.GetPods() {
		if pod.GetGroup() != podReady {
			continue
		}
		ready++
		if n, ok := podPercentage(pod.Usage, pod); ok {
			values, ofRequest = append(values, n), true
		} else if n, ok := milli(pod.GetUsage()); ok && pod.Request == nil {
			values = append(values, n)
		}
	}
	if ready == 0 {
		return ""
	}
	text := "… and " + count(ready, m.ready()+" pod")
	if len(values) == 0 {
		return text
	}
	slices.Sort(values)
	show := func(n int64) string {
		if ofRequest {
			return strconv.FormatInt(n, 10) + nbsp + "%"
		}
		return m.unit.cell(n)
	}
	low, high := show(values[0]), show(values[len(values)-1])
	if low == high {
		return text + ", all at " + low
	}
	return text + " between " + low + " and " + high + ", median " + show(values[(len(values)-1)/2])
}
