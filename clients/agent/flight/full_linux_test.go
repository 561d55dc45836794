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

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Where the disk is full for a while, what is written before and after it stays readable. The limit is that of the
// process, so no test may run beside this one.
func TestAFullDiskBreaksNoLines(t *testing.T) {
	for _, name := range []string{"flight.jsonl", "flight.jsonl.gz"} {
		file, err := openFile(filepath.Join(t.TempDir(), name), 1<<30, 2)
		fatal.If(t, err)
		write := func(line string) error { _, err := file.Write([]byte(line)); return err }
		fatal.If(t, write("before\n"))
		signal.Ignore(syscall.SIGXFSZ)
		var was syscall.Rlimit
		fatal.If(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
		full := was
		full.Cur = uint64(file.size) + 3
		fatal.If(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full))
		failed := write("too long for the disk\n")
		fatal.If(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was))
		signal.Reset(syscall.SIGXFSZ)
		if !errors.Is(failed, syscall.EFBIG) {
			t.Errorf("the write to the full disk: %v", failed)
		}
		fatal.If(t, errors.Join(write("after\n"), file.close()))
		text, err := os.ReadFile(file.name)
		fatal.If(t, err)
		if filepath.Ext(name) == ".gz" {
			r, err := gzip.NewReader(bytes.NewReader(text))
			fatal.If(t, err)
			if text, err = io.ReadAll(r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if string(text) != "before\nafter\n" {
			t.Errorf("%s has %q", name, text)
		}
	}
}
