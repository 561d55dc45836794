//go:build !js

package validation

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// requests returns the request messages of the services' methods.
func requests() []protoreflect.MessageDescriptor {
	var inputs []protoreflect.MessageDescriptor
	for _, file := range []protoreflect.FileDescriptor{
		setpointv1.File_setpoint_v1_recommendation_service_proto,
		setpointv1.File_setpoint_v1_simulation_service_proto,
		setpointv1.File_setpoint_v1_operations_service_proto,
		setpointv1.File_setpoint_v1_target_service_proto,
		setpointv1.File_setpoint_v1_override_service_proto,
		setpointv1.File_setpoint_v1_fleet_service_proto,
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

// Warm compiles the rules that Structure evaluates, so that the first call need not. It
// returns the error that prevents Structure from evaluating any.
func Warm() error {
	for _, input := range requests() {
		if _, err := compiled.of(input); err != nil {
			return err
		}
	}
	return nil
}

// Structure returns the violations of the rules that the .proto files state beside the
// fields of the message and of the messages in it, in the order of the fields; nil for
// a valid message. A message whose rules can't be evaluated has a violation that says
// so. Of more than MostViolations it returns the first ones, and More. Safe for
// concurrent use.
func Structure(msg proto.Message) []Violation {
	if msg == nil {
		return nil
	}
	rules, err := compiled.of(msg.ProtoReflect().Descriptor())
	if err != nil {
		return []Violation{{Description: "can't be validated: " + err.Error()}}
	}
	var found collector
	found.message(rules, msg.ProtoReflect())
	return found.violations
}

// StructureAt is Structure of a message that is a field of another one, with the paths in that.
func StructureAt(field string, msg proto.Message) []Violation {
	violations := Structure(msg)
	for i := range violations {
		violations[i].Field = field + "." + violations[i].Field
	}
	return violations
}

// step leads from a message to a message in it.
type step struct {
	field protoreflect.FieldDescriptor
	index int // in a list
}

// collector collects what is wrong with a message and the messages in it.
type collector struct {
	violations []Violation
	// at leads to the current message. Most messages are valid, so that their paths are
	// not needed.
	at []step
}

// message checks a message. False: enough violations were found.
func (c *collector) message(rules *messageRules, m protoreflect.Message) bool {
	for i := range rules.fields {
		f := &rules.fields[i]
		there := m.Has(f.field)
		if f.required && !there {
			if !c.add(f.field, "value is required") {
				return false
			}
			continue
		}
		if !there && f.mayBeAbsent {
			continue
		}
		value := m.Get(f.field)
		for _, broken := range f.checks {
			if text := broken(value); text != "" && !c.add(f.field, text+got(value)) {
				return false
			}
		}
		if f.inner != nil && !c.inside(f, value) {
			return false
		}
	}
	return true
}

// inside checks the messages in a field.
func (c *collector) inside(f *fieldRules, value protoreflect.Value) bool {
	depth := len(c.at)
	c.at = append(c.at, step{field: f.field})
	defer func() { c.at = c.at[:depth] }()
	if !f.field.IsList() {
		return c.message(f.inner, value.Message())
	}
	list := value.List()
	for i := range list.Len() {
		c.at[depth].index = i
		if !c.message(f.inner, list.Get(i).Message()) {
			return false
		}
	}
	return true
}

func (c *collector) add(field protoreflect.FieldDescriptor, text string) bool {
	if len(c.violations) == MostViolations {
		c.violations = append(c.violations, More)
		return false
	}
	c.violations = append(c.violations, Violation{Field: c.path(field), Description: text})
	return true
}

// path formats the path of a field with the fields' JSON names:
// pods[3].containers[0].name.
func (c *collector) path(field protoreflect.FieldDescriptor) string {
	var b strings.Builder
	for _, s := range c.at {
		b.WriteString(s.field.JSONName())
		if s.field.IsList() {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		}
		b.WriteByte('.')
	}
	b.WriteString(field.JSONName())
	return b.String()
}
