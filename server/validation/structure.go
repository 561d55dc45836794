package validation

import (
	"errors"
	"strconv"
	"strings"
	"sync"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// structural evaluates the rules of the .proto files. Building it compiles those
// of every message that some method takes.
var structural = sync.OnceValues(func() (protovalidate.Validator, error) {
	return protovalidate.New(protovalidate.WithMessageDescriptors(requests()...))
})

// requests returns the messages that the services' methods take.
func requests() []protoreflect.MessageDescriptor {
	var inputs []protoreflect.MessageDescriptor
	for _, file := range []protoreflect.FileDescriptor{
		setpointv1.File_setpoint_v1_recommendation_service_proto,
		setpointv1.File_setpoint_v1_simulation_service_proto,
		setpointv1.File_setpoint_v1_target_service_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				inputs = append(inputs, methods.Get(j).Input())
			}
		}
	}
	return inputs
}

// Warm compiles the rules that Structure evaluates, so that the first call need
// not. It returns the error that keeps Structure from evaluating any.
func Warm() error {
	_, err := structural()
	return err
}

// Structure returns what breaks the rules that the .proto files state beside the
// fields of the message and of the messages in it, in the order of the fields;
// nil for a message that breaks none. A message whose rules can't be evaluated
// has a violation that says so. Safe for concurrent use.
func Structure(msg proto.Message) []Violation {
	validator, err := structural()
	if err == nil {
		err = validator.Validate(msg)
	}
	if err == nil {
		return nil
	}
	var broken *protovalidate.ValidationError
	if !errors.As(err, &broken) {
		return []Violation{{Description: "can't be validated: " + err.Error()}}
	}
	message := msg.ProtoReflect().Descriptor()
	violations := make([]Violation, len(broken.Violations))
	for i, v := range broken.Violations {
		violations[i] = Violation{
			Field:       jsonPath(message, v.Proto.GetField()),
			Description: v.Proto.GetMessage() + got(v.FieldValue),
		}
	}
	return violations
}

// jsonPath renders a path that begins in the message with the fields' JSON
// names: pods[3].containers[0].requests["cpu"].
func jsonPath(message protoreflect.MessageDescriptor, path *validate.FieldPath) string {
	var b strings.Builder
	for i, element := range path.GetElements() {
		if i > 0 {
			b.WriteByte('.')
		}
		var fd protoreflect.FieldDescriptor
		if message != nil {
			fd = message.Fields().ByNumber(protoreflect.FieldNumber(element.GetFieldNumber()))
		}
		if fd == nil {
			// A oneof has a name only.
			b.WriteString(element.GetFieldName())
			continue
		}
		b.WriteString(fd.JSONName())
		b.WriteString(subscript(element))
		message = messageOf(fd)
	}
	return b.String()
}

// messageOf returns the message that the field holds, be it in a list or as the
// values of a map; nil for a field of another kind.
func messageOf(fd protoreflect.FieldDescriptor) protoreflect.MessageDescriptor {
	if fd.IsMap() {
		fd = fd.MapValue()
	}
	return fd.Message()
}

// subscript renders which element of a list or a map the path goes through;
// empty where it does not.
func subscript(element *validate.FieldPathElement) string {
	switch element.WhichSubscript() {
	case validate.FieldPathElement_Index_case:
		return "[" + strconv.FormatUint(element.GetIndex(), 10) + "]"
	case validate.FieldPathElement_StringKey_case:
		return "[" + strconv.Quote(element.GetStringKey()) + "]"
	case validate.FieldPathElement_IntKey_case:
		return "[" + strconv.FormatInt(element.GetIntKey(), 10) + "]"
	case validate.FieldPathElement_UintKey_case:
		return "[" + strconv.FormatUint(element.GetUintKey(), 10) + "]"
	case validate.FieldPathElement_BoolKey_case:
		return "[" + strconv.FormatBool(element.GetBoolKey()) + "]"
	default:
		return ""
	}
}
