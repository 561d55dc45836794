package samples

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/spelling"
)

// maxTextLength bounds a decoded text, in bytes.
const maxTextLength = 16 << 10

// decodeJSON parses one JSON document, keeping its numbers as text.
func decodeJSON(data []byte) (any, error) {
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

// fill sets the fields of a struct from a decoded document by their JSON tags. Scalars may be
// texts, because labels have only texts, and a list with one element counts as the element,
// because policy blocks arrive that way, with numbers as floats.
func (p *problems) fill(field string, from any, to reflect.Value) {
	if from == nil {
		return // treat null as absent
	}
	if to.Kind() != reflect.Slice {
		from = single(from)
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

func (p *problems) fillStruct(field string, from any, to reflect.Value) {
	values, ok := from.(map[string]any)
	if !ok {
		p.add(field, "must be a mapping of keys to values")
		return
	}
	byName := map[string]int{}
	names := make([]string, 0, to.NumField())
	for i := range to.NumField() {
		name := jsonName(to.Type().Field(i))
		byName[name] = i
		names = append(names, name)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if i, ok := byName[name]; ok {
			p.fill(within(field, name), values[name], to.Field(i))
			continue
		}
		hint := "the keys are " + strings.Join(names, ", ")
		if known, ok := spelling.Closest(name, names); ok {
			hint = "did you mean " + known + "?"
		}
		p.add(within(field, shorten(name, maxQuoted)), "there is no such key; %s", hint)
	}
}

// jsonName is the JSON name of a field.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func (p *problems) fillMap(field string, from any, to reflect.Value) {
	values, ok := from.(map[string]any)
	if !ok {
		p.add(field, "must be names with values")
		return
	}
	to.Set(reflect.MakeMap(to.Type()))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := reflect.New(to.Type().Elem()).Elem()
		p.fill(within(field, name), values[name], value)
		to.SetMapIndex(reflect.ValueOf(name), value)
	}
}

func (p *problems) fillSlice(field string, from any, to reflect.Value) {
	values, ok := from.([]any)
	if !ok {
		p.add(field, "must be a list")
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), len(values), len(values)))
	for i, value := range values {
		p.fill(field+"["+strconv.Itoa(i)+"]", value, to.Index(i))
	}
}

func (p *problems) fillScalar(field string, from any, to reflect.Value) {
	text, ok := scalarText(from)
	if !ok {
		p.add(field, "must be one value, not a list or keys")
		return
	}
	if len(text) > maxTextLength {
		p.add(field, "is longer than %d bytes", maxTextLength)
		return
	}
	if to.Type() == reflect.TypeFor[Duration]() {
		d, err := time.ParseDuration(text)
		if err != nil {
			p.add(field, "must be a duration such as 15s or 1m30s")
			return
		}
		to.SetInt(int64(d))
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
			p.add(field, "must be true or false")
		}
	default: // an int
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			p.add(field, "must be a whole number")
			return
		}
		to.SetInt(n)
	}
}

// scalarText returns a scalar as text.
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
