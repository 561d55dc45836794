package validation

import (
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

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
	for _, input := range requests() {
		if _, err := compiled.of(input); err != nil {
			return err
		}
	}
	return nil
}

// Structure returns what breaks the rules that the .proto files state beside the
// fields of the message and of the messages in it, in the order of the fields;
// nil for a message that breaks none. A message whose rules can't be evaluated
// has a violation that says so. Of more than MostViolations it returns the first ones,
// and More. Safe for concurrent use.
func Structure(msg proto.Message) []Violation {
	if msg == nil {
		return nil
	}
	rules, err := compiled.of(msg.ProtoReflect().Descriptor())
	if err != nil {
		return []Violation{{Description: "can't be validated: " + err.Error()}}
	}
	var found collector
	found.message(nil, rules, msg.ProtoReflect())
	return found.violations
}

// place is where a message is in the one that is looked at; nil: it is that one. Most are
// sound, so that their paths are not needed.
type place struct {
	in    *place
	field protoreflect.FieldDescriptor
	index int // in a list
}

// path renders the place with the fields' JSON names: pods[3].containers[0].
func (p *place) path() string {
	if p == nil {
		return ""
	}
	path := p.field.JSONName()
	if p.in != nil {
		path = p.in.path() + "." + path
	}
	if p.field.IsList() {
		path += "[" + strconv.Itoa(p.index) + "]"
	}
	return path
}

// collector gathers what is wrong with a message and those in it.
type collector struct{ violations []Violation }

// message looks at a message that is at that place. False: there is enough.
func (c *collector) message(at *place, rules *messageRules, m protoreflect.Message) bool {
	for i := range rules.fields {
		f := &rules.fields[i]
		there := m.Has(f.field)
		if f.required && !there {
			if !c.add(at, f.field, "value is required") {
				return false
			}
			continue
		}
		if !there && f.field.HasPresence() {
			continue
		}
		value := m.Get(f.field)
		for _, broken := range f.checks {
			if text := broken(value); text != "" && !c.add(at, f.field, text+got(value)) {
				return false
			}
		}
		if f.inner != nil && !c.inside(at, f, value) {
			return false
		}
	}
	return true
}

// inside looks at the messages that a field holds.
func (c *collector) inside(at *place, f *fieldRules, value protoreflect.Value) bool {
	here := place{in: at, field: f.field}
	if !f.field.IsList() {
		return c.message(&here, f.inner, value.Message())
	}
	list := value.List()
	for here.index = range list.Len() {
		if !c.message(&here, f.inner, list.Get(here.index).Message()) {
			return false
		}
	}
	return true
}

func (c *collector) add(at *place, field protoreflect.FieldDescriptor, text string) bool {
	if len(c.violations) == MostViolations {
		c.violations = append(c.violations, More)
		return false
	}
	path := field.JSONName()
	if at != nil {
		path = at.path() + "." + path
	}
	c.violations = append(c.violations, Violation{Field: path, Description: text})
	return true
}
