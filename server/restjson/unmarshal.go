package restjson

import (
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// maxDepth bounds how deeply a text may nest. The API's own messages nest about
// ten levels; the bound keeps hostile texts from using up the stack.
const maxDepth = 100

// strict is the fast path: unknown fields are errors.
var strict = protojson.UnmarshalOptions{RecursionLimit: maxDepth}

// Unmarshal replaces msg by what the JSON object in data says. Every error is
// an *Error that lists the problems of the whole text; msg is then empty.
func Unmarshal(data []byte, msg proto.Message) error {
	err := strict.Unmarshal(data, msg)
	switch {
	case err != nil:
		err = retry(data, msg, err)
	case mayHaveEmptyPolicies(data):
		err = refuseEmptyPolicies(data, msg)
	}
	if err != nil {
		proto.Reset(msg)
	}
	return err
}

// retry looks for everything that is wrong with data, which strict refused with
// cause. Where that is only numbers in quantity fields it decodes data with
// these numbers as strings.
func retry(data []byte, msg proto.Message, cause error) error {
	if err := checkText(data, msg); err != nil {
		return err
	}
	found := inspect(data, msg)
	if err := found.err(); err != nil {
		return err
	}
	if len(found.numbers) > 0 {
		if cause = strict.Unmarshal(quoted(data, found.numbers), msg); cause == nil {
			return nil
		}
	}
	return refusal(cause)
}

// refusal passes on protojson's own words, for what inspect does not know of.
func refusal(cause error) *Error {
	// protojson varies the space after its prefix between builds, lest anyone
	// depend on it.
	text := strings.TrimLeft(strings.TrimPrefix(cause.Error(), "proto:"), " \u00a0")
	return wholeText("%s", clip(text, maxForeign))
}
