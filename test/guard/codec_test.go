package guard_test

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// encoded is a codec that passes messages through: it sends a *[]byte, and stores the length of
// a received message in an *int.
type encoded struct{}

var codec encoded

var _ encoding.CodecV2 = encoded{}

// Marshal implements encoding.CodecV2.
func (encoded) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (encoded) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*int) = data.Len()
	return nil
}

// Name implements encoding.CodecV2.
func (encoded) Name() string { return "proto" }
