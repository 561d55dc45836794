package nomad

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// An answer that is too large is an error, however it is chunked. It is never truncated to
// something that may look valid.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	for n, tooLarge := range map[int]bool{0: false, 9: false, 10: false, 11: true, 100: true} {
		for _, pieces := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
			body := &bounded{io.NopCloser(pieces(strings.NewReader(strings.Repeat("x", n)))), 10}
			read, err := io.ReadAll(body)
			if errors.Is(err, errTooLarge) != tooLarge || !tooLarge && len(read) != n {
				t.Errorf("%d bytes: read %d, %v", n, len(read), err)
			}
		}
	}
}
