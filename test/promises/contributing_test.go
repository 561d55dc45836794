package promises

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/programs"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// pathPattern matches paths of the repository in CONTRIBUTING.md.
var pathPattern = regexp.MustCompile("`((?:[a-z][a-z0-9.-]*/)+[A-Za-z0-9_.-]*)`")

// The walk through the code leads to files that are there.
func TestTheWalkThroughTheCodeNamesFilesThatExist(t *testing.T) {
	t.Parallel()
	_, walk, _ := strings.Cut(testpages.Read(t, filepath.Join(root, "CONTRIBUTING.md")), "\n## A walk through the code\n")
	walk, _, _ = strings.Cut(walk, "\n## ")
	named := 0
	for _, match := range pathPattern.FindAllStringSubmatch(walk, -1) {
		path := match[1]
		named++
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Errorf("the walk names %s, which is not there", path)
		}
	}
	if named < 20 {
		t.Errorf("only %d paths were found", named)
	}
}

// The lists of what to touch name files that are there.
func TestAddingNamesFilesThatExist(t *testing.T) {
	t.Parallel()
	page := testpages.Read(t, filepath.Join(root, "docs/internals/adding.md"))
	named := pathPattern.FindAllStringSubmatch(page, -1)
	for _, match := range named {
		if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
			t.Errorf("docs/internals/adding.md names %s, which is not there", match[1])
		}
	}
	if len(named) < 50 {
		t.Errorf("only %d paths were found", len(named))
	}
}

// The list for a platform names each file that lists the programs of platforms. That of Kubernetes is not asked for: it
// runs in its cluster, and not as a unit.
func TestAddingAPlatformNamesEveryFileThatListsThem(t *testing.T) {
	t.Parallel()
	_, steps, _ := strings.Cut(testpages.Read(t, filepath.Join(root, "docs/internals/adding.md")), "\n## A platform\n")
	steps, _, _ = strings.Cut(steps, "\n## ")
	platforms := programs.Platforms()
	delete(platforms, "kubernetes")
	lists := func(text string) bool {
		for platform := range platforms {
			if !strings.Contains(text, "setpoint-"+platform) {
				return false
			}
		}
		return true
	}
	found := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == "bin" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case !entry.Type().IsRegular() || name == "docs/internals/adding.md" || name == "CHANGELOG.md":
			return nil
		}
		if info, err := entry.Info(); err != nil || info.Size() > 1<<20 {
			return err
		}
		if !lists(testpages.Read(t, path)) {
			return nil
		}
		if found++; !strings.Contains(steps, "`"+name+"`") {
			t.Errorf("docs/internals/adding.md does not name %s, which lists the platforms' programs", name)
		}
		return nil
	})
	if err != nil || found < 8 {
		t.Errorf("%v: only %d files were found", err, found)
	}
}

func TestTheLayoutHasEveryFolder(t *testing.T) {
	t.Parallel()
	_, layout, _ := strings.Cut(testpages.Read(t, filepath.Join(root, "CONTRIBUTING.md")), "\n## Layout\n")
	layout, _, _ = strings.Cut(layout, "\n## ")
	seen := 0
	for _, parent := range []string{"", "test/", "internal/", "server/"} {
		entries, err := os.ReadDir(filepath.Join(root, parent))
		fatal.If(t, err)
		for _, entry := range entries {
			name := entry.Name()
			if !entry.IsDir() || strings.HasPrefix(name, ".") || name == "bin" || name == "node_modules" {
				continue
			}
			seen++
			if !regexp.MustCompile(`(^|[\s])` + regexp.QuoteMeta(name) + `(/|\s)`).MatchString(layout) {
				t.Errorf("the layout has no %s", parent+name)
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d folders were found", seen)
	}
}
