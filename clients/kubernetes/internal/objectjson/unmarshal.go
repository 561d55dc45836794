// Package objectjson reads the JSON of Kubernetes API objects into their Go types, as the API
// server does: field names are case-sensitive, and strict reading reports every unknown or
// repeated field by its path.
//
//	err := objectjson.UnmarshalStrict(data, &autoscaler, "metadata", "status")
//
// It adds two features to the plain decoders: errors that name the field of a malformed
// quantity, and a guard against quantities whose exponent would keep the parser busy for hours.
package objectjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	kjson "sigs.k8s.io/json"
)

// Unmarshal reads data into the value that into points to. It ignores unknown fields, because
// newer API servers add some.
func Unmarshal(data []byte, into any) error {
	if err := refuseHugeExponents(data); err != nil {
		return err
	}
	return describe(data, kjson.UnmarshalCaseSensitivePreserveInts(data, into))
}

// UnmarshalStrict reads data into the value that into points to. It joins the errors of all
// unknown and repeated fields, one a line, but ignores unknown ones at or below the paths of
// open ("metadata", "steps[].pods"). A path has no indices: "[]" stands for any.
func UnmarshalStrict(data []byte, into any, open ...string) error {
	if err := refuseHugeExponents(data); err != nil {
		return err
	}
	violations, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		return describe(data, err)
	}
	var kept []error
	for _, violation := range violations {
		if !allowed(violation, open) {
			kept = append(kept, violation)
		}
	}
	return errors.Join(kept...)
}

// allowed reports whether violation is an unknown field at or below one of open.
func allowed(violation error, open []string) bool {
	var field kjson.FieldError
	if !errors.As(violation, &field) || !strings.HasPrefix(violation.Error(), "unknown") {
		return false
	}
	path := withoutIndices(field.FieldPath())
	for _, prefix := range open {
		if path == prefix || strings.HasPrefix(path, prefix+".") || strings.HasPrefix(path, prefix+"[") {
			return true
		}
	}
	return false
}

// withoutIndices turns "steps[12].pods[3].x" into "steps[].pods[].x".
func withoutIndices(path string) string {
	var b strings.Builder
	inside := false
	for _, r := range path {
		switch {
		case r == '[':
			inside = true
			b.WriteRune(r)
		case r == ']':
			inside = false
			b.WriteRune(r)
		case !inside:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// describe words the decoder's error about data, with the field path if known. It returns a
// syntax error as a SyntaxError.
func describe(data []byte, err error) error {
	if err == nil {
		return nil
	}
	if is, offset := kjson.SyntaxErrorOffset(err); is {
		return &SyntaxError{Offset: offset, Cut: err.Error() == "unexpected end of JSON input", Err: err}
	}
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && mismatch.Field != "" {
		return fmt.Errorf("%s: expected %s, found %s", mismatch.Field, mismatch.Type, mismatch.Value)
	}
	if path, value, ok := malformedQuantity(data); ok {
		return fmt.Errorf("%s: %q is not a quantity: %w", path, value, err)
	}
	return err
}

// SyntaxError reports data that is not JSON.
type SyntaxError struct {
	// Offset is the offset after the byte that could not be read, from 0.
	Offset int64
	// Cut reports whether the data ends too early, as in a truncated file.
	Cut bool
	// Err is the decoder's error.
	Err error
}

// Error returns the decoder's text.
func (e *SyntaxError) Error() string { return e.Err.Error() }

// Unwrap returns the decoder's error.
func (e *SyntaxError) Unwrap() error { return e.Err }
