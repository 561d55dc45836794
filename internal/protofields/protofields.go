// Package protofields walks over the fields of an encoded protobuf message without decoding it.
//
//	var err error
//	for f := range protofields.Of(message, &err) {
//		…
//	}
//	// err: the message is invalid from there on
package protofields

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field is a field of a message. It refers to the message's bytes.
type Field struct {
	Number protowire.Number
	// Raw is the field with its tag.
	Raw []byte
	// Value is the value of a length-delimited field, and nil of any other.
	Value []byte
}

// Of returns the fields of a message, and sets err if one is invalid.
func Of(message []byte, err *error) iter.Seq[Field] {
	return func(yield func(Field) bool) {
		for len(message) > 0 {
			number, kind, tag := protowire.ConsumeTag(message)
			if tag < 0 {
				*err = protowire.ParseError(tag)
				return
			}
			length := protowire.ConsumeFieldValue(number, kind, message[tag:])
			if length < 0 {
				*err = protowire.ParseError(length)
				return
			}
			f := Field{Number: number, Raw: message[:tag+length]}
			if kind == protowire.BytesType {
				value, _ := protowire.ConsumeBytes(message[tag:])
				f.Value = value[:len(value):len(value)] // an append does not overwrite what follows
			}
			if message = message[tag+length:]; !yield(f) {
				return
			}
		}
	}
}
