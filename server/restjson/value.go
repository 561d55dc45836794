package restjson

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/setpoint-dev/setpoint/internal/spelling"
)

// valueType describes the values that a JSON string, number or boolean can spell.
type valueType struct {
	// judge is a message whose JSON is just such a value. protojson's own decoder
	// decides by it which values are accepted, so that the two cannot differ.
	judge proto.Message
	// expected completes "must be …" for a value of another JSON type.
	expected string
	// limits completes "must be …" for a value of the right JSON type.
	limits string
}

// accepts reports whether raw, one JSON value, spells a value of the type.
func (t *valueType) accepts(raw []byte) bool {
	return protojson.Unmarshal(raw, t.judge.ProtoReflect().New().Interface()) == nil
}

var (
	boolType   = &valueType{&wrapperspb.BoolValue{}, "true or false", "true or false"}
	int32Type  = &valueType{&wrapperspb.Int32Value{}, "a number", "a whole number from -2147483648 to 2147483647"}
	int64Type  = &valueType{&wrapperspb.Int64Value{}, "a number", "a whole number from -9223372036854775808 to 9223372036854775807"}
	uint32Type = &valueType{&wrapperspb.UInt32Value{}, "a number", "a whole number from 0 to 4294967295"}
	uint64Type = &valueType{&wrapperspb.UInt64Value{}, "a number", "a whole number from 0 to 18446744073709551615"}
	floatType  = &valueType{&wrapperspb.FloatValue{}, "a number", "a number from -3.4e38 to 3.4e38"}
	doubleType = &valueType{&wrapperspb.DoubleValue{}, "a number", "a number from -1.79e308 to 1.79e308"}
	stringType = &valueType{&wrapperspb.StringValue{}, "a string", "a string without unpaired surrogates"}
	// quantityType is for strings in quantityFields; whether they are quantities
	// is not checked here.
	quantityType = &valueType{&wrapperspb.StringValue{}, `a quantity such as "500m"`, "a string without unpaired surrogates"}
	bytesType    = &valueType{&wrapperspb.BytesValue{}, "a base64 string", `a base64 string such as "aGVsbG8="`}
)

// scalarTypes has every kind but message, group and enum.
var scalarTypes = map[protoreflect.Kind]*valueType{
	protoreflect.BoolKind:     boolType,
	protoreflect.Int32Kind:    int32Type,
	protoreflect.Sint32Kind:   int32Type,
	protoreflect.Sfixed32Kind: int32Type,
	protoreflect.Int64Kind:    int64Type,
	protoreflect.Sint64Kind:   int64Type,
	protoreflect.Sfixed64Kind: int64Type,
	protoreflect.Uint32Kind:   uint32Type,
	protoreflect.Fixed32Kind:  uint32Type,
	protoreflect.Uint64Kind:   uint64Type,
	protoreflect.Fixed64Kind:  uint64Type,
	protoreflect.FloatKind:    floatType,
	protoreflect.DoubleKind:   doubleType,
	protoreflect.StringKind:   stringType,
	protoreflect.BytesKind:    bytesType,
}

// stringForms are the message types that JSON spells as a string.
var stringForms = map[protoreflect.FullName]*valueType{
	"google.protobuf.Timestamp": {
		&timestamppb.Timestamp{},
		`an RFC 3339 timestamp such as "2026-01-31T12:00:00Z"`,
		`an RFC 3339 timestamp such as "2026-01-31T12:00:00Z"`,
	},
	"google.protobuf.Duration": {
		&durationpb.Duration{},
		`a duration in seconds such as "300s" or "0.5s"`,
		`a duration in seconds such as "300s" or "0.5s"`,
	},
}

// opaqueFiles define the other message types whose JSON does not follow their
// descriptor. No request contains one, so problems in them are left to protojson.
var opaqueFiles = map[string]bool{
	"google/protobuf/any.proto":        true,
	"google/protobuf/empty.proto":      true,
	"google/protobuf/field_mask.proto": true,
	"google/protobuf/struct.proto":     true,
	"google/protobuf/wrappers.proto":   true,
}

// isOpaque reports whether values of md are not inspected.
func isOpaque(md protoreflect.MessageDescriptor) bool {
	return opaqueFiles[md.ParentFile().Path()]
}

// acceptsNull reports whether null is a value of type fd, rather than none.
func acceptsNull(fd protoreflect.FieldDescriptor) bool {
	switch {
	case fd.Message() != nil:
		return fd.Message().FullName() == (&structpb.Value{}).ProtoReflect().Descriptor().FullName()
	case fd.Enum() != nil:
		return fd.Enum().FullName() == structpb.NullValue_NULL_VALUE.Descriptor().FullName()
	}
	return false
}

// problemOf returns what is wrong with raw, a JSON string, number or boolean, as a
// value of the scalar type fd, or "".
func problemOf(fd protoreflect.FieldDescriptor, raw []byte) string {
	switch {
	case fd.Enum() != nil:
		return enumProblem(fd.Enum(), raw)
	case fd.Kind() == protoreflect.StringKind && isPlain(raw):
		return "" // By far the most frequent case, which does not need the judge.
	}
	return scalarTypes[fd.Kind()].problem(raw)
}

// problem returns what is wrong with raw as a value of the type, or "".
func (t *valueType) problem(raw []byte) string {
	switch {
	case t.accepts(raw):
		return ""
	case t.expected == "a number" && isNumber(numberText(raw)[0]):
		return fmt.Sprintf("must be %s, is %s", t.limits, clip(numberText(raw), maxQuoted))
	case t.expected != "a number" && raw[0] == '"':
		return fmt.Sprintf("must be %s, is %s%s", t.limits, quote(unescaped(raw)), t.instead(unescaped(raw)))
	}
	return fmt.Sprintf("must be %s, is %s%s", t.expected, describe(raw), t.instead(string(raw)))
}

// instead is what to write for a duration that is written as in Go, with days, or without unit; empty: the text is none.
func (t *valueType) instead(text string) string {
	if _, is := t.judge.(*durationpb.Duration); !is {
		return ""
	}
	if days, rest, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return ""
		}
		text = strconv.FormatUint(24*n, 10) + "h" + rest
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s") // without its unit
	}
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": write %q", strconv.FormatFloat(d.Seconds(), 'f', -1, 64)+"s")
}

// numberText is raw, without its quotes if it is a string that contains a number:
// protojson accepts such strings as numbers.
func numberText(raw []byte) string {
	if raw[0] == '"' {
		if text := unescaped(raw); json.Valid([]byte(text)) {
			return text
		}
	}
	return string(raw)
}

// enumProblem is problem for an enum: the name of a value, or any int32.
func enumProblem(ed protoreflect.EnumDescriptor, raw []byte) string {
	if isNumber(raw[0]) {
		return int32Type.problem(raw)
	}
	values := ed.Values()
	names := make([]string, values.Len())
	for i := range names {
		names[i] = string(values.Get(i).Name())
	}
	problem := "must be one of " + strings.Join(names, ", ") + ", is " + describe(raw)
	if raw[0] != '"' {
		return problem
	}
	name := unescaped(raw)
	if values.ByName(protoreflect.Name(name)) != nil {
		return ""
	}
	return problem + didYouMean(name, names)
}

// didYouMean is ", did you mean …?" if one of names is close to word, or "".
func didYouMean(word string, names []string) string {
	if guess, ok := spelling.Closest(word, names); ok {
		return fmt.Sprintf(", did you mean %q?", guess)
	}
	return ""
}
