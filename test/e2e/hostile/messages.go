//go:build linux

package hostile

import "bytes"

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
