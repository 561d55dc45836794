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
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Bounds of a repository: a file that is looked at, the changed ones, and what stands beside them. Of what is
// beside, files beyond the bound are not looked at.
const (
	maxFileBytes    = 4 << 20
	maxChangedFile  = 2000
	maxChangedBytes = 64 << 20 // of one commit
	maxBesideFiles  = 5000
	maxBesideBytes  = 64 << 20
	// maxRecording bounds a recording that is read from a commit.
	maxRecording = 256 << 20
)

// Repository runs git in a folder, which is at prefix of the repository.
type Repository struct{ folder, prefix string }

// Range are the two commits that are compared.
type Range struct {
	// Text is what the user gave. Base and Head are commits.
	Text, Base, Head string
}

// OpenRepository returns the repository that a folder is in.
func OpenRepository(ctx context.Context, folder string) (*Repository, error) {
	g := &Repository{folder: folder}
	prefix, err := g.git(ctx, nil, "rev-parse", "--show-prefix")
	if err != nil {
		return nil, err
	}
	g.prefix = strings.TrimSuffix(string(prefix), "\n")
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

// tree are the plain files of a commit by their path, from the root of the repository, and its links.
func (g *Repository) tree(ctx context.Context, commit string) (files, links map[string]entry, err error) {
	out, err := g.git(ctx, nil, "ls-tree", "-r", "-z", "-l", "--full-tree", commit)
	if err != nil {
		return nil, nil, err
	}
	files, links = make(map[string]entry), make(map[string]entry)
	for line := range strings.SplitSeq(string(out), "\x00") {
		about, name, _ := strings.Cut(line, "\t")
		fields := strings.Fields(about)
		if len(fields) != 4 || fields[1] != "blob" { // a submodule
			continue
		}
		size, err := strconv.ParseInt(fields[3], 10, 64)
		switch {
		case err != nil:
		case strings.HasPrefix(fields[0], "100"):
			files[name] = entry{fields[2], size}
		default:
			links[name] = entry{fields[2], size}
		}
	}
	return files, links, nil
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
	files, _, err := g.tree(ctx, commit)
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
	// repository is nil for files that the user named; before are those of its base.
	repository *Repository
	before     map[string]entry
	// invalid are changed files that can't be read, unchecked those that may have an autoscaler and are not
	// looked at, by file.
	invalid, unchecked []problem
	// unread are changed files of which nothing was read, and why; beside are those that may scale something and
	// are no specs.
	unread map[string]error
	beside []string
	// checked is how many changed files were read.
	checked int
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
	out := &Changes{Old: NewSide(options), New: NewSide(options), unread: make(map[string]error)}
	before, linkedBefore, err := g.tree(ctx, r.Base)
	if err != nil {
		return nil, err
	}
	after, linked, err := g.tree(ctx, r.Head)
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
	out.repository, out.before = g, before
	if len(changed) > maxChangedFile {
		return nil, fmt.Errorf("--git: %d files of YAML and JSON differ, more than %d; name some in ignore of %s, or check a shorter range", len(changed), maxChangedFile, RulesFile)
	}
	out.Old.files, out.New.files = changed, changed
	if err := g.read(ctx, out, out.Old, before, s, false); err != nil {
		return nil, err
	}
	if err := g.read(ctx, out, out.New, after, s, true); err != nil {
		return nil, err
	}
	for name, at := range linked {
		if readable(name) && !s.ignores(name) && linkedBefore[name].object != at.object {
			out.unread[name] = errors.New("is a link")
			out.beside = append(out.beside, name)
		}
	}
	if err := g.rules(ctx, out, before, after); err != nil {
		return nil, err
	}
	return out, g.others(ctx, out, after, s)
}

// rules tells of changed rules, which do not count, and of those that can't be read after it.
func (g *Repository) rules(ctx context.Context, out *Changes, before, after map[string]entry) error {
	was, had := before[RulesFile]
	is, has := after[RulesFile]
	if !had || was.object == is.object {
		return nil
	}
	out.notes = append(out.notes, "the rules in "+RulesFile+" are changed by this very change; it is judged without them")
	if !has || is.size > maxFileBytes {
		return nil
	}
	all, err := g.contents(ctx, []string{is.object})
	if err != nil {
		return err
	}
	if _, err := ReadSettings(RulesFile, all[is.object]); err != nil {
		out.invalid = append(out.invalid, problem{RulesFile, err})
	}
	return nil
}

// others looks for what may scale something in changed files that are not manifests by their name.
func (g *Repository) others(ctx context.Context, out *Changes, after map[string]entry, s *Settings) error {
	var names, objects []string
	total, left := int64(0), 0
	for _, name := range out.Paths {
		at, there := after[name]
		if !there || readable(name) || s.ignores(name) || IsRecording(name) || path.Ext(name) == ".md" {
			continue
		}
		if at.size > maxFileBytes || total+at.size > maxBesideBytes {
			left++
			continue
		}
		total += at.size
		names, objects = append(names, name), append(objects, at.object)
	}
	slices.Sort(objects)
	all, err := g.contents(ctx, slices.Compact(objects))
	if err != nil {
		return err
	}
	for _, name := range names {
		if content := all[after[name].object]; kinds.Match(bytes.ReplaceAll(content, []byte{0}, nil)) {
			out.beside = append(out.beside, name)
		}
	}
	if left > 0 {
		out.notes = append(out.notes, fmt.Sprintf("%d changed files that are no YAML or JSON by their name are too large to be looked at", left))
	}
	slices.Sort(out.beside)
	return nil
}

// kinds find manifests in files of any name.
var kinds = regexp.MustCompile(`(?m)^[\s{"'-]*kind["']?\s*:\s*["']?(HorizontalPodAutoscaler|ScaledObject|ScaledJob|Autoscaler)\b`)

// recordings match the names of recordings; agents number those that they have left for a newer one.
var recordings = regexp.MustCompile(`(\.jsonl(?:\.gz)?)(?:\.(\d{1,9}))?$`)

// IsRecording reports whether a file in a folder of recordings is one, by its name.
func IsRecording(name string) bool { return recordings.MatchString(name) }

// OldestFirst compares the names of recordings: of those of one agent, with which a spec goes on from one to the next, the
// higher number is older, and the one without is the newest.
func OldestFirst(a, b string) int {
	parts := func(name string) (of string, n int) {
		if at := recordings.FindStringSubmatchIndex(name); at != nil && at[4] >= 0 {
			n, _ = strconv.Atoi(name[at[4]:at[5]])
			return name[:at[3]], n
		}
		return name, 0
	}
	of, n := parts(a)
	other, m := parts(b)
	return cmp.Or(strings.Compare(of, other), cmp.Compare(m, n))
}

// Touched reports whether a range adds, removes or alters a file of this folder.
func (c *Changes) Touched(name string) bool {
	return c.repository != nil && slices.Contains(c.Paths, c.repository.path(name))
}

// path is a file of the folder as the repository has it.
func (g *Repository) path(name string) string {
	if folder, err := filepath.Abs(g.folder); err == nil && filepath.IsAbs(name) {
		if inside, err := filepath.Rel(folder, name); err == nil {
			name = inside
		}
	}
	return path.Join(g.prefix, filepath.ToSlash(name))
}

// Earlier are the recordings at some paths that a range removes or alters, as they were at its base: without
// them a change could bring its own history, or none.
func (c *Changes) Earlier(ctx context.Context, paths []string) (all []Recording) {
	for _, name := range c.Paths {
		at, there := c.before[name]
		if !there || !slices.ContainsFunc(paths, func(p string) bool {
			p = c.repository.path(p)
			return name == p || (p == "." || strings.HasPrefix(name, p+"/")) && IsRecording(name)
		}) {
			continue
		}
		all = append(all, Recording{Name: name, Base: true, Open: func() (io.ReadCloser, error) {
			if at.size > maxRecording {
				return nil, fmt.Errorf("%s: was longer than %d bytes", name, maxRecording)
			}
			content, err := c.repository.contents(ctx, []string{at.object})
			return io.NopCloser(bytes.NewReader(content[at.object])), err
		}})
	}
	return all
}

// read reads a commit: the changed files, then those beside them. tell notes what is wrong with changed ones.
func (g *Repository) read(ctx context.Context, out *Changes, side *Side, tree map[string]entry, s *Settings, tell bool) error {
	var names []string
	total, changed, beside, left := int64(0), int64(0), 0, 0
	order := slices.Sorted(maps.Keys(tree))
	slices.SortStableFunc(order, func(a, b string) int { return rank(side.files[a]) - rank(side.files[b]) })
	for _, name := range order {
		at := tree[name]
		switch {
		case !readable(name) || s.ignores(name):
		case at.size > maxFileBytes:
			if side.files[name] && tell {
				out.leave(name, fmt.Errorf("is longer than %d bytes", maxFileBytes))
			}
		case !side.files[name] && (beside >= maxBesideFiles || total+at.size > maxBesideBytes):
			left++
		default:
			if !side.files[name] {
				beside++
				total += at.size
			} else if changed += at.size; changed > maxChangedBytes {
				return fmt.Errorf("--git: files of YAML and JSON that differ have more than %d MiB together; name some in ignore of %s, or check a shorter range", maxChangedBytes>>20, RulesFile)
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
		if isChanged && tell {
			out.checked++
			if bytes.IndexByte(content, 0) >= 0 {
				out.unread[name] = errors.New("is no text in UTF-8")
			}
			if !may && mayScale(content) {
				out.beside = append(out.beside, name)
			}
		}
		if !may && (out.unread[name] != nil || (!isChanged || !tell) && !bytes.Contains(content, []byte("apiVersion"))) {
			continue
		}
		kept, loose, beside, notes, err := sifted(content)
		if isChanged && tell && err != nil { // hidden asks whether it had an autoscaler
			out.unread[name] = fmt.Errorf("can't be parsed: %w", err)
		}
		if isChanged && may && tell {
			if beside {
				out.beside = append(out.beside, name)
			}
			for _, note := range notes {
				out.unchecked = append(out.unchecked, problem{name, note})
				if kept == nil {
					out.unread[name] = errors.Unwrap(note)
				}
			}
			if errors.Is(err, errTemplate) {
				out.leave(name, err)
			} else if err != nil && !errors.Is(err, errNoObject) {
				out.refuse(name, err)
			}
		}
		if kept == nil {
			continue
		}
		switch err := side.Read(name, bytes.NewReader(kept)); {
		case err == nil || !isChanged || !tell:
		case !may:
			out.unread[name] = fmt.Errorf("can't be read: %w", err)
		case loose:
			out.leave(name, err)
		default:
			out.refuse(name, err)
		}
	}
	return nil
}

// leave notes a file that is not read, refuse one that is invalid.
func (c *Changes) leave(name string, err error) {
	c.unchecked, c.unread[name] = append(c.unchecked, problem{name, err}), err
}

func (c *Changes) refuse(name string, err error) {
	c.invalid, c.unread[name] = append(c.invalid, problem{name, err}), err
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
