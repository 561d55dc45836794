package transcode_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// kinds is a file with further features that the API does not use.
const kinds = `
name: "kinds.proto" package: "test" syntax: "proto3"
dependency: "google/protobuf/wrappers.proto" dependency: "google/protobuf/struct.proto" dependency: "google/protobuf/timestamp.proto"
enum_type { name: "E" value { name: "ZERO" number: 0 } value { name: "ONE" number: 1 } }
message_type {
  name: "Tree"
  field { name: "name" number: 17 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "name" }
  field { name: "left" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".test.Tree" json_name: "left" oneof_index: 0 }
  field { name: "at" number: 300 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" json_name: "at" oneof_index: 0 }
  field { name: "flag" number: 301 label: LABEL_OPTIONAL type: TYPE_BOOL json_name: "flag" oneof_index: 0 }
  field { name: "trees" number: 302 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".test.Tree" json_name: "trees" }
  field { name: "by_name" number: 303 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".test.Tree.ByNameEntry" json_name: "byName" }
  field { name: "counts" number: 304 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".test.Tree.CountsEntry" json_name: "counts" }
  oneof_decl { name: "one" }
  nested_type {
    name: "ByNameEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "key" }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".test.Tree" json_name: "value" }
  }
  nested_type {
    name: "CountsEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "key" }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_INT64 json_name: "value" }
  }
}
message_type {
  name: "Unusual"
  field { name: "number" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 json_name: "number" }
  field { name: "enum" number: 2 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".test.E" json_name: "enum" }
  field { name: "bytes" number: 3 label: LABEL_OPTIONAL type: TYPE_BYTES json_name: "bytes" }
  field { name: "float" number: 4 label: LABEL_OPTIONAL type: TYPE_FLOAT json_name: "float" }
  field { name: "u32" number: 5 label: LABEL_OPTIONAL type: TYPE_UINT32 json_name: "u32" }
  field { name: "u64" number: 6 label: LABEL_OPTIONAL type: TYPE_UINT64 json_name: "u64" }
  field { name: "numbers" number: 7 label: LABEL_REPEATED type: TYPE_INT32 json_name: "numbers" }
  field { name: "enums" number: 8 label: LABEL_REPEATED type: TYPE_ENUM type_name: ".test.E" json_name: "enums" }
  field { name: "wrapped" number: 9 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Int32Value" json_name: "wrapped" }
  field { name: "list" number: 10 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.ListValue" json_name: "list" }
  field { name: "by_number" number: 11 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".test.Unusual.ByNumberEntry" json_name: "byNumber" }
  field { name: "last" number: 12 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "last" }
  nested_type {
    name: "ByNumberEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 json_name: "key" }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "value" }
  }
}
message_type {
  name: "OddName"
  field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "the \"name\"" }
}
message_type {
  name: "Disordered"
  field { name: "second" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "second" }
  field { name: "first" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "first" }
}
`

func kind(t *testing.T, name protoreflect.Name) subject {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{}
	fatal.If(t, prototext.Unmarshal([]byte(kinds), file))
	fd, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	fatal.If(t, err)
	return newSubject(dynamicpb.NewMessageType(fd.Messages().ByName(name)))
}

// Messages that hold themselves, oneofs, tags of two bytes and maps of messages and
// of numbers are taken.
func TestTrees(t *testing.T) {
	trees := kind(t, "Tree")
	r := newRandom(3)
	for range 60 {
		m := trees.new()
		fill(r, m.ProtoReflect(), 9, false)
		if text := write(t, m); !trees.toWire(t, text) {
			t.Fatalf("not taken: %.2000s", text)
		}
		trees.toJSON(t, encodeInOrder(t, m)) // oneofs come last
	}
}

// Nesting is bounded, at less than the slow path's bound.
func TestDepth(t *testing.T) {
	trees := kind(t, "Tree")
	for depth := 90; depth <= 120; depth++ {
		pairs := depth / 2
		for _, tt := range []struct {
			name, text string
			brackets   int
		}{
			{"objects", strings.Repeat(`{"left":`, depth-1) + "{}" + strings.Repeat("}", depth-1), depth},
			{"a time", strings.Repeat(`{"left":`, depth-1) + `{"at":"2026-01-01T00:00:00Z"}` + strings.Repeat("}", depth-1), depth},
			{"lists", strings.Repeat(`{"trees":[`, pairs) + strings.Repeat("]}", pairs), 2 * pairs},
			{"maps", strings.Repeat(`{"byName":{"":`, pairs) + "{}" + strings.Repeat("}}", pairs), 2*pairs + 1},
		} {
			if taken := trees.toWire(t, []byte(tt.text)); taken != (tt.brackets <= 99) {
				t.Errorf("%s, %d brackets, taken: %t", tt.name, tt.brackets, taken)
			}
		}
	}
	trees.toWire(t, []byte(strings.Repeat(`{"left":`, 1_000_000)))
	var wire []byte
	for range 1_000 {
		wire = protowire.AppendBytes([]byte{0x12}, wire)
	}
	if trees.toJSON(t, wire) {
		t.Error("taken without end")
	}
}

// Messages with fields of unusual kinds are taken while those are absent.
func TestUnusualKinds(t *testing.T) {
	unusual := kind(t, "Unusual")
	for text, taken := range map[string]bool{
		`{}`:                      true,
		`{"number":1,"last":"a"}`: true,
		`{"numbers":[],"byNumber":{},"last":"a"}`: true,
		`{"enum":"ONE"}`:                  false,
		`{"enum":1}`:                      false,
		`{"bytes":""}`:                    false,
		`{"float":1}`:                     false,
		`{"u32":1}`:                       false,
		`{"u64":"1"}`:                     false,
		`{"numbers":[1,-2, 2147483647 ]}`: true, // packed
		`{"numbers":[2147483648]}`:        false,
		`{"numbers":["1",1e0,1.5]}`:       false,
		`{"numbers":[1,]}`:                false,
		`{"numbers":[1`:                   false,
		`{"enums":["ZERO"]}`:              false,
		`{"wrapped":1}`:                   false,
		`{"list":[]}`:                     false,
		`{"byNumber":{"1":"a"}}`:          false,
	} {
		if got := unusual.toWire(t, []byte(text)); got != taken {
			t.Errorf("%s taken: %t, want %t", text, got, taken)
		}
	}
	r := newRandom(4)
	taken := 0
	for range 1000 {
		m := unusual.new()
		for _, name := range []protoreflect.Name{"number", "enum", "bytes", "float", "u32", "u64", "numbers", "enums", "by_number", "last"} {
			if fd := m.ProtoReflect().Descriptor().Fields().ByName(name); chance(r, 10) {
				fillField(r, m.ProtoReflect(), fd, 0, false)
			}
		}
		if unusual.toJSON(t, encodeInOrder(t, m)) {
			taken++
		}
		unusual.toWire(t, write(t, m))
	}
	if taken < 100 || taken > 900 {
		t.Errorf("%d of 1000 were taken", taken)
	}
}

// What is declared in another order than that of its numbers is taken of JSON, and
// of encoded messages in the order of the declaration only.
func TestDisorder(t *testing.T) {
	disordered := kind(t, "Disordered")
	if !disordered.toWire(t, []byte(`{"first":"a","second":"b"}`)) {
		t.Error("not taken")
	}
	if disordered.toJSON(t, []byte("\x0a\x01a\x12\x01b")) {
		t.Error("taken in the order of the numbers")
	}
	if !disordered.toJSON(t, []byte("\x12\x01b\x0a\x01a")) {
		t.Error("not taken")
	}
	odd := kind(t, "OddName")
	if odd.toWire(t, []byte(`{}`)) || odd.toJSON(t, nil) {
		t.Error("a message with an odd name is taken")
	}
}
