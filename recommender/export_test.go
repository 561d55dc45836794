package recommender

import "math/rand/v2"

// What the package's tests need of packages that import it: encoded_test.go sets them.
var (
	AppendEncoded func(b []byte, h *History) []byte
	Decode        func(b []byte) (History, error)
	// NewDecode returns Decode with one memory for all histories.
	NewDecode func() func(b []byte) (History, error)
	// NewPacked returns how a service reads a history for a decision, and writes the next one.
	NewPacked     func() (decode func(b []byte) (History, error), encode func(b []byte, h *History) []byte)
	RandomHistory func(r *rand.Rand) History
)

// Encode returns the history as it is stored.
func Encode(h *History) []byte { return AppendEncoded(nil, h) }
