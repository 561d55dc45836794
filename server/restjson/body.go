package restjson

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"reflect"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// body is a request's body that keeps the error of decoding it. The gateway's generated
// handlers reduce that error to a status with a text, and would lose the list of
// violations; both they and the error handler have access to the body.
type body struct {
	io.ReadCloser
	path map[string]string
	err  error
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

// contradicted refuses a message that names another resource than the path, whose name would replace it.
func (b *body) contradicted(v any) error {
	msg, ok := v.(proto.Message)
	if field := reflect.ValueOf(v); !ok && field.Kind() == reflect.Pointer {
		if msg, ok = field.Elem().Interface().(proto.Message); !ok {
			return nil
		}
	}
	for name, inPath := range b.path {
		m := msg.ProtoReflect()
		fd := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		if fd == nil || fd.Kind() != protoreflect.StringKind {
			continue
		}
		if inBody := m.Get(fd).String(); inBody != "" && inBody != inPath {
			return &Error{Violations: []Violation{{Field: fd.JSONName(), Description: fmt.Sprintf("%q is not the name in the path, %q: leave it out", clip(inBody, maxForeign), inPath)}}}
		}
	}
	return nil
}

// Middleware makes DecodeError work, and bodies contradict no path. It belongs next to the handlers, inside any other
// middleware that wraps request bodies.
func Middleware(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, pathParams map[string]string) {
		r.Body = &body{ReadCloser: r.Body, path: pathParams}
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
