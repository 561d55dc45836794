package forecast

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
	"slices"
)

// Basis is what proposals are measured by: the targets of the spec's metrics.
type Basis struct {
	// Shape is a hash of everything but the numbers: other metrics need other replicas.
	Shape uint32
	// Targets are the numbers, above 0.
	Targets []int64
}

// MaxTargets limits Basis.Targets.
const MaxTargets = 256

// Hash tells bases apart.
func (b *Basis) Hash() uint32 {
	h := fnv.New32a()
	var room [8]byte
	binary.LittleEndian.PutUint32(room[:], b.Shape)
	h.Write(room[:4])
	for _, t := range b.Targets {
		binary.LittleEndian.PutUint64(room[:], uint64(t))
		h.Write(room[:])
	}
	return h.Sum32()
}

// For returns the basis for one incarnation of a target: nothing of an earlier one of its name counts.
func (b *Basis) For(incarnation uint64) Basis {
	if incarnation == 0 { // nobody knows
		return *b
	}
	h := fnv.New32a()
	h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, b.Shape), incarnation))
	return Basis{h.Sum32(), b.Targets}
}

// factor returns by what replicas are multiplied under another basis; not ok: they can't be compared. Which metric a
// value came from is not known: of several factors the largest counts, so that the forecast is rather too high, which
// its test shows.
func (b *Basis) factor(to *Basis) (factor float64, ok bool) {
	if b.Shape != to.Shape || len(b.Targets) != len(to.Targets) {
		return 0, false
	}
	for i, old := range b.Targets {
		if old <= 0 || to.Targets[i] <= 0 {
			return 0, false
		}
		factor = max(factor, float64(old)/float64(to.Targets[i]))
	}
	return factor, factor > 0
}

// Ring is the largest proposal per bucket of the last days or weeks. The zero value has none.
type Ring struct {
	// shape is that of all bases, of which now is the one that counts. Each value stays as it was measured, by one of them:
	// of several metrics a factor and the one back are not 1 together.
	shape uint32
	bases [][]int64
	now   uint8
	// factors are by what values of the bases are multiplied now.
	factors [mostBases]float64
	// last is the newest bucket; values are up to it, below 0 where there is none, and of has their bases.
	last   int64
	values []int32
	of     []uint8
}

// mostBases limits the bases of a ring: those of the day, of the night, of an edit, and one more. The values of another one are scaled.
const mostBases = 4

// Newest returns the newest bucket; 0: there is none.
func (r *Ring) Newest() int64 { return r.last }

func (r *Ring) first() int64 { return r.last - int64(len(r.values)) + 1 }

// at returns the value of a bucket; below 0: there is none.
func (r *Ring) at(bucket int64) int32 {
	if i := bucket - r.first(); i >= 0 && i < int64(len(r.values)) {
		return r.under(r.values[i], r.of[i])
	}
	return -1
}

// under is a value of one of the bases under the one that counts.
func (r *Ring) under(value int32, of uint8) int32 {
	if value <= 0 || of == r.now {
		return value
	}
	return scaled(value, r.factors[of])
}

func (r *Ring) basis(i int) *Basis { return &Basis{r.shape, r.bases[i]} }

// use makes one of the bases the one that counts.
func (r *Ring) use(now int) {
	r.now = uint8(now)
	for i := range r.bases {
		r.factors[i], _ = r.basis(i).factor(r.basis(now))
	}
}

// Closed is a bucket that is over.
type Closed struct {
	Bucket   int64
	Replicas int32
	// Of is the hash of the basis that it was measured by.
	Of uint32
}

// Add adds a closed bucket, under the basis that counts now. The larger of two values of one bucket stays: so additions
// may come in any order, and more than once. A bucket that is older than all that is kept begins a new ring: only a
// clock that was wrong made the others.
func (r *Ring) Add(c Closed, now *Basis, season Season) {
	if c.Of == now.Hash() {
		r.Rebase(now)
		r.put(c.Bucket, c.Replicas, r.now, season)
		return
	}
	for i := range r.bases {
		if r.basis(i).Hash() == c.Of {
			r.put(c.Bucket, c.Replicas, uint8(i), season)
			break
		}
	}
	r.Rebase(now)
}

// Rebase makes the values those of another basis: where only numbers differ, by old ÷ new; otherwise none is kept.
func (r *Ring) Rebase(to *Basis) {
	if len(r.bases) > 0 && r.shape == to.Shape {
		i := slices.IndexFunc(r.bases, func(targets []int64) bool { return slices.Equal(targets, to.Targets) })
		if i < 0 {
			if _, ok := r.basis(int(r.now)).factor(to); ok {
				i = r.add(to)
			}
		}
		if i >= 0 {
			r.use(i)
			return
		}
	}
	*r = Ring{shape: to.Shape, bases: [][]int64{slices.Clone(to.Targets)}, last: r.last}
	r.use(0)
}

// add adds a basis in place of those that no value has, and of one if there are too many: the one whose values ended first.
func (r *Ring) add(to *Basis) int {
	var until [mostBases]int
	for i, v := range r.values {
		if v >= 0 {
			until[r.of[i]] = i + 1
		}
	}
	oldest := slices.Index(until[:], slices.Min(until[:]))
	if until[oldest] > 0 {
		factor, _ := r.basis(oldest).factor(to)
		for i, v := range r.values {
			if v > 0 && int(r.of[i]) == oldest {
				r.values[i] = scaled(v, factor)
			}
		}
	}
	var index [mostBases]uint8
	var kept [][]int64
	for i, targets := range r.bases {
		if index[i] = uint8(len(kept)); until[i] > 0 && i != oldest {
			kept = append(kept, targets)
		}
	}
	now := len(kept)
	index[oldest] = uint8(now)
	for i, of := range r.of {
		r.of[i] = index[of]
	}
	kept = append(kept, slices.Clone(to.Targets))
	r.bases = kept
	return now
}

// scaled is a value above 0 under another basis.
func scaled(v int32, factor float64) int32 {
	return int32(min(math.MaxInt32, max(1, math.Round(float64(v)*factor))))
}

func (r *Ring) put(bucket int64, replicas int32, of uint8, season Season) {
	size := int64(season.size())
	if replicas < 0 || bucket <= 0 || bucket > math.MaxInt32 {
		return
	}
	grow := func(at int, by int64) {
		r.values = slices.Insert(r.values, at, slices.Repeat([]int32{-1}, int(by))...)
		r.of = slices.Insert(r.of, at, make([]uint8, by)...)
	}
	switch next := bucket - r.last; {
	case len(r.values) == 0, next >= size, next <= -size:
		r.last, r.values, r.of = bucket, append(r.values[:0], replicas), append(r.of[:0], of)
		return
	case next > 0:
		grow(len(r.values), next)
		r.last = bucket
	case bucket < r.first():
		grow(0, r.first()-bucket)
	}
	if i := bucket - r.first(); r.values[i] < 0 || r.under(replicas, of) > r.under(r.values[i], r.of[i]) {
		r.values[i], r.of[i] = replicas, of
	}
	if over := len(r.values) - int(size); over > 0 {
		r.values, r.of = slices.Delete(r.values, 0, over), slices.Delete(r.of, 0, over)
	}
}

// The encoding: the format, the basis, the newest bucket, and the values from the oldest on. Each is its difference
// from the one before plus 2, zigzag; 0 is followed by how many buckets have none, 1 by how many more are the same.
// The format of several bases has how many more there are, and which counts, before the targets of each, and then how many of
// the values, which begin with the oldest, are by which.

const ringFormat, basesFormat = 1, 2

// MaxBytes limits an encoded ring.
const MaxBytes = 32 << 10

// Errors of Decode; test for them with errors.Is.
var (
	ErrFormat  = errors.New("unknown format of a forecast's record")
	ErrCorrupt = errors.New("corrupt record of a forecast")
)

// Append appends the encoded ring.
func (r *Ring) Append(b []byte) []byte {
	bases := r.bases
	if len(bases) == 0 {
		bases = [][]int64{nil}
	}
	several, format := len(bases) > 1, byte(ringFormat)
	if several {
		format = basesFormat
	}
	b = binary.LittleEndian.AppendUint32(append(b, format), r.shape)
	b = binary.AppendUvarint(b, uint64(len(bases[0])))
	if several {
		b = append(b, byte(len(bases)), r.now)
	}
	for _, targets := range bases {
		for _, t := range targets {
			b = binary.AppendUvarint(b, uint64(t))
		}
	}
	if several {
		b = r.appendBases(b)
	}
	b = binary.AppendUvarint(b, uint64(max(0, r.last)))
	last := int64(0)
	for i := 0; i < len(r.values); {
		v, run := r.values[i], 1
		for i+run < len(r.values) && r.values[i+run] == v {
			run++
		}
		i += run
		if v < 0 {
			b = binary.AppendUvarint(append(b, 0), uint64(run))
			continue
		}
		delta := int64(v) - last
		b = binary.AppendUvarint(b, uint64(delta<<1^delta>>63)+2)
		last = int64(v)
		if run > 3 {
			b = binary.AppendUvarint(append(b, 1), uint64(run-1))
			continue
		}
		for range run - 1 {
			b = append(b, 2)
		}
	}
	return b
}

// appendBases appends how many values are by which basis, up to a 0.
func (r *Ring) appendBases(b []byte) []byte {
	n, of := uint64(0), uint8(0)
	for i, v := range r.values {
		switch {
		case v < 0:
			continue
		case n > 0 && r.of[i] != of:
			b = append(binary.AppendUvarint(b, n), of)
			n = 0
		}
		n, of = n+1, r.of[i]
	}
	if n > 0 {
		b = append(binary.AppendUvarint(b, n), of)
	}
	return append(b, 0)
}

// Decode reads what Append wrote. No bytes are an empty ring.
func Decode(b []byte) (*Ring, error) {
	r := &Ring{}
	if len(b) == 0 {
		return r, nil
	}
	format := b[0]
	if format != ringFormat && format != basesFormat {
		return nil, ErrFormat
	}
	if len(b) < 5 || len(b) > MaxBytes {
		return nil, ErrCorrupt
	}
	r.shape = binary.LittleEndian.Uint32(b[1:])
	b = b[5:]
	bad := false
	next := func(most uint64) uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > most {
			bad, b = true, nil
			return 0
		}
		b = b[n:]
		return v
	}
	targets, bases, now := next(MaxTargets), uint64(1), uint64(0)
	if format == basesFormat {
		bases, now = next(mostBases), next(mostBases-1)
	}
	for range bases {
		var base []int64
		for range targets {
			base = append(base, int64(next(math.MaxInt64)))
		}
		r.bases = append(r.bases, base)
	}
	most := Weekly.size()
	var of []uint8 // of the values that there are
	for format == basesFormat {
		n := next(uint64(most - len(of)))
		if n == 0 {
			break
		}
		of = append(of, slices.Repeat([]uint8{uint8(next(max(bases, 1) - 1))}, int(n))...)
	}
	r.last = int64(next(math.MaxInt32))
	last, has := int64(0), false
	for len(b) > 0 && !bad {
		room := uint64(most - len(r.values))
		switch code := next(math.MaxUint32 + 2); code {
		case 0:
			r.values = append(r.values, slices.Repeat([]int32{-1}, int(next(room)))...)
		case 1:
			bad = bad || !has
			r.values = append(r.values, slices.Repeat([]int32{int32(last)}, int(next(room)))...)
		default:
			code -= 2
			last += int64(code>>1) ^ -int64(code&1)
			has = true
			if bad = bad || room == 0 || last < 0 || last > math.MaxInt32; !bad {
				r.values = append(r.values, int32(last))
			}
		}
	}
	r.of = make([]uint8, len(r.values))
	for i, v := range r.values {
		if format == basesFormat && v >= 0 {
			if len(of) == 0 {
				return nil, ErrCorrupt
			}
			r.of[i], of = of[0], of[1:]
		}
	}
	if bad || len(of) > 0 || now >= bases {
		return nil, ErrCorrupt
	}
	r.use(int(now))
	return r, nil
}

// Recent returns how many of n buckets from one on have a value.
func (r *Ring) Recent(from int64, n int) (known int) {
	for b := from; b < from+int64(n); b++ {
		if r.at(b) >= 0 {
			known++
		}
	}
	return known
}
