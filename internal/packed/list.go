// Package packed has a long list of recommendations as bytes: a decision reads few of them, and the next list has
// most of them as they are. The engine and the format of records share it.
//
// The numbers are those that format 1 of records has had from the beginning. An index says of each block of
// PerBlock recommendations where its numbers begin, and the least and the greatest of them: a block that is
// before a window, or whose counts can't decide it, stays unread.
package packed

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Slot is one recommendation: a count, and an instant in nanoseconds since the Unix epoch.
type Slot struct {
	Replicas int32
	At       int64
}

const (
	// PerBlock is how many recommendations a block has, the last one up to as many.
	PerBlock = 128
	// Least is how many recommendations a list has at least that gets an index: fewer are read faster than it.
	Least = 2 * PerBlock
)

// Fits reports whether a list with this instant may have an index: for others, of the years before 1824 and after
// 2116, the sum of an instant and a window may overflow.
func Fits(at int64) bool { return -1<<62 < at && at < 1<<62 }

// Block is what is known of a block without reading it.
type Block struct {
	// Oldest and Newest are the least and the greatest instant, Lowest and Highest the counts.
	Oldest, Newest  int64
	Lowest, Highest int32
	// before is where its numbers continue, and [from, to) where they are.
	before   chain
	from, to int
}

// add adds a recommendation to what is known of the block; first reports whether it is the first one.
func (b *Block) add(s Slot, first bool) {
	if first {
		b.Oldest, b.Newest, b.Lowest, b.Highest = s.At, s.At, s.Replicas, s.Replicas
		return
	}
	b.Oldest, b.Newest = min(b.Oldest, s.At), max(b.Newest, s.At)
	b.Lowest, b.Highest = min(b.Lowest, s.Replicas), max(b.Highest, s.Replicas)
}

// List is a list of recommendations as bytes. It is read only.
type List struct {
	n       int
	base    int64
	numbers []byte
	blocks  []Block
	reader  *reader
	// change is what With has changed, nil: nothing.
	change *change
}

type change struct {
	slot int
	to   Slot
}

// reader is what was read of a list last: a decision needs the same block more than once.
type reader struct {
	read  [2]int // the blocks plus 1, 0: none
	next  int
	count int
	slots [2][PerBlock]Slot
}

// Room is memory for one list after the other.
type Room struct {
	packed List
	reader reader
	// written is the index of the list that was appended last.
	written []Block
}

// Len returns how many recommendations there are.
func (p *List) Len() int {
	if p.change != nil && p.change.slot == p.n {
		return p.n + 1
	}
	return p.n
}

// Changed reports whether With made the list: then it can only be appended, or made a list of.
func (p *List) Changed() bool { return p.change != nil }

// Blocks are the list's.
func (p *List) Blocks() []Block { return p.blocks }

// LenOf returns how many recommendations a block has.
func (p *List) LenOf(block int) int { return min(PerBlock, p.n-block*PerBlock) }

// Read returns the recommendations of a block, valid until two others are read.
func (p *List) Read(block int) []Slot {
	r := p.reader
	for i, read := range r.read {
		if read == block+1 {
			r.next = 1 - i
			return r.slots[i][:p.LenOf(block)]
		}
	}
	i := r.next
	r.read[i], r.next, r.count = block+1, 1-i, r.count+1
	b := &p.blocks[block]
	before, slots := b.before, r.slots[i][:p.LenOf(block)]
	if _, ok := take(&before, p.numbers[b.from:b.to], slots); !ok {
		clear(slots) // nothing that Append wrote
	}
	return slots
}

// Reads returns how many blocks were read.
func (p *List) Reads() int { return p.reader.count }

// With returns the list with another recommendation in a slot, or with one more if the slot is below 0. Its
// memory is that of p.
func (p *List) With(slot int, s Slot) *List {
	if slot < 0 {
		slot = p.n
	}
	with := *p
	with.change = &change{slot, s}
	return &with
}

// All returns the recommendations, with capacity for one more.
func All[T Entry](p *List) []T {
	all := make([]T, p.n, p.Len()+1)
	if _, ok := Take(p.numbers, p.base, all); !ok {
		clear(all)
	}
	switch c := p.change; {
	case c == nil:
	case c.slot == p.n:
		all = append(all, T(c.to))
	default:
		all[c.slot] = T(c.to)
	}
	return all
}

// Append appends the numbers of the list, relative to that base, and returns their index, which is valid until the
// next list is appended in the same room.
func (p *List) Append(b []byte, base int64, room *Room) ([]byte, []Block) {
	b = slices.Grow(b, len(p.numbers)+grows)
	room.written = append(room.written[:0], p.blocks...)
	start, index, changed := len(b), room.written, -1
	if p.change != nil {
		if changed = p.change.slot; changed == len(index)*PerBlock {
			last := len(index) - 1
			after := index[last].before
			after.skip(p.Read(last))
			index = append(index, Block{before: after})
		}
	}
	var entries [PerBlock]Slot
	var carried *chain // where numbers continue after a block whose last ones are others
	for i := range index {
		block, first := &index[i], i*PerBlock
		numbers, old := p.numbers[block.from:block.to], block.before
		if carried != nil {
			block.before = *carried
		}
		n := max(0, p.LenOf(i))
		m := n // with an appended one
		if changed == p.n && changed-first < PerBlock {
			m++
		}
		lo, hi := m, 0 // the numbers that are others: each depends on the two recommendations before
		if from, to := max(first, changed), min(first+m, changed+3); changed >= 0 && from < to {
			lo, hi = from-first, to-first
		}
		if i == 0 && base != p.base {
			lo, hi, block.before.at = 0, max(hi, min(2, m)), base
		}
		block.from, carried = len(b)-start, nil
		if lo >= hi {
			b = append(b, numbers...)
			block.to = len(b) - start
			continue
		}
		if first <= changed && changed < first+m {
			if n > 0 {
				copy(entries[:], p.Read(i))
			}
			entries[changed-first] = p.change.to
			for j := range entries[:m] {
				block.add(entries[j], j == 0)
			}
		} else {
			take(&old, numbers, entries[:hi])
		}
		at := block.before
		at.skip(entries[:lo])
		b = append(b, numbers[:length(numbers, 2*lo)]...)
		for _, s := range entries[lo:hi] {
			b = at.append(b, s)
		}
		b = append(b, numbers[length(numbers, 2*min(hi, n)):]...)
		if block.to = len(b) - start; hi == m {
			carried = &at
		}
	}
	room.written = index
	return b, index
}

// grows is how many bytes a change adds at most.
const grows = 4 * 2 * binary.MaxVarintLen64

// skip goes on after these recommendations.
func (c *chain) skip(all []Slot) {
	n := len(all)
	if n == 0 {
		return
	}
	if n > 1 {
		c.at = all[n-2].At
	}
	c.step, c.at, c.replicas = all[n-1].At-c.at, all[n-1].At, int64(all[n-1].Replicas)
}

// length returns how many bytes so many numbers take.
func length(b []byte, numbers int) (bytes int) {
	const ends = 0x8080808080808080
	for len(b)-bytes >= 8 {
		n := bits.OnesCount64(^binary.LittleEndian.Uint64(b[bytes:]) & ends)
		if n >= numbers {
			break
		}
		bytes, numbers = bytes+8, numbers-n
	}
	for ; numbers > 0 && bytes < len(b); bytes++ {
		if b[bytes] < 0x80 {
			numbers--
		}
	}
	return bytes
}

// Pack is Append that returns the index, too.
func Pack[T Entry](b []byte, base int64, all []T) (_ []byte, index []Block) {
	start, at := len(b), chain{at: base}
	for i, one := range all {
		s := Slot(one)
		if i%PerBlock == 0 {
			index = append(index, Block{before: at, from: len(b) - start})
		}
		b = at.append(b, s)
		block := &index[len(index)-1]
		block.add(s, i%PerBlock == 0)
		block.to = len(b) - start
	}
	return b, index
}

// sizeOfLength is the size of the last number of an index, in bytes.
const sizeOfLength = 4

// AppendIndex appends the index of a list whose base that is: it ends with how many bytes the numbers take, in
// sizeOfLength bytes.
func AppendIndex(b []byte, base int64, index []Block) []byte {
	before := chain{at: base}
	for i := range index {
		block := &index[i]
		b = appendVarint(b, int64(block.to-block.from))
		if i > 0 {
			b = appendVarint(appendVarint(appendVarint(b, block.before.at-before.at), block.before.step), block.before.replicas-before.replicas)
		}
		before = block.before
		next := base
		if i+1 < len(index) {
			next = index[i+1].before.at
		}
		b = appendVarint(appendVarint(b, block.Oldest-before.at-before.step), block.Newest-next)
		b = appendVarint(appendVarint(b, int64(block.Lowest)-before.replicas), int64(block.Highest)-int64(block.Lowest))
	}
	return binary.LittleEndian.AppendUint32(b, uint32(index[len(index)-1].to))
}

// LengthIn returns how many bytes the numbers take whose index is at the end of b; ok is false if there is none.
func LengthIn(b []byte) (bytes int, ok bool) {
	if len(b) < sizeOfLength {
		return 0, false
	}
	bytes = int(binary.LittleEndian.Uint32(b[len(b)-sizeOfLength:]))
	return bytes, bytes <= len(b)
}

// Open returns the list of n recommendations with these numbers and this index; nil if they do not fit. It is valid
// until the next is opened in the room, and reads the numbers later.
func (r *Room) Open(numbers []byte, base int64, n int, index []byte) *List {
	p := &r.packed
	*p = List{n: n, base: base, numbers: numbers, blocks: p.blocks[:0], reader: &r.reader}
	r.reader.read, r.reader.count = [2]int{}, 0
	if n < Least || len(index) < sizeOfLength || n > 1<<20 {
		return nil
	}
	index = index[:len(index)-sizeOfLength]
	ok := true
	next := func() int64 {
		v, size := number(index)
		if size <= 0 {
			ok, size = false, 0
		}
		index = index[size:]
		return v
	}
	at, from := chain{at: base}, 0
	for first := 0; first < n && ok; first += PerBlock {
		block := Block{from: from, to: from + int(next())}
		if first > 0 {
			at.at, at.step, at.replicas = at.at+next(), next(), at.replicas+next()
			p.blocks[len(p.blocks)-1].Newest += at.at
		}
		block.before = at
		block.Oldest, block.Newest = at.at+at.step+next(), next()
		block.Lowest = int32(at.replicas + next())
		block.Highest = block.Lowest + int32(next())
		if ok = ok && from < block.to && block.to <= len(numbers); ok {
			p.blocks = append(p.blocks, block)
		}
		from = block.to
	}
	if !ok || len(index) > 0 || from != len(numbers) {
		return nil
	}
	p.blocks[len(p.blocks)-1].Newest += base
	return p
}
