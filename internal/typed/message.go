package typed

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/setpoint-dev/setpoint/internal/document"
)

// FillMessage sets the fields of a message from a decoded document by their JSON names. Null is
// absent, and one block stands for a list of one. Durations are those of JSON, such as 300s, or of Go, with
// days: 2d12h. Only the shape is checked: the service
// validates the values.
func (p *Problems) FillMessage(field string, from any, to proto.Message) {
	p.message(field, from, to.ProtoReflect())
}

func (p *Problems) message(field string, from any, to protoreflect.Message) {
	values, ok := Keys(from)
	if !ok {
		p.Add(field, noKeys)
		return
	}
	fields := to.Descriptor().Fields()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		known := fields.ByJSONName(name)
		if known == nil {
			names := make([]string, fields.Len())
			for i := range names {
				names[i] = fields.Get(i).JSONName()
			}
			p.Unknown(field, name, names)
			continue
		}
		if value := values[name]; value != nil {
			p.messageField(Within(field, name), value, to, known)
		}
	}
}

func (p *Problems) messageField(field string, from any, to protoreflect.Message, of protoreflect.FieldDescriptor) {
	switch {
	case of.IsMap():
		values, ok := Keys(from)
		if !ok {
			p.Add(field, noKeys)
			return
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if value, ok := p.messageScalar(Within(field, name), values[name], of.MapValue()); ok {
				to.Mutable(of).Map().Set(protoreflect.ValueOfString(name).MapKey(), value)
			}
		}
	case of.IsList():
		list, ok := from.([]any)
		if _, block := from.(map[string]any); block && of.Message() != nil {
			list, ok = []any{from}, true
		}
		if !ok {
			p.Add(field, "must be a list")
			return
		}
		for i, one := range list {
			p.messageElement(field+"["+strconv.Itoa(i)+"]", one, to.Mutable(of).List(), of)
		}
	case of.Message() != nil && strings.HasPrefix(string(of.Message().FullName()), "google.protobuf."):
		data, err := json.Marshal(from)
		if err == nil {
			err = protojson.Unmarshal(data, to.Mutable(of).Message().Interface())
		}
		unit := ""
		if text, ok := scalarText(from); ok && err != nil && of.Message().FullName() == "google.protobuf.Duration" { // 12h, 2d
			var d time.Duration
			if d, err = document.ParseDuration(text); err == nil {
				to.Set(of, protoreflect.ValueOfMessage(durationpb.New(d).ProtoReflect()))
			}
			unit = document.WithUnit(text)
		}
		if err != nil {
			p.Add(field, "must be a %s, such as %q%s", of.Message().Name(), examples[of.Message().Name()], unit)
		}
	case of.Message() != nil:
		p.message(field, from, to.Mutable(of).Message())
	default:
		if value, ok := p.messageScalar(field, from, of); ok {
			to.Set(of, value)
		}
	}
}

// examples are values of well-known types.
var examples = map[protoreflect.Name]string{"Duration": "300s", "Timestamp": "2026-12-24T08:00:00Z"}

func (p *Problems) messageElement(field string, from any, to protoreflect.List, of protoreflect.FieldDescriptor) {
	if of.Message() != nil {
		p.message(field, from, to.AppendMutable().Message())
		return
	}
	if value, ok := p.messageScalar(field, from, of); ok {
		to.Append(value)
	}
}

func (p *Problems) messageScalar(field string, from any, of protoreflect.FieldDescriptor) (protoreflect.Value, bool) {
	switch of.Kind() {
	case protoreflect.StringKind:
		text, isText := from.(string)
		if number, ok := numberText(from); ok && isQuantity(of.JSONName()) {
			text, isText = number, true
		}
		if isText {
			return protoreflect.ValueOfString(text), true
		}
		p.Add(field, "must be a text")
	case protoreflect.Int32Kind:
		text, ok := numberText(from)
		if n, err := strconv.ParseInt(text, 10, 32); ok && err == nil {
			return protoreflect.ValueOfInt32(int32(n)), true
		}
		p.Add(field, "must be a whole number below 2^31")
	case protoreflect.DoubleKind:
		text, ok := numberText(from)
		if n, err := strconv.ParseFloat(text, 64); ok && err == nil {
			return protoreflect.ValueOfFloat64(n), true
		}
		p.Add(field, "must be a number")
	case protoreflect.BoolKind:
		if value, ok := from.(bool); ok {
			return protoreflect.ValueOfBool(value), true
		}
		p.Add(field, "must be true or false")
	default:
		p.Add(field, "can't be set here")
	}
	return protoreflect.Value{}, false
}

func numberText(from any) (string, bool) {
	switch from.(type) {
	case json.Number, float64, int64:
		return scalarText(from)
	}
	return "", false
}

// isQuantity reports whether a field is a quantity, which the Kubernetes API also accepts as a
// number.
func isQuantity(name string) bool {
	return name == "value" || name == "averageValue" || name == "tolerance"
}
