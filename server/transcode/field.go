package transcode

import "google.golang.org/protobuf/reflect/protoreflect"

// kind is the type of a field's values.
type kind uint8

const (
	unusual kind = iota // not supported
	textKind
	boolKind
	int32Kind
	int64Kind
	doubleKind
	messageKind
)

// shape is how a field contains its values.
type shape uint8

const (
	single shape = iota
	list
	packed // a list of numbers in one value on the wire
	mapped // with text keys
)

// field has the tables of a field of a message.
type field struct {
	kind  kind
	shape shape
	// implicit reports whether zero is omitted on the wire.
	implicit bool
	// quantity reports whether JSON may have a number for the text.
	quantity bool
	// mayBeEmpty is false for a list that must not be explicitly empty.
	mayBeEmpty bool
	// index is the field's index in the message.
	index int
	// sibling is the next field in the same bucket of names: its number plus 1.
	sibling uint8
	// tag is the field's tag on the wire.
	tag uint64
	// excludes has the bits of the fields that must not precede: itself, and the others
	// of a oneof.
	excludes uint64
	// name is the JSON name, quoted the same with the closing quote only.
	name, quoted string
	// key is the text before the value in JSON, including a comma.
	key string
	// absent is the JSON of an absent field: key and default, or nothing.
	absent string
	// message is the message of the values, entry the values of a map.
	message *Message
	entry   *field
}

// field sets f's tables.
func (c compiler) field(f *field, fd protoreflect.FieldDescriptor) {
	name := fd.JSONName()
	*f = field{
		index: fd.Index(), name: name, quoted: name + `"`, key: `,"` + name + `":`,
		implicit: !fd.HasPresence() && fd.Cardinality() != protoreflect.Repeated,
		excludes: 1 << fd.Index(),
	}
	if of := fd.ContainingOneof(); of != nil {
		for i := range of.Fields().Len() {
			f.excludes |= 1 << of.Fields().Get(i).Index()
		}
	}
	if zero := defaultOf(fd); zero != "" {
		f.absent = f.key + zero
	}
	if fd.IsMap() {
		c.mapField(f, fd)
		return
	}
	c.values(f, fd)
	f.quantity = f.kind == textKind && takesNumber(fd)
	if fd.IsList() {
		f.shape, f.mayBeEmpty = list, takesEmpty(fd)
		switch {
		case f.kind == textKind || f.kind == messageKind:
		case fd.IsPacked() && (f.kind == int32Kind || f.kind == int64Kind):
			f.shape, f.tag = packed, tagOf(fd.Number(), textKind)
			return
		default:
			f.kind = unusual
		}
	}
	f.tag = tagOf(fd.Number(), f.kind)
}

// mapField sets the tables of a field that is a map.
func (c compiler) mapField(f *field, fd protoreflect.FieldDescriptor) {
	f.shape, f.entry = mapped, &field{}
	if fd.MapKey().Kind() != protoreflect.StringKind {
		return
	}
	c.values(f.entry, fd.MapValue())
	f.entry.quantity = f.entry.kind == textKind && takesNumber(fd)
	f.entry.tag = tagOf(fd.MapValue().Number(), f.entry.kind)
	if f.entry.kind != unusual {
		f.kind, f.tag = messageKind, tagOf(fd.Number(), messageKind)
	}
}

// values sets the tables of the values.
func (c compiler) values(f *field, fd protoreflect.FieldDescriptor) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		f.kind = textKind
	case protoreflect.BoolKind:
		f.kind = boolKind
	case protoreflect.Int32Kind:
		f.kind = int32Kind
	case protoreflect.Int64Kind:
		f.kind = int64Kind
	case protoreflect.DoubleKind:
		f.kind = doubleKind
	case protoreflect.MessageKind:
		if f.message = c.message(fd.Message()); f.message.form != opaque {
			f.kind = messageKind
		}
	}
}
