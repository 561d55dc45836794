// Package keda implements KEDA's external scalers (triggers "external" and "external-push"):
// they return the recommended count of a target with a stored spec.
//
// KEDA creates an HPA from GetMetricSpec, and passes it the values of GetMetrics. With a
// target of 1 and the count as the value, that HPA reaches exactly the count, if its
// tolerances are 0 and its policies do not limit it; docs/guides/keda.md has the settings. If
// the count can't be computed, the response is an error, on which the HPA keeps its size, and
// never a number.
package keda

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/api/externalscaler"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/spelling"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/store"
)

// Keys of a trigger's metadata.
const (
	// ClusterKey names the cluster of the target. Required, unless TargetKey has a full
	// name.
	ClusterKey = "cluster"
	// NamespaceKey names the namespace. Absent: the ScaledObject's.
	NamespaceKey = "namespace"
	// TargetKey names the target: clusters/{cluster}/namespaces/{namespace}/targets/{target},
	// or its last part. Absent: the ScaledObject's name.
	TargetKey = "target"
)

const (
	// MetricName is the name of every target's metric.
	MetricName = "recommended-replicas"
	// MaxMessage limits a message, bytes.
	MaxMessage = 64 << 10
	// lookInactive is how often a stream checks whether a target should leave zero, and
	// lookActive whether it should go there.
	lookInactive, lookActive = time.Second, 15 * time.Second
	// lasting is how long a stream tells whether a target is active. KEDA waits before it opens the next one: for 2 s, and twice
	// as long after each that has failed, such as with its connection, up to a minute. Only one that ends as it should resets that.
	lasting = 5 * time.Minute
)

// Options are functions that the service provides. All are required.
type Options struct {
	// Admit admits an evaluation of a stream as a call of its own with a deadline, or
	// refuses it. release releases its resources.
	Admit func(context.Context) (ctx context.Context, release func(), err error)
	// Authorize returns why the caller may not poll a target. Streams call it for each
	// evaluation.
	Authorize func(context.Context, store.Key) error
	// Recommend returns the recommendation of a target, or the error of the response.
	Recommend func(context.Context, store.Key) (*setpointv1.Recommendation, error)
	// Invalid converts violations of a message to an error.
	Invalid func([]validation.Violation) error
	// Draining is closed when the service begins to stop.
	Draining <-chan struct{}
}

// Scaler implements KEDA's service.
type Scaler struct {
	externalscaler.UnimplementedExternalScalerServer
	options Options
}

// New returns a scaler.
func New(o Options) *Scaler { return &Scaler{options: o} }

// target returns the target of a reference, if the caller may poll it.
func (s *Scaler) target(ctx context.Context, ref *externalscaler.ScaledObjectRef) (store.Key, error) {
	key, violations := targetOf(ref)
	if violations != nil {
		return store.Key{}, s.options.Invalid(violations)
	}
	return key, s.options.Authorize(ctx, key)
}

// targetOf returns the target that a trigger's metadata name.
func targetOf(ref *externalscaler.ScaledObjectRef) (store.Key, []validation.Violation) {
	metadata := ref.GetScalerMetadata()
	var violations []validation.Violation
	// KEDA sends the trigger's other keys, too, such as scalerAddress: only what is near one of ours is a mistake.
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		own := []string{ClusterKey, NamespaceKey, TargetKey}
		if name, of := strings.CutSuffix(key, "FromEnv"); of && slices.Contains(own, name) {
			violations = append(violations, validation.Violation{Field: "scalerMetadata." + key, Description: "is not read from an environment variable: set " + name})
		}
		if meant, ok := spelling.Closest(key, own); ok && key != meant {
			violations = append(violations, validation.Violation{Field: "scalerMetadata." + apierror.Clip(key), Description: "there is no such key; did you mean " + meant + "?"})
		}
	}
	if violations != nil {
		return store.Key{}, violations
	}
	named := metadata[TargetKey]
	if strings.Contains(named, "/") {
		name, ok := target.Parse(named)
		if !ok {
			return store.Key{}, []validation.Violation{{Field: "scalerMetadata.target",
				Description: "must be clusters/{cluster}/namespaces/{namespace}/targets/{target}, or the last part of it"}}
		}
		return store.Key(name), nil
	}
	or := func(value, otherwise string) string {
		if value == "" {
			return otherwise
		}
		return value
	}
	key := store.Key{Cluster: metadata[ClusterKey], Namespace: or(metadata[NamespaceKey], ref.GetNamespace()), Target: or(named, ref.GetName())}
	for _, part := range []struct{ field, value, says string }{
		{"scalerMetadata.cluster", key.Cluster, "must name the cluster of the target in the trigger's metadata"},
		{"scalerMetadata.namespace", key.Namespace, "must be the target's namespace"},
		{"scalerMetadata.target", key.Target, "must be the target's name"},
	} {
		if !target.IsSegment(part.value) {
			violations = append(violations, validation.Violation{Field: part.field,
				Description: part.says + ": 1 to 253 characters of [A-Za-z0-9._-], and not \".\", \"..\" or \"-\""})
		}
	}
	return key, violations
}

// metricSpec is the same for all targets: KEDA regards an error as a broken scaler, so
// it depends on nothing.
func metricSpec() *externalscaler.GetMetricSpecResponse {
	return &externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{{
		MetricName: MetricName, TargetSize: 1, TargetSizeFloat: 1,
	}}}
}

// GetMetricSpec depends on nothing but the metadata.
func (s *Scaler) GetMetricSpec(ctx context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.GetMetricSpecResponse, error) {
	if _, err := s.target(ctx, ref); err != nil {
		return nil, err
	}
	return metricSpec(), nil
}

// GetMetrics returns the recommended count.
func (s *Scaler) GetMetrics(ctx context.Context, req *externalscaler.GetMetricsRequest) (*externalscaler.GetMetricsResponse, error) {
	key, err := s.target(ctx, req.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	if name := req.GetMetricName(); name != MetricName && name != "" {
		return nil, s.options.Invalid([]validation.Violation{{Field: "metricName", Description: "must be " + MetricName}})
	}
	r, err := s.options.Recommend(ctx, key)
	if err != nil {
		return nil, err
	}
	return &externalscaler.GetMetricsResponse{MetricValues: []*externalscaler.MetricValue{{
		MetricName: MetricName, MetricValue: int64(r.GetDesiredReplicas()), MetricValueFloat: float64(r.GetDesiredReplicas()),
	}}}, nil
}

// IsActive reports whether the target should have any replicas.
func (s *Scaler) IsActive(ctx context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.IsActiveResponse, error) {
	key, err := s.target(ctx, ref)
	if err != nil {
		return nil, err
	}
	active, err := s.active(ctx, key)
	return &externalscaler.IsActiveResponse{Result: active}, err
}

func (s *Scaler) active(ctx context.Context, key store.Key) (bool, error) {
	r, err := s.options.Recommend(ctx, key)
	return r.GetDesiredReplicas() > 0, err
}

// StreamIsActive reports whether the target should have any replicas: at once, and on
// changes. It sends nothing while the count can't be computed, or an evaluation is refused.
// It ends without an error after a while, and when the service stops.
func (s *Scaler) StreamIsActive(ref *externalscaler.ScaledObjectRef, stream grpc.ServerStreamingServer[externalscaler.IsActiveResponse]) error {
	said, active := false, false
	for began := time.Now(); time.Since(began) < lasting; {
		now, err := s.isActive(stream.Context(), ref)
		switch code := status.Code(err); {
		case code == codes.OK && (!said || now != active):
			if err := stream.Send(&externalscaler.IsActiveResponse{Result: now}); err != nil {
				return err
			}
			said, active = true, now
		case code == codes.PermissionDenied, code == codes.Unauthenticated, code == codes.InvalidArgument:
			return err
		}
		pause := lookActive
		if said && !active && err == nil {
			pause = lookInactive
		}
		if more, err := s.wait(stream.Context(), pause-rand.N(pause/4)); !more { // spread over time
			return err
		}
	}
	return nil
}

// isActive is one evaluation of a stream.
func (s *Scaler) isActive(ctx context.Context, ref *externalscaler.ScaledObjectRef) (active bool, err error) {
	ctx, release, err := s.options.Admit(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	key, err := s.target(ctx, ref)
	if err != nil {
		return false, err
	}
	return s.active(ctx, key)
}

// StreamMetricSpec sends the result of GetMetricSpec once; it never changes.
func (s *Scaler) StreamMetricSpec(ref *externalscaler.ScaledObjectRef, stream grpc.ServerStreamingServer[externalscaler.GetMetricSpecResponse]) error {
	if _, err := s.target(stream.Context(), ref); err != nil {
		return err
	}
	if err := stream.Send(metricSpec()); err != nil {
		return err
	}
	for {
		if more, err := s.wait(stream.Context(), lookActive); !more {
			return err
		}
		if _, err := s.target(stream.Context(), ref); err != nil {
			return err
		}
	}
}

// wait waits for the pause, and reports whether the stream goes on then.
func (s *Scaler) wait(ctx context.Context, pause time.Duration) (more bool, err error) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, status.FromContextError(ctx.Err()).Err()
	case <-s.options.Draining:
		return false, nil
	case <-timer.C:
		return true, nil
	}
}
