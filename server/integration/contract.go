package integration

import (
	"encoding/json"
	"errors"
	"fmt"

	kjson "sigs.k8s.io/json"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/store"
)

// MaxBody limits a body, in bytes. The largest contain the labels and annotations of a
// Kubernetes object, which may take 256 KiB.
const MaxBody = 512 << 10

// Question is a caller's request.
type Question struct {
	// Key is the target.
	Key store.Key
	// Current is the number of replicas that the caller observes. Nil: not sent.
	Current *int32
	// Min and Max are the caller's bounds, which narrow those of the spec. Nil: unbounded.
	Min, Max *int32
	// uid is the caller's id of the request, which the response repeats.
	uid string
}

// Problem is why there is no recommendation.
type Problem struct {
	// Status is the HTTP status that REST uses for it, and Code its google.rpc.Code.
	Status, Code int
	Message      string
}

// Contract is the protocol of one kind of caller. Its methods are safe for concurrent use.
type Contract interface {
	// Read returns the request for a target of the cluster in a body, or all that is wrong
	// with it.
	Read(cluster string, body []byte) (Question, []validation.Violation)
	// Answer returns the JSON response, sent with the status 200.
	Answer(Question, *setpointv1.Recommendation) any
	// Refuse returns the HTTP status of an error, and its JSON response. It never has a
	// count that the caller would scale to. The question is nil if none was read.
	Refuse(*Question, Problem) (code int, body any)
}

// Contracts are the contracts by their names in paths.
var Contracts = map[string]Contract{"datadog": datadog{}, "agones": agones{}, "gpa": gpa{}}

// decode decodes JSON: names are case-sensitive and unique, and unknown fields are ignored,
// because newer callers may send more.
func decode(body []byte, into any) []validation.Violation {
	twice, err := kjson.UnmarshalStrict(body, into, kjson.DisallowDuplicateFields)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return []validation.Violation{{Field: wrong.Field, Description: fmt.Sprintf("Invalid value: a JSON %s, must be %s", wrong.Value, kindOf(wrong))}}
	case err != nil:
		return []validation.Violation{{Description: "the body is not valid JSON: " + err.Error()}}
	case len(twice) > 0:
		return []validation.Violation{{Description: "the body is not valid JSON: " + twice[0].Error()}}
	}
	return nil
}

// kindOf names the expected type in JSON's words.
func kindOf(wrong *json.UnmarshalTypeError) string {
	switch wrong.Type.Kind().String() {
	case "int32":
		return "a whole number of 32 bits"
	case "string":
		return "a string"
	}
	return "an object"
}

// place is a field of a body, and its meaning.
type place struct{ field, value, says string }

// names returns the violations of the parts of a target's name.
func names(places ...place) (violations []validation.Violation) {
	for _, p := range places {
		if !target.IsSegment(p.value) {
			violations = append(violations, validation.Violation{Field: p.field,
				Description: p.says + ": 1 to 253 characters of [A-Za-z0-9._-], and not \".\", \"..\" or \"-\""})
		}
	}
	return violations
}

// count checks a number of replicas, and returns nil for an absent one.
func count(field string, n *int32) (*int32, []validation.Violation) {
	if n != nil && *n < 0 {
		return nil, []validation.Violation{{Field: field, Description: fmt.Sprintf("Invalid value: %d: must be greater than or equal to 0", *n)}}
	}
	return n, nil
}

// named returns the target named by a setting of the caller, else the object's own
// name.
func named(setting *string, object string) string {
	if setting != nil {
		return *setting
	}
	return object
}
