package restjson

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/setpoint-dev/setpoint/api/setpoint/v1" // registers the descriptors
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestQuantityFieldsAreStringFields(t *testing.T) {
	for name := range quantityFields {
		t.Run(string(name), func(t *testing.T) {
			d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
			fatal.If(t, err)
			fd, ok := d.(protoreflect.FieldDescriptor)
			if !ok {
				t.Fatalf("is a %T, want a field", d)
			}
			if fd.IsMap() {
				fd = fd.MapValue()
			}
			if fd.Kind() != protoreflect.StringKind {
				t.Errorf("holds %s, want string", fd.Kind())
			}
		})
	}
}
