//go:build linux

package hostile

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"
)

func TestZerosUnpackAsTheyWere(t *testing.T) {
	const times = 3
	data := gzipZeros(times)
	if len(data) > times*1100 {
		t.Errorf("%d MiB take %d bytes", times, len(data))
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r.Multistream(false) // it is one member
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, make([]byte, times<<20)) {
		t.Errorf("%d bytes, %v, want %d MiB of zeros", len(got), err, times)
	}
}
