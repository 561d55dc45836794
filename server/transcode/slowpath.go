package transcode

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/setpoint-dev/setpoint/server/restjson"
)

// The tables learn the particularities of the API's JSON from the slow path, so that
// the two can't differ.

// takesNumber reports whether a number is accepted for a text field.
func takesNumber(fd protoreflect.FieldDescriptor) bool {
	switch {
	case fd.IsMap():
		return slowPathTakes(fd, `{"":1}`)
	case fd.IsList():
		return slowPathTakes(fd, `[1]`)
	}
	return slowPathTakes(fd, `1`)
}

// takesEmpty reports whether an empty list is accepted.
func takesEmpty(fd protoreflect.FieldDescriptor) bool { return slowPathTakes(fd, `[]`) }

func slowPathTakes(fd protoreflect.FieldDescriptor, value string) bool {
	text := []byte(`{"` + fd.JSONName() + `":` + value + `}`)
	return restjson.Unmarshal(text, dynamicpb.NewMessage(fd.ContainingMessage())) == nil
}

// defaultOf returns what the slow path writes for an absent field, "" for nothing.
func defaultOf(fd protoreflect.FieldDescriptor) string {
	if fd.IsList() && !takesEmpty(fd) {
		return ""
	}
	var members map[string]json.RawMessage
	var empty proto.Message = dynamicpb.NewMessage(fd.ContainingMessage())
	out, err := new(restjson.Marshaler).Marshal(empty)
	if err != nil || json.Unmarshal(out, &members) != nil {
		return ""
	}
	return string(bytes.TrimSpace(members[fd.JSONName()]))
}
