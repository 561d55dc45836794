package recommender

import "math/rand/v2"

// What the package's tests need of packages that import it: encoded_test.go sets them.
var (
	AppendEncoded func(b []byte, h *History) []byte
	Decode        func(b []byte) (History, error)
	// NewDecode returns Decode with one memory for all histories.
	NewDecode     func() func(b []byte) (History, error)
	RandomHistory func(r *rand.Rand) History
)

// Encode returns the history as it is stored.
func Encode(h *History) []byte { return AppendEncoded(nil, h) }
