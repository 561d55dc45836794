package admission

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// HangUp closes the connection after the response. Otherwise net/http would wait for the rest of
// the body.
func HangUp(w http.ResponseWriter) { w.Header().Set("Connection", "close") }

// AnswerUnread lets callers read the answer to a body that was not read to its end. net/http waits a moment for them, unless they
// asked for the end of the connection, as HTTP/1.0 does: then it closes it at once, with bytes unread, for which the system resets
// it, and the caller may lose the answer.
func AnswerUnread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.Close || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		read, own := &readBody{ReadCloser: r.Body}, *r
		own.Body = read
		next.ServeHTTP(w, &own)
		if !read.ended { // what has it wait is a body over a limit
			_, _ = http.MaxBytesReader(w, io.NopCloser(strings.NewReader(" ")), 0).Read(make([]byte, 1))
		}
	})
}

// readBody is a body that knows whether it was read to its end.
type readBody struct {
	io.ReadCloser
	ended bool
}

// Read implements io.Reader.
func (b *readBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}

// ErrCut is the error of a body that was cut off to free memory for others.
var ErrCut = errors.New("too many unfinished messages")

// ReadBody reads a body to its end, or up to the limit, in bytes. FreeBody may take it back.
func (g *Guard) ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	var cut atomic.Bool
	holder := g.Unfinished.Begin(func() {
		cut.Store(true)
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	})
	defer holder.End()
	body := http.MaxBytesReader(w, r.Body, limit)
	data := newBody(r.ContentLength)
	for {
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if n > 0 {
			holder.Add(n)
		}
		switch {
		case errors.Is(err, io.EOF):
			return data, nil
		case cut.Load():
			return nil, ErrCut
		case err != nil:
			return nil, err
		}
		if len(data) == cap(data) {
			data = grown(data, r.ContentLength)
		}
	}
}

// bodies are first buffers that are not in use.
var bodies = sync.Pool{New: func() any { return new([firstBody]byte) }}

// newBody returns the first buffer for a body of that announced length, -1 if unknown. A pooled one
// is no larger than what any call may have by announcing a long body.
func newBody(announced int64) []byte {
	if announced < firstBody/4 {
		return make([]byte, 0, max(512, announced+1))
	}
	return bodies.Get().(*[firstBody]byte)[:0]
}

// FreeBody returns the memory of a body that ReadBody returned and nobody uses any more.
func FreeBody(data []byte) {
	if cap(data) == firstBody {
		bodies.Put((*[firstBody]byte)(data[:firstBody]))
	}
}

// grown grows the buffer to twice its size, but not beyond the announced length.
func grown(data []byte, announced int64) []byte {
	size := 2 * cap(data)
	if announced >= int64(len(data)) && announced < int64(size) {
		size = int(announced) + 1 // one more byte, to detect the end
	}
	if size <= len(data) {
		size = len(data) + 1
	}
	larger := make([]byte, len(data), size)
	copy(larger, data)
	return larger
}
