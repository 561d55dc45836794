package playground

import (
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/setpoint-dev/setpoint/internal/document"
)

// Rules are those that a .proto file states beside a field. What is 0, empty or nil is not stated.
type Rules struct {
	// Required reports whether the field must be there, and not be an empty text.
	Required bool `json:",omitempty"`
	// Least and Most bound a number, or a duration in nanoseconds.
	Least *int64 `json:",omitempty"`
	Most  *int64 `json:",omitempty"`
	// MostItems bounds a list or a map, MostLength a text, in characters.
	MostItems  int    `json:",omitempty"`
	MostLength int    `json:",omitempty"`
	Pattern    string `json:",omitempty"`
	// Words are all that a text may be.
	Words []string `json:",omitempty"`
}

// reader reads messages of the contract by the names, types and rules of their fields: the browser has no protobuf
// that could.
type reader struct {
	// seconds reports whether durations must be in seconds, as in JSON; in an annotation they may be 12h.
	seconds bool
}

// message reads a message.
func (r reader) message(v document.Value, to any) { v.Map(r.of(to)...) }

// of has the fields of a message.
func (r reader) of(message any) []document.Field { return r.fields(reflect.ValueOf(message).Elem()) }

// jsonName finds a field's JSON name in the tag of its generated Go field.
var jsonName = regexp.MustCompile(`,name=(\w+)(?:,json=(\w+))?`)

func (r reader) fields(to reflect.Value) (fields []document.Field) {
	for i := range to.NumField() {
		found := jsonName.FindStringSubmatch(to.Type().Field(i).Tag.Get("protobuf"))
		if found == nil {
			continue
		}
		name := found[1]
		if found[2] != "" {
			name = found[2]
		}
		field, rules := to.Field(i), rulesOf(to.Type(), i)
		read := func(v document.Value) { r.value(v, field, name, &rules) }
		if rules.Required {
			fields = append(fields, document.Required(name, read))
		} else {
			fields = append(fields, document.Optional(name, read))
		}
	}
	return fields
}

// quantities are the names of fields whose texts may be written as numbers.
var quantities = []string{"value", "averageValue", "tolerance"}

// value reads a value of the field of that name.
func (r reader) value(v document.Value, to reflect.Value, name string, rules *Rules) {
	switch to.Kind() {
	case reflect.Pointer:
		switch made := reflect.New(to.Type().Elem()); made.Interface().(type) {
		case *durationpb.Duration:
			if d, ok := r.duration(v, rules); ok {
				to.Set(reflect.ValueOf(durationpb.New(d)))
			}
		case *timestamppb.Timestamp:
			if at, ok := v.Time(); ok {
				to.Set(reflect.ValueOf(timestamppb.New(at)))
			}
		default:
			r.value(v, made.Elem(), name, rules)
			to.Set(made)
		}
	case reflect.Struct:
		v.Map(r.fields(to)...)
	case reflect.Slice:
		v.ListOrNone(func(i int, v document.Value) {
			one := reflect.New(to.Type().Elem()).Elem()
			if rules.fits(v, i) {
				r.value(v, one, name, &Rules{})
				to.Set(reflect.Append(to, one))
			}
		})
	case reflect.Map: // of texts
		all := make(map[string]string)
		v.Entries(func(key string, _, v document.Value) {
			if rules.fits(v, len(all)) {
				all[key], _ = v.TextOrEmpty()
			}
		})
		to.Set(reflect.ValueOf(all))
	case reflect.Bool:
		b, _ := v.Bool()
		to.SetBool(b)
	case reflect.Int32:
		least, most := rules.bounds(math.MinInt32, math.MaxInt32)
		n, _ := v.Int(least, most)
		to.SetInt(n)
	default:
		of := document.String
		if slices.Contains(quantities, name) {
			of = document.Any
		}
		if text, ok := v.Scalar(of); ok {
			rules.text(v, text)
			to.SetString(text)
		}
	}
}

// bounds are those of a number, or others where none are stated.
func (r *Rules) bounds(least, most int64) (int64, int64) {
	if r.Least != nil {
		least = *r.Least
	}
	if r.Most != nil {
		most = *r.Most
	}
	return least, most
}

// fits reports whether there may be another one after so many, and refuses the first one too many.
func (r *Rules) fits(v document.Value, n int) bool {
	if r.MostItems > 0 && n == r.MostItems {
		v.Refuse("may have at most %d", r.MostItems)
	}
	return r.MostItems == 0 || n < r.MostItems
}

func (r *Rules) text(v document.Value, text string) {
	switch {
	case r.Required && text == "":
		v.Refuse("must not be empty")
	case r.MostLength > 0 && utf8.RuneCountInString(text) > r.MostLength:
		v.Refuse("must have at most %d characters", r.MostLength)
	case r.Pattern != "" && !regexp.MustCompile(r.Pattern).MatchString(text):
		v.Refuse("does not match %s", r.Pattern)
	case r.Words != nil && !slices.Contains(r.Words, text):
		v.Refuse("must be %s", strings.Join(slices.DeleteFunc(slices.Clone(r.Words), func(word string) bool { return word == "" }), ", "))
	}
}

// inSeconds is a duration in JSON of Protobuf.
var inSeconds = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9})?s$`)

func (r reader) duration(v document.Value, rules *Rules) (time.Duration, bool) {
	text, ok := v.Text()
	if !ok {
		return 0, false
	}
	d, err := document.ParseDuration(text)
	least, most := rules.bounds(math.MinInt64, math.MaxInt64)
	switch {
	case r.seconds && !inSeconds.MatchString(text):
		v.Refuse("must be a number of seconds, such as 300s")
	case err != nil:
		v.Refuse("must be a duration, such as 300s")
	case int64(d) < least || int64(d) > most:
		v.Refuse("is %s, must be between %s and %s", d, time.Duration(least), time.Duration(most))
	default:
		return d, true
	}
	return 0, false
}
