// Package encoding serializes histories, in a format that every later version reads.
//
//	value := encoding.AppendHistory(nil, &history)
//	...
//	history, err := encoding.DecodeHistory(value)
//
// It decides nothing; package recommender defines what a history means.
package encoding

import (
	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/recommender"
)

// MaxText is how many bytes of one text or one selector are stored: names, conditions'
// messages, errors. A longer one is cut, and says so; no decision depends on it.
const MaxText = codec.MaxText

// Errors of DecodeHistory; test for them with errors.Is.
var (
	// ErrFormat: the value has a format that this version does not know, because a newer
	// version wrote it. With ErrCorrupt it is one of the two: the checksum is right, but the fields
	// do not add up here.
	ErrFormat = codec.ErrFormat
	// ErrCorrupt: the value is not a history.
	ErrCorrupt = codec.ErrCorrupt
)

// AppendHistory appends the history's encoding to b.
func AppendHistory(b []byte, h *recommender.History) []byte {
	return codec.Append(b, h, &codec.Frame{})
}

// DecodeHistory decodes what AppendHistory wrote. The result shares no memory with b. Of a record
// of the service it returns the history alone.
func DecodeHistory(b []byte) (recommender.History, error) {
	var h recommender.History
	err := new(codec.Memory).Decode(b, &h, &codec.Frame{})
	return h, err
}
