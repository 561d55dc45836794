package flight

import (
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
