package wire

import (
	"bytes"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Limits of the .proto files. Those of texts count characters there, and bytes here,
// which are never fewer.
const (
	maxName       = 253
	maxContainers = 1000
)

// maxResources limits the resources of one container on the fast path: each is compared
// with all previous ones.
const maxResources = 32

// Tags of Pod.
const (
	podName           = 1<<3 | isBytes
	podPhase          = 2<<3 | isBytes
	podStartTime      = 3<<3 | isBytes
	podDeleting       = 4<<3 | isVarint
	podReady          = 5<<3 | isBytes
	podResources      = 6<<3 | isBytes
	podContainers     = 7<<3 | isBytes
	podInitContainers = 8<<3 | isBytes
	podOverhead       = 9<<3 | isBytes
)

// Tags of PodReadyCondition, ResourceRequirements, Container and InitContainer.
const (
	readyStatus           = 1<<3 | isBytes
	readyTransition       = 2<<3 | isBytes
	requirementsRequests  = 1<<3 | isBytes
	containerName         = 1<<3 | isBytes
	containerRequests     = 2<<3 | isBytes
	initContainerName     = 1<<3 | isBytes
	initContainerRestarts = 2<<3 | isVarint
	initContainerRequests = 3<<3 | isBytes
)

// pod reads the pod whose field begins there.
func (r *reader) pod(begin, from, to int) bool {
	p := growField(r, &r.pods, requestPods, begin)
	if r.spent {
		return false
	}
	containers := list[recommender.Container]{tag: podContainers, slab: &r.containers, same: &r.sameContainers}
	inits := list[recommender.InitContainer]{tag: podInitContainers, slab: &r.inits, same: &r.sameInits}
	firstOverhead := len(r.overheads)
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return false
		}
		ok := false
		switch tag {
		case podName:
			p.Name, ok = r.name(at, end)
			ok = ok && seen.first(1)
		case podPhase:
			p.Phase, ok = phase(r.b[at:end])
			ok = ok && seen.first(2)
		case podStartTime:
			p.StartTime, ok = r.instant(at, end)
			ok = ok && seen.first(3)
		case podDeleting:
			p.Deleting = number(r.b, at, end) != 0
			ok = seen.first(4)
		case podReady:
			ok = seen.first(5) && r.ready(p, at, end)
		case podResources:
			p.PodLevelRequests, ok = r.requirements(at, end)
			ok = ok && seen.first(6)
		case podContainers:
			if run := containers.repeats(r.b, i, to); run > 0 {
				i += run
				continue
			}
			ok = r.container(at, end)
			containers.add(i, end)
		case podInitContainers:
			if run := inits.repeats(r.b, i, to); run > 0 {
				i += run
				continue
			}
			ok = r.initContainer(at, end)
			inits.add(i, end)
		case podOverhead:
			ok = r.request(&r.overheads, firstOverhead, at, end)
		}
		if !ok {
			return false
		}
		i = end
	}
	if n := len(r.pods); n > 1 && p.Name <= r.pods[n-2].Name {
		r.unsorted = true
	}
	p.Overhead = part(r.overheads, firstOverhead)
	var ok, initsOK bool
	p.Containers, ok = containers.parts()
	p.InitContainers, initsOK = inits.parts()
	return seen.has(1) && ok && initsOK
}

// phase reads a phase. Those that the recommender does not distinguish are all
// PhaseOther.
func phase(b []byte) (recommender.PodPhase, bool) {
	switch string(b) {
	case "Running":
		return recommender.PhaseRunning, true
	case "Pending":
		return recommender.PhasePending, true
	case "Failed":
		return recommender.PhaseFailed, true
	case "", "Succeeded", "Unknown":
		return recommender.PhaseOther, true
	}
	return 0, false
}

func (r *reader) ready(p *recommender.Pod, from, to int) bool {
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return false
		}
		ok := false
		switch tag {
		case readyStatus:
			switch string(r.b[at:end]) {
			case "True":
				p.Ready, ok = recommender.ReadyTrue, true
			case "False":
				p.Ready, ok = recommender.ReadyFalse, true
			case "Unknown":
				p.Ready, ok = recommender.ReadyUnknown, true
			}
			ok = ok && seen.first(1)
		case readyTransition:
			p.ReadyTransition, ok = r.instant(at, end)
			ok = ok && seen.first(2)
		}
		if !ok {
			return false
		}
		i = end
	}
	return seen.has(1)
}

// requirements reads the requests of a whole pod.
func (r *reader) requirements(from, to int) ([]recommender.ResourceRequest, bool) {
	first := len(r.requests)
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 || tag != requirementsRequests || !r.request(&r.requests, first, at, end) {
			return nil, false
		}
		i = end
	}
	return part(r.requests, first), true
}

func (r *reader) container(from, to int) bool {
	c := growPart(r, &r.containers, from)
	if r.spent {
		return false
	}
	for i := range r.variants {
		if v := &r.variants[i]; v.to-v.from == to-from && bytes.Equal(r.b[v.from:v.to], r.b[from:to]) {
			*c = v.container
			return true
		}
	}
	first := len(r.requests)
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return false
		}
		ok := false
		switch tag {
		case containerName:
			c.Name, ok = r.containerName(at, end)
			ok = ok && seen.first(1)
		case containerRequests:
			ok = r.request(&r.requests, first, at, end)
		}
		if !ok {
			return false
		}
		i = end
	}
	c.Requests = part(r.requests, first)
	r.variants[r.oldest] = variant{place{from, to}, *c}
	r.oldest = (r.oldest + 1) % len(r.variants)
	return true
}

// variant is a container that was read before. One template has several variants,
// because encoders write the resources in any order. The zero value is empty.
type variant struct {
	place
	container recommender.Container
}

func (r *reader) initContainer(from, to int) bool {
	c := growPart(r, &r.inits, from)
	if r.spent {
		return false
	}
	first := len(r.requests)
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return false
		}
		ok := false
		switch tag {
		case initContainerName:
			c.Name, ok = r.containerName(at, end)
			ok = ok && seen.first(1)
		case initContainerRestarts:
			c.Restartable = number(r.b, at, end) != 0
			ok = seen.first(2)
		case initContainerRequests:
			ok = r.request(&r.requests, first, at, end)
		}
		if !ok {
			return false
		}
		i = end
	}
	c.Requests = part(r.requests, first)
	return true
}

// request reads an entry of a map of quantities into the slab. The entries of the same
// map begin at first.
func (r *reader) request(slab *[]recommender.ResourceRequest, first, from, to int) bool {
	keyFrom, keyTo, value, ok := entry(r.b, from, to)
	if !ok {
		return false
	}
	resource, ok := r.resource(keyFrom, keyTo)
	if !ok || len(*slab)-first == maxResources {
		return false
	}
	for i := first; i < len(*slab); i++ {
		if (*slab)[i].Resource == resource {
			return false
		}
	}
	out := growPart(r, slab, from)
	out.Resource = resource
	out.Quantity, ok = r.quantity(value, to)
	return ok && !r.spent
}

// list is a list of the current pod: its parts are adjacent in a slab.
type list[T any] struct {
	tag  byte
	slab *[]T
	same *run[T]
	// first is the index of the list's first part in the slab, from and to the
	// positions of its fields in the message. scattered reports that there are other
	// fields between them.
	first, from, to int
	scattered       bool
	// repeated are the previous pod's parts, if these are the same.
	repeated []T
}

// run is a list that was read before, with the position of its fields. The pods of a
// workload come from one template, so that usually all have the same containers, byte
// for byte. They then share them, and must not change them.
type run[T any] struct {
	from, to int
	parts    []T
}

// repeats returns the length of the list that begins at i, if it equals the last one
// read; 0 otherwise.
func (l *list[T]) repeats(b []byte, i, end int) int {
	n := l.same.to - l.same.from
	if n == 0 || l.to != 0 || l.repeated != nil || end-i < n || !bytes.Equal(b[i:i+n], b[l.same.from:l.same.to]) {
		return 0
	}
	if i+n < end && b[i+n] == l.tag {
		return 0 // this list is longer
	}
	l.repeated = l.same.parts
	return n
}

// add adds a part that was read from the given field.
func (l *list[T]) add(from, to int) {
	switch {
	case l.to == 0:
		l.first, l.from = len(*l.slab)-1, from
	case l.to != from:
		l.scattered = true
	}
	l.to = to
}

// parts returns the list. It is not ok if it has too many parts, or if some previous
// ones were taken for the whole list.
func (l *list[T]) parts() ([]T, bool) {
	if l.to == 0 {
		return l.repeated, true
	}
	parts := part(*l.slab, l.first)
	if !l.scattered {
		*l.same = run[T]{l.from, l.to, parts}
	}
	return parts, len(parts) <= maxContainers && l.repeated == nil
}
