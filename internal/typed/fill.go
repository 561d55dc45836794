package typed

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/document"
)

// maxText bounds a scalar, in bytes.
const maxText = 16 << 10

// DecodeJSON parses one JSON document, keeping its numbers as text.
func DecodeJSON(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var out any
	if err := decoder.Decode(&out); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more data after the document")
	}
	return out, nil
}

// Document parses one document of at most that many bytes, YAML or JSON, keeping its numbers as
// text. The error is bounded: parsers quote the document.
func Document(text string, most int) (any, error) {
	if len(text) > most {
		return nil, errors.New("is longer than " + strconv.Itoa(most) + " bytes")
	}
	data, err := document.JSON([]byte(text), most)
	if err != nil {
		return nil, errors.New(Shorten(err.Error(), MaxQuoted))
	}
	parsed, err := DecodeJSON(data)
	if err != nil {
		return nil, errors.New("is neither YAML nor JSON: " + Shorten(err.Error(), MaxQuoted))
	}
	return parsed, nil
}

// Fill sets the fields of what to points to, a struct, from a decoded document, by their JSON
// tags. Null is absent. Scalars may be texts, because labels have only texts, and a list with one
// element counts as the element, because blocks of HCL arrive that way, with numbers as floats.
// A field of type any takes its value as it is; one that unmarshals text reads scalars itself,
// and its error is the problem.
func (p *Problems) Fill(field string, from, to any) { p.fill(field, from, reflect.ValueOf(to).Elem()) }

func (p *Problems) fill(field string, from any, to reflect.Value) {
	if from == nil {
		return
	}
	if to.Kind() == reflect.Interface {
		to.Set(reflect.ValueOf(from))
		return
	}
	if to.Kind() != reflect.Slice {
		from = single(from)
	}
	if into, ok := to.Addr().Interface().(encoding.TextUnmarshaler); ok {
		p.fillText(field, from, into)
		return
	}
	switch to.Kind() {
	case reflect.Pointer:
		made := reflect.New(to.Type().Elem())
		p.fill(field, from, made.Elem())
		to.Set(made)
	case reflect.Struct:
		p.fillStruct(field, from, to)
	case reflect.Map:
		p.fillMap(field, from, to)
	case reflect.Slice:
		p.fillSlice(field, from, to)
	default:
		p.fillScalar(field, from, to)
	}
}

// single returns the element of a list of one.
func single(from any) any {
	if list, ok := from.([]any); ok && len(list) == 1 {
		return list[0]
	}
	return from
}

// Keys returns the keys of a block or a mapping.
func Keys(from any) (map[string]any, bool) {
	keys, ok := single(from).(map[string]any)
	return keys, ok
}

const noKeys = "must be a mapping of keys to values"

func (p *Problems) fillStruct(field string, from any, to reflect.Value) {
	values, ok := from.(map[string]any)
	if !ok {
		p.Add(field, noKeys)
		return
	}
	names, indexes := Names(to.Type())
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if i := slices.Index(names, name); i >= 0 {
			p.fill(Within(field, name), values[name], to.FieldByIndex(indexes[i]))
			continue
		}
		p.Unknown(field, name, names)
	}
}

// Names returns the keys of a struct, with the indexes of their fields. The keys of an embedded
// struct are its own.
func Names(of reflect.Type) (names []string, indexes [][]int) {
	for i := range of.NumField() {
		f := of.Field(i)
		if f.Anonymous {
			inner, at := Names(f.Type)
			names = append(names, inner...)
			for _, index := range at {
				indexes = append(indexes, append([]int{i}, index...))
			}
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names, indexes = append(names, name), append(indexes, []int{i})
	}
	return names, indexes
}

func (p *Problems) fillMap(field string, from any, to reflect.Value) {
	values, ok := from.(map[string]any)
	if !ok {
		p.Add(field, "must be names with values")
		return
	}
	to.Set(reflect.MakeMap(to.Type()))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := reflect.New(to.Type().Elem()).Elem()
		p.fill(Within(field, name), values[name], value)
		to.SetMapIndex(reflect.ValueOf(name), value)
	}
}

func (p *Problems) fillSlice(field string, from any, to reflect.Value) {
	values, ok := from.([]any)
	if !ok {
		p.Add(field, "must be a list")
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), len(values), len(values)))
	for i, value := range values {
		p.fill(field+"["+strconv.Itoa(i)+"]", value, to.Index(i))
	}
}

// text returns a scalar as text; false: it is none, or too long.
func (p *Problems) text(field string, from any) (text string, ok bool) {
	text, ok = scalarText(from)
	switch {
	case !ok:
		p.Add(field, "must be one value, not a list or keys")
	case len(text) > maxText:
		p.Add(field, "is longer than %d bytes", maxText)
		ok = false
	}
	return text, ok
}

func (p *Problems) fillText(field string, from any, to encoding.TextUnmarshaler) {
	if text, ok := p.text(field, from); ok {
		if err := to.UnmarshalText([]byte(text)); err != nil {
			p.Add(field, "%v", err)
		}
	}
}

func (p *Problems) fillScalar(field string, from any, to reflect.Value) {
	text, ok := p.text(field, from)
	if !ok {
		return
	}
	switch to.Kind() {
	case reflect.String:
		to.SetString(text)
	case reflect.Bool:
		switch text {
		case "true", "false":
			to.SetBool(text == "true")
		default:
			p.Add(field, "must be true or false, not %q", Shorten(text, MaxQuoted))
		}
	default: // an int
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			p.Add(field, "must be a whole number")
			return
		}
		to.SetInt(n)
	}
}

func scalarText(from any) (text string, ok bool) {
	switch v := from.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		return v.String(), true
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return strconv.FormatInt(int64(v), 10), true
		}
		return strconv.FormatFloat(v, 'g', -1, 64), true
	}
	return "", false
}
