package generate

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// usageQuantity formats a usage, as metrics servers and others do.
func (g *generator) usageQuantity(name corev1.ResourceName, milli int64) resource.Quantity {
	if name == corev1.ResourceMemory && (milli%milliPerKi == 0 || g.chance(0.3)) {
		return *resource.NewQuantity(milli/milliPerKi*1024, resource.BinarySI)
	}
	if name == corev1.ResourceCPU && g.chance(0.3) && milli < 1e9 {
		return parse(belowMilli(milli, 1e6, "n", g.random))
	}
	if g.chance(0.6) {
		return *resource.NewMilliQuantity(milli, resource.DecimalSI)
	}
	return g.quantity(milli)
}

// reading formats the value of a custom or external metric.
func (g *generator) reading(milli int64) resource.Quantity {
	if g.extreme && g.chance(0.2) {
		if g.chance(0.5) {
			return parse(oneOf(g.random, beyond...))
		}
		return *resource.NewMilliQuantity(g.Int64()>>g.IntN(30), resource.DecimalSI)
	}
	switch {
	case g.chance(0.005):
		return parse(oneOf(g.random, readsAsZero...))
	case g.chance(0.02):
		if g.chance(0.5) {
			return parse(oneOf(g.random, spellings...))
		}
		// The controller expects no negative values and computes with them.
		return g.quantity(-milli)
	}
	return g.quantity(milli)
}

// spellings of quantities that few write.
var spellings = []string{
	"1e3", "1E3", "0.1m", "1.5Ki", "-0.1u", "999999999999999999n", "00012.500", "+3", ".5", "5.", "1e-9", "1e-12", "0Ki", "-0",
}

// readCustom adds the values of Pods and Object metrics.
func (g *generator) readCustom(step *recording.Step, levels []level) {
	known := map[string]bool{}
	for i := range g.spec.Metrics {
		m := &g.spec.Metrics[i]
		switch {
		case m.Pods != nil && readable(m.Pods.Metric.Selector):
			g.readPods(step, m.Pods, levels[i], known)
		case m.Object != nil && readable(m.Object.Metric.Selector):
			g.readObject(step, m.Object, levels[i], known)
		}
	}
	if len(step.CustomMetrics) > 1 && g.chance(0.1) {
		g.Shuffle(len(step.CustomMetrics), func(i, j int) {
			step.CustomMetrics[i], step.CustomMetrics[j] = step.CustomMetrics[j], step.CustomMetrics[i]
		})
	}
}

// readable reports whether the selector is valid for an API.
func readable(s *metav1.LabelSelector) bool {
	_, err := metav1.LabelSelectorAsSelector(s)
	return err == nil
}

// readPods adds a value for each pod, except some.
func (g *generator) readPods(step *recording.Step, m *autoscalingv2.PodsMetricSource, l level, known map[string]bool) {
	target := targetMilli(&m.Target)
	for _, p := range g.cluster.pods {
		pending := g.clock.now.Before(p.start)
		if p.quirk.unread || pending && g.chance(0.8) {
			continue
		}
		share := l
		if !l.exact {
			share.ratio *= p.share
		}
		of := podReference(p.name)
		if g.chance(0.05) {
			of.APIVersion = "" // the same group
		}
		g.addCustom(step, of, &m.Metric, g.reading(share.of(target)), known)
	}
	if g.chance(0.05) { // a ghost
		g.addCustom(step, podReference("web-900"), &m.Metric, g.reading(l.of(target)/2), known)
	}
	if n := len(step.CustomMetrics); n > 0 && g.chance(0.02) { // twice, the later one counts
		again := *step.CustomMetrics[n-1].DeepCopy()
		if again.DescribedObject.Kind == "Pod" {
			again.Value = g.reading(target)
			if !g.describesPods() {
				step.CustomMetrics = append(step.CustomMetrics, again)
			}
		}
	}
}

// describesPods reports whether there is an Object metric of a pod: of an object the
// API has one value.
func (g *generator) describesPods() bool {
	for i := range g.spec.Metrics {
		if o := g.spec.Metrics[i].Object; o != nil && o.DescribedObject.Kind == "Pod" {
			return true
		}
	}
	return false
}

func podReference(name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: name}
}

// readObject adds the value of an object, rarely none.
func (g *generator) readObject(step *recording.Step, m *autoscalingv2.ObjectMetricSource, l level, known map[string]bool) {
	if g.chance(0.02) {
		return
	}
	of := m.DescribedObject
	ref := corev1.ObjectReference{APIVersion: of.APIVersion, Kind: of.Kind, Name: of.Name}
	if of.Kind == "Namespace" && !strings.Contains(of.APIVersion, "/") {
		ref.Name = g.scenario.HPA.Namespace
	}
	if g.chance(0.2) && of.Kind != "Namespace" {
		ref.Namespace = g.scenario.HPA.Namespace
	}
	if group, _, ok := strings.Cut(of.APIVersion, "/"); ok && g.chance(0.2) {
		ref.APIVersion = group + "/v9" // the group counts
	}
	value := g.reading(l.of(targetMilli(&m.Target)))
	if m.Target.AverageValue == nil && g.saturates(m.Metric.Name, &m.Target) {
		value = g.beyondCounts(&m.Target)
	}
	g.addCustom(step, ref, &m.Metric, value, known)
}

// addCustom adds a value, unless it exists: the API has one per object, metric and
// selector.
func (g *generator) addCustom(step *recording.Step, of corev1.ObjectReference, m *autoscalingv2.MetricIdentifier, value resource.Quantity, known map[string]bool) {
	group := of.APIVersion
	if group == "" {
		group = "v1"
	}
	key := fmt.Sprintf("%s %s %s %s %s", group, of.Kind, of.Name, m.Name, metav1.FormatLabelSelector(normal(m.Selector)))
	if known[key] {
		return
	}
	known[key] = true
	v := customv1beta2.MetricValue{
		DescribedObject: of,
		Metric:          customv1beta2.MetricIdentifier{Name: m.Name, Selector: g.spelling(m.Selector)},
		Timestamp:       g.readAt(),
		Value:           value,
	}
	if g.chance(0.2) {
		window := oneOf(g.random, int64(g.between(0, 60)), 600, 1e9, -5)
		v.WindowSeconds = &window
	}
	step.CustomMetrics = append(step.CustomMetrics, v)
	if of.Kind != "Pod" && g.chance(0.005) { // an adapter that answers with two
		step.CustomMetrics = append(step.CustomMetrics, *v.DeepCopy())
	}
}

// normal replaces an absent selector by an empty one, which means the same.
func normal(s *metav1.LabelSelector) *metav1.LabelSelector {
	if s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil
	}
	return s
}

func (g *generator) readAt() metav1.Time {
	if g.chance(0.05) {
		return metav1.Time{}
	}
	if g.chance(0.02) {
		return metav1.Time{Time: g.clock.now.Add(oneOf(g.random, -9000*time.Hour, 9000*time.Hour)).Truncate(time.Second)}
	}
	return metav1.Time{Time: g.clock.now.Add(-g.seconds(0, 30)).Truncate(time.Second)}
}

// saturates reports whether to use a total that no proposal can represent. Where the
// controller compares it with the target itself, it stays at the largest count;
// elsewhere, and for other metrics that read the same, it differs between processors.
func (g *generator) saturates(name string, target *autoscalingv2.MetricTarget) bool {
	return g.version.capsTotals && g.cluster.replicas > 0 && targetMilli(target) < 1e6 && g.spec.alone(name) && g.chance(0.01)
}

// beyondCounts is a total that proposes more replicas than a count can represent.
func (g *generator) beyondCounts(target *autoscalingv2.MetricTarget) resource.Quantity {
	return g.quantity(3 * (math.MaxInt32 / 2) * targetMilli(target))
}

// alone reports whether only one metric reads that name.
func (s *spec) alone(name string) bool {
	n := 0
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if m.Pods != nil && m.Pods.Metric.Name == name || m.Object != nil && m.Object.Metric.Name == name ||
			m.External != nil && m.External.Metric.Name == name {
			n++
		}
	}
	return n == 1
}

// readExternal adds the series of External metrics.
func (g *generator) readExternal(step *recording.Step, levels []level) {
	known := map[string]bool{}
	for i := range g.spec.Metrics {
		m := g.spec.Metrics[i].External
		if m == nil || known[m.Metric.Name] || g.chance(0.02) {
			continue
		}
		// Metrics with the same name read the same series.
		known[m.Metric.Name] = true
		if g.saturates(m.Metric.Name, &m.Target) {
			g.addBeyond(step, m)
			continue
		}
		total := levels[i].of(targetMilli(&m.Target))
		if g.extreme && g.chance(0.1) {
			total = math.MaxInt64 / 2
		}
		g.addSeries(step, &m.Metric, total)
	}
}

// addSeries adds series with that sum, sometimes with negative ones, and others that
// the selector does not match.
func (g *generator) addSeries(step *recording.Step, m *autoscalingv2.MetricIdentifier, total int64) {
	s := selectorOf(m.Selector)
	parts := []int64{total}
	for range pick(g.random, []weighted[int]{{5, 0}, {2, 1}, {1, 3}, {0.2, 30}}) {
		part := int64(float64(total) * g.real(-0.2, 1.2))
		parts[0] -= part
		parts = append(parts, part)
	}
	for i, part := range parts {
		labels := map[string]string{"series": strconv.Itoa(i)}
		maps.Copy(labels, s.inside)
		g.addOne(step, m.Name, labels, g.reading(part))
	}
	if g.chance(0.02) { // a temporarily large sum
		const large = 999_999_999_999_999_999 // a negative number with more digits is read as another one
		g.addOne(step, m.Name, s.inside, g.quantity(large))
		g.addOne(step, m.Name, s.inside, g.quantity(-large))
	}
	if s.outside != nil && g.chance(0.3) {
		g.addOne(step, m.Name, s.outside, g.quantity(1234567))
	}
}

// addBeyond adds series whose sum no count, or no sum, can represent.
func (g *generator) addBeyond(step *recording.Step, m *autoscalingv2.ExternalMetricSource) {
	labels := selectorOf(m.Metric.Selector).inside
	if g.chance(0.5) {
		g.addOne(step, m.Metric.Name, labels, g.beyondCounts(&m.Target))
		return
	}
	for range 3 {
		g.addOne(step, m.Metric.Name, labels, g.quantity(math.MaxInt64/2))
	}
}

func (g *generator) addOne(step *recording.Step, name string, labels map[string]string, value resource.Quantity) {
	step.ExternalMetrics = append(step.ExternalMetrics, externalv1beta1.ExternalMetricValue{
		MetricName: name, MetricLabels: maps.Clone(labels), Timestamp: g.readAt(), Value: value,
	})
}
