//go:build linux

package hostile

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"io"
	"sync"

	"google.golang.org/grpc/encoding"
)

// GzipBomb is a GiB of zeros.
var GzipBomb = sync.OnceValue(func() []byte { return gzipZeros(1 << 10) })

// gzipZeros returns so many MiB of zeros as one member of gzip. One MiB is compressed, and its
// bytes repeated: to compress a GiB takes a minute with the race detector.
func gzipZeros(times int) []byte {
	zeros := make([]byte, 1<<20)
	var piece bytes.Buffer
	w, _ := flate.NewWriter(&piece, flate.DefaultCompression)
	_, _ = w.Write(zeros)
	_ = w.Flush() // it ends with a byte, and refers to nothing before it
	data := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}
	sum := crc32.NewIEEE()
	for range times {
		data = append(data, piece.Bytes()...)
		_, _ = sum.Write(zeros)
	}
	data = append(data, 1, 0, 0, 0xff, 0xff) // the last block, of nothing
	data = binary.LittleEndian.AppendUint32(data, sum.Sum32())
	return binary.LittleEndian.AppendUint32(data, uint32(times<<20))
}

// bomber sends a bomb, whatever it is to compress.
type bomber struct{}

func init() { encoding.RegisterCompressor(bomber{}) }

// Name implements encoding.Compressor.
func (bomber) Name() string { return "gzip" }

// Compress implements encoding.Compressor.
func (bomber) Compress(w io.Writer) (io.WriteCloser, error) { return bombWriter{w}, nil }

// Decompress implements encoding.Compressor.
func (bomber) Decompress(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }

type bombWriter struct{ w io.Writer }

// Write implements io.Writer.
func (bombWriter) Write(data []byte) (int, error) { return len(data), nil }

// Close implements io.Closer.
func (b bombWriter) Close() error {
	_, err := b.w.Write(GzipBomb())
	return err
}

// Raw is a message that is encoded already.
type Raw struct{ Data []byte }

// RawCodec takes them.
type RawCodec struct{}

// Marshal implements encoding.Codec.
func (RawCodec) Marshal(v any) ([]byte, error) { return v.(*Raw).Data, nil }

// Unmarshal implements encoding.Codec.
func (RawCodec) Unmarshal(data []byte, v any) error {
	v.(*Raw).Data = bytes.Clone(data)
	return nil
}

// Name implements encoding.Codec.
func (RawCodec) Name() string { return "proto" }
