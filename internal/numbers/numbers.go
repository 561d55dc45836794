// Package numbers reads the integers and bytes that encoding/binary appends, of values that others may have damaged.
package numbers

import (
	"encoding/binary"
	"math"
)

// Reader takes values from the front of Rest. After the first that is not there, or beyond its bound, it is Bad and
// reads zeros.
type Reader struct {
	Rest []byte
	Bad  bool
}

// Bytes reads n bytes, nil if there are fewer.
func (r *Reader) Bytes(n int) []byte {
	if r.Bad || n > len(r.Rest) {
		r.Bad = true
		return nil
	}
	b := r.Rest[:n]
	r.Rest = r.Rest[n:]
	return b
}

// Byte reads a byte.
func (r *Reader) Byte() byte {
	if b := r.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Fixed reads eight bytes.
func (r *Reader) Fixed() uint64 {
	if b := r.Bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Uvarint reads what binary.AppendUvarint has appended.
func (r *Reader) Uvarint() uint64 {
	if len(r.Rest) > 0 && r.Rest[0] < 0x80 && !r.Bad { // most are
		v := r.Rest[0]
		r.Rest = r.Rest[1:]
		return uint64(v)
	}
	if len(r.Rest) > 1 && r.Rest[1] < 0x80 && !r.Bad {
		v := uint64(r.Rest[0]&0x7f) | uint64(r.Rest[1])<<7
		r.Rest = r.Rest[2:]
		return v
	}
	v, n := binary.Uvarint(r.Rest)
	if r.Bad || n <= 0 {
		r.Bad = true
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Varint reads what binary.AppendVarint has appended.
func (r *Reader) Varint() int64 {
	v := r.Uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// Int32 reads a varint.
func (r *Reader) Int32() int32 {
	v := r.Varint()
	if v < math.MinInt32 || v > math.MaxInt32 {
		r.Bad = true
		return 0
	}
	return int32(v)
}

// Count reads an unsigned varint up to most.
func (r *Reader) Count(most int) int {
	v := r.Uvarint()
	if v > uint64(most) {
		r.Bad = true
		return 0
	}
	return int(v)
}
