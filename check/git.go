package check

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Bounds of a repository: a file that is looked at, the changed ones, and what stands beside them. Of what is
// beside, files beyond the bound are not looked at.
const (
	maxFileBytes   = 4 << 20
	maxChangedFile = 2000
	maxBesideFiles = 5000
	maxBesideBytes = 64 << 20
)

// Repository runs git in a folder.
type Repository struct{ folder string }

// Range are the two commits that are compared.
type Range struct {
	// Text is what the user gave. Base and Head are commits.
	Text, Base, Head string
}

// OpenRepository returns the repository that a folder is in.
func OpenRepository(ctx context.Context, folder string) (*Repository, error) {
	g := &Repository{folder}
	if _, err := g.git(ctx, nil, "rev-parse", "--git-dir"); err != nil {
		return nil, err
	}
	return g, nil
}

// git runs git, and returns what it writes.
func (g *Repository) git(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "core.quotepath=off", "-c", "core.fsmonitor=false"}, args...)...)
	cmd.Dir, cmd.Stdin = g.folder, in
	cmd.Env = append(os.Environ(), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.Bytes(), nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("--git needs the program git; it is not on the PATH")
	case errors.As(err, &exit):
		return nil, fmt.Errorf("git %s: %s", args[0], cmp.Or(strings.TrimSpace(problems.String()), err.Error()))
	}
	return nil, fmt.Errorf("git %s: %w", args[0], err)
}

// Range resolves BASE..HEAD, or BASE...HEAD for the commit that both come from. HEAD may be left out.
func (g *Repository) Range(ctx context.Context, text string) (*Range, error) {
	base, head, found := strings.Cut(text, "...")
	merge := found
	if !found {
		base, head, found = strings.Cut(text, "..")
	}
	if !found || base == "" {
		return nil, fmt.Errorf("--git: %q must be BASE..HEAD, or BASE...HEAD for what HEAD changes since it left BASE", text)
	}
	r := &Range{Text: text}
	var err error
	if r.Base, err = g.commit(ctx, base); err != nil {
		return nil, err
	}
	if r.Head, err = g.commit(ctx, cmp.Or(head, "HEAD")); err != nil {
		return nil, err
	}
	if merge {
		out, err := g.git(ctx, nil, "merge-base", r.Base, r.Head)
		if err != nil {
			return nil, fmt.Errorf("--git: %s and %s have no commit in common here; a shallow clone needs its whole history (fetch-depth: 0, GIT_DEPTH: 0)", base, cmp.Or(head, "HEAD"))
		}
		r.Base = strings.TrimSpace(string(out))
	}
	return r, nil
}

func (g *Repository) commit(ctx context.Context, name string) (string, error) {
	out, err := g.git(ctx, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("--git: there is no commit %q here; a shallow clone needs its whole history (fetch-depth: 0, GIT_DEPTH: 0)", name)
	}
	return strings.TrimSpace(string(out)), nil
}

// entry is a file of a commit.
type entry struct {
	object string
	size   int64
}

// tree are the plain files of a commit by their path, from the root of the repository.
func (g *Repository) tree(ctx context.Context, commit string) (map[string]entry, error) {
	out, err := g.git(ctx, nil, "ls-tree", "-r", "-z", "-l", "--full-tree", commit)
	if err != nil {
		return nil, err
	}
	files := make(map[string]entry)
	for line := range strings.SplitSeq(string(out), "\x00") {
		about, name, _ := strings.Cut(line, "\t")
		fields := strings.Fields(about)
		if len(fields) != 4 || fields[1] != "blob" || !strings.HasPrefix(fields[0], "100") { // no links, no submodules
			continue
		}
		size, err := strconv.ParseInt(fields[3], 10, 64)
		if err == nil {
			files[name] = entry{fields[2], size}
		}
	}
	return files, nil
}

// contents reads objects.
func (g *Repository) contents(ctx context.Context, objects []string) (map[string][]byte, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	out, err := g.git(ctx, strings.NewReader(strings.Join(objects, "\n")+"\n"), "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	all := make(map[string][]byte, len(objects))
	for _, object := range objects {
		first, rest, _ := bytes.Cut(out, []byte("\n"))
		fields := strings.Fields(string(first))
		if len(fields) != 3 || fields[0] != object {
			return nil, fmt.Errorf("git cat-file: %s", first)
		}
		size, err := strconv.Atoi(fields[2])
		if err != nil || size+1 > len(rest) {
			return nil, fmt.Errorf("git cat-file: %s", first)
		}
		all[object], out = bytes.Clone(rest[:size]), rest[size+1:]
	}
	return all, nil
}

// file reads a file of a commit; nil: there is none.
func (g *Repository) file(ctx context.Context, commit, name string) ([]byte, error) {
	files, err := g.tree(ctx, commit)
	if err != nil {
		return nil, err
	}
	at, there := files[name]
	switch {
	case !there:
		return nil, nil
	case at.size > maxFileBytes:
		return nil, fmt.Errorf("%s: is longer than %d bytes", name, maxFileBytes)
	}
	all, err := g.contents(ctx, []string{at.object})
	return all[at.object], err
}

// Changes are the two sides of a range.
type Changes struct {
	Old, New *Side
	// Paths are all files that differ.
	Paths []string
	// invalid are changed files that can't be read, unchecked those that may have an autoscaler and are not
	// looked at, by file.
	invalid, unchecked []problem
	// notes are what else a reader should know.
	notes []string
}

// problem is what is wrong with a file.
type problem struct {
	file string
	err  error
}

// readable reports whether files of that name may be manifests.
func readable(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

// Changes reads the specs of both commits in files that differ, with the manifests beside them for lint.
func (g *Repository) Changes(ctx context.Context, r *Range, s *Settings, options func(own *setpointv1.RecommendOptions) *setpointv1.RecommendOptions) (*Changes, error) {
	out := &Changes{Old: NewSide(options), New: NewSide(options)}
	before, err := g.tree(ctx, r.Base)
	if err != nil {
		return nil, err
	}
	after, err := g.tree(ctx, r.Head)
	if err != nil {
		return nil, err
	}
	changed := make(map[string]bool)
	for _, pair := range [][2]map[string]entry{{before, after}, {after, before}} {
		for name, at := range pair[0] {
			if pair[1][name].object == at.object {
				continue
			}
			if out.Paths = append(out.Paths, name); readable(name) && !s.ignores(name) {
				changed[name] = true
			}
		}
	}
	slices.Sort(out.Paths)
	out.Paths = slices.Compact(out.Paths)
	if len(changed) > maxChangedFile {
		return nil, fmt.Errorf("--git: %d files of YAML and JSON differ, more than %d; name some in ignore of %s, or check a shorter range", len(changed), maxChangedFile, RulesFile)
	}
	out.Old.files, out.New.files = changed, changed
	if err := g.read(ctx, out, out.Old, before, s, false); err != nil {
		return nil, err
	}
	return out, g.read(ctx, out, out.New, after, s, true)
}

// read reads a commit: the changed files, then those beside them. tell notes what is wrong with changed ones.
func (g *Repository) read(ctx context.Context, out *Changes, side *Side, tree map[string]entry, s *Settings, tell bool) error {
	var names []string
	total, beside, left := int64(0), 0, 0
	order := slices.Sorted(maps.Keys(tree))
	slices.SortStableFunc(order, func(a, b string) int { return rank(side.files[a]) - rank(side.files[b]) })
	for _, name := range order {
		at := tree[name]
		switch {
		case !readable(name) || s.ignores(name):
		case at.size > maxFileBytes:
			if side.files[name] && tell {
				out.unchecked = append(out.unchecked, problem{name, fmt.Errorf("is longer than %d bytes", maxFileBytes)})
			}
		case !side.files[name] && (beside >= maxBesideFiles || total+at.size > maxBesideBytes):
			left++
		default:
			if !side.files[name] {
				beside++
				total += at.size
			}
			names = append(names, name)
		}
	}
	if left > 0 && tell {
		out.notes = append(out.notes, fmt.Sprintf("%d unchanged files are not looked at; lint knows nothing of workloads in them", left))
	}
	objects := make([]string, len(names))
	for i, name := range names {
		objects[i] = tree[name].object
	}
	slices.Sort(objects)
	all, err := g.contents(ctx, slices.Compact(objects))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		content := all[tree[name].object]
		isChanged, may := side.files[name], mayHaveSpec(content)
		if !may && !bytes.Contains(content, []byte("apiVersion")) {
			continue
		}
		kept, loose, notes, err := sifted(content)
		if isChanged && may && tell {
			for _, note := range notes {
				out.unchecked = append(out.unchecked, problem{name, note})
			}
			if errors.Is(err, errTemplate) {
				out.unchecked = append(out.unchecked, problem{name, err})
			} else if err != nil {
				out.invalid = append(out.invalid, problem{name, err})
			}
		}
		if err != nil || len(bytes.TrimSpace(kept)) == 0 {
			continue
		}
		switch err := side.Read(name, bytes.NewReader(kept)); {
		case err == nil || !isChanged || !may || !tell:
		case loose:
			out.unchecked = append(out.unchecked, problem{name, err})
		default:
			out.invalid = append(out.invalid, problem{name, err})
		}
	}
	return nil
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// Settings reads the rules of a range: those at its base, so that a change is not judged by rules of its own;
// if there are none yet, those at its head.
func (g *Repository) Settings(ctx context.Context, r *Range) (*Settings, error) {
	for _, commit := range []string{r.Base, r.Head} {
		data, err := g.file(ctx, commit, RulesFile)
		if err != nil {
			return nil, err
		}
		if data != nil {
			return ReadSettings(fmt.Sprintf("%s of %.12s", RulesFile, commit), data)
		}
	}
	return Defaults(), nil
}
