package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
)

// followed is a file with the calls of its note function.
type followed struct {
	*testing.T
	path  string
	file  *files.Current[string]
	noted []string
}

func follow(t *testing.T) *followed {
	f := &followed{T: t, path: filepath.Join(t.TempDir(), "file")}
	f.file = files.NewCurrent(f.path, 9, func(text []byte) (string, error) { return parse([][]byte{text}) }, func(err error) {
		if f.noted = append(f.noted, "right"); err != nil {
			f.noted[len(f.noted)-1] = err.Error()
		}
	})
	return f
}

func (f *followed) want(value string, noted ...string) {
	f.Helper()
	got, err := f.file.Get()
	if err != nil || got != value {
		f.Errorf("says %q, %v, want %q", got, err, value)
	}
	if !reflect.DeepEqual(f.noted, noted) {
		f.Errorf("noted %q, want %q", f.noted, noted)
	}
}

// replace puts another file in its place, which has the same size and time.
func (f *followed) replace(content string) {
	f.Helper()
	put(f.T, f.path+".new", content)
	if info, err := os.Stat(f.path); err == nil {
		fatal.If(f, os.Chtimes(f.path+".new", info.ModTime(), info.ModTime()))
	}
	fatal.If(f, os.Rename(f.path+".new", f.path))
}

func TestAFileThatWasNeverRight(t *testing.T) {
	f := follow(t)
	if _, err := f.file.Get(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	put(t, f.path, "bad")
	if _, err := f.file.Get(); err == nil || err.Error() != "bad" {
		t.Errorf("a wrong file: %v", err)
	}
	put(t, f.path, "ten bytes!")
	if _, err := f.file.Get(); err == nil || err.Error() != "read "+f.path+": is larger than 9 bytes" {
		t.Errorf("a large file: %v", err)
	}
	put(t, f.path, "first")
	f.want("first")
}

func TestAFileIsReadAgainWhenItIsNeeded(t *testing.T) {
	f := follow(t)
	put(t, f.path, "first")
	f.want("first")
	f.replace("other")
	f.want("other")
	put(t, f.path, "longer")
	f.want("longer")
	fatal.If(t, os.WriteFile(f.path, []byte("LONGER"), 0o600))
	later := time.Now().Add(time.Hour)
	fatal.If(t, os.Chtimes(f.path, later, later))
	f.want("LONGER")
}

// The last valid content counts, and an error is reported once.
func TestAFileThatIsWrongForAWhile(t *testing.T) {
	f := follow(t)
	put(t, f.path, "first")
	f.want("first")
	f.replace("bad")
	f.want("first", "bad")
	f.want("first", "bad")
	fatal.If(t, os.Remove(f.path))
	gone := "stat " + f.path + ": no such file or directory"
	f.want("first", "bad", gone)
	f.want("first", "bad", gone)
	put(t, f.path, "second")
	f.want("second", "bad", gone, "right")
	f.want("second", "bad", gone, "right")
}

func TestSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	secret := files.NewSecret(path, nil)
	for _, step := range []struct {
		name, content, want string
		err                 error
	}{
		{"nothing yet", " \n", "", files.ErrEmpty},
		{"space around it", " one\n", "one", nil},
		{"emptied", "", "one", nil},
		{"two lines", "one\ntwo", "", files.ErrLines},
		{"one again", "three", "three", nil},
	} {
		put(t, path, step.content)
		got, err := secret.Get()
		if got != step.want || !errors.Is(err, step.err) {
			t.Errorf("%s: %q, %v", step.name, got, err)
		}
	}
}
