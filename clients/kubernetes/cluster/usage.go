package cluster

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/internal/labelselector"
)

// usage is a list of metrics.k8s.io.
type usage struct {
	items []metricsv1beta1.PodMetrics
	// byLabel indexes items by label; nil for a list that the API selected.
	byLabel map[labelselector.Pair][]int
	// unlabeled are the pods whose items have no labels.
	unlabeled map[string]bool
}

// usageQuestion is the query for resource usage: one list serves all resources.
func (r *Reader) usageQuestion() question {
	return question{identity: string(kubernetes.ResourceMetricsAPI), ask: func(ctx context.Context, by *asker) answer {
		items, err := r.podMetrics(ctx, by)
		if err != nil {
			return failed(kubernetes.MetricError{API: kubernetes.ResourceMetricsAPI}, err)
		}
		return answer{podMetrics: items}
	}}
}

// failed is the answer of a failed query.
func failed(where kubernetes.MetricError, err error) answer {
	where.Message = messageOf(err)
	return answer{failure: &where}
}

// podMetrics lists the usage of the asker's pods, from a list of the whole namespace if that
// needs fewer requests.
func (r *Reader) podMetrics(ctx context.Context, by *asker) ([]metricsv1beta1.PodMetrics, error) {
	group := string(kubernetes.ResourceMetricsAPI) + "\n" + by.key.namespace
	if r.listsTogether(group, by, 0) {
		all, err := r.listUsage(ctx, by.key.namespace, labels.Everything())
		if err == nil {
			if items, ok := all.selected(by); ok {
				return items, nil
			}
		} else if !narrowerMaySucceed(err) {
			return nil, err
		}
		r.groups.listFailed(group)
	}
	list, err := r.listUsage(ctx, by.key.namespace, by.selector)
	if err != nil {
		return nil, err
	}
	return list.items, nil
}

// listsTogether reports whether to serve the asker from a list of all pods of the namespace; most
// bounds their number, 0: no bound.
func (r *Reader) listsTogether(group string, by *asker, most int) bool {
	counter, ok := r.sources.Pods.(PodCounter)
	if !ok {
		return false
	}
	return r.groups.listsTogether(group, by.key, len(by.pods), most, func() int { return counter.CountPods(by.key.namespace) })
}

// narrowerMaySucceed reports whether a failure may be due to the size of the list, and not to
// the API or the permission to use it.
func narrowerMaySucceed(err error) bool {
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err) ||
		apierrors.IsRequestEntityTooLargeError(err) || errors.Is(err, context.DeadlineExceeded)
}

// listUsage lists the usage of the pods that selector matches.
func (r *Reader) listUsage(ctx context.Context, namespace string, selector labels.Selector) (*usage, error) {
	key := namespace + "\n" + selector.String()
	return r.usage.get(ctx, PodMetricsList, key, r.timeout, func(ctx context.Context) (*usage, error) {
		items, err := r.sources.Metrics.PodMetrics(ctx, namespace, selector)
		if err != nil {
			return nil, err
		}
		list := &usage{items: items}
		if selector.Empty() {
			list.index()
		}
		return list, nil
	})
}

// index prepares a list of a whole namespace for selection.
func (u *usage) index() {
	u.byLabel, u.unlabeled = map[labelselector.Pair][]int{}, map[string]bool{}
	for i := range u.items {
		item := &u.items[i]
		if len(item.Labels) == 0 {
			u.unlabeled[item.Name] = true
		}
		for key, value := range item.Labels {
			label := labelselector.Pair{Key: key, Value: value}
			u.byLabel[label] = append(u.byLabel[label], i)
		}
	}
}

// selected returns the items that the asker's selector matches. It is not ok if the items lack
// the labels of their pods, which some metrics servers omit.
func (u *usage) selected(by *asker) (items []metricsv1beta1.PodMetrics, ok bool) {
	if len(u.unlabeled) > 0 && (len(u.unlabeled) == len(u.items) || u.lacksLabels(by.pods)) {
		return nil, false
	}
	for _, i := range u.candidates(by.selector) {
		if by.selector.Matches(labels.Set(u.items[i].Labels)) {
			items = append(items, u.items[i])
		}
	}
	return items, true
}

// lacksLabels reports whether one of pods has labels that its item does not have.
func (u *usage) lacksLabels(pods []*corev1.Pod) bool {
	for _, pod := range pods {
		if u.unlabeled[pod.Name] && len(pod.Labels) > 0 {
			return true
		}
	}
	return false
}

// candidates returns the indexes of a superset of the items that selector matches, in their
// order.
func (u *usage) candidates(selector labels.Selector) []int {
	pairs := labelselector.Required(selector)
	if len(pairs) == 0 {
		all := make([]int, len(u.items))
		for i := range all {
			all[i] = i
		}
		return all
	}
	fewest := u.byLabel[pairs[0]]
	for _, label := range pairs[1:] {
		if len(u.byLabel[label]) < len(fewest) {
			fewest = u.byLabel[label]
		}
	}
	return fewest
}
