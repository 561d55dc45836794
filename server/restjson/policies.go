package restjson

import (
	"bytes"
	"regexp"
	"slices"

	"google.golang.org/protobuf/proto"
)

// An explicit empty list of scaling policies: Kubernetes refuses it, but uses the
// defaults for an absent list. Protobuf cannot distinguish the two, so the text must be
// searched.
const (
	policiesField = "setpoint.v1.HPAScalingRules.policies"
	// noPolicies is the Kubernetes API server's wording.
	noPolicies = "Required value: must specify at least one Policy"
)

// emptyPolicies starts with a literal, which regexp searches for without running
// the rest: about 2 µs for a body of 10 pods.
var emptyPolicies = regexp.MustCompile(`"policies"[ \t\r\n]*:[ \t\r\n]*\[[ \t\r\n]*\]`)

// mayHaveEmptyPolicies is false only if data, which protojson accepted, has no empty
// list of policies. It is cheap, and has few false positives.
func mayHaveEmptyPolicies(data []byte) bool {
	return emptyPolicies.Match(data) || hasEscapedLetter(data)
}

// rulesWithout are scaling rules without policies in compact JSON that has all lists, as protojson writes them.
var rulesWithout = regexp.MustCompile(`((?:^|"scale(?:Up|Down)":)\{(?:"stabilizationWindowSeconds":-?\d+,)?(?:"selectPolicy":"(?:[^"\\]|\\.)*",)?)"policies":\[\](,|\})`)

// withoutEmptyPolicies leaves out empty lists of policies in scaling rules, which no request may have: so what an answer
// says of a spec can be sent again.
func withoutEmptyPolicies(compact []byte) []byte {
	if !bytes.Contains(compact, []byte(`"policies":[]`)) {
		return compact
	}
	return rulesWithout.ReplaceAllFunc(compact, func(rules []byte) []byte {
		before, last := bytes.TrimSuffix(rules[:len(rules)-1], []byte(`"policies":[]`)), rules[len(rules)-1]
		if last == ',' {
			return before
		}
		return append(bytes.TrimSuffix(before, []byte(",")), last)
	})
}

// hasEscapedLetter reports whether data may spell a name with \u escapes of plain
// letters, which is never necessary. All letters of "policies" are U+006x or U+007x.
func hasEscapedLetter(data []byte) bool {
	return bytes.Contains(data, []byte(`\u006`)) || bytes.Contains(data, []byte(`\u007`))
}

// refuseEmptyPolicies returns an error that names each empty list of policies in
// data, which protojson accepted, or nil.
func refuseEmptyPolicies(data []byte, msg proto.Message) error {
	if checkText(data, msg) != nil {
		// protojson accepts a little more than JSON (the number 1e, for one). It
		// accepted this text, so there is nothing to refuse.
		return nil
	}
	found := inspect(data, msg, false)
	found.violations = slices.DeleteFunc(found.violations, func(v Violation) bool {
		return v.Description != noPolicies
	})
	return found.err()
}
