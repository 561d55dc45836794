package transcode

import "encoding/binary"

// begin appends a tag and returns the position of the length.
func (e *encoder) begin(tag uint64) int {
	e.uvarint(tag)
	e.out = append(e.out, 0)
	return len(e.out) - 1
}

// end sets the length of the value. One byte is reserved for it; a longer length moves
// the value.
func (e *encoder) end(length int) {
	n := len(e.out) - length - 1
	if n < 0x80 {
		e.out[length] = byte(n)
		return
	}
	var varint [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(varint[:], uint64(n))
	e.out = append(e.out, varint[:size-1]...) // reserves the bytes
	copy(e.out[length+size:], e.out[length+1:])
	copy(e.out[length:], varint[:size])
}

func (e *encoder) bytes(tag uint64, content []byte) {
	e.uvarint(tag)
	e.uvarint(uint64(len(content)))
	e.out = append(e.out, content...)
}

// varint appends a field with a number, unless zero is implicit.
func (e *encoder) varint(tag, n uint64, implicit bool) {
	if n != 0 || !implicit {
		e.uvarint(tag)
		e.uvarint(n)
	}
}

func (e *encoder) uvarint(n uint64) {
	for n >= 0x80 {
		e.out = append(e.out, byte(n)|0x80)
		n >>= 7
	}
	e.out = append(e.out, byte(n))
}
