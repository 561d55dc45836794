package bounded

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// However it is chunked, and when it is read again.
func TestABodyThatIsTooLargeFails(t *testing.T) {
	t.Parallel()
	errTooLarge := errors.New("too large")
	for n, tooLarge := range map[int]bool{0: false, 9: false, 10: false, 11: true, 100: true} {
		for _, pieces := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
			body := Body(io.NopCloser(pieces(strings.NewReader(strings.Repeat("x", n)))), 10, errTooLarge)
			for _, want := range []int{n, 0} {
				read, err := io.ReadAll(body)
				if errors.Is(err, errTooLarge) != tooLarge || !tooLarge && len(read) != want {
					t.Errorf("%d bytes: read %d, want %d, %v", n, len(read), want, err)
				}
			}
		}
	}
}
