package validation

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// structural evaluates the rules of the .proto files up to the first that is broken.
// Building it compiles those of every message that some method takes.
var structural = sync.OnceValues(func() (protovalidate.Validator, error) {
	return protovalidate.New(protovalidate.WithMessageDescriptors(requests()...), protovalidate.WithFailFast())
})

// complete evaluates all rules of a message.
var complete = sync.OnceValues(func() (protovalidate.Validator, error) { return protovalidate.New() })

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
	if _, err := structural(); err != nil {
		return err
	}
	_, err := complete()
	return err
}

// Structure returns what breaks the rules that the .proto files state beside the
// fields of the message and of the messages in it, in the order of the fields;
// nil for a message that breaks none. A message whose rules can't be evaluated
// has a violation that says so. Of more than MostViolations it returns the first ones,
// and More. Safe for concurrent use.
func Structure(msg proto.Message) []Violation {
	validator, err := structural()
	if err == nil {
		err = validator.Validate(msg)
	}
	if err == nil {
		return nil
	}
	var found collector
	found.message("", msg.ProtoReflect())
	return found.violations
}

// collector gathers what is wrong with a message and those in it, one message at a
// time: so it can stop.
type collector struct{ violations []Violation }

// message looks at a message that is at that path. False: there is enough.
func (c *collector) message(path string, m protoreflect.Message) bool {
	own := ownViolations(m)
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		for len(own) > 0 && own[0].field == fd.Number() {
			if !c.add(join(path, own[0].Violation)) {
				return false
			}
			own = own[1:]
		}
		if fd.IsMap() || fd.Message() == nil || !m.Has(fd) || isIgnored(fd) {
			continue
		}
		at := join(path, Violation{Field: fd.JSONName()}).Field
		if !fd.IsList() {
			if sub := m.Get(fd).Message(); !isSound(sub) && !c.message(at, sub) {
				return false
			}
			continue
		}
		list := m.Get(fd).List()
		for j := range list.Len() {
			// Most are sound; their paths are not needed.
			if !c.element(at, j, list.Get(j).Message()) {
				return false
			}
		}
	}
	for _, v := range own { // of no field, or an error
		if !c.add(join(path, v.Violation)) {
			return false
		}
	}
	return true
}

// isIgnored reports whether nothing is asked of what is in the field.
func isIgnored(fd protoreflect.FieldDescriptor) bool {
	rules, err := protovalidate.ResolveFieldRules(fd)
	return err == nil && rules.GetIgnore() == validate.Ignore_IGNORE_ALWAYS
}

func (c *collector) element(list string, index int, m protoreflect.Message) bool {
	return isSound(m) || c.message(list+"["+strconv.Itoa(index)+"]", m)
}

// isSound reports whether a message breaks no rule, nor one in it: much faster than
// looking for what is broken.
func isSound(m protoreflect.Message) bool {
	validator, err := structural()
	return err == nil && validator.Validate(m.Interface()) == nil
}

func (c *collector) add(v Violation) bool {
	if len(c.violations) == MostViolations {
		c.violations = append(c.violations, More)
		return false
	}
	c.violations = append(c.violations, v)
	return true
}

func join(path string, v Violation) Violation {
	switch {
	case path == "":
	case v.Field == "":
		v.Field = path
	default:
		v.Field = path + "." + v.Field
	}
	return v
}

// ownViolation is one of the field with that number, 0: of none.
type ownViolation struct {
	Violation
	field protoreflect.FieldNumber
}

// ownViolations returns what breaks the rules of a message's own fields, in their order.
func ownViolations(m protoreflect.Message) []ownViolation {
	validator, err := complete()
	if err == nil {
		ofThis := protovalidate.FilterFunc(func(of protoreflect.Message, _ protoreflect.Descriptor) bool {
			return of.Interface() == m.Interface()
		})
		err = validator.Validate(m.Interface(), protovalidate.WithFilter(ofThis))
	}
	if err == nil {
		return nil
	}
	var broken *protovalidate.ValidationError
	if !errors.As(err, &broken) {
		return []ownViolation{{Violation: Violation{Description: "can't be validated: " + err.Error()}}}
	}
	own := make([]ownViolation, len(broken.Violations))
	for i, v := range broken.Violations {
		own[i].Violation = Violation{
			Field:       jsonPath(m.Descriptor(), v.Proto.GetField()),
			Description: v.Proto.GetMessage() + got(v.FieldValue),
		}
		if elements := v.Proto.GetField().GetElements(); len(elements) > 0 {
			own[i].field = protoreflect.FieldNumber(elements[0].GetFieldNumber())
		}
	}
	slices.SortStableFunc(own, func(a, b ownViolation) int { return cmp.Compare(index(m, a.field), index(m, b.field)) })
	return own
}

// index is the place of a field in its message, after all others for none.
func index(m protoreflect.Message, field protoreflect.FieldNumber) int {
	if fd := m.Descriptor().Fields().ByNumber(field); fd != nil {
		return fd.Index()
	}
	return m.Descriptor().Fields().Len()
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
