package explain

import (
	"slices"
	"strconv"
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// maxPods bounds the listed pods unless all are requested.
const maxPods = 20

// Groups of pods, in the trace's words.
const (
	podReady   = "Ready"
	podUnready = "Unready"
	podMissing = "Missing"
	podIgnored = "Ignored"
)

// writePods writes a table of the pods for each metric that they play a part in.
func (c *oneCase) writePods(p *page, all bool) {
	for _, m := range c.metrics {
		if m.GetPodCounts() == nil || !m.perPod() {
			continue
		}
		p.heading("Pods for "+m.label, podCounts(m))
		c.writePodTable(p, m, all)
	}
}

func podCounts(m *metric) string {
	c := m.GetPodCounts()
	var parts []string
	for _, g := range []struct {
		n    int32
		what string
	}{
		{c.GetReady(), m.ready()}, {c.GetUnready(), "unready"}, {c.GetMissing(), "missing"}, {c.GetIgnored(), "ignored"},
	} {
		if g.n > 0 {
			parts = append(parts, number(g.n)+" "+g.what)
		}
	}
	return strings.Join(parts, ", ")
}

func (c *oneCase) writePodTable(p *page, m *metric, all bool) {
	if len(m.GetPods()) == 0 {
		p.line(2, 0, plain, "The individual pods were left out of this answer to bound its size.")
		c.writeUnlisted(p, m)
		return
	}
	listed := m.GetPods()
	if !all && len(listed) > maxPods {
		listed = remarkable(listed)
	}
	if len(listed) > 0 {
		c.podTable(m, listed).write(p)
	}
	if len(listed) < len(m.GetPods()) {
		for _, text := range m.unlistedSummary(listed) {
			p.line(2, 2, plain, text)
		}
	}
	if n := m.GetLeftOutPods(); n > 0 {
		p.line(2, 2, plain, number(n)+" more pods were left out of this answer to bound its size.")
	}
	c.writeUnlisted(p, m)
	if slices.ContainsFunc(listed, m.uncounted) {
		p.line(2, 2, dim, "Usage in parentheses is not counted.")
	}
	if m.ignoredSamples() > 0 {
		p.line(2, 2, dim, c.profile()+" counts the usage of ignored pods in sums and averages, though not among the "+m.ready()+" pods.")
	}
	c.writeStarting(p, listed)
}

// podTable has the columns that the pods need.
func (c *oneCase) podTable(m *metric, pods []*setpointv1.PodExplanation) *table {
	t := &table{header: []string{"POD", "COUNTED AS", "USAGE"}, right: []bool{false, false, true}}
	has := func(test func(*setpointv1.PodExplanation) bool) bool { return slices.ContainsFunc(pods, test) }
	requests := has(func(pod *setpointv1.PodExplanation) bool { return pod.Request != nil })
	assumed := has(func(pod *setpointv1.PodExplanation) bool { return pod.AssumedUsage != nil })
	why := has(func(pod *setpointv1.PodExplanation) bool { return pod.GetGroup() != podReady })
	if requests {
		t.header, t.right = append(t.header, "REQUEST", unitHeader), append(t.right, true, true)
	}
	if assumed {
		t.header, t.right = append(t.header, "ASSUMED"), append(t.right, true)
	}
	if why {
		t.header, t.right = append(t.header, "WHY"), append(t.right, false)
	}
	for _, pod := range pods {
		cells := []string{clean(pod.GetName()), strings.ToLower(pod.GetGroup()), m.usageCell(pod)}
		if requests {
			cells = append(cells, m.amountCell(pod.Request), podPercent(pod.Usage, pod))
		}
		if assumed {
			cells = append(cells, m.assumedCell(pod))
		}
		if why {
			cells = append(cells, podReason(pod.GetReason()))
		}
		t.add(podStyle(pod), cells...)
	}
	return t
}

func podStyle(pod *setpointv1.PodExplanation) style {
	switch pod.GetGroup() {
	case podReady:
		return plain
	case podIgnored:
		return dim
	}
	return yellow
}

func (m *metric) amountCell(quantity *string) string {
	if quantity == nil {
		return none
	}
	amount, ok := milli(*quantity)
	if !ok {
		return clean(*quantity)
	}
	return m.unit.cell(amount)
}

// usageCell is the sample; in parentheses where it is not counted.
func (m *metric) usageCell(pod *setpointv1.PodExplanation) string {
	text := m.amountCell(pod.Usage)
	if m.uncounted(pod) {
		return "(" + text + ")"
	}
	return text
}

// uncounted reports whether a pod has a sample that does not count.
func (m *metric) uncounted(pod *setpointv1.PodExplanation) bool {
	counts := pod.GetGroup() == podReady || m.habits.ignoredCount && pod.GetGroup() == podIgnored
	return pod.Usage != nil && !counts
}

func (m *metric) assumedCell(pod *setpointv1.PodExplanation) string {
	text := m.amountCell(pod.AssumedUsage)
	if of := podPercent(pod.AssumedUsage, pod); of != none {
		return text + " = " + of
	}
	return text
}

// podPercent is an amount in percent of the pod's request, truncated as HPA does.
func podPercent(amount *string, pod *setpointv1.PodExplanation) string {
	n, ok := podPercentage(amount, pod)
	if !ok {
		return none
	}
	return strconv.FormatInt(n, 10) + nbsp + "%"
}

func podPercentage(amount *string, pod *setpointv1.PodExplanation) (n int64, ok bool) {
	if amount == nil || pod.Request == nil {
		return 0, false
	}
	usage, okUsage := milli(*amount)
	request, okRequest := milli(pod.GetRequest())
	if !okUsage || !okRequest || request == 0 {
		return 0, false
	}
	return usage * 100 / request, true
}

// podReason shortens the rules that are sentences; writeStarting explains them.
func podReason(reason string) string {
	switch reason {
	case reasonStartingUnready:
		return "starting, not ready"
	case reasonStartingSample:
		return "starting, sample too early"
	case reasonNeverReady:
		return "never ready since it started"
	}
	return clean(reason)
}

// Rules for starting pods, in the trace's words.
const (
	reasonStartingUnready = "not ready within the cpu initialization period"
	reasonStartingSample  = "sample taken before one window after it became ready, within the cpu initialization period"
	reasonNeverReady      = "unready since before the initial readiness delay was over"
)

// writeStarting explains the rules for starting pods that are in the table.
func (c *oneCase) writeStarting(p *page, pods []*setpointv1.PodExplanation) {
	has := func(reasons ...string) bool {
		return slices.ContainsFunc(pods, func(pod *setpointv1.PodExplanation) bool { return slices.Contains(reasons, pod.GetReason()) })
	}
	if has(reasonStartingUnready, reasonStartingSample) {
		period := "the cpu initialization period"
		if d := c.req.GetOptions().GetCpuInitializationPeriod(); d != nil {
			period += " (" + span(d.AsDuration()) + ")"
		}
		p.line(2, 2, dim, "starting: for "+period+" after its start a pod's cpu sample counts only while the pod is ready, and only if the sample's window began after the pod became ready.")
	}
	if has(reasonNeverReady) {
		delay := "the initial readiness delay"
		if d := c.req.GetOptions().GetInitialReadinessDelay(); d != nil {
			delay += " (" + span(d.AsDuration()) + ")"
		}
		p.line(2, 2, dim, "never ready: the pod has been unready since before "+delay+" was over.")
	}
}

// writeUnlisted describes samples of pods that the request does not list.
func (c *oneCase) writeUnlisted(p *page, m *metric) {
	n := m.GetUnlistedSamples()
	if n == 0 {
		return
	}
	text := count(n, "sample") + " of " + notListed(n) + ": "
	switch {
	case m.failed():
		text += "not used."
	case m.GetCalculation() == averageValue:
		text += "part of the average."
	case m.dampened() && m.ReplicasBase != nil:
		text += "left out of the percentage, as no request is known, but counted in the product."
	default:
		text += "left out, as no request is known."
	}
	p.line(2, 2, yellow, text)
}
