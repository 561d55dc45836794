package servertest

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Route is a REST route of a method of the contract.
type Route struct {
	// Path has names where Template has variables.
	Method, Path, Template string
	Body                   bool
}

// Methods are all methods of the contract, by its descriptors.
func Methods() (all []protoreflect.MethodDescriptor) {
	protoregistry.GlobalFiles.RangeFilesByPackage("setpoint.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				all = append(all, methods.Get(j))
			}
		}
		return true
	})
	slices.SortFunc(all, func(a, b protoreflect.MethodDescriptor) int { return cmp.Compare(a.FullName(), b.FullName()) })
	return all
}

// variable matches a variable of a route's template, such as {name=clusters/*}.
var variable = regexp.MustCompile(`\{\w+=([^}]*)\}`)

// Routes are the REST routes of a method, about a target or what the target is in; none: it has no route.
func Routes(m protoreflect.MethodDescriptor, target string) (routes []Route) {
	names := strings.Split(target, "/")
	rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		r.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			if f.ContainingOneof() != nil { // the pattern: get, post, …
				path := variable.ReplaceAllString(v.String(), "$1")
				for i := 0; i+1 < len(names); i += 2 {
					path = strings.ReplaceAll(path, names[i]+"/*", names[i]+"/"+names[i+1])
				}
				routes = append(routes, Route{strings.ToUpper(string(f.Name())), path, v.String(), r.GetBody() != ""})
			}
			return true
		})
	}
	return routes
}
