package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/markdown"
)

const root = "../.."

var (
	lineAnchor = regexp.MustCompile(`^L([0-9]+)(?:-L[0-9]+)?$`)
	scheme     = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)
)

// repository has the contents of its Markdown files, and the pictures below docs, by their
// paths from the root, with slashes.
type repository struct {
	pages    map[string]*markdown.Page
	pictures []string
}

var read = sync.OnceValues(func() (repository, error) {
	all := repository{pages: map[string]*markdown.Page{}}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		inside = filepath.ToSlash(inside)
		switch {
		case entry.IsDir():
			// What is there beside the sources: what was built or installed.
			if slices.Contains([]string{".git", "bin", "node_modules"}, entry.Name()) {
				return filepath.SkipDir
			}
		case path.Ext(inside) == ".md":
			source, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			all.pages[inside] = markdown.Parse(source)
		case strings.HasPrefix(inside, "docs/") && slices.Contains([]string{".svg", ".png", ".jpg", ".gif", ".webp"}, path.Ext(inside)):
			all.pictures = append(all.pictures, inside)
		}
		return nil
	})
	return all, err
})

func markdownFiles(t *testing.T) repository {
	t.Helper()
	all, err := read()
	fatal.If(t, err)
	if len(all.pages) < 60 {
		t.Fatalf("only %d Markdown files were found", len(all.pages))
	}
	return all
}

// leadsTo returns the file or folder of the repository that a link of a page names, and the
// anchor there; ok is false for a link to elsewhere.
func leadsTo(page, link string) (file, anchor string, ok bool) {
	if scheme.MatchString(link) || strings.HasPrefix(link, "//") {
		return "", "", false
	}
	file, anchor, _ = strings.Cut(link, "#")
	if file == "" {
		return page, anchor, true
	}
	return path.Join(path.Dir(page), file), anchor, true
}

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	t.Parallel()
	all := markdownFiles(t)
	checked := 0
	for name, page := range all.pages {
		for _, link := range page.Links {
			file, anchor, ok := leadsTo(name, link.To)
			if !ok {
				continue
			}
			checked++
			if strings.HasPrefix(link.To, "/") || file == ".." || strings.HasPrefix(file, "../") {
				t.Errorf("%s:%d: %s leads out of the repository: link by a relative path", name, link.Line, link.To)
				continue
			}
			info, err := os.Stat(filepath.Join(root, file))
			if err != nil {
				t.Errorf("%s:%d: %s is not there", name, link.Line, file)
				continue
			}
			if anchor == "" {
				continue
			}
			if info.IsDir() {
				file = path.Join(file, "README.md")
			}
			if to, isPage := all.pages[file]; isPage {
				if !to.HasAnchor(anchor) {
					t.Errorf("%s:%d: %s has no heading #%s; it has %s", name, link.Line, file, anchor, anchors(to))
				}
				continue
			}
			match := lineAnchor.FindStringSubmatch(anchor)
			if match == nil {
				t.Errorf("%s:%d: %s has no anchors such as #%s", name, link.Line, file, anchor)
				continue
			}
			source, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Error(err)
			} else if last, err := strconv.Atoi(match[1]); err != nil || last > strings.Count(string(source), "\n") {
				t.Errorf("%s:%d: %s has no line %s", name, link.Line, file, match[1])
			}
		}
	}
	if checked < 300 {
		t.Errorf("only %d links were checked", checked)
	}
}

func anchors(page *markdown.Page) string {
	var all []string
	for _, heading := range page.Headings {
		all = append(all, "#"+heading.Anchor)
	}
	return strings.Join(all, " ")
}

func TestEveryPageCanBeReachedFromTheMap(t *testing.T) {
	t.Parallel()
	all := markdownFiles(t)
	const start = "docs/README.md"
	reached := map[string]bool{start: true}
	for next := []string{start}; len(next) > 0; next = next[1:] {
		for _, link := range all.pages[next[0]].Links {
			file, _, ok := leadsTo(next[0], link.To)
			if !ok {
				continue
			}
			if all.pages[file] == nil {
				file = path.Join(file, "README.md") // a folder is its README
			}
			// Who has left docs/ is no longer led by the map.
			if strings.HasPrefix(file, "docs/") && all.pages[file] != nil && !reached[file] {
				reached[file] = true
				next = append(next, file)
			}
		}
	}
	for name := range all.pages {
		if strings.HasPrefix(name, "docs/") && !reached[name] {
			t.Errorf("%s can't be reached from %s: link it there, or from a page that is linked", name, start)
		}
	}
}

func TestEveryPictureIsShown(t *testing.T) {
	t.Parallel()
	all := markdownFiles(t)
	shown := map[string]bool{}
	for name, page := range all.pages {
		for _, link := range page.Links {
			if file, _, ok := leadsTo(name, link.To); ok {
				shown[file] = true
			}
		}
	}
	for _, picture := range all.pictures {
		if !shown[picture] {
			t.Errorf("no page shows %s", picture)
		}
	}
}

// Not all who type the commands of a page have bash on Linux: zsh is the shell of macOS.
func TestCommandsMeanTheSameInEveryShell(t *testing.T) {
	t.Parallel()
	for why, other := range map[string]*regexp.Regexp{
		"zsh takes a letter after $name: for a modifier: write ${name}:": regexp.MustCompile(`\$[A-Za-z_]\w*:[A-Za-z]`),
		"dash has no {1..9}: write $(seq 9)":                             regexp.MustCompile(`\{\d+\.\.\d+\}`),
		"macOS has another sed -i and date -d, and no tac":               regexp.MustCompile(`\b(sed -i|date -d|tac)\b`),
	} {
		checked := 0
		for name, page := range markdownFiles(t).pages {
			for _, block := range page.Blocks {
				if block.Language != "sh" {
					continue
				}
				checked++
				for i, line := range strings.Split(block.Text, "\n") {
					if other.MatchString(line) {
						t.Errorf("%s:%d: %s: %s", name, block.Line+i, why, line)
					}
				}
			}
		}
		if checked < 200 {
			t.Errorf("only %d blocks were checked", checked)
		}
	}
}
