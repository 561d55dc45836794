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
	"path/filepath"
	"strconv"
	"strings"
)

// messages is the folder of what protoc generates.
const messages = "api/setpoint/v1"

// users are the folders with code that uses messages and is compiled.
var users = []string{"server/conversion", "server/validation", "cmd/setpoint/explain", "cmd/setpoint/simulate", "cmd/setpoint/lint", "playground"}

const (
	known = "google.golang.org/protobuf/types/known/"
	plain = "github.com/setpoint-dev/setpoint/playground/wasm/plain/"
)

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
	return o.close()
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
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	if !change(file) {
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

// redirect makes imports of protobuf's timestamps and durations imports of plain ones.
func redirect(file *ast.File) bool {
	changed := false
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		name, is := strings.CutPrefix(path, known)
		if is && (name == "timestamppb" || name == "durationpb") {
			i.Path.Value = strconv.Quote(plain + name)
			changed = true
		}
	}
	return changed
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
			if s, is := d.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType); is && !strings.HasPrefix(d.Specs[0].(*ast.TypeSpec).Name.Name, "file_") {
				s.Fields.List = fields(s.Fields.List, used)
				declarations = append(declarations, d)
			}
		case *ast.FuncDecl:
			if d.Recv != nil && len(d.Type.Params.List) == 0 && strings.HasPrefix(d.Name.Name, "Get") && !asserts(d.Body) && sound(d.Type.Results.List[0].Type, used) {
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

// fields are those that stay, without tags: nothing encodes these structs.
func fields(list []*ast.Field, used map[string]bool) []*ast.Field {
	var out []*ast.Field
	for _, f := range list {
		if !ast.IsExported(f.Names[0].Name) || !sound(f.Type, used) {
			continue
		}
		f.Tag, f.Doc, f.Comment = nil, nil, nil
		out = append(out, f)
	}
	return out
}

// asserts reports whether a getter is that of a oneof, which nothing here uses.
func asserts(body *ast.BlockStmt) bool {
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
