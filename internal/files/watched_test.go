package files_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parse takes what does not begin with "bad".
func parse(contents [][]byte) (string, error) {
	text := ""
	for _, content := range contents {
		text += string(content)
	}
	if strings.HasPrefix(text, "bad") {
		return "", errors.New(text)
	}
	return text, nil
}

func put(t *testing.T, path, content string) {
	t.Helper()
	fatal.If(t, os.WriteFile(path, []byte(content), 0o600))
}

// bench is a file that is watched in a bubble.
type bench struct {
	*testing.T
	path string
	file *files.Watched[string]

	mu     sync.Mutex
	events []string
}

// watch runs a test of a file that says "first".
func watch(t *testing.T, test func(b *bench)) {
	path := filepath.Join(t.TempDir(), "file")
	put(t, path, "first")
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, path: path}
		b.open(path)
		test(b)
	})
}

func (b *bench) open(paths ...string) {
	b.Helper()
	file, err := files.Open(parse, files.Options{OnChange: func(e files.Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, fmt.Sprint(e.Err))
	}}, paths...)
	fatal.If(b, err)
	b.file = file
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		file.Run(ctx)
	}()
	b.Cleanup(func() { cancel(); <-done })
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) want(value string, events ...string) {
	b.Helper()
	if got := b.file.Load(); got != value {
		b.Errorf("says %q, want %q", got, value)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if fmt.Sprint(b.events) != fmt.Sprint(events) {
		b.Errorf("told %q, want %q", b.events, events)
	}
}

const look = files.DefaultInterval + files.DefaultSettle

func TestAFileThatIsReplaced(t *testing.T) {
	watch(t, func(b *bench) {
		b.pass(time.Minute)
		b.want("first")
		put(t, b.path+".new", "second")
		fatal.If(t, os.Rename(b.path+".new", b.path))
		b.pass(look)
		b.want("second", "<nil>")
		b.pass(time.Minute)
		b.want("second", "<nil>")
		if s := b.file.Stats(); s.Successes != 2 || s.Failures != 0 || s.Err != nil || time.Since(s.LastSuccess) > time.Minute+look {
			t.Errorf("stats %+v", s)
		}
	})
}

// TestAFileThatIsReplacedByItsLike has the same size and time of change.
func TestAFileThatIsReplacedByItsLike(t *testing.T) {
	watch(t, func(b *bench) {
		info, err := os.Stat(b.path)
		fatal.If(t, err)
		put(t, b.path, "FIRST")
		fatal.If(t, os.Chtimes(b.path, info.ModTime(), info.ModTime()))
		b.pass(look)
		b.want("FIRST", "<nil>")
	})
}

// TestAFileThatIsWrittenInPlace is seen empty and half written.
func TestAFileThatIsWrittenInPlace(t *testing.T) {
	watch(t, func(b *bench) {
		put(t, b.path, "")
		b.pass(files.DefaultInterval)
		b.want("first")
		put(t, b.path, "sec")
		b.pass(files.DefaultSettle)
		b.want("first")
		put(t, b.path, "second")
		b.pass(files.DefaultSettle)
		b.want("first")
		b.pass(files.DefaultSettle)
		b.want("second", "<nil>")
	})
}

func TestAFileThatIsWrong(t *testing.T) {
	watch(t, func(b *bench) {
		put(t, b.path, "bad one")
		b.pass(look)
		b.want("first", "bad one")
		b.pass(time.Hour) // It is reported once.
		b.want("first", "bad one")
		if s := b.file.Stats(); s.Failures != 1 || s.Err == nil {
			t.Errorf("stats %+v", s)
		}
		put(t, b.path, "first") // as before
		b.pass(look)
		b.want("first", "bad one", "<nil>")
		if s := b.file.Stats(); s.Err != nil || s.Successes != 2 {
			t.Errorf("stats %+v", s)
		}
	})
}

// TestAFileThatNamesAnother is taken once the other is there: they may come by different ways.
func TestAFileThatNamesAnother(t *testing.T) {
	folder := t.TempDir()
	path, other := filepath.Join(folder, "file"), filepath.Join(folder, "other")
	put(t, path, "first")
	named := func(contents [][]byte) (string, error) {
		if string(contents[0]) == "first" {
			return "first", nil
		}
		text, err := os.ReadFile(string(contents[0]))
		return string(text), err
	}
	synctest.Test(t, func(t *testing.T) {
		var told []error
		file, err := files.Open(named, files.Options{OnChange: func(e files.Event) { told = append(told, e.Err) }}, path)
		fatal.If(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go file.Run(ctx)
		put(t, path, other)
		time.Sleep(time.Hour)
		if s := file.Stats(); file.Load() != "first" || s.Failures != 1 || s.Err == nil {
			t.Fatalf("without it: says %q, stats %+v", file.Load(), s)
		}
		put(t, other, "second")
		time.Sleep(look)
		synctest.Wait()
		if s := file.Stats(); file.Load() != "second" || s.Failures != 1 || s.Err != nil || len(told) != 2 {
			t.Errorf("with it: says %q, stats %+v, told %v", file.Load(), s, told)
		}
	})
}

func TestAFileThatIsGone(t *testing.T) {
	watch(t, func(b *bench) {
		fatal.If(t, os.Remove(b.path))
		b.pass(time.Hour)
		b.want("first", "stat "+b.path+": no such file or directory")
		put(t, b.path, "second")
		b.pass(look)
		b.want("second", "stat "+b.path+": no such file or directory", "<nil>")
	})
}

// TestAFileThatIsGoneForAMoment is how some editors save.
func TestAFileThatIsGoneForAMoment(t *testing.T) {
	watch(t, func(b *bench) {
		fatal.If(t, os.Rename(b.path, b.path+"~"))
		b.pass(files.DefaultInterval)
		put(t, b.path, "second")
		b.pass(look)
		b.want("second", "<nil>")
	})
}

// TestAKubernetesVolume swaps a symbolic link as the kubelet does: file → ..data/file,
// ..data → ..version.
func TestAKubernetesVolume(t *testing.T) {
	folder := t.TempDir()
	version := func(name string, files map[string]string) {
		t.Helper()
		fatal.If(t, os.Mkdir(filepath.Join(folder, name), 0o700))
		for file, content := range files {
			put(t, filepath.Join(folder, name, file), content)
		}
		fatal.If(t, os.Symlink(name, filepath.Join(folder, "..data_tmp")))
		fatal.If(t, os.Rename(filepath.Join(folder, "..data_tmp"), filepath.Join(folder, "..data")))
	}
	version("..1", map[string]string{"tls.crt": "C1", "tls.key": "K1"})
	paths := []string{filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")}
	for _, path := range paths {
		fatal.If(t, os.Symlink(filepath.Join("..data", filepath.Base(path)), path))
	}
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t}
		b.open(paths...)
		b.want("C1K1")
		version("..2", map[string]string{"tls.crt": "C2", "tls.key": "K2"})
		fatal.If(t, os.RemoveAll(filepath.Join(folder, "..1")))
		b.pass(look)
		b.want("C2K2", "<nil>")
	})
}

// TestBytesDoNotMoveBetweenFiles has the same bytes in all files together.
func TestBytesDoNotMoveBetweenFiles(t *testing.T) {
	folder := t.TempDir()
	a, b := filepath.Join(folder, "a"), filepath.Join(folder, "b")
	put(t, a, "xy")
	put(t, b, "z")
	second := func(contents [][]byte) (string, error) { return string(contents[1]), nil }
	synctest.Test(t, func(t *testing.T) {
		file, err := files.Open(second, files.Options{}, a, b)
		fatal.If(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go file.Run(ctx)
		put(t, a, "x")
		put(t, b, "yz")
		time.Sleep(look)
		synctest.Wait()
		if got := file.Load(); got != "yz" {
			t.Errorf("says %q", got)
		}
	})
}

func TestReload(t *testing.T) {
	watch(t, func(b *bench) {
		put(t, b.path, "second")
		fatal.If(t, b.file.Reload())
		b.want("second", "<nil>")
		put(t, b.path, "bad")
		if err := b.file.Reload(); err == nil || err.Error() != "bad" {
			t.Errorf("got %v", err)
		}
		b.want("second", "<nil>", "bad")
		b.pass(time.Hour)
		b.want("second", "<nil>", "bad")
	})
}

func TestOpenProblems(t *testing.T) {
	folder := t.TempDir()
	bad, large, pipe := filepath.Join(folder, "bad"), filepath.Join(folder, "large"), filepath.Join(folder, "pipe")
	put(t, bad, "bad")
	put(t, large, "0123456789")
	fatal.If(t, syscall.Mkfifo(pipe, 0o600))
	tests := []struct{ name, path, want string }{
		{"what parse says", bad, "bad"},
		{"no file", filepath.Join(folder, "none"), "no such file"},
		{"a folder", folder, "is not a regular file"},
		{"a pipe", pipe, "is not a regular file"},
		{"too large", large, "is larger than 9 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := files.Open(parse, files.Options{MaxBytes: 9}, tt.path)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestFixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := files.Fixed("always")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx)
		}()
		time.Sleep(time.Hour)
		if err := f.Reload(); err != nil || f.Load() != "always" {
			t.Errorf("says %q, %v", f.Load(), err)
		}
		cancel()
		<-done
	})
}
