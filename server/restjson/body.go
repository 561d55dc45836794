package restjson

import (
	"bytes"
	"io"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
)

// body is a request's body that keeps the error that decoding it ended with.
// The gateway's generated handlers flatten that error into a status with a
// text, and would lose the list of violations; the body is what they and the
// error handler both get to see.
type body struct {
	io.ReadCloser
	err error
}

// Whole is a complete body: it is decoded in place.
func Whole(data []byte) io.ReadCloser { return &whole{bytes.NewReader(data), data} }

type whole struct {
	*bytes.Reader
	data []byte
}

// Close implements io.Closer.
func (*whole) Close() error { return nil }

// readAll reads a body to its end.
func readAll(r io.Reader) ([]byte, error) {
	if b, ok := r.(*body); ok {
		if w, ok := b.ReadCloser.(*whole); ok && w.Len() == len(w.data) {
			return w.data, nil
		}
	}
	return io.ReadAll(r)
}

// Middleware makes DecodeError work. It belongs next to the handlers, inside
// whatever else wraps request bodies.
func Middleware(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, pathParams map[string]string) {
		r.Body = &body{ReadCloser: r.Body}
		next(w, r, pathParams)
	}
}

// DecodeError is the error that decoding r's body ended with: an *Error if the
// JSON was refused, otherwise what reading failed with (such as
// *http.MaxBytesError, wrapped). It is nil if decoding went well, has not
// happened, or Middleware is not in place. It is meant for the gateway's error
// handler.
func DecodeError(r *http.Request) error {
	if b, ok := r.Body.(*body); ok {
		return b.err
	}
	return nil
}
