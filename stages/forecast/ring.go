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
	basis Basis
	// last is the newest bucket; values are up to it, below 0 where there is none.
	last   int64
	values []int32
}

func (r *Ring) first() int64 { return r.last - int64(len(r.values)) + 1 }

// at returns the value of a bucket; below 0: there is none.
func (r *Ring) at(bucket int64) int32 {
	if i := bucket - r.first(); i >= 0 && i < int64(len(r.values)) {
		return r.values[i]
	}
	return -1
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
	switch c.Of {
	case now.Hash():
		r.Rebase(now)
		r.put(c.Bucket, c.Replicas, season)
	case r.basis.Hash():
		r.put(c.Bucket, c.Replicas, season)
		r.Rebase(now)
	default:
		r.Rebase(now)
	}
}

// Rebase makes the values those of another basis: where only numbers differ, by old ÷ new; otherwise none is kept.
func (r *Ring) Rebase(to *Basis) {
	if r.basis.Shape == to.Shape && slices.Equal(r.basis.Targets, to.Targets) {
		return
	}
	factor, ok := r.basis.factor(to)
	r.basis = Basis{to.Shape, slices.Clone(to.Targets)}
	if !ok {
		r.values = nil
		return
	}
	for i, v := range r.values {
		if v > 0 {
			r.values[i] = scaled(v, factor)
		}
	}
}

// scaled is a value above 0 under another basis.
func scaled(v int32, factor float64) int32 {
	return int32(min(math.MaxInt32, max(1, math.Round(float64(v)*factor))))
}

func (r *Ring) put(bucket int64, replicas int32, season Season) {
	size := int64(season.size())
	if replicas < 0 || bucket <= 0 || bucket > math.MaxInt32 {
		return
	}
	switch next := bucket - r.last; {
	case len(r.values) == 0, next >= size, next <= -size:
		r.last, r.values = bucket, append(r.values[:0], replicas)
		return
	case next > 0:
		for range next {
			r.values = append(r.values, -1)
		}
		r.last = bucket
	case bucket < r.first():
		r.values = slices.Insert(r.values, 0, slices.Repeat([]int32{-1}, int(r.first()-bucket))...)
	}
	i := bucket - r.first()
	r.values[i] = max(r.values[i], replicas)
	if over := int64(len(r.values)) - size; over > 0 {
		r.values = slices.Delete(r.values, 0, int(over))
	}
}

// The encoding: the format, the basis, the newest bucket, and the values from the oldest on. Each is its difference
// from the one before plus 2, zigzag; 0 is followed by how many buckets have none, 1 by how many more are the same.

const ringFormat = 1

// MaxBytes limits an encoded ring.
const MaxBytes = 32 << 10

// Errors of Decode; test for them with errors.Is.
var (
	ErrFormat  = errors.New("unknown format of a forecast's record")
	ErrCorrupt = errors.New("corrupt record of a forecast")
)

// Append appends the encoded ring.
func (r *Ring) Append(b []byte) []byte {
	b = append(b, ringFormat)
	b = binary.LittleEndian.AppendUint32(b, r.basis.Shape)
	b = binary.AppendUvarint(b, uint64(len(r.basis.Targets)))
	for _, t := range r.basis.Targets {
		b = binary.AppendUvarint(b, uint64(t))
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

// Decode reads what Append wrote. No bytes are an empty ring.
func Decode(b []byte) (*Ring, error) {
	r := &Ring{}
	if len(b) == 0 {
		return r, nil
	}
	if b[0] != ringFormat {
		return nil, ErrFormat
	}
	if len(b) < 5 || len(b) > MaxBytes {
		return nil, ErrCorrupt
	}
	r.basis.Shape = binary.LittleEndian.Uint32(b[1:])
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
	for range next(MaxTargets) {
		r.basis.Targets = append(r.basis.Targets, int64(next(math.MaxInt64)))
	}
	r.last = int64(next(math.MaxInt32))
	most, last, has := Weekly.size(), int64(0), false
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
	if bad {
		return nil, ErrCorrupt
	}
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
