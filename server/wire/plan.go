package wire

import (
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/bounded"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// maxRemembered limits the encoded parts that are cached, in bytes. It also keeps the
// nesting of messages below the slow path's limit.
const maxRemembered = 8 << 10

// plan is the slow path's result for the repeating part of a request: the spec, the
// options, and the errors of scale, pods or metrics. It is shared and must not be
// changed.
type plan struct {
	id uint64
	// data is that part, an encoded request, usually without a target.
	data []byte
	// refused reports whether the slow path found an error.
	refused bool
	// input has all notes of an explanation.
	input recommender.Input
	// matcher assigns readings to metrics; nil if there are none.
	matcher *conversion.Matcher
	// weight is the approximate memory for decoding and reading it, bytes.
	weight int
	// shared is the hash of spec and options.
	shared conversion.SharedSpec
	// hasPodObject reports whether the spec has an Object metric that describes a pod.
	hasPodObject bool
}

// Placeholders for a target's names, where these do not matter.
const (
	anyCluster   = "c"
	anyNamespace = "n"
	anyTarget    = "t"
)

// follow finds the plan of the request and copies its input.
func (r *Request) follow() bool {
	p := r.decoder.planOf(r.planKey())
	if p == nil || p.refused || !r.budget.Memory(p.weight) {
		return false
	}
	scale, problem := r.Input.Scale, p.input.SelectorProblem
	if !r.found.seen.has(5) {
		var ok bool
		if problem, ok = r.selectorProblem(); !ok {
			return false
		}
	}
	r.Input = p.input
	in := &r.Input
	in.Namespace, in.Scale, in.SelectorProblem = r.Name.Namespace, scale, problem
	in.Spec.MinReplicas, in.Spec.MaxReplicas = r.found.spec.min, r.found.spec.max
	in.Spec.ScaleTargetRef.Name = r.found.spec.name
	r.SpecHash = p.shared.Hash(r.found.spec.workload(), in.Spec.MinReplicas, in.Spec.MaxReplicas)
	r.readings.plan = p
	return true
}

// SpecInUse returns the request's spec and options.
func (r *Request) SpecInUse() *setpointv1.SpecInUse {
	request := &setpointv1.RecommendRequest{}
	// It was decoded before, so there is no error.
	_ = proto.Unmarshal(r.readings.plan.data, request)
	spec, own := request.GetSpec(), &r.found.spec
	if spec.MinReplicas, spec.MaxReplicas = &own.min, own.max; own.hasRef {
		spec.ScaleTargetRef.Name = own.name
	}
	return conversion.SpecInUse(spec, request.GetOptions(), nil)
}

// planKey returns the key of the plan: an encoded request.
func (r *Request) planKey() []byte {
	f := &r.found
	key := r.scratch.key[:0]
	if f.hasMetricErrors {
		// An error may concern the namespace's own object.
		key = appendTarget(key, r.Name.Namespace)
	}
	key = append(key, r.scratch.rare...)
	switch {
	case f.seen.has(3) && f.seen.has(5):
		// An error of a selector may quote it.
		key = appendScale(key, r.b[f.selector.from:f.selector.to])
	case f.seen.has(3):
		key = appendScale(key, nil)
	}
	key = appendField(key, 2, r.scratch.body)
	r.scratch.key = key
	return key
}

// selectorProblem returns the error of the scale's selector; nil for none.
func (r *Request) selectorProblem() (*recommender.SelectorProblem, bool) {
	selector := r.found.selector
	if isPlainSelector(r.b[selector.from:selector.to]) {
		return nil, true
	}
	key := appendField(r.scratch.key[:0], 2, anyBounds)
	key = appendScale(key, r.b[selector.from:selector.to])
	r.scratch.key = key
	p := r.decoder.planOf(key)
	if p == nil || p.refused {
		return nil, false
	}
	return p.input.SelectorProblem, true
}

// planOf returns the plan of an encoded request; nil if it is too long.
func (d *Decoder) planOf(key []byte) *plan {
	if len(key) > maxRemembered {
		return nil
	}
	if p, known := bounded.GetBytes(d.plans, key); known {
		return p
	}
	p := &plan{id: d.lastPlan.Add(1), data: append([]byte(nil), key...)}
	if in, request := d.long(p.data); in != nil && !conversion.HasFallback(request.GetSpec()) { // which is a stage
		p.input, p.weight = *in, conversion.Weight(in)
		p.shared = conversion.SharedSpecOf(request.GetSpec(), request.GetOptions())
		p.matcher, _ = conversion.NewMatcher(&in.Spec, nil)
	} else {
		p.refused = true
	}
	for i := range p.input.Spec.Metrics {
		m := &p.input.Spec.Metrics[i]
		p.hasPodObject = p.hasPodObject || m.Type == recommender.ObjectMetric && m.DescribedObject.Kind == "Pod"
	}
	d.plans.Put(string(key), p)
	return p
}

// long reads an encoded request on the slow path, with some target if it has none, and
// with all notes. It returns nil if it is refused.
func (d *Decoder) long(data []byte) (*recommender.Input, *setpointv1.RecommendRequest) {
	whole := make([]byte, 0, len(data)+64)
	whole = appendTarget(whole, anyNamespace)
	whole = append(whole, data...)
	whole = append(whole, requestExplain, 1)
	request := &setpointv1.RecommendRequest{}
	if err := proto.Unmarshal(whole, request); err != nil {
		return nil, nil
	}
	in, violations := conversion.Input(request, d.options)
	if len(violations) > 0 || len(validation.Structure(request)) > 0 ||
		len(validation.Spec(request.GetSpec(), validation.SpecOptions{ScaleToZero: in.Options.ScaleToZero})) > 0 {
		return nil, nil
	}
	return in, request
}

// appendTarget appends the field of a target in that namespace.
func appendTarget(b []byte, namespace string) []byte {
	return appendField(b, 1, []byte("clusters/"+anyCluster+"/namespaces/"+namespace+"/targets/"+anyTarget))
}

// appendScale appends the field of a scale without replicas.
func appendScale(b, selector []byte) []byte {
	if len(selector) == 0 {
		return append(b, requestScale, 0)
	}
	b = appendHead(b, 3, headSize(len(selector))+len(selector))
	return appendField(b, 3, selector)
}
