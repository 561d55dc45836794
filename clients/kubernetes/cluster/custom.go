package cluster

import (
	"context"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

// maxGroupPods bounds the pods of a namespace whose custom metric is read in one list, because
// adapters put the name of every pod into their query.
const maxGroupPods = 250

// podsQuestion is the query for a metric of the autoscaler's pods.
func (r *Reader) podsQuestion(metric identifiedMetric, own OwnRead) question {
	return question{
		identity: "Pods\n" + metric.Name + "\n" + metric.meaning,
		ask: func(ctx context.Context, by *asker) answer {
			values, err := own.values(ctx, by, func() ([]customv1beta2.MetricValue, error) { return r.podsMetric(ctx, by, metric) })
			if err != nil {
				return failed(kubernetes.MetricError{
					API: kubernetes.CustomMetricsAPI, Metric: metric.Name,
					Source: autoscalingv2.PodsMetricSourceType, Selector: metric.spelled,
				}, err)
			}
			out := make([]customv1beta2.MetricValue, len(values))
			for i, value := range values {
				value.DescribedObject = corev1.ObjectReference{
					APIVersion: "v1", Kind: "Pod", Namespace: by.key.namespace, Name: value.DescribedObject.Name,
				}
				value.Metric = metric.identifier()
				out[i] = value
			}
			return answer{custom: out}
		},
	}
}

// values are those of the metric's own read, else what ask returns.
func (own OwnRead) values(ctx context.Context, by *asker, ask func() ([]customv1beta2.MetricValue, error)) ([]customv1beta2.MetricValue, error) {
	if own == nil {
		return ask()
	}
	values, _, err := own(ctx, by.pods)
	return values, err
}

// identifier is the identifier in the request's values: that of the spec, whatever the adapter
// returned.
func (m identifiedMetric) identifier() customv1beta2.MetricIdentifier {
	out := customv1beta2.MetricIdentifier{Name: m.Name}
	if m.meaning != "" {
		out.Selector = m.spelled
	}
	return out
}

// podsMetric lists a metric of the asker's pods, from a list of the whole namespace if that
// needs fewer requests.
func (r *Reader) podsMetric(ctx context.Context, by *asker, metric identifiedMetric) ([]customv1beta2.MetricValue, error) {
	namespace := by.key.namespace
	key := namespace + "\n" + metric.Name + "\n" + metric.Selector.String() + "\n"
	group := string(kubernetes.CustomMetricsAPI) + "\n" + key
	if r.listsTogether(group, by, maxGroupPods) {
		all, err := r.listCustom(ctx, key, namespace, labels.Everything(), metric)
		if err == nil {
			if values, ok := r.ofPods(ctx, by, all); ok {
				return values, nil
			}
		} else {
			// Adapters fail for more reasons than the API server.
			r.groups.listFailed(group)
		}
	}
	return r.listCustom(ctx, key, namespace, by.selector, metric)
}

func (r *Reader) listCustom(ctx context.Context, key, namespace string, pods labels.Selector, metric identifiedMetric) ([]customv1beta2.MetricValue, error) {
	return r.custom.get(ctx, CustomMetricsGet, key+pods.String(), r.timeout, func(ctx context.Context) ([]customv1beta2.MetricValue, error) {
		return r.sources.Metrics.PodsMetric(ctx, namespace, pods, metric.Metric)
	})
}

// ofPods filters the values of a whole namespace, which come without labels, by the asker's
// pods. It is not ok if one belongs to an unknown pod: only the API knows its labels.
func (r *Reader) ofPods(ctx context.Context, by *asker, all []customv1beta2.MetricValue) (values []customv1beta2.MetricValue, ok bool) {
	pods, err := r.sources.Pods.Pods(ctx, by.key.namespace, labels.Everything())
	if err != nil {
		return nil, false
	}
	selected := make(map[string]bool, len(pods))
	for _, pod := range pods {
		selected[pod.Name] = by.selector.Matches(labels.Set(pod.Labels))
	}
	for _, value := range all {
		mine, known := selected[value.DescribedObject.Name]
		if !known {
			return nil, false
		}
		if mine {
			values = append(values, value)
		}
	}
	return values, true
}

// objectQuestion is the query for a metric of one object.
func (r *Reader) objectQuestion(metric identifiedMetric, described autoscalingv2.CrossVersionObjectReference, own OwnRead) question {
	kind := objectOf(described, "").Kind
	return question{
		identity: "Object\n" + kind.String() + "\n" + described.Name + "\n" + metric.Name + "\n" + metric.meaning,
		ask: func(ctx context.Context, by *asker) answer {
			object := objectOf(described, by.key.namespace)
			values, err := own.values(ctx, by, func() ([]customv1beta2.MetricValue, error) {
				return r.objectMetric(ctx, by.key.namespace, object, metric)
			})
			if err != nil {
				return failed(kubernetes.MetricError{
					API: kubernetes.CustomMetricsAPI, Metric: metric.Name,
					Source: autoscalingv2.ObjectMetricSourceType, Selector: metric.spelled, Object: &described,
				}, err)
			}
			out := make([]customv1beta2.MetricValue, len(values))
			for i, value := range values {
				value.DescribedObject = corev1.ObjectReference{
					APIVersion: described.APIVersion, Kind: described.Kind, Namespace: by.key.namespace, Name: object.Name,
				}
				value.Metric = metric.identifier()
				out[i] = value
			}
			return answer{custom: out}
		},
	}
}

func (r *Reader) objectMetric(ctx context.Context, namespace string, object Object, metric identifiedMetric) ([]customv1beta2.MetricValue, error) {
	key := namespace + "\n" + object.Kind.String() + "\n" + object.Name + "\n" + metric.Name + "\n" + metric.Selector.String()
	return r.custom.get(ctx, CustomMetricsGet, key, r.timeout, func(ctx context.Context) ([]customv1beta2.MetricValue, error) {
		return r.sources.Metrics.ObjectMetric(ctx, namespace, object, metric.Metric)
	})
}

// valueIdentity identifies the metrics of a spec that a value belongs to.
type valueIdentity struct {
	kind                   schema.GroupKind
	name, metric, selector string
}

// appendNew adds values, each once: a Pods metric and an Object metric of one pod may request
// the same value, which would count twice.
func appendNew(values, more []customv1beta2.MetricValue) []customv1beta2.MetricValue {
	if len(values) == 0 {
		return more
	}
	before := map[valueIdentity]bool{}
	for i := range values {
		before[identityOf(&values[i])] = true
	}
	for i := range more {
		if !before[identityOf(&more[i])] {
			values = append(values, more[i])
		}
	}
	return values
}

func identityOf(value *customv1beta2.MetricValue) valueIdentity {
	ref := &value.DescribedObject
	identity := valueIdentity{
		kind:   schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(),
		name:   ref.Name,
		metric: value.Metric.Name,
	}
	if value.Metric.Selector != nil {
		identity.selector = value.Metric.Selector.String()
	}
	return identity
}
