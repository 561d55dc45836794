package restjson_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Kinds that no request has today, by messages that have them.
func TestUnmarshalOtherKinds(t *testing.T) {
	tests := []struct {
		name string
		msg  proto.Message
		text string
		want []string
	}{
		{
			"bytes that are not base64",
			&descriptorpb.UninterpretedOption{},
			`{"stringValue": "%%%", "identifierValue": 1}`,
			[]string{`stringValue: must be a base64 string such as "aGVsbG8=", is "%%%"`, `identifierValue: must be a string, is a number (1)`},
		},
		{
			"bytes that are no string",
			&descriptorpb.UninterpretedOption{},
			`{"stringValue": 1}`,
			[]string{`stringValue: must be a base64 string, is a number (1)`},
		},
		{
			"an unsigned number below zero",
			&descriptorpb.UninterpretedOption{},
			`{"positiveIntValue": "-1", "doubleValue": "NaN"}`,
			[]string{`positiveIntValue: must be a whole number from 0 to 18446744073709551615, is -1`},
		},
		{
			"an enum's value that does not exist",
			&descriptorpb.FieldDescriptorProto{},
			`{"label": "LABEL_REPEATD", "type": "TYPE_INT32", "number": 1}`,
			[]string{`label: must be one of LABEL_OPTIONAL, LABEL_REPEATED, LABEL_REQUIRED, is a string ("LABEL_REPEATD"), did you mean "LABEL_REPEATED"?`},
		},
		{
			"an enum's value by number, beyond int32",
			&descriptorpb.FieldDescriptorProto{},
			`{"label": 3, "type": 1e10}`,
			[]string{`type: must be a whole number from -2147483648 to 2147483647, is 1e10`},
		},
		{
			"an enum's value of another JSON type",
			&descriptorpb.FieldDescriptorProto{},
			`{"label": true}`,
			[]string{`label: must be one of LABEL_OPTIONAL, LABEL_REPEATED, LABEL_REQUIRED, is a boolean (true)`},
		},
		{
			"null in a list of scalars",
			&descriptorpb.FileDescriptorProto{},
			`{"publicDependency": [1, null, "2"]}`,
			[]string{`publicDependency[1]: must not be null`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := violations(t, tt.text, tt.msg); !slices.Equal(got, tt.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(tt.want, "\n  "))
			}
		})
	}
}
