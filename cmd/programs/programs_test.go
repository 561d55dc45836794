package programs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/programs"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

func TestTheListIsThatOfTheFolders(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("../setpoint*")
	fatal.If(t, err)
	var names []string
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err != nil {
			names = append(names, filepath.Base(folder))
		}
	}
	if got := programs.Names(); !slices.Equal(got, names) {
		t.Errorf("programs.txt has %q, cmd has the folders %q", got, names)
	}
	if got := programs.Platforms(); len(got) != len(names)-1 || got["nomad"] != "Scale the task groups of Nomad" {
		t.Errorf("the platforms are %q", got)
	}
}

// goreleaser reads no other file, so its lists are compared: each program is built, is in the
// archive with its manual and completions, and has a page of its flags.
func TestEachProgramIsReleased(t *testing.T) {
	t.Parallel()
	release := testpages.Read(t, "../../.goreleaser.yaml")
	for _, name := range programs.Names() {
		for _, want := range []string{
			`(?m)^    main: \./cmd/` + name + `$`, `(?m)^    binary: ` + name + `$`, `(?m)^    ids: \[setpoint,.*\b` + name + `[,\]]|^    ids: \[` + name + `\]`,
			`bin/release-files/man/` + name + `/`, `bin/release-files/completions/` + name + `/`, `(?m)^    package_name: ` + name + `$`,
		} {
			if !regexp.MustCompile(want).Match([]byte(release)) {
				t.Errorf(".goreleaser.yaml has no match of %s", want)
			}
		}
		if _, err := os.Stat("../../docs/reference/cli/" + name + ".md"); err != nil {
			t.Error(err)
		}
	}
}
