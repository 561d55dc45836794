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
	// b is the message, texts the copies of what is kept of it.
	b     []byte
	texts texts
	// budget is what may be made of the message; spent says that it was not enough.
	budget *cost.Budget
	spent  bool
	slabs
	sameContainers run[recommender.Container]
	sameInits      run[recommender.InitContainer]
	// variants are the containers last read, in a ring.
	variants [6]variant
	oldest   int
	// noted reports whether an explanation would tell of something here.
	noted bool
	// unsorted reports whether the pods do not come in the order of their names.
	unsorted bool
	// names finds names that are there twice.
	names []uint64
	// sampled and valued are how many of the pods were met again in samples and in
	// custom metrics, one after the other.
	sampled, valued int
	// lastSamples are those of the pod before.
	lastSamples []recommender.ContainerMetrics
	section     section
}

// texts is where texts are copied to: many into one piece, which is never written
// to again where it has been.
type texts struct {
	piece strings.Builder
	// size is that of the next piece.
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

// slabs are what a request's parts lie in, used again for the next one. What lies
// beyond their lengths is zero. One that grows moves; what points to where it was
// is complete and stays.
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

// grow lengthens a slab by one.
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

// growPart is grow for parts of the fields of a section. Once the budget is spent it makes
// parts that belong to no section.
func growPart[T any](r *reader, slab *[]T, at int) *T {
	if n := len(*slab); n == cap(*slab) && n >= fewParts && !reserve(r, slab, r.section.parts(r.b, n, at)) {
		return new(T)
	}
	return grow(slab)
}

// growField is grow for the fields of a section themselves.
func growField[T any](r *reader, slab *[]T, tag byte, at int) *T {
	n := len(*slab)
	r.section.enter(tag, at, n)
	if n == cap(*slab) && n >= fewParts {
		r.section.look(r.b)
		if !reserve(r, slab, r.section.fields) {
			return new(T)
		}
	}
	return grow(slab)
}

// reserve makes room for so many in all, but for no fewer than twice as many as there
// are, so that it is seldom needed. False: there may not be so many.
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

// part returns what lies in a slab from first on. It can't grow into what comes
// after it.
func part[T any](slab []T, first int) []T { return slab[first:len(slab):len(slab)] }

// drop empties a slab, so that it holds on to nothing.
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

// fields are the fields of a message that were read. A second one would replace
// the first, or be merged with it, which the long way may do.
type fields uint32

// first notes a field and reports whether it was not there before.
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

// again reads a text that is likely to be the one given. Then it is the very same
// string, which is quickly compared, and takes no memory.
func (r *reader) again(likely string, from, to, longest int) (string, bool) {
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
// strings, which are quickly compared.
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

// isASCII is isText for what is short and of few characters.
func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// Tags of Timestamp, and the instants that it may hold.
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

// wholeSeconds reads what most timestamps are: seconds alone, in five bytes.
func wholeSeconds(b []byte) (int64, bool) {
	if len(b) != 6 || b[0] != instantSeconds || b[1]&b[2]&b[3]&b[4] < 0x80 || b[5] >= 0x80 {
		return 0, false
	}
	return int64(b[1]&0x7f) | int64(b[2]&0x7f)<<7 | int64(b[3]&0x7f)<<14 | int64(b[4]&0x7f)<<21 | int64(b[5])<<28, true
}

// window reads a number of seconds.
func (r *reader) window(from int) (time.Duration, bool) {
	seconds := math.Float64frombits(binary.LittleEndian.Uint64(r.b[from:]))
	if !(math.Abs(seconds) <= math.MaxFloat64) { // nor is NaN
		return 0, false
	}
	return conversion.Window(seconds), true
}
