// Package bounded bounds what others answer.
package bounded

import "io"

// Body returns a body that fails with tooLarge, rather than being truncated to something that may look valid, if more
// than most bytes are read of it.
func Body(of io.ReadCloser, most int64, tooLarge error) io.ReadCloser {
	return &body{of, most, tooLarge}
}

type body struct {
	io.ReadCloser
	left     int64
	tooLarge error
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, b.tooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, b.tooLarge
	}
	return n, err
}
