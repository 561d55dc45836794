package explain

import (
	"math"
	"strconv"
	"strings"
)

// ready describes a pod whose sample counts: only for cpu its readiness matters.
func (m *metric) ready() string {
	if m.unit == inCores && !m.habits.perPodPercentages {
		return "ready"
	}
	return "sampled"
}

// readyPods is "3 ready pods".
func (m *metric) readyPods() string { return count(m.GetPodCounts().GetReady(), m.ready()+" pod") }

// usageText shows a sum and its terms.
func (c *oneCase) usageText(m *metric) string {
	switch m.GetCalculation() {
	case utilization:
		return m.utilizationText()
	case averageValue:
		return m.averageText()
	case totalValue:
		return m.totalText()
	}
	text := m.totalText()
	if observed, ok := c.observed(); ok && observed > 0 && !m.capped() {
		reported, _ := milli(m.GetCurrent().GetAverageValue())
		text += " over " + count(observed, "observed replica") + ": " + m.unit.text(reported) + " per replica"
	}
	return text
}

// utilizationText is "1.35 cores of 1.5 cores requested by 3 ready pods = 90 %".
func (m *metric) utilizationText() string {
	text := m.unit.text(m.usage) + " of " + m.unit.text(m.requests) + " requested by " + m.readyPods()
	if n := m.ignoredSamples(); n > 0 {
		text += " and " + count(n, "ignored pod")
	}
	if m.habits.perPodPercentages {
		return text + "; the pods' own percentages average " + m.exactPercent()
	}
	return text + " = " + percentOf(m.usage, m.requests, m.GetCurrent().GetAverageUtilization())
}

// exactPercent is the average of the pods' own percentages, which is not truncated.
func (m *metric) exactPercent() string {
	exact := m.GetUsageRatio() * float64(m.target)
	text := trimZeros(strconv.FormatFloat(exact, 'f', someDigits, 64))
	return text + nbsp + "%"
}

// countsMissingOnTarget reports whether missing pods count as using nothing even if the others
// are exactly on target.
func (m *metric) countsMissingOnTarget() bool {
	return m.habits.missingAtRequest && m.GetCalculation() == averageValue
}

// ignoredSamples is how many ignored pods have a sample that counts all the same.
func (m *metric) ignoredSamples() int32 {
	n := int32(0)
	if !m.habits.ignoredCount {
		return 0
	}
	for _, pod := range m.GetPods() {
		if pod.GetGroup() == podIgnored && pod.Usage != nil {
			n++
		}
	}
	return n
}

// percentOf prints a percentage and, if it was truncated, its quotient, unless that does not
// match.
func percentOf(usage, requests int64, truncated int32) string {
	text := percent(truncated)
	if requests == 0 || int32(usage*100/requests) != truncated {
		return text
	}
	exact := float64(usage) * 100 / float64(requests)
	if exact == math.Trunc(exact) || int64(math.Trunc(exact)) != int64(truncated) {
		return text
	}
	for n := 1; n <= someDigits; n++ {
		// Cut, not rounded, or 54.99 would read as 55.
		scale := math.Pow10(n)
		cut := math.Trunc(exact*scale) / scale
		if cut != math.Trunc(cut) {
			return text + " (" + strconv.FormatFloat(cut, 'f', n, 64) + " truncated)"
		}
	}
	return text + " (truncated)"
}

// averageText is "45 in 3 samples = 15 on average".
func (m *metric) averageText() string {
	samples := int64(m.GetPodCounts().GetReady()) + int64(m.ignoredSamples()) + int64(m.GetUnlistedSamples())
	average, _ := milli(m.GetCurrent().GetAverageValue())
	text := m.unit.text(m.usage) + " in " + count(int32(samples), "sample")
	if m.GetUnlistedSamples() > 0 {
		text += " (" + number(m.GetUnlistedSamples()) + " of " + notListed(m.GetUnlistedSamples()) + ")"
	}
	text += equals(m.unit.text(average)) + " on average"
	if m.unit != inBytes && samples > 0 && m.usage/samples == average && m.usage%samples != 0 {
		text += " (truncated)"
	}
	return text
}

// notListed names the pods of that many unlisted samples.
func notListed(n int32) string {
	if n == 1 {
		return "a pod that is not listed"
	}
	return "pods that are not listed"
}

// totalText is "4200 in 3 series".
func (m *metric) totalText() string {
	text := m.unit.text(m.usage)
	if m.GetType() == "External" && m.GetSeries() > 0 {
		text += " in " + count(m.GetSeries(), "series")
	}
	if m.capped() {
		text += ", the largest possible number: the sum is too large for the arithmetic"
		if m.GetCalculation() == averageValuePerReplica {
			text += ", or negative, which HPA treats alike"
		}
	}
	return text
}

// capped reports whether the sum is at the largest possible value.
func (m *metric) capped() bool { return m.GetType() == "External" && m.usage == math.MaxInt64 }

// ratioTerms is "90 % / 60 %".
func (c *oneCase) ratioTerms(m *metric) string {
	switch m.GetCalculation() {
	case utilization:
		used := percent(m.GetCurrent().GetAverageUtilization())
		if m.habits.perPodPercentages {
			used = m.exactPercent()
		}
		return used + " / " + percent(int32(m.target))
	case averageValue:
		average, _ := milli(m.GetCurrent().GetAverageValue())
		return m.unit.text(average) + " / " + m.unit.text(m.target)
	case totalValue:
		return m.unit.text(m.usage) + " / " + m.unit.text(m.target)
	}
	if !m.hasUsage {
		return m.averageReading() + " / " + m.unit.text(m.target)
	}
	replicas := "observed replicas"
	if observed, ok := c.observed(); ok {
		replicas = count(observed, "observed replica")
	}
	return m.unit.text(m.usage) + " / (" + m.unit.text(m.target) + " × " + replicas + ")"
}

// assumed describes the pods that the second pass filled in, and with what: "1 missing pod
// counted at 100 % of its request". Empty without such pods.
func (m *metric) assumed() string {
	c := m.GetPodCounts()
	who, n := "", c.GetMissing()
	if n > 0 {
		who = count(n, "missing pod")
	}
	ratio := m.GetUsageRatio()
	if ratio > 1 && c.GetUnready() > 0 {
		n += c.GetUnready()
		if who != "" {
			who = number(c.GetMissing()) + " missing and "
		}
		who += count(c.GetUnready(), "unready pod")
	}
	if n == 0 || !m.dampened() || ratio == 1 && !m.countsMissingOnTarget() {
		return ""
	}
	return who + " counted at " + m.fill(n)
}

// fill is the value that n pods were filled in with.
func (m *metric) fill(n int32) string {
	their := "its"
	if n > 1 {
		their = "their"
	}
	switch {
	case m.GetUsageRatio() >= 1:
		return "0"
	case m.GetCalculation() == averageValue:
		return "the target"
	case m.target > 100 && !m.habits.missingAtRequest:
		return percent(int32(m.target)) + " of " + their + " request, like the target"
	}
	return percent(100) + " of " + their + " request"
}

// secondPass is "320m of 500m requested = 64 %", empty where the pods are not
// there or the sums don't come to the ratio.
func (m *metric) secondPass() string {
	usage, requests, samples := m.usage, m.requests, int64(m.GetPodCounts().GetReady())+int64(m.ignoredSamples())+int64(m.GetUnlistedSamples())
	for _, p := range m.GetPods() {
		assumed, ok := milli(p.GetAssumedUsage())
		if !ok {
			continue
		}
		request, _ := milli(p.GetRequest())
		usage, requests, samples = usage+assumed, requests+request, samples+1
	}
	ratio := m.GetDampenedUsageRatio()
	if len(m.GetPods()) == 0 || m.target == 0 {
		return ""
	}
	if m.GetCalculation() == averageValue {
		if samples == 0 || float64(usage/samples)/float64(m.target) != ratio {
			return ""
		}
		return m.unit.text(usage) + " in " + count(int32(samples), "sample") + equals(m.unit.text(usage/samples))
	}
	if requests == 0 || float64(int32(usage*100/requests))/float64(m.target) != ratio {
		return ""
	}
	return m.unit.text(usage) + " of " + m.unit.text(requests) + " requested = " + percentOf(usage, requests, int32(usage*100/requests))
}

// basePods describes the pods that the ratio was multiplied with: "5 pods (3 ready, 1 missing,
// 1 unready)".
func (m *metric) basePods() string {
	base := m.GetReplicasBase()
	switch {
	case m.PodCounts == nil && base > 0: // of a live target
		return count(base, "replica")
	case m.GetCalculation() == totalValue:
		return count(base, "ready pod")
	case !m.dampened():
		return m.readyPods()
	}
	c := m.GetPodCounts()
	parts := []string{number(c.GetReady()) + " " + m.ready()}
	add := func(n int32, what string) {
		if n > 0 {
			parts = append(parts, number(n)+" "+what)
		}
	}
	if m.GetUsageRatio() != 1 || m.countsMissingOnTarget() {
		add(c.GetMissing(), "missing")
	}
	if m.GetUsageRatio() > 1 {
		add(c.GetUnready(), "unready")
	}
	add(m.ignoredSamples(), "ignored")
	add(m.GetUnlistedSamples(), "not listed")
	return count(base, "pod") + " (" + strings.Join(parts, ", ") + ")"
}

// product is "3 ready pods × 1.50 = 4.5 → 5", the count that follows the ratio.
func (m *metric) product() string {
	switch {
	case m.ReplicasBase != nil:
		exact := m.decisive() * float64(m.GetReplicasBase())
		return m.basePods() + " × " + m.tolerance.ratioText(m.decisive()) + equals(m.roundedUp(exact))
	case m.GetCalculation() == averageValuePerReplica:
		exact := float64(m.usage) / float64(m.target)
		return m.unit.text(m.usage) + " / " + m.unit.text(m.target) + equals(m.roundedUp(exact))
	}
	return "at 0 replicas the ratio itself is the count, " + m.roundedUp(m.GetUsageRatio())
}

// roundedUp is "4.5 → 5", or the number alone where it is a count.
func (m *metric) roundedUp(exact float64) string {
	rounded := math.Ceil(exact)
	if math.IsNaN(exact) {
		return "no number, which counts as " + number(m.GetProposal())
	}
	if m.GetRule() == saturated {
		return magnitude(exact) + ", larger than a count can be: " + number(m.GetProposal())
	}
	if exact == rounded {
		return strconv.FormatFloat(rounded+0, 'f', 0, 64) // never -0
	}
	text := productText(exact) + " → " + strconv.FormatFloat(rounded+0, 'f', 0, 64)
	if exact-math.Floor(exact) < 1e-6 {
		text += " (HPA's floating-point arithmetic, rounded up)"
	}
	return text
}
