//go:build unix

package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// A file that is new has what the user's umask leaves of its mode, one that is replaced the mode that it had; what can't be
// made is told by the name that was given.
func TestAFileThatReplacesAnother(t *testing.T) { // the umask is the whole process'
	defer syscall.Umask(syscall.Umask(0o077))
	folder := t.TempDir()
	name := filepath.Join(folder, "file")
	for _, want := range []fs.FileMode{0o600, 0o644} {
		file, end, err := Replace(name, 0o644)
		fatal.If(t, err)
		if _, err := file.WriteString("text"); err != nil {
			t.Fatal(err)
		}
		fatal.If(t, end(nil))
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("mode %v, %v, want %v", info.Mode(), err, want)
		}
		fatal.If(t, os.Chmod(name, 0o644))
	}
	_, _, err := Replace(filepath.Join(folder, "none", "x"), 0o644)
	var unmade *fs.PathError
	if !errors.As(err, &unmade) || unmade.Path != filepath.Join(folder, "none", "x") || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no folder: %v", err)
	}
	if all, _ := os.ReadDir(folder); len(all) != 1 {
		t.Errorf("%v are left", all)
	}
}
