package restjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
)

// excerptLength is how many bytes an error quotes on either side of a position.
const excerptLength = 24

// checkText returns what is wrong with data as a text, regardless of fields. Nil means:
// one JSON value in valid UTF-8, no deeper than maxDepth.
func checkText(data []byte, msg proto.Message) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return wholeText("the body is empty; send a JSON object such as %s", sketch(msg))
	}
	if bytes.HasPrefix(data, []byte("\ufeff")) {
		return wholeText("the body begins with a byte order mark; send it without")
	}
	if i := invalidUTF8(data); i >= 0 {
		return wholeText("invalid UTF-8 at %s: the byte 0x%x", placeOf(data, i), data[i])
	}
	if i := tooDeep(data); i >= 0 {
		return wholeText("nested more than %d levels deep at %s", maxDepth, placeOf(data, i))
	}
	return checkSyntax(data, msg)
}

// checkSyntax returns an error unless data is exactly one JSON value.
func checkSyntax(data []byte, msg proto.Message) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	var value json.RawMessage
	err := dec.Decode(&value)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax) && !beginsAsJSON(data):
		return wholeText("the body is not JSON: it begins with `%s`; send a JSON object such as %s", excerpt(bytes.TrimSpace(data), 0), sketch(msg))
	case errors.As(err, &syntax):
		at := int(syntax.Offset) - 1 // Offset includes the offending byte.
		return wholeText("syntax error at %s: %s, near `%s`", placeOf(data, at), syntax, excerpt(data, at))
	case errors.Is(err, io.ErrUnexpectedEOF):
		end := len(bytes.TrimSpace(data))
		return wholeText("the body is cut off: the JSON value is not complete at %s, after `%s`", placeOf(data, end), excerpt(data, end))
	case err != nil:
		return wholeText("%s", err)
	}
	end := int(dec.InputOffset())
	rest := bytes.TrimLeft(data[end:], " \t\r\n")
	if len(rest) > 0 {
		at := len(data) - len(rest)
		return wholeText("unexpected data after the JSON value at %s: `%s`", placeOf(data, at), excerpt(rest, 0))
	}
	return nil
}

// beginsAsJSON reports whether data, which has a syntax error, is meant as JSON. YAML and forms are not, although
// JSON may also begin with a word (true) or a dash (-1).
func beginsAsJSON(data []byte) bool {
	return strings.IndexByte(`{["`, bytes.TrimSpace(data)[0]) >= 0
}

// invalidUTF8 returns the index of the first byte that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return -1
}

// tooDeep returns the index of the bracket that opens a level too many, or -1.
// The text need not be well-formed.
func tooDeep(data []byte) int {
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			inString = !inString
		case c == '\\' && inString:
			i++ // An escaped byte does not end the string.
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}

// placeOf names a byte of data as "line 3, column 14", both from 1, columns in
// characters.
func placeOf(data []byte, index int) string {
	before := data[:index]
	line := bytes.Count(before, []byte("\n")) + 1
	start := bytes.LastIndexByte(before, '\n') + 1
	return fmt.Sprintf("line %d, column %d", line, utf8.RuneCount(before[start:])+1)
}

// excerpt is the text around a byte of data, on one line.
func excerpt(data []byte, index int) string {
	from, to := max(index-excerptLength, 0), min(index+excerptLength, len(data))
	// The cuts may have split a character.
	whole := strings.ToValidUTF8(string(data[from:to]), "")
	words := strings.FieldsFunc(whole, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) })
	return strings.Join(words, " ")
}

// sketch shows what a body for msg looks like, by its first fields.
func sketch(msg proto.Message) string {
	fields := msg.ProtoReflect().Descriptor().Fields()
	var members []string
	for i := range min(fields.Len(), 3) {
		members = append(members, fmt.Sprintf("%q: …", fields.Get(i).JSONName()))
	}
	return "{" + strings.Join(members, ", ") + "}"
}
