package document

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/internal/spelling"
)

const (
	boolTag   = "!!bool"
	floatTag  = "!!float"
	intTag    = "!!int"
	mergeTag  = "!!merge"
	nullTag   = "!!null"
	stringTag = "!!str"
	timeTag   = "!!timestamp"
)

// Value is a value in a file, with its place. Its methods return false, or nothing, for
// a value that is not as expected, after recording a problem.
type Value struct {
	node   *yaml.Node
	path   string
	reader *reader
}

// Path is the value's path in the file: grants[0].verbs[1].
func (v Value) Path() string { return v.path }

// Place is where the value is, to begin a remark with: "policy.yaml:4: grants[0]: ".
func (v Value) Place() string { return v.reader.at(v.node.Line, v.path) }

// Refuse records a problem with the value. The text must not quote secrets.
func (v Value) Refuse(format string, args ...any) {
	v.reader.refuse(v.node.Line, v.path, fmt.Sprintf(format, args...))
}

// Field is an entry that a map may have.
type Field struct {
	key      string
	required bool
	hidden   bool
	read     func(Value)
}

// Required is an entry that must be present.
func Required(key string, read func(Value)) Field { return Field{key: key, required: true, read: read} }

// Optional is an entry that may be present.
func Optional(key string, read func(Value)) Field { return Field{key: key, read: read} }

// Unread is the field for a map that is read elsewhere: it may be present, and its value is not looked at.
func (f Field) Unread() Field { return Optional(f.key, func(Value) {}) }

// Never is an entry that must not be present, and the reason.
func Never(key, why string) Field {
	return Field{key: key, hidden: true, read: func(v Value) { v.Refuse("%s", why) }}
}

// Map reads a map. Fields are read in the file's order. It returns false if the value
// is not a map, or an entry is unknown or missing.
func (v Value) Map(fields ...Field) bool {
	if v.node.Kind != yaml.MappingNode {
		v.mustBe("a map" + withKeys(fields))
		return false
	}
	right, there := true, make(map[string]bool, len(fields))
	if !v.Entries(func(key string, at, value Value) {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.key == key })
		if i < 0 {
			at.Refuse("%s", unknownKey(key, fields))
			right = false
			return
		}
		there[key] = true
		fields[i].read(value)
	}) {
		return false
	}
	for _, f := range fields {
		if f.required && !there[f.key] {
			v.Refuse("%s is missing", f.key)
			right = false
		}
	}
	return right
}

// withKeys says which keys a map has at least.
func withKeys(fields []Field) string {
	var keys []string
	for _, f := range fields {
		if f.required {
			keys = append(keys, f.key)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	return " with " + strings.Join(keys, " and ")
}

// Entries reads a map with any keys, in the file's order: at is the key's place, with the path of
// the map. It returns false if the value is not a map.
func (v Value) Entries(read func(key string, at, value Value)) bool {
	if v.node.Kind != yaml.MappingNode {
		v.mustBe("a map")
		return false
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, value := v.node.Content[i], v.node.Content[i+1]
		at := Value{node: key, path: v.path, reader: v.reader}
		inner := Value{node: value, path: within(v.path, key.Value), reader: v.reader}
		if inner.empty() && value.Value == "" {
			inner.node = &yaml.Node{Kind: yaml.ScalarNode, Tag: nullTag, Line: key.Line}
		}
		read(key.Value, at, inner)
	}
	return true
}

// empty reports whether there is no value.
func (v Value) empty() bool { return v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == nullTag }

// nameLike matches unknown keys that may be quoted: tokens and digests are longer.
var nameLike = regexp.MustCompile(`^[A-Za-z][A-Za-z_-]{0,30}$`)

func unknownKey(key string, fields []Field) string {
	var known []string
	for _, f := range fields {
		if !f.hidden {
			known = append(known, f.key)
		}
	}
	text := "unknown key"
	if nameLike.MatchString(key) {
		text = "unknown key " + key
		if guess, ok := spelling.Closest(key, known); ok {
			return text + ", did you mean " + guess + "?"
		}
	}
	return text + "; known are " + strings.Join(known, ", ")
}

// List reads a list of at least one element.
func (v Value) List(read func(i int, element Value)) {
	if v.node.Kind == yaml.SequenceNode && len(v.node.Content) == 0 {
		v.Refuse("must have at least one element")
		return
	}
	v.ListOrNone(read)
}

// ListOrNone reads a list. It returns false if the value is not a list or has a
// problem.
func (v Value) ListOrNone(read func(i int, element Value)) bool {
	if v.node.Kind != yaml.SequenceNode {
		v.mustBe("a list")
		return false
	}
	before := v.reader.count()
	for i, node := range v.node.Content {
		read(i, Value{node: node, path: fmt.Sprintf("%s[%d]", v.path, i), reader: v.reader})
	}
	return v.reader.count() == before
}

// Texts reads a list of at least one string.
func (v Value) Texts() []string {
	var texts []string
	v.List(func(_ int, element Value) {
		if text, ok := element.Text(); ok {
			texts = append(texts, text)
		}
	})
	return texts
}

// Any is the value as encoding/json has values.
func (v Value) Any() (value any, ok bool) {
	return value, v.node.Decode(&value) == nil
}

// Text reads a non-empty string.
func (v Value) Text() (string, bool) {
	if _, ok := v.Scalar(String); !ok {
		return "", false
	}
	if v.node.Value == "" {
		v.Refuse("must not be empty")
		return "", false
	}
	return v.node.Value, true
}

// OneOf reads one of some names. What it is instead is quoted only if it looks like a name, too.
func (v Value) OneOf(names []string) (string, bool) {
	text, ok := v.Text()
	if !ok || slices.Contains(names, text) {
		return text, ok
	}
	is := ""
	if nameLike.MatchString(text) {
		is = ", is " + text
	}
	if name, near := spelling.Closest(text, names); near {
		is += ", did you mean " + name + "?"
	}
	v.Refuse("must be one of %s%s", strings.Join(names, ", "), is)
	return "", false
}

// TextOrEmpty reads a string.
func (v Value) TextOrEmpty() (string, bool) {
	return v.Scalar(String)
}

// Raw reads any scalar as it is written: a string, a number or a time.
func (v Value) Raw() (string, bool) {
	return v.Scalar(Any)
}

// Type is a type of scalars, as a problem names it.
type Type struct {
	name string
	tags []string // nil: any but null
}

// Types of scalars in files.
var (
	Any           = &Type{"a single value", nil}
	String        = &Type{"a string", []string{stringTag}}
	Boolean       = &Type{"true or false", []string{boolTag}}
	WholeNumber   = &Type{"a whole number", []string{intTag}}
	Number        = &Type{"a number", []string{intTag, floatTag}}
	DurationValue = &Type{`a duration such as "30s"`, []string{stringTag}}
)

// Name completes "must be …".
func (t *Type) Name() string { return t.name }

// Scalar reads a scalar of that type as it is written.
func (v Value) Scalar(t *Type) (string, bool) {
	if v.node.Kind != yaml.ScalarNode || v.empty() || t.tags != nil && !slices.Contains(t.tags, v.node.ShortTag()) {
		v.mustBe(t.name)
		return "", false
	}
	return v.node.Value, true
}

// Is reports whether the value is that string. Another value is not a problem.
func (v Value) Is(text string) bool {
	return v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == stringTag && v.node.Value == text
}

// IsMap reports whether the value is a map, IsNumber whether it is a number. Another value is not a problem.
func (v Value) IsMap() bool { return v.node.Kind == yaml.MappingNode }

// IsNumber is described at IsMap.
func (v Value) IsNumber() bool {
	return v.node.Kind == yaml.ScalarNode && slices.Contains(Number.tags, v.node.ShortTag())
}

// Bool reads true or false.
func (v Value) Bool() (bool, bool) {
	if _, ok := v.Scalar(Boolean); !ok {
		return false, false
	}
	var b bool
	if v.node.Decode(&b) != nil {
		v.mustBe(Boolean.name)
		return false, false
	}
	return b, true
}

// Int reads a whole number between minimum and maximum.
func (v Value) Int(minimum, maximum int64) (int64, bool) {
	if _, ok := v.Scalar(WholeNumber); !ok {
		return 0, false
	}
	var n int64
	if v.node.Decode(&n) != nil || n < minimum || n > maximum {
		v.Refuse("must be a whole number between %d and %d", minimum, maximum)
		return 0, false
	}
	return n, true
}

// Positive reads a number above 0 and up to maximum.
func (v Value) Positive(maximum float64) (float64, bool) {
	if _, ok := v.Scalar(Number); !ok {
		return 0, false
	}
	var f float64
	if v.node.Decode(&f) != nil || !(f > 0 && f <= maximum) {
		v.Refuse("must be a number above 0, at most %g", maximum)
		return 0, false
	}
	return f, true
}

// Duration reads a duration of at least 0 and up to maximum, which may begin with whole days: 7d12h.
func (v Value) Duration(maximum time.Duration) (time.Duration, bool) {
	if _, ok := v.Scalar(DurationValue); !ok {
		return 0, false
	}
	d, err := ParseDuration(v.node.Value)
	switch {
	case err != nil:
		v.Refuse("must be %s%s", DurationValue.name, WithUnit(v.node.Value))
	case d < 0 || d > maximum:
		v.Refuse("is %s, must be between 0s and %s", v.node.Value, inDays(maximum))
	default:
		return d, true
	}
	return 0, false
}

// inDays is a duration as people write a long one: 366d.
func inDays(d time.Duration) string {
	const day = 24 * time.Hour
	if d > day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return printable.Duration(d)
}

// ParseDuration reads a duration as time.ParseDuration does; it may begin with whole days: 7d12h.
func ParseDuration(text string) (time.Duration, error) {
	var days time.Duration
	if n, rest, written := strings.Cut(text, "d"); written {
		whole, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return 0, err
		}
		if days, text = time.Duration(whole)*24*time.Hour, rest; text == "" {
			return days, nil
		}
	}
	d, err := time.ParseDuration(text)
	if d >= 0 {
		d += days
	}
	return d, err
}

// WithUnit is what to write in place of a duration that is a number alone, or of days where these are not taken, to
// follow a problem: ": write 5s"; empty for other texts.
func WithUnit(text string) string {
	if d, err := ParseDuration(text); err == nil && strings.Contains(text, "d") {
		return ": write " + printable.Duration(d)
	}
	if d, err := time.ParseDuration(text + "s"); err != nil || d == 0 || strings.ContainsAny(text, "hmnuµs") {
		return ""
	}
	return ": write " + text + "s"
}

// Time reads an instant.
func (v Value) Time() (time.Time, bool) {
	const want = "an instant such as 2027-01-31T00:00:00Z"
	if _, ok := v.Scalar(&Type{want, []string{timeTag, stringTag}}); !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, v.node.Value)
	if err != nil {
		v.Refuse("must be %s", want)
		return time.Time{}, false
	}
	return t.UTC(), true
}

func (v Value) mustBe(want string) {
	hint := ""
	if want == String.name && v.node.Kind == yaml.ScalarNode && v.node.ShortTag() != nullTag {
		hint = "; put it in quotes"
	}
	if want == DurationValue.name && v.node.Kind == yaml.ScalarNode {
		hint = WithUnit(v.node.Value)
	}
	v.Refuse("must be %s, is %s%s", want, describe(v.node), hint)
}

// describe names the type of a value without quoting it.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	}
	switch node.ShortTag() {
	case nullTag:
		return "empty"
	case boolTag:
		return "a boolean"
	case intTag, floatTag:
		return "a number"
	case stringTag:
		return "a string"
	case timeTag:
		return "a time"
	}
	return "something else"
}
