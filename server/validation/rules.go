//go:build !js

package validation

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// RulesOf returns the rules that a .proto file states beside a field, nil for none.
func RulesOf(fd protoreflect.FieldDescriptor) *validate.FieldRules {
	rules, _ := proto.GetExtension(fd.Options(), validate.E_Field).(*validate.FieldRules)
	return rules
}

type messageRules struct{ fields []fieldRules }

// fieldRules are the rules of a field, and of messages in it.
type fieldRules struct {
	field    protoreflect.FieldDescriptor
	required bool
	// mayBeAbsent reports whether an unset field needs no check.
	mayBeAbsent bool
	checks      []check
	// inner are the rules of the messages in it, nil for none.
	inner *messageRules
}

// check returns what is wrong with a value, in the words of protovalidate; "" for nothing.
type check func(protoreflect.Value) string

// compiler compiles rules from descriptors, once for each message.
type compiler struct {
	mu   sync.Mutex
	done map[protoreflect.MessageDescriptor]*messageRules // guarded by mu
}

var compiled = compiler{done: make(map[protoreflect.MessageDescriptor]*messageRules)}

// of returns the rules of a message. It fails for an unknown rule, and for rules in places
// that this package does not check: a rule that it can't evaluate must not pass.
func (c *compiler) of(md protoreflect.MessageDescriptor) (*messageRules, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.compile(md)
}

func (c *compiler) compile(md protoreflect.MessageDescriptor) (*messageRules, error) {
	if rules, ok := c.done[md]; ok {
		if rules == nil {
			return nil, fmt.Errorf("%s: a recursive message is not supported", md.FullName())
		}
		return rules, nil
	}
	if err := ofFieldsOnly(md); err != nil {
		return nil, err
	}
	rules := &messageRules{}
	c.done[md] = nil // until its fields are compiled
	for i := range md.Fields().Len() {
		f, err := c.field(md.Fields().Get(i))
		if err != nil {
			delete(c.done, md)
			return nil, err
		}
		if f.required || len(f.checks) > 0 || f.inner != nil {
			rules.fields = append(rules.fields, f)
		}
	}
	c.done[md] = rules
	return rules, nil
}

// ofFieldsOnly fails for a message with rules other than those of its fields.
func ofFieldsOnly(md protoreflect.MessageDescriptor) error {
	if proto.HasExtension(md.Options(), validate.E_Message) {
		return fmt.Errorf("%s: rules of a message are not supported", md.FullName())
	}
	for i := range md.Oneofs().Len() {
		if oneof := md.Oneofs().Get(i); proto.HasExtension(oneof.Options(), validate.E_Oneof) {
			return fmt.Errorf("%s: rules of a oneof are not supported", oneof.FullName())
		}
	}
	return nil
}

func (c *compiler) field(fd protoreflect.FieldDescriptor) (fieldRules, error) {
	f := fieldRules{field: fd}
	rules := RulesOf(fd)
	if rules.GetIgnore() == validate.Ignore_IGNORE_ALWAYS {
		return f, nil
	}
	var err error
	if f.required = rules.GetRequired(); rules != nil {
		if f.checks, err = checksOf(fd, rules); err != nil {
			return f, fmt.Errorf("%s: %w", fd.FullName(), err)
		}
	}
	f.mayBeAbsent = fd.HasPresence() || fd.IsMap() || fd.IsList() && !rules.GetRepeated().HasMinItems()
	held := fd
	if fd.IsMap() {
		held = fd.MapValue()
	}
	if held.Message() == nil {
		return f, nil
	}
	inner, err := c.compile(held.Message())
	switch {
	case err != nil:
		return f, err
	case len(inner.fields) == 0:
	case fd.IsMap():
		return f, fmt.Errorf("%s: rules of the messages in a map are not supported", fd.FullName())
	default:
		f.inner = inner
	}
	return f, nil
}

// evaluators are the known rules, in the order in which protovalidate evaluates those of
// one field.
var evaluators = []struct {
	rule string
	make func(rule protoreflect.Value) (check, error)
}{
	{"string.min_len", minLength},
	{"string.max_len", longest},
	{"string.pattern", pattern},
	{"string.in", wordIn},
	{"double.finite", onlyFinite},
	{"double.gte", leastFloat},
	{"repeated.min_items", leastItems},
	{"repeated.max_items", mostItems},
	{"map.max_pairs", mostPairs},
	{"duration.gt", durationAbove},
}

// fits reports whether rules of that kind apply to the field's type.
func fits(kind protoreflect.Name, fd protoreflect.FieldDescriptor) bool {
	switch {
	case fd.IsMap():
		return kind == "map"
	case fd.IsList():
		return kind == "repeated"
	case fd.Message() != nil:
		return kind == "duration" && fd.Message().FullName() == "google.protobuf.Duration"
	}
	return string(kind) == fd.Kind().String()
}

// checksOf returns the checks of a field's rules.
func checksOf(fd protoreflect.FieldDescriptor, rules *validate.FieldRules) ([]check, error) {
	stated, err := statedRules(fd, rules)
	if err != nil {
		return nil, err
	}
	var checks []check
	for _, rule := range rules.GetCel() {
		if !fits("string", fd) {
			return nil, fmt.Errorf("expression %s for a non-string is not supported", rule.GetId())
		}
		c, err := expression(rule)
		if err != nil {
			return nil, err
		}
		checks = append(checks, c)
	}
	for _, o := range ordered {
		c, err := o.between(stated)
		if err != nil {
			return nil, err
		}
		if c != nil {
			checks = append(checks, c)
		}
	}
	for _, e := range evaluators {
		if rule, ok := stated[e.rule]; ok {
			c, err := e.make(rule)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.rule, err)
			}
			checks = append(checks, c)
			delete(stated, e.rule)
		}
	}
	for name := range stated {
		return nil, fmt.Errorf("rule %s is not supported", name)
	}
	return checks, nil
}

// statedRules returns the standard rules by their names, such as string.max_len.
func statedRules(field protoreflect.FieldDescriptor, rules *validate.FieldRules) (map[string]protoreflect.Value, error) {
	stated := make(map[string]protoreflect.Value)
	if len(rules.ProtoReflect().GetUnknown()) > 0 {
		return nil, errors.New("rules of another version are not supported")
	}
	var unknown error
	rules.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch fd.Name() {
		case "required", "cel":
			return true
		}
		if fd.Message() == nil || fd.IsList() || len(v.Message().GetUnknown()) > 0 {
			unknown = fmt.Errorf("rule %s is not supported", fd.Name())
			return false
		}
		if !fits(fd.Name(), field) {
			unknown = fmt.Errorf("rules of %s do not fit the field", fd.Name())
			return false
		}
		v.Message().Range(func(rule protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			stated[string(fd.Name())+"."+string(rule.Name())] = v
			return true
		})
		return true
	})
	return stated, unknown
}

// matching matches the only supported expressions: that a text matches, and perhaps that
// it does not match something else.
var matching = regexp.MustCompile(`^this\.matches\('([^'\\]*)'\)(?: && !this\.matches\('([^'\\]*)'\))?$`)

// patterns are the regular expressions of the rules: most names have the same one, which is large.
var patterns sync.Map // by their text

func patternOf(text string) (*regexp.Regexp, error) {
	if known, ok := patterns.Load(text); ok {
		return known.(*regexp.Regexp), nil
	}
	made, err := regexp.Compile(text)
	if err == nil {
		patterns.Store(text, made)
	}
	return made, err
}

func expression(rule *validate.Rule) (check, error) {
	parts := matching.FindStringSubmatch(rule.GetExpression())
	if parts == nil || rule.GetMessage() == "" {
		return nil, fmt.Errorf("expression %s is not supported", rule.GetId())
	}
	must, err := patternOf(parts[1])
	if err != nil {
		return nil, err
	}
	var mustNot *regexp.Regexp
	if parts[2] != "" {
		if mustNot, err = patternOf(parts[2]); err != nil {
			return nil, err
		}
	}
	message := rule.GetMessage()
	return func(v protoreflect.Value) string {
		return unless(must.MatchString(v.String()) && (mustNot == nil || !mustNot.MatchString(v.String())), message)
	}, nil
}

// unless returns the message for an invalid value.
func unless(sound bool, message string) string {
	if sound {
		return ""
	}
	return message
}

// order is a kind of values with a minimum and a maximum.
type order struct {
	kind  string
	value func(protoreflect.Value) int64
	text  func(int64) string
}

var ordered = []order{
	{"int32", protoreflect.Value.Int, decimal},
	{"int64", protoreflect.Value.Int, decimal},
	{"duration", func(v protoreflect.Value) int64 { return int64(duration(v)) }, seconds},
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// seconds formats nanoseconds as a duration in JSON.
func seconds(n int64) string {
	return strconv.FormatFloat(time.Duration(n).Seconds(), 'f', -1, 64) + "s"
}

// between is the check of values of that kind, nil if there are no such rules.
func (o order) between(stated map[string]protoreflect.Value) (check, error) {
	gte, atLeast := stated[o.kind+".gte"]
	lte, atMost := stated[o.kind+".lte"]
	delete(stated, o.kind+".gte")
	delete(stated, o.kind+".lte")
	least, most := int64(math.MinInt64), int64(math.MaxInt64)
	var words []string
	if atLeast {
		least = o.value(gte)
		words = append(words, "greater than or equal to "+o.text(least))
	}
	if atMost {
		most = o.value(lte)
		words = append(words, "less than or equal to "+o.text(most))
	}
	switch {
	case words == nil:
		return nil, nil
	case least > most: // protovalidate excludes only the range in between
		return nil, fmt.Errorf("rule %s.gte above %s.lte is not supported", o.kind, o.kind)
	}
	message := "must be " + strings.Join(words, " and ")
	return func(v protoreflect.Value) string {
		n := o.value(v)
		return unless(n >= least && n <= most, message)
	}, nil
}

func wordIn(rule protoreflect.Value) (check, error) {
	words := make([]string, rule.List().Len())
	for i := range words {
		words[i] = rule.List().Get(i).String()
	}
	// Nobody writes the empty word: without the field it is there.
	named := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "" })
	message := "must be in list [" + strings.Join(named, ", ") + "]"
	return func(v protoreflect.Value) string { return unless(slices.Contains(words, v.String()), message) }, nil
}

func minLength(rule protoreflect.Value) (check, error) {
	n := rule.Uint()
	message := fmt.Sprintf("must be at least %d characters", n)
	return func(v protoreflect.Value) string {
		return unless(uint64(utf8.RuneCountInString(v.String())) >= n, message)
	}, nil
}

func longest(rule protoreflect.Value) (check, error) {
	n := rule.Uint()
	message := fmt.Sprintf("must be at most %d characters", n)
	return func(v protoreflect.Value) string {
		s := v.String()
		// Counting bytes is faster, and there are at most as many characters.
		return unless(uint64(len(s)) <= n || uint64(utf8.RuneCountInString(s)) <= n, message)
	}, nil
}

func pattern(rule protoreflect.Value) (check, error) {
	must, err := patternOf(rule.String())
	if err != nil {
		return nil, err
	}
	message := "does not match regex pattern `" + rule.String() + "`"
	return func(v protoreflect.Value) string { return unless(must.MatchString(v.String()), message) }, nil
}

func onlyFinite(rule protoreflect.Value) (check, error) {
	if !rule.Bool() {
		return nil, errors.New("false is not supported")
	}
	return finite, nil
}

func finite(v protoreflect.Value) string {
	return unless(!math.IsNaN(v.Float()) && !math.IsInf(v.Float(), 0), "must be finite")
}

func leastFloat(rule protoreflect.Value) (check, error) {
	least := rule.Float()
	message := "must be greater than or equal to " + strconv.FormatFloat(least, 'f', -1, 64)
	return func(v protoreflect.Value) string { return unless(v.Float() >= least, message) }, nil
}

func leastItems(rule protoreflect.Value) (check, error) {
	n := rule.Uint()
	message := fmt.Sprintf("must contain at least %d item(s)", n)
	return func(v protoreflect.Value) string { return unless(uint64(v.List().Len()) >= n, message) }, nil
}

func mostItems(rule protoreflect.Value) (check, error) {
	n := rule.Uint()
	message := fmt.Sprintf("must contain no more than %d item(s)", n)
	return func(v protoreflect.Value) string { return unless(uint64(v.List().Len()) <= n, message) }, nil
}

func mostPairs(rule protoreflect.Value) (check, error) {
	n := rule.Uint()
	message := fmt.Sprintf("map must be at most %d entries", n)
	return func(v protoreflect.Value) string { return unless(uint64(v.Map().Len()) <= n, message) }, nil
}

func durationAbove(rule protoreflect.Value) (check, error) {
	bound := duration(rule)
	message := "must be greater than " + bound.String()
	return func(v protoreflect.Value) string { return unless(duration(v) > bound, message) }, nil
}

// duration is the value of a google.protobuf.Duration.
func duration(v protoreflect.Value) time.Duration {
	d, _ := v.Message().Interface().(*durationpb.Duration)
	return d.AsDuration()
}
