package cluster

import (
	"fmt"
	"reflect"
	"unsafe"
)

// Field returns an unexported field of a controller, which is a pointer to a struct. It
// panics if there is no such field of that type.
func Field[T any](controller any, name string) *T {
	f := reflect.ValueOf(controller).Elem().FieldByName(name)
	if want := reflect.TypeFor[T](); !f.IsValid() || f.Type() != want {
		panic(fmt.Sprintf("the controller has no field %s of type %s", name, want))
	}
	return (*T)(unsafe.Pointer(f.UnsafeAddr()))
}
