package validation

import (
	"errors"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// TestRulesOfEveryRequestCompile evaluates every rule of every message that a
// method takes. One that can't be would refuse all requests.
func TestRulesOfEveryRequestCompile(t *testing.T) {
	validator, err := structural()
	if err != nil {
		t.Fatal(err)
	}
	inputs := requests()
	if len(inputs) == 0 {
		t.Fatal("no method takes a message")
	}
	for _, input := range inputs {
		t.Run(string(input.Name()), func(t *testing.T) {
			messageType, err := protoregistry.GlobalTypes.FindMessageByName(input.FullName())
			if err != nil {
				t.Fatal(err)
			}
			msg := messageType.New()
			fill(msg)
			err = validator.Validate(msg.Interface())
			var broken *protovalidate.ValidationError
			if err != nil && !errors.As(err, &broken) {
				t.Error(err)
			}
		})
	}
}

// fill sets every message below msg, one element where it is in a list.
func fill(msg protoreflect.Message) {
	fields := msg.Descriptor().Fields()
	for i := range fields.Len() {
		switch fd := fields.Get(i); {
		case fd.IsMap() || fd.Message() == nil:
		case fd.IsList():
			list := msg.Mutable(fd).List()
			fill(list.AppendMutable().Message())
		default:
			fill(msg.Mutable(fd).Message())
		}
	}
}

// TestStructureRefusesWhatItCannotEvaluate makes a message with a rule that does
// not compile. To let it pass would be to let anything pass.
func TestStructureRefusesWhatItCannotEvaluate(t *testing.T) {
	options := &descriptorpb.FieldOptions{}
	proto.SetExtension(options, validate.E_Field, &validate.FieldRules{
		Cel: []*validate.Rule{{Id: proto.String("broken"), Expression: proto.String("this.nonsense(")}},
	})
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name:   proto.String("broken.proto"),
		Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: proto.String("Broken"),
			Field: []*descriptorpb.FieldDescriptorProto{{
				Name:    proto.String("name"),
				Number:  proto.Int32(1),
				Type:    descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
				Label:   descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
				Options: options,
			}},
		}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	got := Structure(dynamicpb.NewMessage(file.Messages().ByName("Broken")))
	if len(got) != 1 || got[0].Field != "" || !strings.HasPrefix(got[0].Description, "can't be validated: ") {
		t.Errorf("got %v", got)
	}
}

// TestJSONPath renders paths of kinds that no rule leads to yet.
func TestJSONPath(t *testing.T) {
	request := (*setpointv1.RecommendRequest)(nil).ProtoReflect().Descriptor()
	pod := (*setpointv1.Pod)(nil).ProtoReflect().Descriptor()
	container := (*setpointv1.InitContainer)(nil).ProtoReflect().Descriptor()
	tests := []struct {
		name string
		path *validate.FieldPath
		want string
	}{
		{"the message", nil, ""},
		{
			"a value of a map, in lists",
			path(at(request, "pods").index(3), at(pod, "init_containers").index(0), at(container, "requests").key("example.com/a\"b")),
			`pods[3].initContainers[0].requests["example.com/a\"b"]`,
		},
		{
			"a oneof",
			path(at(request, "pods").index(3), element{FieldName: proto.String("some_oneof")}),
			"pods[3].some_oneof",
		},
		{
			"below what holds no message",
			path(at(request, "target"), element{FieldNumber: proto.Int32(1), FieldName: proto.String("x")}),
			"target.x",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := jsonPath(request, tt.path); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestSubscript(t *testing.T) {
	tests := []struct {
		name    string
		element element
		want    string
	}{
		{"none", element{}, ""},
		{"index", element{Index: proto.Uint64(7)}, "[7]"},
		{"string key", element{StringKey: proto.String("a.b")}, `["a.b"]`},
		{"signed key", element{IntKey: proto.Int64(-7)}, "[-7]"},
		{"unsigned key", element{UintKey: proto.Uint64(7)}, "[7]"},
		{"boolean key", element{BoolKey: proto.Bool(true)}, "[true]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := subscript(validate.FieldPathElement_builder(tt.element).Build()); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// element is one element of a path.
type element validate.FieldPathElement_builder

// at is the element of a message's field.
func at(message protoreflect.MessageDescriptor, name protoreflect.Name) element {
	return element{
		FieldNumber: proto.Int32(int32(message.Fields().ByName(name).Number())),
		FieldName:   proto.String(string(name)),
	}
}

func (e element) index(i uint64) element { e.Index = &i; return e }

func (e element) key(k string) element { e.StringKey = &k; return e }

func path(elements ...element) *validate.FieldPath {
	path := &validate.FieldPath{}
	for _, e := range elements {
		path.Elements = append(path.Elements, validate.FieldPathElement_builder(e).Build())
	}
	return path
}
