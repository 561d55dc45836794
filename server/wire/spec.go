package wire

import (
	"math"
	"strings"
)

// spec is the part of a spec that differs between workloads; the rest is in
// scratch.body.
type spec struct {
	hasRef   bool
	refName  place
	name     string
	min, max int32
}

// workload is the name of scaleTargetRef; empty if there is none.
func (s *spec) workload() string {
	if !s.hasRef {
		return ""
	}
	return s.name
}

// Tags of HorizontalPodAutoscalerSpec and CrossVersionObjectReference.
const (
	specScaleTargetRef = 1<<3 | isBytes
	specMinReplicas    = 2<<3 | isVarint
	specMaxReplicas    = 3<<3 | isVarint
	specMetrics        = 4<<3 | isBytes
	specBehavior       = 5<<3 | isBytes
	referenceKind      = 1<<3 | isBytes
	referenceName      = 2<<3 | isBytes
	referenceVersion   = 3<<3 | isBytes
)

// spec reads the workload's name and the bounds, and keeps the rest for the slow path,
// with placeholders for name and bounds. So the workloads of a fleet share a few specs.
func (r *Request) spec(from, to int) bool {
	s := &r.found.spec
	s.min = 1
	body := r.scratch.body[:0]
	var bounds [2]place
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return false
		}
		ok := false
		switch tag {
		case specScaleTargetRef:
			var kind, version place
			kind, s.refName, version, ok = reference(r.b, at, end)
			ok = ok && seen.first(1) && end-at <= maxRemembered
			if ok {
				s.hasRef = true
				body = appendReference(body, 1, r.b[kind.from:kind.to], anyName, r.b[version.from:version.to])
			}
		case specMinReplicas:
			s.min, bounds[0], ok = int32(number(r.b, at, end)), place{i, end}, seen.first(2)
		case specMaxReplicas:
			s.max, bounds[1], ok = int32(number(r.b, at, end)), place{i, end}, seen.first(3)
		case specMetrics:
			ok = true
		case specBehavior:
			ok = seen.first(5)
		}
		if !ok || len(body) > maxRemembered {
			return false
		}
		if tag == specMetrics || tag == specBehavior {
			body = append(body, r.b[i:end]...)
		}
		i = end
	}
	switch {
	case s.min < 1:
		// Whether the minimum may be so low depends on the metrics and options.
		for _, p := range bounds {
			body = append(body, r.b[p.from:p.to]...)
		}
	case s.max < s.min:
		return false
	default:
		body = append(body, anyBounds...)
	}
	r.scratch.body = body
	return true
}

// anyName is a placeholder for the name of a workload, anyBounds for bounds that every
// spec may have.
var (
	anyName   = []byte("x")
	anyBounds = appendNumber([]byte{specMaxReplicas}, math.MaxInt32)
)

// reference reads the parts of a CrossVersionObjectReference.
func reference(b []byte, from, to int) (kind, name, version place, ok bool) {
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(b, i, to)
		if end == 0 {
			return kind, name, version, false
		}
		switch {
		case tag == referenceKind && seen.first(1):
			kind = place{at, end}
		case tag == referenceName && seen.first(2):
			name = place{at, end}
		case tag == referenceVersion && seen.first(3):
			version = place{at, end}
		default:
			return kind, name, version, false
		}
		i = end
	}
	return kind, name, version, true
}

// appendReference appends a field that holds a CrossVersionObjectReference.
func appendReference(b []byte, field int, kind, name, version []byte) []byte {
	n := headSize(len(kind)) + len(kind) + headSize(len(name)) + len(name) + headSize(len(version)) + len(version)
	b = appendHead(b, field, n)
	b = appendField(b, 1, kind)
	b = appendField(b, 2, name)
	return appendField(b, 3, version)
}

// isPathSegment reports whether the name is valid for a workload.
func isPathSegment(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/%")
}
