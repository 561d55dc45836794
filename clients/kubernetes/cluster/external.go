package cluster

import (
	"context"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

// externalQuestion is the query for the series of an external metric.
func (r *Reader) externalQuestion(metric identifiedMetric, own OwnRead) question {
	return question{
		identity: "External\n" + metric.Name + "\n" + metric.meaning,
		ask: func(ctx context.Context, by *asker) answer {
			series, err := r.externalMetric(ctx, by, metric, own)
			if err != nil {
				return failed(kubernetes.MetricError{
					API: kubernetes.ExternalMetricsAPI, Metric: metric.Name,
					Source: autoscalingv2.ExternalMetricSourceType, Selector: metric.spelled,
				}, err)
			}
			out := make([]kubernetes.ExternalMetric, len(series))
			for i, one := range series {
				one.MetricName = metric.Name
				out[i] = kubernetes.ExternalMetric{ExternalMetricValue: one, Selector: metric.spelled}
			}
			return answer{external: out}
		},
	}
}

func (r *Reader) externalMetric(ctx context.Context, by *asker, metric identifiedMetric, own OwnRead) ([]externalv1beta1.ExternalMetricValue, error) {
	if own != nil {
		_, series, err := own(ctx, by.pods)
		return series, err
	}
	namespace := by.key.namespace
	key := namespace + "\n" + metric.Name + "\n" + metric.Selector.String()
	return r.external.get(ctx, ExternalMetricsList, key, r.timeout, func(ctx context.Context) ([]externalv1beta1.ExternalMetricValue, error) {
		return r.sources.Metrics.ExternalMetric(ctx, namespace, metric.Metric)
	})
}
