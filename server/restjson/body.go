package restjson

import (
	"bytes"
	"io"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
)

// body is a request's body that keeps the error of decoding it. The gateway's generated
// handlers reduce that error to a status with a text, and would lose the list of
// violations; both they and the error handler have access to the body.
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

// Middleware makes DecodeError work. It belongs next to the handlers, inside any other
// middleware that wraps request bodies.
func Middleware(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, pathParams map[string]string) {
		r.Body = &body{ReadCloser: r.Body}
		next(w, r, pathParams)
	}
}

// DecodeError is the error of decoding r's body: an *Error if the JSON was refused,
// otherwise the error of reading (such as *http.MaxBytesError, wrapped). It is nil if
// decoding succeeded, has not happened, or Middleware is not in place. It is meant for
// the gateway's error handler.
func DecodeError(r *http.Request) error {
	if b, ok := r.Body.(*body); ok {
		return b.err
	}
	return nil
}
