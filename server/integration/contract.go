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

// MaxBody bounds a body, in bytes. The largest have the labels and annotations of an object of
// Kubernetes, which may take 256 KiB.
const MaxBody = 512 << 10

// Question is what a caller asks.
type Question struct {
	// Key is the target.
	Key store.Key
	// Current is how many replicas the caller sees. Nil: it does not say.
	Current *int32
	// Min and Max are the caller's bounds, which narrow those of the spec. Nil: unbounded.
	Min, Max *int32
	// uid is the caller's name for the question, which the answer repeats.
	uid string
}

// Problem is why there is no recommendation.
type Problem struct {
	// Status is the HTTP code that REST has for it, and Code its google.rpc.Code.
	Status, Code int
	Message      string
}

// Contract is how one system asks and is answered. Its methods are safe for concurrent use.
type Contract interface {
	// Read returns what a body asks of a target of the cluster, or all that is wrong with it.
	Read(cluster string, body []byte) (Question, []validation.Violation)
	// Answer returns what is to be sent as JSON, with the code 200.
	Answer(Question, *setpointv1.Recommendation) any
	// Refuse returns the HTTP code of an error, and its JSON answer. It never has a
	// count that the caller would scale to. The question is nil where none was read.
	Refuse(*Question, Problem) (code int, body any)
}

// Contracts are the contracts by the names that their paths have.
var Contracts = map[string]Contract{"datadog": datadog{}, "agones": agones{}, "gpa": gpa{}}

// decode reads JSON: names count as they are written, none comes twice, and what the contract
// does not read is passed over, for newer callers may send more.
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

// kindOf says what was expected, in JSON's words.
func kindOf(wrong *json.UnmarshalTypeError) string {
	switch wrong.Type.Kind().String() {
	case "int32":
		return "a whole number of 32 bits"
	case "string":
		return "a string"
	}
	return "an object"
}

// place is a field of a body, and what it is to be.
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

// count checks a number of replicas, and returns nil for one that was not said.
func count(field string, n *int32) (*int32, []validation.Violation) {
	if n != nil && *n < 0 {
		return nil, []validation.Violation{{Field: field, Description: fmt.Sprintf("Invalid value: %d: must be greater than or equal to 0", *n)}}
	}
	return n, nil
}

// named is the target that a setting of the caller names, else the object's own name.
func named(setting *string, object string) string {
	if setting != nil {
		return *setting
	}
	return object
}
