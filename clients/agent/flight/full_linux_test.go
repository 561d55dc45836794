package flight

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// Where the disk is full for a while, what is written before and after it stays readable. The limit is that of the
// process, so no test may run beside this one.
func TestAFullDiskBreaksNoLines(t *testing.T) {
	for _, name := range []string{"flight.jsonl", "flight.jsonl.gz"} {
		file, err := openFile(filepath.Join(t.TempDir(), name), 1<<30, 2)
		if err != nil {
			t.Fatal(err)
		}
		write := func(line string) error { _, err := file.Write([]byte(line)); return err }
		if err := write("before\n"); err != nil {
			t.Fatal(err)
		}
		signal.Ignore(syscall.SIGXFSZ)
		var was syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Fatal(err)
		}
		full := was
		full.Cur = uint64(file.size) + 3
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
			t.Fatal(err)
		}
		failed := write("too long for the disk\n")
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Fatal(err)
		}
		signal.Reset(syscall.SIGXFSZ)
		if !errors.Is(failed, syscall.EFBIG) {
			t.Errorf("the write to the full disk: %v", failed)
		}
		if err := errors.Join(write("after\n"), file.close()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file.name)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(name) == ".gz" {
			r, err := gzip.NewReader(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if text, err = io.ReadAll(r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if string(text) != "before\nafter\n" {
			t.Errorf("%s has %q", name, text)
		}
	}
}
