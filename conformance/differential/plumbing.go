package differential

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// plumbing are the functions that decide nothing: constructors, and functions that move
// keys from informers through the queue, which a scenario does itself.
var plumbing = []string{
	"NewHorizontalController", "Run", "worker", "processNextWorkItem",
	"enqueueHPA", "enqueueRateLimited", "updateHPA", "deleteHPA",
}

// heapster is the client of an API that preceded the metrics APIs.
const heapster = "metrics/legacy_metrics_client.go"

// Source has the positions of the covered package's functions.
type Source struct {
	functions map[string][]function
}

type function struct {
	name     string
	from, to int
}

// ReadSource reads the source of a version's controller.
func (v Version) ReadSource(ctx context.Context, root string) (*Source, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", strings.TrimSuffix(upstream, "/..."))
	list.Dir = filepath.Join(root, v.Profile)
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("find the source of %s: %w", v.Release, err)
	}
	dir := strings.TrimSpace(string(out))
	s := &Source{functions: map[string][]function{}}
	for _, folder := range []string{"", "metrics"} {
		files, err := filepath.Glob(filepath.Join(dir, folder, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if err := s.read(file, filepath.ToSlash(filepath.Join(folder, filepath.Base(file)))); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func (s *Source) read(file, name string) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			s.functions[name] = append(s.functions[name], function{f.Name.Name, set.Position(f.Pos()).Line, set.Position(f.End()).Line})
		}
	}
	return nil
}

// Plumbing reports whether a line is in a function that decides nothing.
func (s *Source) Plumbing(file string, line int) bool {
	return file == heapster || slices.Contains(plumbing, s.Function(file, line))
}

// Function returns the function that contains a line, empty for none.
func (s *Source) Function(file string, line int) string {
	for _, f := range s.functions[file] {
		if f.from <= line && line <= f.to {
			return f.name
		}
	}
	return ""
}
