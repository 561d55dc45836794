package validation

import (
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// TestStructureRefusesWhatItCannotEvaluate makes messages with rules that are not known
// here. To let them pass would be to let anything pass.
func TestStructureRefusesWhatItCannotEvaluate(t *testing.T) {
	tests := []struct {
		name  string
		rules validate.FieldRules_builder
		want  string
	}{
		{"another expression", validate.FieldRules_builder{Cel: []*validate.Rule{{Id: new("broken"), Message: new("m"), Expression: new("this.nonsense(")}}}, "expression broken is not supported"},
		{"an expression without words", validate.FieldRules_builder{Cel: []*validate.Rule{{Id: new("mute"), Expression: new("this.matches('a')")}}}, "expression mute is not supported"},
		{"no regular expression", validate.FieldRules_builder{Cel: []*validate.Rule{{Id: new("odd"), Message: new("m"), Expression: new("this.matches('(')")}}}, "missing closing )"},
		{"no regular expression to avoid", validate.FieldRules_builder{Cel: []*validate.Rule{{Id: new("odd"), Message: new("m"), Expression: new("this.matches('a') && !this.matches('(')")}}}, "missing closing )"},
		{"another rule", validate.FieldRules_builder{String: validate.StringRules_builder{Prefix: new("a")}.Build()}, "rule string.prefix is not supported"},
		{"another rule beside one that is known", validate.FieldRules_builder{Int32: validate.Int32Rules_builder{Gte: new(int32(1)), Lt: new(int32(3))}.Build()}, "rule int32.lt is not supported"},
		{"no pattern", validate.FieldRules_builder{String: validate.StringRules_builder{Pattern: new("(")}.Build()}, "string.pattern: error parsing regexp"},
		{"a range without its middle", validate.FieldRules_builder{Int32: validate.Int32Rules_builder{Gte: new(int32(3)), Lte: new(int32(1))}.Build()}, "rule int32.gte above int32.lte is not supported"},
		{"numbers that need not be finite", validate.FieldRules_builder{Double: validate.DoubleRules_builder{Finite: new(false)}.Build()}, "double.finite: false is not supported"},
		{"rules of another kind of field", validate.FieldRules_builder{Bytes: validate.BytesRules_builder{MinLen: new(uint64(1))}.Build()}, "rules of bytes do not fit the field"},
		{"another way to ignore", validate.FieldRules_builder{Ignore: validate.Ignore_IGNORE_IF_ZERO_VALUE.Enum()}, "rule ignore is not supported"},
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
	field := fieldOf("name", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING)
	switch {
	case rules.GetInt32() != nil:
		field.Type = descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum()
	case rules.GetDouble() != nil:
		field.Type = descriptorpb.FieldDescriptorProto_TYPE_DOUBLE.Enum()
	}
	return compiledFrom(t, &descriptorpb.DescriptorProto{Name: new("Broken"), Field: []*descriptorpb.FieldDescriptorProto{withRules(field, rules)}})
}

func fieldOf(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{
		Name: new(name), Number: new(number), Type: kind.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
}

func withRules(field *descriptorpb.FieldDescriptorProto, rules *validate.FieldRules) *descriptorpb.FieldDescriptorProto {
	field.Options = &descriptorpb.FieldOptions{}
	proto.SetExtension(field.Options, validate.E_Field, rules)
	return field
}

func holding(name string, number int32, message string) *descriptorpb.FieldDescriptorProto {
	field := fieldOf(name, number, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE)
	field.TypeName = new(message)
	return field
}

// compiledFrom is the first of those messages.
func compiledFrom(t *testing.T, messages ...*descriptorpb.DescriptorProto) protoreflect.MessageDescriptor {
	t.Helper()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("broken.proto"), Syntax: new("proto3"), MessageType: messages,
	}, protoregistry.GlobalFiles)
	fatal.If(t, err)
	return file.Messages().Get(0)
}

// TestStructureRefusesRulesBesideFields makes messages with rules, known ones among them, in
// places that are not looked at.
func TestStructureRefusesRulesBesideFields(t *testing.T) {
	short := validate.FieldRules_builder{String: validate.StringRules_builder{MaxLen: new(uint64(3))}.Build()}.Build()
	ruled := &descriptorpb.DescriptorProto{Name: new("Ruled"), Field: []*descriptorpb.FieldDescriptorProto{
		withRules(fieldOf("name", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING), short),
	}}
	free := &descriptorpb.DescriptorProto{Name: new("Free"), Field: []*descriptorpb.FieldDescriptorProto{
		fieldOf("name", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING),
	}}
	// mapOf is a message with a map of messages.
	mapOf := func(message string) *descriptorpb.DescriptorProto {
		field := holding("held", 1, ".Broken.HeldEntry")
		field.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		return &descriptorpb.DescriptorProto{
			Name: new("Broken"), Field: []*descriptorpb.FieldDescriptorProto{field},
			NestedType: []*descriptorpb.DescriptorProto{{
				Name: new("HeldEntry"), Options: &descriptorpb.MessageOptions{MapEntry: new(true)},
				Field: []*descriptorpb.FieldDescriptorProto{fieldOf("key", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING), holding("value", 2, message)},
			}},
		}
	}
	tests := []struct {
		name     string
		messages func() []*descriptorpb.DescriptorProto
		want     string // "": it has a rule that counts, or none
	}{
		{"of a message", func() []*descriptorpb.DescriptorProto {
			options := &descriptorpb.MessageOptions{}
			proto.SetExtension(options, validate.E_Message, validate.MessageRules_builder{Cel: []*validate.Rule{{Id: new("both"), Expression: new("this.a > this.b")}}}.Build())
			return []*descriptorpb.DescriptorProto{{Name: new("Broken"), Options: options}}
		}, "Broken: rules of a message are not supported"},
		{"of a oneof", func() []*descriptorpb.DescriptorProto {
			options := &descriptorpb.OneofOptions{}
			proto.SetExtension(options, validate.E_Oneof, validate.OneofRules_builder{Required: new(true)}.Build())
			field := fieldOf("name", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING)
			field.OneofIndex = new(int32(0))
			return []*descriptorpb.DescriptorProto{{
				Name: new("Broken"), Field: []*descriptorpb.FieldDescriptorProto{field},
				OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: new("either"), Options: options}},
			}}
		}, "Broken.either: rules of a oneof are not supported"},
		{"of messages in a map", func() []*descriptorpb.DescriptorProto {
			return []*descriptorpb.DescriptorProto{mapOf(".Ruled"), ruled}
		}, "Broken.held: rules of the messages in a map are not supported"},
		{"none of messages in a map", func() []*descriptorpb.DescriptorProto {
			return []*descriptorpb.DescriptorProto{mapOf(".Free"), free}
		}, ""},
		{"of a message in itself", func() []*descriptorpb.DescriptorProto {
			return []*descriptorpb.DescriptorProto{{Name: new("Broken"), Field: []*descriptorpb.FieldDescriptorProto{
				holding("inner", 1, ".Broken"), withRules(fieldOf("name", 2, descriptorpb.FieldDescriptorProto_TYPE_STRING), short),
			}}}
		}, "Broken: a recursive message is not supported"},
		{"of a message in a map of itself", func() []*descriptorpb.DescriptorProto {
			return []*descriptorpb.DescriptorProto{mapOf(".Broken")}
		}, "Broken: a recursive message is not supported"},
		{"of a message in one that it holds", func() []*descriptorpb.DescriptorProto {
			return []*descriptorpb.DescriptorProto{
				{Name: new("Broken"), Field: []*descriptorpb.FieldDescriptorProto{holding("inner", 1, ".Other")}},
				{Name: new("Other"), Field: []*descriptorpb.FieldDescriptorProto{holding("outer", 1, ".Broken")}},
			}
		}, "Broken: a recursive message is not supported"},
		{"of a message that is there twice", func() []*descriptorpb.DescriptorProto {
			return []*descriptorpb.DescriptorProto{{Name: new("Broken"), Field: []*descriptorpb.FieldDescriptorProto{
				holding("one", 1, ".Ruled"), holding("other", 2, ".Ruled"),
			}}, ruled}
		}, ""},
		{"of another kind of field", func() []*descriptorpb.DescriptorProto {
			return []*descriptorpb.DescriptorProto{{Name: new("Broken"), Field: []*descriptorpb.FieldDescriptorProto{
				withRules(fieldOf("count", 1, descriptorpb.FieldDescriptorProto_TYPE_INT32), short),
			}}}
		}, "Broken.count: rules of string do not fit the field"},
		{"an expression of another kind of field", func() []*descriptorpb.DescriptorProto {
			rules := validate.FieldRules_builder{Cel: []*validate.Rule{{Id: new("odd"), Message: new("m"), Expression: new("this.matches('a')")}}}.Build()
			return []*descriptorpb.DescriptorProto{{Name: new("Broken"), Field: []*descriptorpb.FieldDescriptorProto{
				withRules(fieldOf("count", 1, descriptorpb.FieldDescriptorProto_TYPE_INT32), rules),
			}}}
		}, "Broken.count: expression odd for a non-string is not supported"},
		{"of another version", func() []*descriptorpb.DescriptorProto {
			rules := &validate.FieldRules{}
			rules.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 5000, protowire.VarintType), 1))
			return []*descriptorpb.DescriptorProto{{Name: new("Broken"), Field: []*descriptorpb.FieldDescriptorProto{
				withRules(fieldOf("name", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING), rules),
			}}}
		}, "Broken.name: rules of another version are not supported"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			md := compiledFrom(t, tt.messages()...)
			for range 2 { // a failure must not be taken for rules the next time
				got := Structure(dynamicpb.NewMessage(md))
				if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || got[0].Description != "can't be validated: "+tt.want) {
					t.Errorf("got %v, want %q", got, tt.want)
				}
			}
		})
	}
}
