package cluster

import (
	"context"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

// Options are settings of a Reader. The zero value is ready to use.
type Options struct {
	// MaxAge bounds the age of a reading that another autoscaler may share. It should be at
	// most half of the shortest period of an autoscaler. 0: one second.
	MaxAge time.Duration
	// Timeout of one request for a scale or to a metrics API. 0: ten seconds.
	Timeout time.Duration
}

const (
	defaultMaxAge  = time.Second
	defaultTimeout = 10 * time.Second
)

// Reader reads the input of evaluations from a cluster. It is safe for concurrent use. It keeps
// the selector of each autoscaler that it read until [Reader.Forget].
type Reader struct {
	sources   Sources
	timeout   time.Duration
	tally     tally
	selectors *selectors
	groups    *groups

	// Shared readings, by API.
	usage    *shared[*usage]
	custom   *shared[[]customv1beta2.MetricValue]
	external *shared[[]externalv1beta1.ExternalMetricValue]
}

// NewReader returns a reader of sources.
func NewReader(sources Sources, options Options) *Reader {
	if options.MaxAge <= 0 {
		options.MaxAge = defaultMaxAge
	}
	if options.Timeout <= 0 {
		options.Timeout = defaultTimeout
	}
	tally := newTally()
	return &Reader{
		sources:   sources,
		timeout:   options.Timeout,
		tally:     tally,
		selectors: newSelectors(),
		groups:    newGroups(options.MaxAge),
		usage:     newShared[*usage](tally, options.MaxAge),
		custom:    newShared[[]customv1beta2.MetricValue](tally, options.MaxAge),
		external:  newShared[[]externalv1beta1.ExternalMetricValue](tally, options.MaxAge),
	}
}

// Snapshot reads the input of one evaluation of an autoscaler. Failures of the cluster are part
// of the snapshot: ScaleError for a scale that can't be read, MetricErrors for metrics, both in
// upstream's words. The snapshot refers to the autoscaler itself, and does not change it. own, which
// may be nil, has metrics that are read from elsewhere.
//
// It returns an error without an autoscaler, if pods can't be listed (upstream reads them from
// memory and has no message for that), and when ctx ends.
func (r *Reader) Snapshot(ctx context.Context, autoscaler *autoscalingv2.HorizontalPodAutoscaler, own Own) (*kubernetes.Snapshot, error) {
	if autoscaler == nil {
		return nil, kubernetes.ErrNoAutoscaler
	}
	snapshot := &kubernetes.Snapshot{Autoscaler: autoscaler}
	target, problem := r.target(ctx, autoscaler)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if problem != nil {
		snapshot.ScaleError = problem
		return snapshot, nil
	}
	snapshot.Scale, snapshot.Resource = target.scale, target.resource
	text := target.scale.Status.Selector
	selector, err := labels.Parse(text)
	if text == "" || err != nil {
		// The snapshot has the error; without a selector upstream reads nothing else.
		return snapshot, nil
	}
	key := autoscalerKey{autoscaler.Namespace, autoscaler.Name}
	r.selectors.note(key, autoscaler.UID, text, selector)
	if snapshot.Pods, err = r.sources.Pods.Pods(ctx, key.namespace, selector); err != nil {
		return nil, fmt.Errorf("listing the pods of namespace %s: %w", key.namespace, err)
	}
	if snapshot.Others = r.selectors.sharing(key, snapshot.Pods); len(snapshot.Others) > 0 {
		return snapshot, nil
	}
	r.read(ctx, snapshot, selector, own)
	return snapshot, ctx.Err()
}

// Forget drops the selector of the autoscaler of that UID: an object of another kind may have its name.
// Call it for an autoscaler that is deleted or no longer evaluated.
func (r *Reader) Forget(namespace, name string, uid types.UID) {
	r.selectors.forget(autoscalerKey{namespace, name}, uid)
}

// NoteSelector sets the selector of an autoscaler that is not read itself, for the check that
// no pod belongs to two. It ignores an invalid selector.
func (r *Reader) NoteSelector(namespace, name, text string) {
	selector, err := labels.Parse(text)
	if text == "" || err != nil {
		return
	}
	r.selectors.note(autoscalerKey{namespace, name}, "", text, selector)
}

// Learn reads the selector of an autoscaler that is not evaluated, for the check that no pod
// belongs to two. If the scale can't be read the previous selector stays.
func (r *Reader) Learn(ctx context.Context, autoscaler *autoscalingv2.HorizontalPodAutoscaler) {
	if target, problem := r.target(ctx, autoscaler); problem == nil {
		r.NoteSelector(autoscaler.Namespace, autoscaler.Name, target.scale.Status.Selector)
	}
}

// SetMaxAge changes Options.MaxAge; 0 is one second.
func (r *Reader) SetMaxAge(age time.Duration) {
	if age <= 0 {
		age = defaultMaxAge
	}
	r.groups.setMaxAge(age)
	r.usage.SetMaxAge(age)
	r.custom.SetMaxAge(age)
	r.external.SetMaxAge(age)
}

// Counts returns the numbers of requests to the cluster and of saved ones.
func (r *Reader) Counts() map[Call]Count {
	out := map[Call]Count{}
	for call := range r.tally {
		out[call] = r.tally.count(call)
	}
	return out
}

// asker is an autoscaler on whose behalf metrics are read.
type asker struct {
	key      autoscalerKey
	selector labels.Selector
	pods     []*corev1.Pod
}
