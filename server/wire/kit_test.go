package wire_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// t0 is the instant that the tests decide for.
var t0 = time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC)

// encode marshals a message, its maps in order.
func encode(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	fatal.If(tb, err)
	return data
}

// long reads a request on the slow path, as the server does.
func long(data []byte, options recommender.Options) (*setpointv1.RecommendRequest, *recommender.Input, []validation.Violation) {
	req := &setpointv1.RecommendRequest{}
	if err := proto.Unmarshal(data, req); err != nil {
		return nil, nil, []validation.Violation{{Description: err.Error()}}
	}
	violations := validation.Structure(req)
	in, unreadable := conversion.Input(req, options)
	violations = append(violations, validation.Spec(req.GetSpec(), validation.SpecOptions{ScaleToZero: in.Options.ScaleToZero})...)
	if t := req.GetEvaluationTime(); t != nil && !t.IsValid() {
		violations = append(violations, validation.Violation{Field: "evaluationTime"})
	}
	return req, in, append(violations, unreadable...)
}

// soundness is what was seen of requests: how many the fast path took and left, and
// how many of those that it left the slow path refuses, of every eighth.
type soundness struct{ taken, left, refused int }

// check reads the data on both paths. Whatever the fast path takes the slow path must
// take and read to the same. It reports whether the fast path took it.
func (s *soundness) check(t *testing.T, decoder *wire.Decoder, data []byte, options recommender.Options) bool {
	t.Helper()
	given := slices.Clone(data)
	got, ok := decoder.Decode(data, nil)
	if !slices.Equal(given, data) {
		t.Fatalf("the data was written to")
	}
	if !ok {
		if s.left++; s.left%8 == 0 {
			if _, _, violations := long(data, options); len(violations) > 0 {
				s.refused++
			}
		}
		return false
	}
	s.taken++
	req, in, violations := long(data, options)
	// Nothing may be left of what the data holds.
	for i := range data {
		data[i] = 0xa5
	}
	copy(data, given)
	if len(violations) > 0 {
		t.Fatalf("the fast path takes it, the slow path refuses it: %v\n%s", violations, prototext.Format(req))
	}
	if got.Target != req.GetTarget() || got.RequestID != req.GetRequestId() || got.Fleet != req.GetFleet() || got.DryRun != req.GetDryRun() || got.RestartAfterPause != req.GetRestartAfterPause() ||
		got.HasEvaluationTime != (req.GetEvaluationTime() != nil) ||
		got.HasEvaluationTime && got.EvaluationTime != req.GetEvaluationTime().AsTime() ||
		got.Name.String() != req.GetTarget() || got.Owner != record.OwnerOf(req.GetTargetUid(), req.GetClusterUid()) {
		t.Fatalf("read as %+v\nof %s", got, prototext.Format(req))
	}
	got.Seed()
	if a, b := comparable(&got.Input), comparable(in); !reflect.DeepEqual(a, b) {
		t.Fatalf("read as\n%+v\non the slow path as\n%+v\nof %s", a, b, prototext.Format(req))
	}
	got.Release()
	return true
}

// comparable returns the input with resources in order and no empty lists, and what
// is behind its pointers as values.
func comparable(in *recommender.Input) any {
	c := *in
	c.Pods = mapped(c.Pods, func(p recommender.Pod) recommender.Pod {
		p.Containers = mapped(p.Containers, func(c recommender.Container) recommender.Container {
			c.Requests = sorted(c.Requests)
			return c
		})
		p.InitContainers = mapped(p.InitContainers, func(c recommender.InitContainer) recommender.InitContainer {
			c.Requests = sorted(c.Requests)
			return c
		})
		p.PodLevelRequests, p.Overhead = sorted(p.PodLevelRequests), sorted(p.Overhead)
		return p
	})
	c.PodMetrics = mapped(c.PodMetrics, func(m recommender.PodMetrics) recommender.PodMetrics {
		m.Containers = mapped(m.Containers, func(c recommender.ContainerMetrics) recommender.ContainerMetrics {
			c.Usage = mapped(c.Usage, func(u recommender.ResourceUsage) recommender.ResourceUsage { return u })
			slices.SortFunc(c.Usage, func(a, b recommender.ResourceUsage) int { return cmp.Compare(a.Resource, b.Resource) })
			return c
		})
		return m
	})
	c.Readings = mapped(c.Readings, func(r recommender.Readings) recommender.Readings {
		r.Values = mapped(r.Values, func(v recommender.Value) recommender.Value { return v })
		if r.SelectorError != "" {
			// Of several mistakes in a selector any one is named.
			r.SelectorError = "malformed"
		}
		return r
	})
	return c
}

func sorted(requests []recommender.ResourceRequest) []recommender.ResourceRequest {
	requests = mapped(requests, func(r recommender.ResourceRequest) recommender.ResourceRequest { return r })
	slices.SortFunc(requests, func(a, b recommender.ResourceRequest) int { return cmp.Compare(a.Resource, b.Resource) })
	return requests
}

// mapped returns a copy with f applied, nil of an empty list.
func mapped[T any](list []T, f func(T) T) []T {
	var out []T
	for _, v := range list {
		out = append(out, f(v))
	}
	return out
}

// newRandom returns a source that is the same each time.
func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 77)) }

func oneOf[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// chance is true in so many of a hundred cases.
func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// edges are numbers at which something changes.
var edges = []int64{0, 1, 2, 127, 128, 3600, 3601, 1800, 1801, math.MaxInt32, math.MaxInt32 + 1, math.MinInt32, math.MaxInt64, math.MinInt64, -1, 999_999_999, 1_000_000_000}
