package promises

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pathPattern matches what CONTRIBUTING.md names of the repository's files.
var pathPattern = regexp.MustCompile("`((?:[a-z][a-z0-9.-]*/)+[A-Za-z0-9_.-]*)`")

// The walk through the code leads to files that are there.
func TestTheWalkThroughTheCodeNamesFilesThatExist(t *testing.T) {
	t.Parallel()
	const root = "../.."
	_, walk, _ := strings.Cut(read(t, filepath.Join(root, "CONTRIBUTING.md")), "\n## A walk through the code\n")
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
