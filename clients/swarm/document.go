package swarm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/spelling"
)

// document parses a label's YAML or JSON into a message, and reports whether that succeeded.
// The service validates the values.
func (p *parser) document(label, text string, into proto.Message) bool {
	before := len(p.problems)
	if len(text) > maxValue {
		return false // reported already
	}
	converted, err := document.JSON([]byte(text), maxValue)
	if err != nil {
		p.add(label, "%s", parseError(err))
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(converted))
	decoder.UseNumber()
	var parsed any
	if err := decoder.Decode(&parsed); err != nil {
		p.add(label, "is neither YAML nor JSON: %s", parseError(err))
		return false
	}
	fields, ok := parsed.(map[string]any)
	if !ok {
		p.add(label, "must be a mapping of keys to values")
		return false
	}
	shaped := p.message(label, "", fields, into.ProtoReflect().Descriptor())
	if len(p.problems) > before {
		return false
	}
	exact, err := json.Marshal(shaped)
	if err == nil {
		err = protojson.Unmarshal(exact, into)
	}
	if err != nil {
		p.add(label, "can't be read: %s", parseError(err))
		return false
	}
	return true
}

// message checks the keys of a message and the types of all their values, and returns it with
// quantities in text form.
func (p *parser) message(label, path string, fields map[string]any, m protoreflect.MessageDescriptor) map[string]any {
	names := make([]string, 0, m.Fields().Len())
	for i := range m.Fields().Len() {
		names = append(names, m.Fields().Get(i).JSONName())
	}
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at := strings.TrimPrefix(path+"."+name, ".")
		if !slices.Contains(names, name) {
			hint := "the keys are " + strings.Join(names, ", ")
			if known, ok := spelling.Closest(name, names); ok {
				hint = "did you mean " + known + "?"
			}
			p.add(label, "%s: there is no such key; %s", shorten(at), hint)
			continue
		}
		if fields[name] != nil { // treat null as absent
			out[name] = p.field(label, at, fields[name], m.Fields().ByJSONName(name))
		}
	}
	return out
}

func (p *parser) field(label, path string, value any, field protoreflect.FieldDescriptor) any {
	switch {
	case field.IsMap():
		values, ok := value.(map[string]any)
		if !ok {
			p.add(label, "%s: must be a mapping of keys to values", path)
			return nil
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if _, ok := values[key].(string); !ok {
				p.add(label, "%s.%s: must be a text", path, shorten(key))
			}
		}
		return values
	case field.IsList():
		items, ok := value.([]any)
		if !ok {
			p.add(label, "%s: must be a list", path)
			return nil
		}
		out := make([]any, len(items))
		for i, item := range items {
			out[i] = p.single(label, fmt.Sprintf("%s[%d]", path, i), item, field)
		}
		return out
	}
	return p.single(label, path, value, field)
}

func (p *parser) single(label, path string, value any, field protoreflect.FieldDescriptor) any {
	switch field.Kind() {
	case protoreflect.MessageKind:
		fields, ok := value.(map[string]any)
		if !ok {
			p.add(label, "%s: must be a mapping of keys to values", path)
			return nil
		}
		return p.message(label, path, fields, field.Message())
	case protoreflect.StringKind:
		if number, ok := value.(json.Number); ok && isQuantity(field.JSONName()) {
			return number.String()
		}
		if _, ok := value.(string); !ok {
			p.add(label, "%s: must be a text", path)
			return nil
		}
	case protoreflect.Int32Kind:
		number, ok := value.(json.Number)
		if !ok {
			p.add(label, "%s: must be a whole number", path)
			return nil
		}
		if n, err := number.Int64(); err != nil || n != int64(int32(n)) {
			p.add(label, "%s: must be a whole number of 32 bits, not %s", path, shorten(number.String()))
			return nil
		}
	}
	return value
}

// isQuantity reports whether a field is a quantity, which the Kubernetes API also accepts as a
// number.
func isQuantity(name string) bool {
	return name == "value" || name == "averageValue" || name == "tolerance"
}

// maxParseError bounds the quoted part of a parser's error, bytes: it quotes the document.
const maxParseError = 256

// parseError is the error of a parser, bounded.
func parseError(err error) string {
	return bounded(strings.ReplaceAll(err.Error(), "\u00a0", " "), maxParseError)
}

// shorten bounds a text of a user.
func shorten(text string) string { return bounded(text, maxQuoted) }

func bounded(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
