package restjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Marshaler is the gateway's JSON. It writes fields in the order and with the
// JSON names of the .proto files, those with default values too (zero replicas,
// empty lists), and the same bytes for the same message in every build.
//
// The zero value writes compact JSON. A Marshaler is safe for concurrent use.
type Marshaler struct {
	// Indent, spaces or tabs, is the indentation per level, for people who read the
	// response. Empty: everything is on one line.
	Indent string
	// Check checks the JSON of a message before it is decoded. Its error ends decoding,
	// and becomes DecodeError's. Nil: no check.
	Check func(data []byte, message protoreflect.MessageDescriptor) error
}

var (
	_ runtime.Marshaler = (*Marshaler)(nil)
	_ runtime.Delimited = (*Marshaler)(nil)
)

// gatewayJSON encodes the values other than messages that the gateway marshals:
// {"result": …} and {"error": …} around the messages of a stream.
var gatewayJSON = runtime.JSONPb{
	MarshalOptions:   protojson.MarshalOptions{EmitDefaultValues: true},
	UnmarshalOptions: strict,
}

// ContentType is application/json for every value.
func (*Marshaler) ContentType(any) string { return "application/json" }

// Delimiter separates the values of a stream.
func (*Marshaler) Delimiter() []byte { return []byte("\n") }

// Marshal returns v as JSON without a final newline.
func (m *Marshaler) Marshal(v any) ([]byte, error) {
	raw, err := gatewayJSON.Marshal(v)
	if err != nil {
		return nil, err
	}
	// protojson inserts spaces that differ between builds, so that nobody depends on
	// its bytes. Compacting removes them.
	var out bytes.Buffer
	out.Grow(len(raw))
	if err := json.Compact(&out, raw); err != nil {
		return nil, err
	}
	compact := withoutEmptyPolicies(bytes.ReplaceAll(bytes.ReplaceAll(out.Bytes(), noAdjustments, nil), noShadows, nil))
	if m.Indent == "" {
		return compact, nil
	}
	var indented bytes.Buffer
	err = json.Indent(&indented, compact, "", m.Indent)
	return indented.Bytes(), err
}

// noAdjustments and noShadows are left out: an answer without stages, and a target without shadows, are the same as
// before there were any. They are the first field of no message, and can't be in a text, which would escape their quotes.
var noAdjustments, noShadows = []byte(`,"adjustments":[]`), []byte(`,"shadows":[]`)

// NewEncoder returns an encoder that writes a delimiter after each value.
func (m *Marshaler) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		data, err := m.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(append(data, m.Delimiter()...))
		return err
	})
}

// Unmarshal decodes the JSON in data into v, a pointer. For a message it is this
// package's Unmarshal, for other types the gateway's own decoding.
func (m *Marshaler) Unmarshal(data []byte, v any) error {
	if msg, ok := v.(proto.Message); ok {
		if m.Check != nil {
			if err := m.Check(data, msg.ProtoReflect().Descriptor()); err != nil {
				return err
			}
		}
		return Unmarshal(data, msg)
	}
	// Where the body is one field of the request, v points to that field.
	if field := reflect.ValueOf(v); field.Kind() == reflect.Pointer && field.Type().Elem().Implements(messageType) {
		msg := reflect.New(field.Type().Elem().Elem())
		if err := m.Unmarshal(data, msg.Interface()); err != nil {
			return err
		}
		field.Elem().Set(msg)
		return nil
	}
	return gatewayJSON.Unmarshal(data, v)
}

var messageType = reflect.TypeFor[proto.Message]()

// NewDecoder returns a decoder of the one value that is all of r. Its second
// Decode returns io.EOF. If r is a request's body and Middleware is in place,
// DecodeError returns its error later on.
func (m *Marshaler) NewDecoder(r io.Reader) runtime.Decoder {
	done := false
	return runtime.DecoderFunc(func(v any) error {
		if done {
			return io.EOF
		}
		done = true
		err := m.decode(r, v)
		if b, ok := r.(*body); ok {
			if err == nil {
				err = b.contradicted(v)
			}
			b.err = err
		}
		return err
	})
}

func (m *Marshaler) decode(r io.Reader, v any) error {
	data, err := readAll(r)
	if err != nil {
		return fmt.Errorf("read body: %w", err)
	}
	return m.Unmarshal(data, v)
}
