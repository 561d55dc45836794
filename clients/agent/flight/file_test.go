package flight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestFilesRotate(t *testing.T) {
	t.Parallel()
	for _, ending := range []string{"", ".gz"} {
		folder := t.TempDir()
		name := filepath.Join(folder, "flight.jsonl"+ending)
		f, err := openFile(name, 200, 3)
		fatal.If(t, err)
		for i := range 40 {
			if _, err := fmt.Fprintf(f, "{\"name\": \"%03d, which is some text that takes place\"}\n", i); err != nil {
				t.Fatal(err)
			}
		}
		fatal.If(t, f.close())
		files, err := filepath.Glob(filepath.Join(folder, "*"))
		fatal.If(t, err)
		if len(files) != 3 {
			t.Errorf("%d files: %q", len(files), files)
		}
		for _, file := range files {
			info, err := os.Stat(file)
			fatal.If(t, err)
			if info.Size() > 200 {
				t.Errorf("%s has %d bytes", file, info.Size())
			}
		}
		again, err := openFile(name, 200, 3)
		if err != nil || again.size == 0 {
			t.Errorf("opened again: %v, %d bytes", err, again.size)
		}
		_ = again.close()
	}
}

// What comes after somebody has taken the file away, as to replay it, deleted it or cut it, is in the file of the name.
func TestAFileThatSomebodyTakesAway(t *testing.T) {
	t.Parallel()
	for what, take := range map[string]func(name string) error{
		"moved":   func(name string) error { return os.Rename(name, name+".taken") },
		"deleted": os.Remove,
		"cut":     func(name string) error { return os.Truncate(name, 0) },
		"replaced": func(name string) error {
			return errors.Join(os.Remove(name), os.WriteFile(name, nil, 0o600))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := filepath.Join(t.TempDir(), "flight.jsonl")
			f, err := openFile(name, 1<<20, 2)
			fatal.If(t, err)
			for _, line := range []string{"before\n", "after\n", "later\n"} {
				if line == "after\n" {
					fatal.If(t, take(name))
				}
				_, err := f.Write([]byte(line))
				fatal.If(t, err)
			}
			if text, err := os.ReadFile(name); err != nil || string(text) != "after\nlater\n" || f.size != int64(len(text)) {
				t.Errorf("it has %q, %v; its size counts as %d", text, err, f.size)
			}
			fatal.If(t, f.close())
		})
	}
}
