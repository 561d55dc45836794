package nomad

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// block returns the keys of an HCL block or map. At the top of a policy both arrive as a list
// with one map; within a map, as a map.
func block(from any) (map[string]any, bool) {
	if list, ok := from.([]any); ok && len(list) == 1 {
		from = list[0]
	}
	keys, ok := from.(map[string]any)
	return keys, ok
}

// labelled returns blocks by their labels: check "cpu" {…} arrives as a list with a map per
// block; a map attribute, as a map or as a list with one.
func labelled(key string, from any, p *problems) map[string]any {
	list, ok := from.([]any)
	if !ok {
		list = []any{from}
	}
	out := map[string]any{}
	for _, one := range list {
		named, ok := one.(map[string]any)
		if !ok {
			p.add(key, "must be blocks with names, as in: %s \"queue\" {…}", key[len(Key)+1:])
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if _, twice := out[name]; twice {
				p.add(within(key, name), "is set twice")
			}
			out[name] = named[name]
		}
	}
	return out
}

// fill sets the fields of a message by their JSON names. It is strict: an unknown key or a
// value of another type is a problem.
func (p *problems) fill(key string, from any, to protoreflect.Message) {
	keys, ok := block(from)
	if !ok {
		p.add(key, "must be a mapping of keys to values")
		return
	}
	fields := to.Descriptor().Fields()
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		field := fields.ByJSONName(name)
		if field == nil {
			known := make([]string, fields.Len())
			for i := range known {
				known[i] = fields.Get(i).JSONName()
			}
			p.unknown(within(key, name), name, known)
			continue
		}
		if value := keys[name]; value != nil { // treat null as absent
			p.fillField(within(key, name), value, to, field)
		}
	}
}

func (p *problems) fillField(key string, from any, to protoreflect.Message, field protoreflect.FieldDescriptor) {
	switch {
	case field.IsMap():
		keys, ok := block(from)
		if !ok {
			p.add(key, "must be a mapping of keys to values")
			return
		}
		for _, name := range slices.Sorted(maps.Keys(keys)) {
			if value, ok := p.scalar(within(key, name), keys[name], field.MapValue()); ok {
				to.Mutable(field).Map().Set(protoreflect.ValueOfString(name).MapKey(), value)
			}
		}
	case field.IsList():
		list, ok := from.([]any)
		if !ok {
			list = []any{from} // one block
		}
		for i, one := range list {
			p.fillElement(key+"["+strconv.Itoa(i)+"]", one, to.Mutable(field).List(), field)
		}
	case field.Message() != nil:
		p.fill(key, from, to.Mutable(field).Message())
	default:
		if value, ok := p.scalar(key, from, field); ok {
			to.Set(field, value)
		}
	}
}

func (p *problems) fillElement(key string, from any, to protoreflect.List, field protoreflect.FieldDescriptor) {
	if field.Message() != nil {
		p.fill(key, from, to.AppendMutable().Message())
		return
	}
	if value, ok := p.scalar(key, from, field); ok {
		to.Append(value)
	}
}

// scalar converts a value to the type of a field. All numbers of a policy arrive as floats.
func (p *problems) scalar(key string, from any, field protoreflect.FieldDescriptor) (protoreflect.Value, bool) {
	switch field.Kind() {
	case protoreflect.StringKind:
		switch value := from.(type) {
		case string:
			return protoreflect.ValueOfString(value), true
		case float64: // quantities such as 30
			return protoreflect.ValueOfString(strconv.FormatFloat(value, 'f', -1, 64)), true
		}
		p.add(key, "must be a text or a number")
	case protoreflect.Int32Kind:
		if n, ok := whole(from); ok {
			return protoreflect.ValueOfInt32(n), true
		}
		p.add(key, "must be a whole number below 2^31")
	default:
		p.add(key, "can't be set here")
	}
	return protoreflect.Value{}, false
}

// whole returns a whole number in the range of int32.
func whole(from any) (int32, bool) {
	value, ok := from.(float64)
	if !ok || value != math.Trunc(value) || math.Abs(value) > math.MaxInt32 {
		return 0, false
	}
	return int32(value), true
}
