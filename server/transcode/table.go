package transcode

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// maxDepth limits the nesting of a text or an encoded message. The slow path allows
	// a hundred levels.
	maxDepth = 99
	// maxFields is the maximum number of fields of a message: the bits of a set.
	maxFields = 64
	// buckets is the number of hash buckets of a message's names.
	buckets = 32
)

// form is the JSON form of a message.
type form uint8

const (
	opaque form = iota // not supported
	object
	timestamp
	duration
)

// Message has the tables of a message. It is safe for concurrent use.
type Message struct {
	form form
	// fields are in the order of the .proto file.
	fields []field
	// heads are the buckets' first fields: the number of a field plus 1.
	heads [buckets]uint8
	// longest is the length of the longest name.
	longest int
}

// Of compiles the tables of a message and of all those in it.
func Of(md protoreflect.MessageDescriptor) *Message {
	return compiler{}.message(md)
}

// compiler has the messages compiled so far. A message may contain its own type.
type compiler map[protoreflect.FullName]*Message

func (c compiler) message(md protoreflect.MessageDescriptor) *Message {
	m, ok := c[md.FullName()]
	if ok {
		return m
	}
	m = &Message{form: formOf(md)}
	c[md.FullName()] = m
	if m.form != object {
		return m
	}
	fds := md.Fields()
	m.fields = make([]field, fds.Len())
	for i := range m.fields {
		f := &m.fields[i]
		c.field(f, fds.Get(i))
		m.longest = max(m.longest, len(f.name))
		head := &m.heads[bucketOf(f.name[0], len(f.name))]
		f.sibling, *head = *head, uint8(i+1)
	}
	return m
}

func formOf(md protoreflect.MessageDescriptor) form {
	switch {
	case md.FullName() == "google.protobuf.Timestamp":
		return timestamp
	case md.FullName() == "google.protobuf.Duration":
		return duration
	case md.FullName().Parent() == "google.protobuf", // these have their own JSON
		md.Syntax() != protoreflect.Proto3,
		md.Fields().Len() > maxFields,
		hasOddName(md):
		return opaque
	}
	return object
}

// hasOddName reports whether a field has a JSON name with anything but plain letters
// and digits, unlike those derived from names in .proto files.
func hasOddName(md protoreflect.MessageDescriptor) bool {
	for i := range md.Fields().Len() {
		if name := md.Fields().Get(i).JSONName(); !protoreflect.Name(name).IsValid() {
			return true
		}
	}
	return false
}

// bucketOf returns the bucket of a name.
func bucketOf(first byte, length int) int { return (int(first) + 5*length) % buckets }

// named returns the field whose name and closing quote are a prefix of text, or nil.
func (m *Message) named(text []byte) *field {
	n := 0
	for end := min(len(text), m.longest+1); n < end && text[n] != '"'; n++ {
	}
	if n == 0 || n == len(text) {
		return nil
	}
	for i := m.heads[bucketOf(text[0], n)]; i != 0; i = m.fields[i-1].sibling {
		if f := &m.fields[i-1]; f.name == string(text[:n]) && text[n] == '"' {
			return f
		}
	}
	return nil
}

// tagOf returns the tag of a field, or 0 for an unsupported kind.
func tagOf(number protowire.Number, k kind) uint64 {
	switch k {
	case textKind, messageKind:
		return protowire.EncodeTag(number, protowire.BytesType)
	case boolKind, int32Kind, int64Kind:
		return protowire.EncodeTag(number, protowire.VarintType)
	case doubleKind:
		return protowire.EncodeTag(number, protowire.Fixed64Type)
	}
	return 0
}
