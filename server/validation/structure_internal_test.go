package validation

import (
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// TestStructureRefusesWhatItCannotEvaluate makes messages with rules that are not known
// here. To let them pass would be to let anything pass.
func TestStructureRefusesWhatItCannotEvaluate(t *testing.T) {
	tests := []struct {
		name  string
		rules validate.FieldRules_builder
		want  string
	}{
		{"another expression", validate.FieldRules_builder{Cel: []*validate.Rule{{Id: new("broken"), Message: new("m"), Expression: new("this.nonsense(")}}}, "expression broken is not known here"},
		{"an expression without words", validate.FieldRules_builder{Cel: []*validate.Rule{{Id: new("mute"), Expression: new("this.matches('a')")}}}, "expression mute is not known here"},
		{"no regular expression", validate.FieldRules_builder{Cel: []*validate.Rule{{Id: new("odd"), Message: new("m"), Expression: new("this.matches('(')")}}}, "missing closing )"},
		{"no regular expression to avoid", validate.FieldRules_builder{Cel: []*validate.Rule{{Id: new("odd"), Message: new("m"), Expression: new("this.matches('a') && !this.matches('(')")}}}, "missing closing )"},
		{"another rule", validate.FieldRules_builder{String: validate.StringRules_builder{Prefix: new("a")}.Build()}, "rule string.prefix is not known here"},
		{"another rule beside one that is known", validate.FieldRules_builder{Int32: validate.Int32Rules_builder{Gte: new(int32(1)), Lt: new(int32(3))}.Build()}, "rule int32.lt is not known here"},
		{"no pattern", validate.FieldRules_builder{String: validate.StringRules_builder{Pattern: new("(")}.Build()}, "string.pattern: error parsing regexp"},
		{"another way to ignore", validate.FieldRules_builder{Ignore: validate.Ignore_IGNORE_IF_ZERO_VALUE.Enum()}, "rule ignore is not known here"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Structure(dynamicpb.NewMessage(messageWith(t, tt.rules.Build())))
			if len(got) != 1 || got[0].Field != "" || !strings.HasPrefix(got[0].Description, "can't be validated: Broken.name: ") || !strings.Contains(got[0].Description, tt.want) {
				t.Errorf("got %v", got)
			}
		})
	}
}

// messageWith is a message of one field that has those rules.
func messageWith(t *testing.T, rules *validate.FieldRules) protoreflect.MessageDescriptor {
	options := &descriptorpb.FieldOptions{}
	proto.SetExtension(options, validate.E_Field, rules)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name:   new("broken.proto"),
		Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: new("Broken"),
			Field: []*descriptorpb.FieldDescriptorProto{{
				Name:    new("name"),
				Number:  new(int32(1)),
				Type:    descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
				Label:   descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
				Options: options,
			}},
		}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().ByName("Broken")
}
