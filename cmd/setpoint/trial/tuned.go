//go:build !service

package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	autoscalingv1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/recommender"
)

// tunedObject is an autoscaler with what a search changes of a spec: targets, minReplicas and
// behavior. The object is left as it is.
func tunedObject(object *autoscalingv2.HorizontalPodAutoscaler, spec *recommender.Spec) *autoscalingv2.HorizontalPodAutoscaler {
	out := object.DeepCopy()
	least := spec.MinReplicas
	out.Spec.MinReplicas = &least
	if len(out.Spec.Metrics) == 0 {
		out.Spec.Metrics = kubernetes.DefaultMetrics() // whose target was searched
	}
	for i := range min(len(out.Spec.Metrics), len(spec.Metrics)) {
		if target := targetOf(&out.Spec.Metrics[i]); target != nil {
			from := &spec.Metrics[i].Target
			if target.AverageUtilization != nil && from.AverageUtilization != nil {
				v := *from.AverageUtilization
				target.AverageUtilization = &v
			}
			setQuantity(target.Value, from.Value)
			setQuantity(target.AverageValue, from.AverageValue)
		}
	}
	if behavior := hpa.Spec(spec).Behavior; behavior != nil {
		out.Spec.Behavior = behavior
	}
	return out
}

// annotationsOf are the annotations of a manifest with these stages, whatever form they came in. What kubectl has noted
// in a cluster's object is left out.
func annotationsOf(given map[string]string, stages *setpointv1.Stages) (map[string]string, error) {
	out := make(map[string]string)
	maps.Copy(out, given)
	delete(out, corev1.LastAppliedConfigAnnotation)
	if stages == nil {
		return out, nil
	}
	text, err := protojson.Marshal(stages) // without what is not set
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	err = json.Compact(&compact, text)
	out[autoscalingv1.StagesAnnotation] = compact.String()
	return out, err
}

// written is the one object of a file, or of a list in it, as it was written.
func written(data []byte) (object map[string]any) {
	parts, _ := document.Manifests(data) // it was read before
	for _, part := range parts {
		if text, err := document.Manifest(part); err == nil && string(text) != "null" {
			decoder := json.NewDecoder(bytes.NewReader(text))
			decoder.UseNumber()
			_ = decoder.Decode(&object)
		}
	}
	items, _ := object["items"].([]any)
	if len(items) != 1 {
		return object
	}
	item, _ := items[0].(map[string]any)
	if kind, _ := object["kind"].(string); item["kind"] == nil { // as in an AutoscalerList
		item["apiVersion"], item["kind"] = object["apiVersion"], strings.TrimSuffix(kind, "List")
	}
	return item
}

// withTuned is the spec of an Autoscaler with what a search changes: it has more than autoscaling/v2.
func withTuned(given any, tuned *autoscalingv2.HorizontalPodAutoscalerSpec) any {
	spec, _ := given.(map[string]any)
	spec["minReplicas"] = tuned.MinReplicas
	if tuned.Behavior != nil {
		spec["behavior"] = tuned.Behavior
	}
	metrics, _ := spec["metrics"].([]any)
	if len(metrics) == 0 {
		spec["metrics"] = tuned.Metrics
	}
	for i := range metrics {
		metric, _ := metrics[i].(map[string]any)
		for _, of := range metric {
			if source, is := of.(map[string]any); is && source["target"] != nil {
				source["target"] = targetOf(&tuned.Metrics[i])
			}
		}
	}
	return spec
}

func targetOf(m *autoscalingv2.MetricSpec) *autoscalingv2.MetricTarget {
	switch {
	case m.Resource != nil:
		return &m.Resource.Target
	case m.ContainerResource != nil:
		return &m.ContainerResource.Target
	case m.Pods != nil:
		return &m.Pods.Target
	case m.Object != nil:
		return &m.Object.Target
	case m.External != nil:
		return &m.External.Target
	}
	return nil
}

func setQuantity(q *resource.Quantity, milli *int64) {
	if q != nil && milli != nil && q.MilliValue() != *milli {
		*q = *resource.NewMilliQuantity(*milli, q.Format)
	}
}

// changesOf are the differences of two specs that tunedObject can make, in words.
func changesOf(from, to *recommender.Spec) []string {
	out := []string{}
	add := func(what string, a, b any) {
		if a, b := fmt.Sprint(a), fmt.Sprint(b); a != b {
			out = append(out, fmt.Sprintf("%s: %s → %s", what, a, b))
		}
	}
	add("minReplicas", from.MinReplicas, to.MinReplicas)
	for i := range min(len(from.Metrics), len(to.Metrics)) {
		name := from.Metrics[i].Resource + from.Metrics[i].Metric.Name
		add("target of "+name, targetWords(&from.Metrics[i].Target), targetWords(&to.Metrics[i].Target))
	}
	for _, d := range []struct {
		name string
		of   func(*recommender.Behavior) *recommender.ScalingRules
	}{
		{"scaleUp", func(b *recommender.Behavior) *recommender.ScalingRules { return &b.ScaleUp }},
		{"scaleDown", func(b *recommender.Behavior) *recommender.ScalingRules { return &b.ScaleDown }},
	} {
		a, b := d.of(behaviorOf(from)), d.of(behaviorOf(to))
		add(d.name+" window", windowWords(a), windowWords(b))
		add(d.name+" tolerance", toleranceWords(a), toleranceWords(b))
		add(d.name+" policies", policyWords(a), policyWords(b))
	}
	return out
}

// behaviorOf is a spec's behavior, the defaults where it has none.
func behaviorOf(s *recommender.Spec) *recommender.Behavior {
	if s.Behavior != nil {
		return s.Behavior
	}
	return &recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: recommender.DefaultScaleDown()}
}

func targetWords(t *recommender.MetricTarget) string {
	var parts []string
	if t.AverageUtilization != nil {
		parts = append(parts, fmt.Sprintf("%d %%", *t.AverageUtilization))
	}
	for _, q := range []*int64{t.AverageValue, t.Value} {
		if q != nil {
			parts = append(parts, resource.NewMilliQuantity(*q, resource.DecimalSI).String())
		}
	}
	return strings.Join(parts, ", ")
}

func windowWords(r *recommender.ScalingRules) string {
	if r.StabilizationWindowSeconds == nil {
		return "the controller's"
	}
	return fmt.Sprintf("%d s", *r.StabilizationWindowSeconds)
}

func toleranceWords(r *recommender.ScalingRules) string {
	if r.Tolerance == nil {
		return "the controller's"
	}
	return printable.Figures(*r.Tolerance*100, 4) + " %"
}

func policyWords(r *recommender.ScalingRules) string {
	if r.SelectPolicy == recommender.NoSelection {
		return "disabled"
	}
	var parts []string
	for _, p := range r.Policies {
		unit := " %"
		if p.Type == recommender.PodsPolicy {
			unit = " pods"
		}
		parts = append(parts, fmt.Sprintf("%d%s/%d s", p.Value, unit, p.PeriodSeconds))
	}
	words := strings.Join(parts, ", ")
	if r.SelectPolicy == recommender.MinChange {
		words += " (least)"
	}
	return words
}
