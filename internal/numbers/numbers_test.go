package numbers_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/numbers"
)

// What encoding/binary appends is read again, and is bad from wherever it is cut short.
func TestReaderReadsWhatBinaryAppends(t *testing.T) {
	values := []int64{0, 1, -1, 63, 64, -64, -65, 127, 128, 8191, 8192, 1 << 20, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64}
	var b []byte
	for _, v := range values {
		b = binary.AppendUvarint(binary.AppendVarint(b, v), uint64(v))
	}
	b = append(binary.LittleEndian.AppendUint64(b, 1<<63|5), 7, 8, 9)
	for n := range len(b) + 1 {
		r, wrong := numbers.Reader{Rest: b[:n]}, 0
		check := func(ok bool) {
			if !ok {
				wrong++
			}
		}
		for _, v := range values {
			check(r.Varint() == v)
			check(r.Uvarint() == uint64(v))
		}
		check(r.Fixed() == 1<<63|5)
		check(r.Byte() == 7)
		check(bytes.Equal(r.Bytes(2), []byte{8, 9}))
		if whole := n == len(b); r.Bad == whole || whole && (wrong > 0 || len(r.Rest) > 0) {
			t.Errorf("%d of %d bytes: bad is %v, %d values are wrong, %d bytes are left", n, len(b), r.Bad, wrong, len(r.Rest))
		}
		if r.Bad && (r.Varint() != 0 || r.Uvarint() != 0 || r.Fixed() != 0 || r.Byte() != 0 || r.Bytes(0) != nil) {
			t.Errorf("%d of %d bytes: what is read after a bad value is not zero", n, len(b))
		}
	}
}

func TestReaderIsBadBeyondBounds(t *testing.T) {
	for name, read := range map[string]func(r *numbers.Reader) bool{
		"Int32":            func(r *numbers.Reader) bool { return r.Int32() == 0 },
		"Count":            func(r *numbers.Reader) bool { return r.Count(math.MaxInt32) == 0 },
		"Uvarint too long": func(r *numbers.Reader) bool { r.Rest = bytes.Repeat([]byte{0xff}, 11); return r.Uvarint() == 0 },
	} {
		r := numbers.Reader{Rest: binary.AppendVarint(nil, math.MaxInt32+1)}
		if !read(&r) || !r.Bad {
			t.Errorf("%s: bad is %v, or the value is not 0", name, r.Bad)
		}
	}
}
