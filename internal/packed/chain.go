package packed

import (
	"encoding/binary"
	"math/bits"
)

// chain is where in the numbers of the recommendations one is: after the given one. Instants are differences of
// differences, counts differences.
type chain struct {
	at, step int64
	replicas int64
}

// append appends the next recommendation.
func (c *chain) append(b []byte, s Slot) []byte {
	next := s.At - c.at
	b = appendVarint(appendVarint(b, next-c.step), int64(s.Replicas)-c.replicas)
	c.at, c.step, c.replicas = s.At, next, int64(s.Replicas)
	return b
}

// appendVarint is binary.AppendVarint, optimized for the numbers of lists.
func appendVarint(b []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		b = append(b, byte(u)|0x80)
		u >>= 7
	}
	return append(b, byte(u))
}

// Entry is a type of recommendations.
type Entry interface {
	~struct {
		Replicas int32
		At       int64
	}
}

// Append appends the numbers of recommendations; base is the reference of the first instant, in nanoseconds.
func Append[T Entry](b []byte, base int64, all []T) []byte {
	c := chain{at: base}
	for _, one := range all {
		b = c.append(b, Slot(one))
	}
	return b
}

// Take takes what Append appended from the front of b, as many as there is room for, and returns the rest; ok is
// false if there are fewer.
func Take[T Entry](b []byte, base int64, to []T) (rest []byte, ok bool) {
	return take(&chain{at: base}, b, to)
}

func take[T Entry](c *chain, b []byte, to []T) (rest []byte, ok bool) {
	at, step, replicas := c.at, c.step, c.replicas
	for i := range to {
		var numbers [2]int64
		for j := range numbers {
			v, n := number(b)
			if n <= 0 {
				return nil, false
			}
			numbers[j], b = v, b[n:]
		}
		step += numbers[0]
		at += step
		replicas = int64(int32(replicas + numbers[1]))
		to[i] = T(Slot{Replicas: int32(replicas), At: at})
	}
	c.at, c.step, c.replicas = at, step, replicas
	return b, true
}

// number is binary.Varint. A loop over the bytes of numbers of unlike lengths waits for wrong guesses of the
// processor; this has none.
func number(b []byte) (v int64, n int) {
	if len(b) >= 8 {
		if first := b[0]; first < 0x80 {
			return int64(first>>1) ^ -int64(first&1), 1
		}
		word := binary.LittleEndian.Uint64(b)
		if ends := ^word & 0x8080808080808080; ends != 0 {
			last := bits.TrailingZeros64(ends)
			word &= 2<<last - 1
			word &= 0x7f7f7f7f7f7f7f7f
			word = word&0x007f007f007f007f | word&0x7f007f007f007f00>>1
			word = word&0x00003fff00003fff | word&0x3fff00003fff0000>>2
			word = word&0x000000000fffffff | word&0x0fffffff00000000>>4
			return int64(word>>1) ^ -int64(word&1), last/8 + 1
		}
	}
	return binary.Varint(b)
}
