package restjson

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// findings is the result of an inspection.
type findings struct {
	// violations are in the order of the text, at most maxViolations; at that
	// many the inspection ends.
	violations []Violation
	// numbers are the JSON numbers in quantity fields, in the order of the text.
	numbers []span
}

// err is nil if there are no violations.
func (f *findings) err() error {
	if len(f.violations) == 0 {
		return nil
	}
	return &Error{Violations: f.violations, Truncated: f.full()}
}

func (f *findings) full() bool { return len(f.violations) == maxViolations }

// inspection compares a JSON text with a message's descriptor. It flags nothing
// that protojson accepts, except empty scaling policies, but may miss what
// protojson refuses: unusual message types are skipped.
type inspection struct {
	cursor
	findings
	path []byte // the place of the value that comes next
	// emptyPolicies are taken.
	emptyPolicies bool
}

// inspect compares data, for which checkText found nothing, with msg's
// descriptor.
func inspect(data []byte, msg proto.Message, emptyPolicies bool) findings {
	in := inspection{cursor: cursor{text: data}, emptyPolicies: emptyPolicies}
	in.message(msg.ProtoReflect().Descriptor())
	return in.findings
}

// more is cursor.more, but false as soon as enough has been found. Every loop calls it,
// so the inspection stops then, with the cursor anywhere.
func (in *inspection) more() bool {
	return !in.full() && in.cursor.more()
}

// report records a problem of the current value.
func (in *inspection) report(format string, args ...any) {
	if !in.full() {
		in.violations = append(in.violations, Violation{string(in.path), fmt.Sprintf(format, args...)})
	}
}

// at runs visit with the path extended by step.
func (in *inspection) at(step string, visit func()) {
	parent := len(in.path)
	in.path = append(in.path, step...)
	visit()
	in.path = in.path[:parent]
}

// member is the step from an object to one of its fields.
func (in *inspection) member(name string) string {
	if len(in.path) == 0 {
		return name
	}
	return "." + name
}

// message inspects the value of a message.
func (in *inspection) message(md protoreflect.MessageDescriptor) {
	switch form, ok := stringForms[md.FullName()]; {
	case ok:
		in.check(form.problem(in.next()))
	case isOpaque(md):
		in.skip()
	case !in.expect('{', "an object"):
	case in.isWhole(parts[md.FullName()]):
		in.skip()
		in.report("must be the object's %[1]s, is the whole object: send what it has as %[1]q", parts[md.FullName()])
	default:
		in.fields(md)
	}
}

// parts are the messages that are a part of a Kubernetes object, by the part's name there.
var parts = map[protoreflect.FullName]string{
	"setpoint.v1.HorizontalPodAutoscalerSpec":   "spec",
	"setpoint.v1.HorizontalPodAutoscalerStatus": "status",
}

// isWhole reports whether the next value is a Kubernetes object that has that part, which is none
// if empty.
func (in *inspection) isWhole(part string) bool {
	if part == "" {
		return false
	}
	var hasPart, hasKind bool
	ahead := in.cursor
	for ahead.open(); ahead.more(); ahead.skip() {
		name := ahead.name()
		hasPart, hasKind = hasPart || name == part, hasKind || name == "kind"
	}
	return hasPart && hasKind
}

// fields inspects the members of a message's object.
func (in *inspection) fields(md protoreflect.MessageDescriptor) {
	seen := map[protoreflect.FieldNumber]bool{}
	for in.open(); in.more(); {
		name := in.name()
		fd := fieldNamed(md, name)
		if fd == nil {
			in.at(in.member(nameText(name)), func() { in.unknownField(md, name) })
			continue
		}
		in.at(in.member(fd.JSONName()), func() {
			if seen[fd.Number()] {
				in.report("duplicate field")
				in.skip()
				return
			}
			in.field(fd)
		})
		seen[fd.Number()] = true
	}
}

// fieldNamed finds a field as protojson does: by its JSON name or by the name in
// the .proto file. It returns nil if there is none.
func fieldNamed(md protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if fd := md.Fields().ByJSONName(name); fd != nil {
		return fd
	}
	return md.Fields().ByTextName(name)
}

// unknownField steps over the value of a field that md does not have.
func (in *inspection) unknownField(md protoreflect.MessageDescriptor, name string) {
	value := cursor{text: in.next()}
	hint := didYouMean(name, jsonNames(md))
	for i := 0; hint == "" && i < md.Fields().Len(); i++ {
		// A spec where a message with a spec is wanted.
		if fd := md.Fields().Get(i); fd.Message() != nil && !fd.IsMap() && !fd.IsList() && fieldNamed(fd.Message(), name) != nil {
			hint = fmt.Sprintf(", did you mean %q?", fd.JSONName()+"."+name)
		}
	}
	// A message with a spec where a spec is wanted.
	if hint == "" && value.peek() == '{' {
		if value.open(); value.more() && fieldNamed(md, value.name()) != nil {
			hint = "; send what it holds in its place"
		}
	}
	in.report("unknown field%s", hint)
}

func jsonNames(md protoreflect.MessageDescriptor) []string {
	names := make([]string, md.Fields().Len())
	for i := range names {
		names[i] = md.Fields().Get(i).JSONName()
	}
	return names
}

// field inspects the value of a field of a message.
func (in *inspection) field(fd protoreflect.FieldDescriptor) {
	switch {
	case in.peek() == 'n': // Null means an absent field.
		in.skip()
	case fd.IsMap():
		in.entries(fd)
	case fd.IsList():
		in.elements(fd)
	default:
		in.value(fd, fd)
	}
}

// elements inspects the list of a repeated field.
func (in *inspection) elements(fd protoreflect.FieldDescriptor) {
	if !in.expect('[', "a list") {
		return
	}
	count := 0
	for in.open(); in.more(); count++ {
		in.at("["+strconv.Itoa(count)+"]", func() { in.required(fd, fd) })
	}
	if count == 0 && !in.emptyPolicies && fd.FullName() == policiesField {
		in.report(noPolicies)
	}
}

// entries inspects the object of a map field. Non-string keys are left to protojson.
func (in *inspection) entries(fd protoreflect.FieldDescriptor) {
	if !in.expect('{', "an object") {
		return
	}
	seen := map[string]bool{}
	for in.open(); in.more(); {
		key := in.name()
		in.at("["+quote(key)+"]", func() {
			if seen[key] {
				in.report("duplicate key")
				in.skip()
				return
			}
			in.required(fd.MapValue(), fd)
		})
		seen[key] = true
	}
}

// required inspects a value that null cannot stand for.
func (in *inspection) required(fd, declared protoreflect.FieldDescriptor) {
	if in.peek() == 'n' && !acceptsNull(fd) {
		in.skip()
		in.report("must not be null")
		return
	}
	in.value(fd, declared)
}

// value inspects one value of type fd, which the field declared contains: itself, or as
// an element or map value.
func (in *inspection) value(fd, declared protoreflect.FieldDescriptor) {
	switch {
	case fd.Message() != nil:
		in.message(fd.Message())
	case isQuantity(declared):
		in.quantity()
	default:
		in.check(problemOf(fd, in.next()))
	}
}

// quantity inspects the value of a string that is a quantity.
func (in *inspection) quantity() {
	if isNumber(in.peek()) {
		in.numbers = append(in.numbers, in.skip())
		return
	}
	in.check(quantityType.problem(in.next()))
}

// check reports problem unless it is "".
func (in *inspection) check(problem string) {
	if problem != "" {
		in.report("%s", problem)
	}
}

// expect reports whether the next value starts with open. If not, it reports and
// steps over it.
func (in *inspection) expect(open byte, what string) bool {
	b := in.peek()
	if b == open {
		return true
	}
	in.report("must be %s, is %s", what, describe(in.next()))
	return false
}
