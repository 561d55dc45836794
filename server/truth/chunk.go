package truth

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"io"
	"sync"
)

// The formats of a chunk: its first byte. What follows of a packed one is its length, as a varint, and the
// compressed bytes.
const (
	plainFormat = 1
	packed      = 2
)

// packers are at the fastest level: the others clear half a megabyte for each chunk.
var packers = sync.Pool{New: func() any {
	w, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is valid
	}
	return w
}}

// Seal returns what an Encoder has taken in the form in which it is kept. It takes some ten microseconds.
func Seal(chunk []byte) []byte {
	var to bytes.Buffer
	to.Grow(len(chunk)/2 + 16)
	to.WriteByte(packed)
	to.Write(binary.AppendUvarint(nil, uint64(len(chunk))))
	w := packers.Get().(*flate.Writer)
	w.Reset(&to)
	_, err := w.Write(chunk)
	if err == nil {
		err = w.Close()
	}
	w.Reset(io.Discard)
	packers.Put(w)
	if err != nil || to.Len() > len(chunk) {
		return append([]byte{plainFormat}, chunk...)
	}
	return to.Bytes()
}

// Open decodes a sealed chunk.
func Open(sealed []byte) (steps []Step, reports []Report, err error) {
	if len(sealed) == 0 {
		return nil, nil, ErrCorrupt
	}
	chunk := sealed[1:]
	switch sealed[0] {
	case plainFormat:
	case packed:
		length, n := binary.Uvarint(chunk)
		if n <= 0 || length > MaxChunk {
			return nil, nil, ErrCorrupt
		}
		unpacked := make([]byte, 0, min(length, 64<<10))
		from := flate.NewReader(bytes.NewReader(chunk[n:]))
		to := bytes.NewBuffer(unpacked)
		if read, err := io.Copy(to, io.LimitReader(from, int64(length)+1)); err != nil || uint64(read) != length {
			return nil, nil, ErrCorrupt
		}
		chunk = to.Bytes()
	default:
		return nil, nil, ErrFormat
	}
	return Decode(chunk)
}
