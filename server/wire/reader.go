package wire

import (
	"encoding/binary"
	"math"
	"strings"
	"time"
	"unsafe"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/cost"
)

// reader reads the parts of one request.
type reader struct {
	// b is the message, texts the copies of its texts.
	b     []byte
	texts texts
	// budget limits the cost of the message; spent reports that it was too small.
	budget *cost.Budget
	spent  bool
	slabs
	sameContainers run[recommender.Container]
	sameInits      run[recommender.InitContainer]
	// variants are the last containers read, in a ring.
	variants [6]variant
	oldest   int
	// noted reports whether an explanation would have a note here.
	noted bool
	// unsorted reports whether the pods are not in the order of their names.
	unsorted bool
	// names is the table for finding duplicate names.
	names []uint64
	// sampled and valued are how many of the pods were found in samples and in custom
	// metrics so far, in order.
	sampled, valued int
	// lastSamples are those of the previous pod.
	lastSamples []recommender.ContainerMetrics
	// lastWindow is the previous sample's window, windowBits how it is written; a zero is 0 s.
	lastWindow time.Duration
	windowBits uint64
	section    section
}

// texts collects copies of texts: many in one allocation, whose bytes are never
// overwritten.
type texts struct {
	piece strings.Builder
	// size is the size of the next allocation.
	size int
}

// keep returns a copy.
func (t *texts) keep(b []byte) string {
	if t.piece.Cap()-t.piece.Len() < len(b) {
		t.piece = strings.Builder{}
		t.piece.Grow(max(t.size, len(b)))
	}
	from := t.piece.Len()
	t.piece.Write(b)
	return t.piece.String()[from:]
}

// slabs are the memory of a request's parts, reused for the next request. Elements
// beyond their lengths are zero. A slab that grows moves; pointers to its old place
// stay valid and complete.
type slabs struct {
	pods       []recommender.Pod
	containers []recommender.Container
	inits      []recommender.InitContainer
	requests   []recommender.ResourceRequest
	overheads  []recommender.ResourceRequest
	podMetrics []recommender.PodMetrics
	samples    []recommender.ContainerMetrics
	usages     []recommender.ResourceUsage
}

// grow extends a slab by one.
func grow[T any](slab *[]T) *T {
	n := len(*slab)
	if n < cap(*slab) {
		*slab = (*slab)[:n+1]
	} else {
		var zero T
		*slab = append(*slab, zero)
	}
	return &(*slab)[n]
}

// growPart is grow for parts of the fields of a section. Once the budget is spent, it
// returns parts outside of any section.
func growPart[T any](r *reader, slab *[]T, at int) *T {
	if n := len(*slab); n < cap(*slab) {
		*slab = (*slab)[:n+1]
		return &(*slab)[n]
	}
	return moreParts(r, slab, at)
}

// moreParts is growPart for a full slab.
func moreParts[T any](r *reader, slab *[]T, at int) *T {
	if n := len(*slab); n >= fewParts && !reserve(r, slab, r.section.parts(r.b, n, at)) {
		return new(T)
	}
	return grow(slab)
}

// growField is grow for the fields of a section themselves.
func growField[T any](r *reader, slab *[]T, tag byte, at int) *T {
	n := len(*slab)
	r.section.enter(tag, at, n)
	if n == cap(*slab) && n >= fewParts {
		r.section.findEnd(r.b)
		if !reserve(r, slab, r.section.fields) {
			return new(T)
		}
	}
	return grow(slab)
}

// reserve reserves capacity for so many elements in total, but at least twice as many
// as there are, so that it is seldom needed. False: the budget is too small.
func reserve[T any](r *reader, slab *[]T, all int) bool {
	all = max(all, 2*len(*slab))
	var zero T
	if r.spent = r.spent || !r.budget.Memory(all*int(unsafe.Sizeof(zero))); r.spent {
		return false
	}
	larger := make([]T, len(*slab), all)
	copy(larger, *slab)
	*slab = larger
	return true
}

// part returns a slab's elements from first on, with a capacity that cannot grow into
// what follows.
func part[T any](slab []T, first int) []T { return slab[first:len(slab):len(slab)] }

// drop empties a slab, so that it keeps no references.
func drop[T any](slab *[]T) {
	clear(*slab)
	*slab = (*slab)[:0]
}

func (s *slabs) drop() {
	drop(&s.pods)
	drop(&s.containers)
	drop(&s.inits)
	drop(&s.requests)
	drop(&s.overheads)
	drop(&s.podMetrics)
	drop(&s.samples)
	drop(&s.usages)
}

// fields are the fields of a message that were read. A second occurrence would replace
// the first, or be merged with it, which is left to the slow path.
type fields uint32

// first records a field and reports whether it is the first one.
func (f *fields) first(field int) bool {
	before := *f
	*f |= 1 << field
	return before != *f
}

func (f fields) has(field int) bool { return f&(1<<field) != 0 }

// string reads a text of at most that many bytes.
func (r *reader) string(from, to, longest int) (string, bool) {
	if to-from > longest || !isText(r.b[from:to]) {
		return "", false
	}
	return r.texts.keep(r.b[from:to]), true
}

// reuse reads a text that is likely to equal the given one. Then it returns the same
// string, which is fast to compare and needs no memory.
func (r *reader) reuse(likely string, from, to, longest int) (string, bool) {
	if string(r.b[from:to]) == likely {
		return likely, true
	}
	return r.string(from, to, longest)
}

// name reads the name of a pod.
func (r *reader) name(from, to int) (string, bool) {
	if from == to {
		return "", false
	}
	return r.string(from, to, maxName)
}

// containerName reads the name of a container, which may be empty.
func (r *reader) containerName(from, to int) (string, bool) {
	return r.string(from, to, maxName)
}

// resource reads the name of a resource. The usual ones are always the same two
// strings, which are fast to compare.
func (r *reader) resource(from, to int) (string, bool) {
	switch string(r.b[from:to]) {
	case "cpu":
		return "cpu", true
	case "memory":
		return "memory", true
	}
	return r.string(from, to, to-from)
}

// quantity reads a quantity. Only explanations mention that one is out of range.
func (r *reader) quantity(from, to int) (quantity.Quantity, bool) {
	if !isASCII(r.b[from:to]) {
		return quantity.Quantity{}, false
	}
	q, err := quantity.ParseBytes(r.b[from:to])
	r.noted = r.noted || !q.InRange()
	return q, err == nil
}

// milli reads a quantity in milli-units.
func (r *reader) milli(from, to int) (int64, bool) {
	if !isASCII(r.b[from:to]) {
		return 0, false
	}
	milli, inRange, err := quantity.ParseMilliBytes(r.b[from:to])
	r.noted = r.noted || !inRange
	return milli, err == nil
}

// isASCII is isText for short texts of a few characters.
func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// Tags of Timestamp, and the range of its instants.
const (
	instantSeconds = 1<<3 | isVarint
	instantNanos   = 2<<3 | isVarint

	earliestInstant = -62135596800 // 0001-01-01T00:00:00Z
	latestInstant   = 253402300799 // 9999-12-31T23:59:59Z
)

// instant reads a timestamp.
func (r *reader) instant(from, to int) (time.Time, bool) {
	if seconds, ok := wholeSeconds(r.b[from:to]); ok {
		return time.Unix(seconds, 0).UTC(), true
	}
	var seconds int64
	var nanos int32
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return time.Time{}, false
		}
		switch {
		case tag == instantSeconds && seen.first(1):
			seconds = int64(number(r.b, at, end))
		case tag == instantNanos && seen.first(2):
			nanos = int32(number(r.b, at, end))
		default:
			return time.Time{}, false
		}
		i = end
	}
	if seconds < earliestInstant || seconds > latestInstant || nanos < 0 || nanos > 999_999_999 {
		return time.Time{}, false
	}
	return time.Unix(seconds, int64(nanos)).UTC(), true
}

// wholeSeconds reads the most frequent form of a timestamp: only seconds, in five
// bytes.
func wholeSeconds(b []byte) (int64, bool) {
	if len(b) != 6 || b[0] != instantSeconds || b[1]&b[2]&b[3]&b[4] < 0x80 || b[5] >= 0x80 {
		return 0, false
	}
	return int64(b[1]&0x7f) | int64(b[2]&0x7f)<<7 | int64(b[3]&0x7f)<<14 | int64(b[4]&0x7f)<<21 | int64(b[5])<<28, true
}

// window reads a number of seconds.
func (r *reader) window(from int) (time.Duration, bool) {
	bits := binary.LittleEndian.Uint64(r.b[from:])
	if bits == r.windowBits { // as those of most pods
		return r.lastWindow, true
	}
	seconds := math.Float64frombits(bits)
	if !(math.Abs(seconds) <= math.MaxFloat64) { // excludes NaN, too
		return 0, false
	}
	r.windowBits, r.lastWindow = bits, conversion.Window(seconds)
	return r.lastWindow, true
}
