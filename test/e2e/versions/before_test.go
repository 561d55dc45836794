//go:build linux

package versions

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// version is a version of the service: a program.
type version struct {
	name, program string
}

// before returns the version before, which it builds where that was not done yet. Without the
// repository's history there is none, and the test is skipped.
func before(t *testing.T) version {
	t.Helper()
	v, err := builtBefore()
	if err != nil {
		t.Fatal(err)
	}
	if v.program == "" {
		t.Skipf("NOT COMPARED: %s", v.name)
	}
	return v
}

// builtBefore has no program where there is no version before; the name says why.
var builtBefore = sync.OnceValues(func() (version, error) {
	root, err := process.Repository()
	if err != nil {
		return version{}, err
	}
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if shallow, err := git("rev-parse", "--is-shallow-repository"); err != nil || shallow != "false" {
		return version{name: "there is no git repository with its history"}, nil
	}
	name := os.Getenv("SETPOINT_E2E_BEFORE")
	if name == "" {
		if name, err = git("describe", "--tags", "--abbrev=0", "--match=v*"); err != nil {
			if name, err = git("log", "-1", "--format=%h", "--", "test/compatibility/testdata/stored-v1.json"); err != nil || name == "" {
				return version{}, fmt.Errorf("no commit wrote the stored data of the last release: %v", err)
			}
		}
	}
	commit, err := git("rev-parse", "--verify", name+"^{commit}")
	if err != nil {
		return version{}, fmt.Errorf("there is no commit %s: %w", name, err)
	}
	folder := filepath.Join(root, "bin", "built-before", commit)
	v := version{name: name + " of " + commit[:12], program: filepath.Join(folder, "setpoint")}
	if _, err := os.Stat(v.program); err == nil {
		return v, nil
	}
	// Others of other commits are of no use any more.
	if err := os.RemoveAll(filepath.Dir(folder)); err != nil {
		return version{}, err
	}
	sources := folder + "-sources"
	defer func() { _ = os.RemoveAll(sources) }()
	if err := os.MkdirAll(sources, 0o777); err != nil {
		return version{}, err
	}
	archive := exec.Command("git", "-C", root, "archive", "--output="+sources+".tar", commit)
	if out, err := archive.CombinedOutput(); err != nil {
		return version{}, fmt.Errorf("%v: %w\n%s", archive, err, out)
	}
	defer func() { _ = os.Remove(sources + ".tar") }()
	unpack := exec.Command("tar", "-xf", sources+".tar", "-C", sources)
	if out, err := unpack.CombinedOutput(); err != nil {
		return version{}, fmt.Errorf("%v: %w\n%s", unpack, err, out)
	}
	// As that version is built, which may not be as today's is; whole, or not at all.
	build := exec.Command(filepath.Join(sources, "scripts", "build.sh"), folder+"-new", "setpoint")
	build.Env = append(os.Environ(), "RELEASE=before", "COMMIT="+commit)
	if out, err := build.CombinedOutput(); err != nil {
		return version{}, fmt.Errorf("build %s: %w\n%s", v.name, err, out)
	}
	return v, os.Rename(folder+"-new", folder)
})
