// Command overlay writes what replaces the sources of the API's messages when the playground
// is compiled to WebAssembly: the same structs and getters without the protobuf runtime, which
// would make up half of the file that browsers load. It runs in the root of the repository:
//
//	go run ./playground/wasm/overlay FOLDER
//	GOOS=js GOARCH=wasm go build -overlay=FOLDER/overlay.json ./playground/wasm
//
// Everything else, the rules of specs and the words of explanations, is compiled as it is for
// the service. Files that need protobuf's reflection or wire format have the build constraint !js.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/setpoint-dev/setpoint/playground"
)

// messages is the folder of what protoc generates.
const messages = "api/setpoint/v1"

// users are the folders with code that uses messages and is compiled.
var users = []string{
	"server/conversion", "server/validation", "explain", "simulation/report", "lint", "playground",
	"recommender/quantity",
}

const (
	plain      = "github.com/setpoint-dev/setpoint/playground/wasm/plain/"
	known      = "google.golang.org/protobuf/types/known/"
	quantities = "k8s.io/apimachinery/pkg/api/resource"
	cbor       = "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// twins are packages that are replaced, by their path.
var twins = map[string]string{
	known + "timestamppb": plain + "timestamppb",
	known + "durationpb":  plain + "durationpb",
	quantities:            plain + "resource",
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: overlay FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(folder string) error {
	o := overlay{folder: folder, replace: map[string]string{}}
	generated, err := filepath.Glob(messages + "/*.go")
	if err != nil {
		return err
	}
	for _, name := range generated {
		switch {
		case strings.HasSuffix(name, ".pb.gw.go"), strings.HasSuffix(name, "_grpc.pb.go"), strings.HasSuffix(name, "_vtproto.pb.go"):
			err = o.drop(name)
		case strings.HasSuffix(name, ".pb.go"):
			err = o.edit(name, strip)
		}
		if err != nil {
			return err
		}
	}
	for _, user := range users {
		files, err := filepath.Glob(user + "/*.go")
		if err != nil {
			return err
		}
		for _, name := range files {
			if err := o.edit(name, redirect); err != nil {
				return err
			}
		}
	}
	if err := o.quantities(); err != nil {
		return err
	}
	return o.close()
}

// quantities adds the twin of Kubernetes' quantities: its files as they are, without the
// methods for CBOR and protobuf, whose libraries nothing in a browser uses. Sources of modules
// can't be replaced, only those of this one.
func (o *overlay) quantities() error {
	found, err := exec.Command("go", "list", "-f", "{{.Dir}}{{range .GoFiles}}\n{{.}}{{end}}", quantities).Output()
	if err != nil {
		return fmt.Errorf("go list %s: %w", quantities, err)
	}
	files := strings.Fields(string(found))
	for _, name := range files[1:] {
		if name == "generated.pb.go" || name == "quantity_proto.go" {
			continue
		}
		if err := o.put(filepath.Join(files[0], name), filepath.Join("playground/wasm/plain/resource", name), withoutCBOR); err != nil {
			return err
		}
	}
	return nil
}

// overlay is what go build -overlay reads, in the making.
type overlay struct {
	folder  string
	replace map[string]string
}

func (o *overlay) drop(name string) error {
	full, err := filepath.Abs(name)
	o.replace[full] = ""
	return err
}

// edit replaces a file by what change makes of it, if it changes it.
func (o *overlay) edit(name string, change func(*ast.File) bool) error {
	return o.put(name, name, change)
}

// put has a file of this module, which need not be there, replaced by what change makes of
// another, if it changes it or is not that file.
func (o *overlay) put(from, name string, change func(*ast.File) bool) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, from, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	if !change(file) && from == name {
		return nil
	}
	var out bytes.Buffer
	if err := format.Node(&out, fset, file); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	full, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	to, err := filepath.Abs(filepath.Join(o.folder, strings.ReplaceAll(name, "/", "_")))
	if err != nil {
		return err
	}
	o.replace[full] = to
	return os.WriteFile(to, out.Bytes(), 0o600)
}

func (o *overlay) close() error {
	data, err := json.MarshalIndent(map[string]any{"Replace": o.replace}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.folder, "overlay.json"), data, 0o600)
}

// redirect makes imports of packages that have a twin imports of that.
func redirect(file *ast.File) bool {
	changed := false
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		if twin, is := twins[path]; is {
			i.Path.Value = strconv.Quote(twin)
			changed = true
		}
	}
	return changed
}

// withoutCBOR leaves out the methods that encode as CBOR, and the library's import.
func withoutCBOR(file *ast.File) bool {
	before := len(file.Decls)
	file.Decls = slices.DeleteFunc(file.Decls, func(d ast.Decl) bool {
		f, is := d.(*ast.FuncDecl)
		return is && strings.HasSuffix(f.Name.Name, "CBOR")
	})
	for _, d := range file.Decls {
		if g, is := d.(*ast.GenDecl); is && g.Tok == token.IMPORT {
			g.Specs = slices.DeleteFunc(g.Specs, func(s ast.Spec) bool { return s.(*ast.ImportSpec).Path.Value == strconv.Quote(cbor) })
		}
	}
	file.Comments = nil // those of what is gone would be printed somewhere
	return len(file.Decls) != before
}

// strip leaves of a generated file the structs, with the fields of types that are there, and
// their getters.
func strip(file *ast.File) bool {
	redirect(file)
	used := map[string]bool{}
	var declarations []ast.Decl
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				declarations = append(declarations, d)
				continue
			}
			if d.Tok != token.TYPE {
				continue
			}
			name := d.Specs[0].(*ast.TypeSpec).Name.Name
			if s, is := d.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType); is && !strings.HasPrefix(name, "file_") {
				s.Fields.List = fields(s.Fields.List, used, described[name])
				declarations = append(declarations, d)
			}
		case *ast.FuncDecl:
			if d.Recv != nil && len(d.Type.Params.List) == 0 && strings.HasPrefix(d.Name.Name, "Get") && !hasTypeAssertion(d.Body) && sound(d.Type.Results.List[0].Type, used) {
				declarations = append(declarations, d)
			}
		}
	}
	for _, d := range declarations {
		if g, is := d.(*ast.GenDecl); is && g.Tok == token.IMPORT {
			var specs []ast.Spec
			for _, s := range g.Specs {
				if i := s.(*ast.ImportSpec); i.Name != nil && used[i.Name.Name] {
					specs = append(specs, i)
				}
			}
			g.Specs = specs
		}
	}
	file.Decls = declarations
	if len(used) == 0 && len(file.Decls) > 0 {
		file.Decls = file.Decls[1:]
	}
	file.Comments = nil
	return true
}

// described are the contract's messages by the names of their structs.
var described = func() map[string]protoreflect.MessageDescriptor {
	all := map[string]protoreflect.MessageDescriptor{}
	protoregistry.GlobalTypes.RangeMessages(func(m protoreflect.MessageType) bool {
		if m.Descriptor().ParentFile().Package() == "setpoint.v1" && !m.Descriptor().IsMapEntry() {
			all[reflect.TypeOf(m.Zero().Interface()).Elem().Name()] = m.Descriptor()
		}
		return true
	})
	return all
}()

// tagOf is a field's tag: its name, and its rules, by which package playground reads it.
func tagOf(f *ast.Field, md protoreflect.MessageDescriptor) *ast.BasicLit {
	if md == nil { // an alternative of a oneof
		return nil
	}
	tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("protobuf")
	_, name, _ := strings.Cut(tag, ",name=")
	name, _, _ = strings.Cut(name, ",")
	rules, _ := json.Marshal(playground.RulesOf(md.Fields().ByName(protoreflect.Name(name)))) // has only texts and numbers
	tag = "protobuf:" + strconv.Quote(tag)
	if string(rules) != "{}" {
		tag += " rules:" + strconv.Quote(string(rules))
	}
	return &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(tag)}
}

// fields are those that stay.
func fields(list []*ast.Field, used map[string]bool, md protoreflect.MessageDescriptor) []*ast.Field {
	var out []*ast.Field
	for _, f := range list {
		if !ast.IsExported(f.Names[0].Name) || !sound(f.Type, used) {
			continue
		}
		f.Tag, f.Doc, f.Comment = tagOf(f, md), nil, nil
		out = append(out, f)
	}
	return out
}

// hasTypeAssertion reports whether a getter is that of a oneof, which nothing here uses.
func hasTypeAssertion(body *ast.BlockStmt) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		_, is := n.(*ast.TypeAssertExpr)
		found = found || is
		return !found
	})
	return found
}

// sound reports whether a type is of this package, predeclared, or has a plain twin; those of
// oneofs are left out.
func sound(t ast.Expr, used map[string]bool) bool {
	ok := true
	ast.Inspect(t, func(n ast.Node) bool {
		if i, is := n.(*ast.Ident); is && strings.HasPrefix(i.Name, "is") {
			ok = false
		}
		if s, is := n.(*ast.SelectorExpr); is {
			name := s.X.(*ast.Ident).Name
			if name != "timestamppb" && name != "durationpb" {
				ok = false
				return false
			}
			used[name] = true
			return false
		}
		return true
	})
	return ok
}
