//go:build !js

package validation

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// maxQuoted limits what is quoted of a string, bytes.
const maxQuoted = 64

// got formats the value that broke a rule, briefly, to follow the rule's text: ` (got
// "Runing")`. Empty if there is no value or it would not help.
func got(value protoreflect.Value) string {
	if text := brief(value); text != "" {
		return " (got " + text + ")"
	}
	return ""
}

// brief formats a value in a few words: a list or a map by its length, a message only
// if it is a duration.
func brief(value protoreflect.Value) string {
	switch v := value.Interface().(type) {
	case string:
		return quote(v)
	case bool, int32, int64, uint32, uint64, float32, float64:
		return fmt.Sprint(v)
	case interface{ Len() int }: // a list or a map
		return fmt.Sprint(v.Len())
	case protoreflect.Message:
		if d, ok := v.Interface().(*durationpb.Duration); ok {
			return d.AsDuration().String()
		}
	}
	return ""
}

// quote quotes a string, shortened between two of its characters.
func quote(s string) string {
	if len(s) <= maxQuoted {
		return fmt.Sprintf("%q", s)
	}
	end := maxQuoted
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%q…", s[:end])
}
