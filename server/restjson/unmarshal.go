package restjson

import (
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// maxDepth limits the nesting of a text. The API's own messages nest about ten levels
// deep; the limit protects the stack from hostile texts.
const maxDepth = 100

// strict is the fast path: unknown fields are errors.
var strict = protojson.UnmarshalOptions{RecursionLimit: maxDepth}

// Unmarshal replaces msg by the JSON object in data. Every error is an *Error that
// lists the problems of the whole text; msg is then empty.
func Unmarshal(data []byte, msg proto.Message) error { return unmarshal(data, msg, false) }

// UnmarshalStored is Unmarshal for what a service said of a stored spec: older ones wrote an empty list of policies for
// scaling rules without any, so it counts as absent.
func UnmarshalStored(data []byte, msg proto.Message) error { return unmarshal(data, msg, true) }

func unmarshal(data []byte, msg proto.Message, emptyPolicies bool) error {
	err := strict.Unmarshal(data, msg)
	switch {
	case err != nil:
		err = retry(data, msg, err, emptyPolicies)
	case !emptyPolicies && mayHaveEmptyPolicies(data):
		err = refuseEmptyPolicies(data, msg)
	}
	if err != nil {
		proto.Reset(msg)
	}
	return err
}

// retry finds all problems of data, which strict refused with cause. If the only ones
// are numbers in quantity fields, it decodes data with these numbers as strings.
func retry(data []byte, msg proto.Message, cause error, emptyPolicies bool) error {
	if err := checkText(data, msg); err != nil {
		return err
	}
	found := inspect(data, msg, emptyPolicies)
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

// refusal returns protojson's own message, for problems that inspect does not find.
func refusal(cause error) *Error {
	// protojson varies the space after its prefix between builds, so that nobody
	// depends on it.
	text := strings.TrimLeft(strings.TrimPrefix(cause.Error(), "proto:"), " \u00a0")
	return wholeText("%s", clip(text, maxForeign))
}
