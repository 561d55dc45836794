package differential

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The controller converts floating-point numbers to integers without checking their
// range, where Go's result depends on the processor. The saturating oracle is the same
// controller with saturating conversions, as on arm64: it is compiled from a copy of
// the release in which every int32(x), int64(x) and int(x) of the controller is a call
// of such a function. Nothing else is changed, and numbers in range have the same
// result.

// conversions are the types whose conversions are replaced, with the replacing
// functions.
var conversions = map[string]string{
	"int": "saturatingInt", "int32": "saturatingInt32", "int64": "saturatingInt64",
}

// saturating is the source of those functions. They are written for the Go of the
// oldest release, which has no type parameters. A conversion from another type panics,
// so that it can't pass for an outcome.
const saturating = `
func saturatingInt(x interface{}) int { return int(saturatingInt64(x)) }

func saturatingInt32(x interface{}) int32 {
	f, ok := x.(float64)
	switch {
	case !ok:
		return int32(saturatingInt64(x))
	case f != f:
		return 0
	case f >= 1<<31-1:
		return 1<<31 - 1
	case f <= -1<<31:
		return -1 << 31
	}
	return int32(f)
}

func saturatingInt64(x interface{}) int64 {
	switch x := x.(type) {
	case int:
		return int64(x)
	case int32:
		return int64(x)
	case int64:
		return x
	case uint32:
		return int64(x)
	case uint64:
		return int64(x)
	case float64:
		switch {
		case x != x:
			return 0
		case x >= 1<<63:
			return 1<<63 - 1
		case x < -1<<63:
			return -1 << 63
		}
		return int64(x)
	}
	panic("a conversion of a type that is not known")
}
`

// release is the module of the controllers.
const release = "k8s.io/kubernetes"

// BuildSaturating builds the saturating oracle of a version, as Build does the real one.
func (v Version) BuildSaturating(ctx context.Context, root, into string) (string, error) {
	return v.buildChanged(ctx, root, into, "saturating", change{saturate, saturating})
}

// BuildIgnoringSurge builds the oracle of a version with the change that kubernetes/kubernetes#141134
// proposes, which no release has: within the tolerance an average of an Object or External metric
// proposes the replicas of the spec, not those of the status.
func (v Version) BuildIgnoringSurge(ctx context.Context, root, into string) (string, error) {
	return v.buildChanged(ctx, root, into, "surge", change{ignoreSurge, ""})
}

// BuildSaturatingIgnoringSurge builds the oracle with both changes.
func (v Version) BuildSaturatingIgnoringSurge(ctx context.Context, root, into string) (string, error) {
	return v.buildChanged(ctx, root, into, "surge-saturating", change{func(source []byte) ([]byte, int, error) {
		source, _, err := ignoreSurge(source)
		if err != nil {
			return nil, 0, err
		}
		return saturate(source)
	}, saturating})
}

// ignoreSurge changes the two functions and their two calls.
func ignoreSurge(source []byte) ([]byte, int, error) {
	n := 0
	for _, edit := range [][2]string{
		{"PerPodMetricReplicas(statusReplicas int32", "PerPodMetricReplicas(specReplicas, statusReplicas int32"},
		{"PerPodMetricReplicas(statusReplicas,", "PerPodMetricReplicas(specReplicas, statusReplicas,"},
		{"replicaCount = statusReplicas\n", "replicaCount = specReplicas\n"},
		{"PerPod) * float64(replicaCount))", "PerPod) * float64(statusReplicas))"},
		{"AverageUsage) * float64(replicaCount))", "AverageUsage) * float64(statusReplicas))"},
	} {
		n += bytes.Count(source, []byte(edit[0]))
		source = bytes.ReplaceAll(source, []byte(edit[0]), []byte(edit[1]))
	}
	if n != 0 && n != 2 && n != 6 {
		return nil, 0, fmt.Errorf("%d places of kubernetes#141134 were found in a file", n)
	}
	return source, n, nil
}

// change is a change of the controller's source.
type change struct {
	// edit returns the source of a changed file, and the number of changes.
	edit func(source []byte) ([]byte, int, error)
	// added is added to the first changed file of each package.
	added string
}

// buildChanged builds the oracle of a version with a change, under that name.
func (v Version) buildChanged(ctx context.Context, root, into, name string, by change) (string, error) {
	modfile, err := v.changed(ctx, root, into, name, by)
	if err != nil {
		return "", fmt.Errorf("change %s: %w", v.Release, err)
	}
	return v.build(ctx, root, filepath.Join(into, name+"-"+v.Profile), "-modfile="+modfile)
}

// changed copies the packages of the release that the oracle needs to a folder,
// changes the controller's, and returns a go.mod that uses them. The source in the
// module cache can't be overlaid.
func (v Version) changed(ctx context.Context, root, into, as string, by change) (modfile string, err error) {
	dir := filepath.Join(root, v.Profile)
	packages, err := goOutput(ctx, dir, "list", "-deps", "-test", "-f",
		`{{with .Module}}{{if eq .Path "`+release+`"}}{{.Dir}}{{"\t"}}{{$.Dir}}{{range $.EmbedFiles}}{{"\t"}}{{.}}{{end}}{{end}}{{end}}`, ".")
	if err != nil {
		return "", err
	}
	copied := filepath.Join(into, as+"-release-"+v.Profile)
	controller := filepath.FromSlash("pkg/controller/podautoscaler")
	from := ""
	for line := range strings.Lines(packages) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) < 2 {
			continue
		}
		from = fields[0]
		name, err := filepath.Rel(from, fields[1])
		if err != nil {
			return "", err
		}
		files, err := filepath.Glob(filepath.Join(fields[1], "*.*"))
		if err != nil {
			return "", err
		}
		for _, embedded := range fields[2:] {
			files = append(files, filepath.Join(fields[1], embedded))
		}
		edits := &by
		if name != controller && (name != filepath.Join(controller, "metrics") || by.added == "") {
			edits = nil
		}
		if err := copyPackage(from, copied, files, edits); err != nil {
			return "", err
		}
	}
	if from == "" {
		return "", fmt.Errorf("the oracle has no package of %s", release)
	}
	if err := copyPackage(from, copied, []string{filepath.Join(from, "go.mod")}, nil); err != nil {
		return "", err
	}
	gomod, err := goOutput(ctx, dir, "env", "GOMOD")
	if err != nil {
		return "", err
	}
	gomod = strings.TrimSpace(gomod)
	modfile = filepath.Join(into, as+"-"+v.Profile+".mod")
	for from, to := range map[string]string{gomod: modfile, strings.TrimSuffix(gomod, ".mod") + ".sum": strings.TrimSuffix(modfile, ".mod") + ".sum"} {
		if err := copyFile(from, to); err != nil {
			return "", err
		}
	}
	if copied, err = filepath.Abs(copied); err != nil {
		return "", err
	}
	if _, err := goOutput(ctx, dir, "mod", "edit", "-replace="+release+"="+copied, modfile); err != nil {
		return "", err
	}
	return filepath.Abs(modfile)
}

// copyPackage copies files from one folder to another, with their paths, and with the change
// unless it is nil.
func copyPackage(from, into string, files []string, by *change) error {
	first := true
	for _, file := range files {
		name, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		to := filepath.Join(into, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if by == nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			if err := copyFile(file, to); err != nil {
				return err
			}
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		changed, n, err := by.edit(source)
		if err != nil {
			return err
		}
		if n > 0 && first {
			changed, first = append(changed, by.added...), false
		}
		if err := os.WriteFile(to, changed, 0o600); err != nil {
			return err
		}
	}
	if by != nil && first {
		return fmt.Errorf("%s: nothing to change was found", into)
	}
	return nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

// goOutput returns the output of a go command in a folder.
func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = dir
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, complaints.String())
	}
	return string(out), nil
}

// saturate replaces the conversions of a source file that may overflow, and returns
// their number. Line numbers stay the same.
func saturate(source []byte) ([]byte, int, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, 0, err
	}
	type edit struct {
		at       int
		old, new string
	}
	var edits []edit
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		name, ok := call.Fun.(*ast.Ident)
		if !ok || conversions[name.Name] == "" {
			return true
		}
		if _, literal := call.Args[0].(*ast.BasicLit); !literal {
			edits = append(edits, edit{set.Position(name.Pos()).Offset, name.Name, conversions[name.Name]})
		}
		return true
	})
	slices.SortFunc(edits, func(a, b edit) int { return b.at - a.at })
	for _, e := range edits {
		source = slices.Replace(source, e.at, e.at+len(e.old), []byte(e.new)...)
	}
	return source, len(edits), nil
}
