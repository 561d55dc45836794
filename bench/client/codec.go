// Package client calls services with pre-encoded requests and inspects responses only as
// far as needed to detect failures, so that callers use little of the processors that
// they share with the measured program.
package client

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// encoded is a codec that leaves messages encoded. It reads into a *[]byte, reusing its
// memory, or only measures into an *int.
type encoded struct{}

var _ encoding.CodecV2 = encoded{}

// Marshal implements encoding.CodecV2.
func (encoded) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (encoded) Unmarshal(data mem.BufferSlice, v any) error {
	if size, ok := v.(*int); ok {
		*size = data.Len()
		return nil
	}
	to := v.(*[]byte)
	*to = (*to)[:0]
	for _, part := range data {
		*to = append(*to, part.ReadOnlyData()...)
	}
	return nil
}

// Name implements encoding.CodecV2.
func (encoded) Name() string { return "proto" }
