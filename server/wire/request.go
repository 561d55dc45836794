package wire

import (
	"time"

	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/record"
)

// Request is a decoded RecommendRequest.
type Request struct {
	// Target is the target's name, and Name its parts.
	Target string
	Name   target.Name
	// RequestID is empty if the request has none.
	RequestID string
	// Fleet is the name of the fleet that the target is a member of; empty: it is none's.
	Fleet string
	// SpecHash is conversion.HashOfSpec of the spec and the options.
	SpecHash uint64
	// Owner is whose target it is.
	Owner  record.Owner
	DryRun bool
	// RestartAfterPause is the request's.
	RestartAfterPause bool
	// EvaluationTime is the instant of the decision, if HasEvaluationTime.
	EvaluationTime    time.Time
	HasEvaluationTime bool
	// Input is the recommender's input, without the ID, and without the previous status
	// until Seed is called.
	Input recommender.Input

	decoder *Decoder
	// size of the message.
	size int
	reader
	found    found
	scratch  scratch
	readings readings
}

// place is the position of a value in the message; to is 0 for none.
type place struct{ from, to int }

// found has the positions of a request's fields, before they are read.
type found struct {
	seen                                        fields
	target, requestID, selector, previousStatus place
	fleet                                       place
	spec                                        spec
	custom, external                            []place
	explain, hasMetricErrors                    bool
	owner                                       record.Owner
	generation                                  int64
}

// scratch is reused memory.
type scratch struct {
	// rare are the encoded fields that are usually the same, or absent.
	rare []byte
	// body is the spec as used in a key, key the key of a plan or a match.
	body, key []byte
	head      []byte
	// seed is the encoded previous status.
	seed []byte
}

// Release frees the request's memory for reuse. Afterwards neither the request nor any
// slice of its Input may be used. The results of Recommend remain valid: decisions and
// histories keep texts of the input, and parts of its spec and previous status, none of
// which are reused, and nothing else. The names of pods and containers share a few
// allocations; keeping one of them keeps its allocation. Target with its parts,
// RequestID and Fleet have their own.
func (r *Request) Release() {
	d, size := r.decoder, r.size
	r.drop()
	r.readings.drop()
	slabs, names, scratch, readings := r.slabs, r.names, r.scratch, r.readings
	custom, external := r.found.custom[:0], r.found.external[:0]
	*r = Request{} // a literal with these would be a temporary that is copied
	r.slabs, r.names, r.scratch, r.readings = slabs, names, scratch, readings
	r.found.custom, r.found.external = custom, external
	d.pools.put(r, size)
}

// Tags of RecommendRequest. The last five take two bytes.
const (
	requestTarget          = 1<<3 | isBytes
	requestSpec            = 2<<3 | isBytes
	requestScale           = 3<<3 | isBytes
	requestScaleError      = 4<<3 | isBytes
	requestSelectorProblem = 5<<3 | isBytes
	requestPods            = 6<<3 | isBytes
	requestPodMetrics      = 7<<3 | isBytes
	requestCustomMetrics   = 8<<3 | isBytes
	requestExternalMetrics = 9<<3 | isBytes
	requestMetricErrors    = 10<<3 | isBytes
	requestOptions         = 11<<3 | isBytes
	requestEvaluationTime  = 12<<3 | isBytes
	requestRequestID       = 13<<3 | isBytes
	requestDryRun          = 14<<3 | isVarint
	requestExplain         = 15<<3 | isVarint
	requestPreviousStatus  = 16<<3 | isBytes
	requestTargetUID       = 17<<3 | isBytes
	requestGeneration      = 18<<3 | isVarint
	requestClusterUID      = 19<<3 | isBytes
	requestFleet           = 22<<3 | isBytes
	requestRestart         = 23<<3 | isVarint
)

// maxReadings limits the custom and the external metrics of a request, each.
const maxReadings = 200_000

// scan reads the pods and their samples, and records the positions of all other fields.
func (r *Request) scan() bool {
	b, to := r.b, len(r.b)
	f := &r.found
	r.scratch.rare = r.scratch.rare[:0]
	for i := 0; i < to; {
		if b[i] >= 0x80 {
			end := r.wide(i)
			if end == 0 {
				return false
			}
			i = end
			continue
		}
		tag, at, end := next(b, i, to)
		if end == 0 {
			return false
		}
		ok := false
		switch tag {
		case requestPods:
			ok = r.pod(i, at, end)
		case requestPodMetrics:
			ok = r.podMetric(i, at, end)
		case requestCustomMetrics:
			f.custom, ok = append(f.custom, place{at, end}), len(f.custom) < maxReadings
		case requestExternalMetrics:
			f.external, ok = append(f.external, place{at, end}), len(f.external) < maxReadings
		case requestTarget:
			f.target, ok = place{at, end}, f.seen.first(1)
		case requestSpec:
			ok = f.seen.first(2) && r.spec(at, end)
		case requestScale:
			ok = f.seen.first(3) && r.scale(at, end)
		case requestScaleError:
			ok = f.seen.first(4) && r.rare(i, end)
		case requestSelectorProblem:
			ok = f.seen.first(5) && r.rare(i, end)
		case requestMetricErrors:
			f.hasMetricErrors, ok = true, r.rare(i, end)
		case requestOptions:
			ok = f.seen.first(11) && r.rare(i, end)
		case requestEvaluationTime:
			r.EvaluationTime, ok = r.instant(at, end)
			r.HasEvaluationTime = true
			ok = ok && f.seen.first(12)
		case requestRequestID:
			f.requestID, ok = place{at, end}, f.seen.first(13)
		case requestDryRun:
			r.DryRun, ok = number(b, at, end) != 0, f.seen.first(14)
		case requestExplain:
			f.explain, ok = number(b, at, end) != 0, f.seen.first(15)
		}
		if !ok {
			return false
		}
		i = end
	}
	return true
}

// rare keeps a field for the slow path.
func (r *Request) rare(from, to int) bool {
	if len(r.scratch.rare)+to-from > maxRemembered {
		return false
	}
	r.scratch.rare = append(r.scratch.rare, r.b[from:to]...)
	return true
}

// wide reads a field with a tag of two bytes and returns where it ends, 0 if none
// begins at i.
func (r *Request) wide(i int) int {
	const upper = requestPreviousStatus >> 7 // the same for all
	if len(r.b)-i < 3 || r.b[i+1] != upper {
		return 0
	}
	tag, f := r.b[i], &r.found
	if tag == requestGeneration&0x7f|0x80 || tag == requestRestart&0x7f|0x80 {
		from, to := i+2, endOfNumber(r.b, i+2, len(r.b))
		if to == 0 {
			return 0
		}
		if tag == requestRestart&0x7f|0x80 {
			if r.RestartAfterPause = number(r.b, from, to) != 0; !f.seen.first(23) {
				return 0
			}
			return to
		}
		f.generation = int64(number(r.b, from, to))
		if f.generation < 0 || !f.seen.first(18) {
			return 0
		}
		return to
	}
	from, to := span(r.b, i+2, len(r.b))
	if to == 0 {
		return 0
	}
	ok := false
	switch tag {
	case requestPreviousStatus&0x7f | 0x80:
		f.previousStatus, ok = place{from, to}, f.seen.first(16) && r.keepSeed(from, to)
	case requestTargetUID&0x7f | 0x80:
		uid := r.b[from:to]
		f.owner.Incarnation = record.Incarnation(uid)
		ok = f.seen.first(17) && len(uid) <= maxTargetUID && isText(uid)
	case requestClusterUID&0x7f | 0x80:
		uid := r.b[from:to]
		f.owner.Cluster = record.Cluster(uid)
		ok = f.seen.first(19) && len(uid) <= maxClusterUID && target.IsOfSegment(uid)
	case requestFleet&0x7f | 0x80:
		f.fleet, ok = place{from, to}, f.seen.first(22) && to-from <= target.MaxLength
	}
	if !ok {
		return 0
	}
	return to
}

// Tags of Scale.
const (
	scaleSpecReplicas   = 1<<3 | isVarint
	scaleStatusReplicas = 2<<3 | isVarint
	scaleSelector       = 3<<3 | isBytes
)

func (r *Request) scale(from, to int) bool {
	s := &r.Input.Scale
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return false
		}
		ok := false
		switch tag {
		case scaleSpecReplicas:
			s.SpecReplicas = int32(number(r.b, at, end))
			ok = seen.first(1) && s.SpecReplicas >= 0
		case scaleStatusReplicas:
			s.StatusReplicas = int32(number(r.b, at, end))
			ok = seen.first(2) && s.StatusReplicas >= 0
		case scaleSelector:
			r.found.selector, ok = place{at, end}, seen.first(3) && end-at <= maxSelector
		}
		if !ok {
			return false
		}
		i = end
	}
	if !seen.has(2) {
		s.StatusReplicas = s.SpecReplicas
	}
	return true
}

// Limits of ids, bytes.
const (
	maxRequestID  = 128
	maxTargetUID  = 128
	maxClusterUID = 64
)

// identify reads the names that outlive the request. It copies them, so that they do
// not keep the message.
func (r *Request) identify() bool {
	name, id, fleet, ref := r.found.target, r.found.requestID, r.found.fleet, r.found.spec.refName
	if !r.found.seen.has(2) || name.to-name.from > target.MaxLength || id.to-id.from > maxRequestID || !isText(r.b[id.from:id.to]) {
		return false
	}
	head := r.scratch.head[:0]
	for _, p := range [...]place{name, id, fleet, ref} {
		head = append(head, r.b[p.from:p.to]...)
	}
	r.scratch.head = head
	s := string(head)
	r.Target, s = s[:name.to-name.from], s[name.to-name.from:]
	r.RequestID, s = s[:id.to-id.from], s[id.to-id.from:]
	if r.Fleet, s = s[:fleet.to-fleet.from], s[fleet.to-fleet.from:]; r.Fleet != "" {
		// Of readings of a fleet's member it counts when they were taken, which the slow path reads.
		if _, named := target.Parse(r.Fleet); !named || r.Fleet == r.Target || len(r.found.custom)+len(r.found.external) > 0 {
			return false
		}
	}
	var ok bool
	r.Name, ok = target.Parse(r.Target)
	if r.found.spec.hasRef {
		r.found.spec.name = s
		return ok && isText(r.b[ref.from:ref.to]) && isPathSegment(s)
	}
	r.found.spec.name = r.Name.Target
	return ok
}

// finish completes the input.
func (r *Request) finish() bool {
	in := &r.Input
	in.Pods, in.PodMetrics, in.Explain = r.pods, r.podMetrics, r.found.explain
	r.Owner = r.found.owner
	in.Generation, in.HasGeneration = r.found.generation, r.found.seen.has(18)
	if !in.Explain {
		in.Notes = nil
		return true
	}
	// An explanation has notes even on a previous status that is not used.
	return !r.noted && r.seed()
}
