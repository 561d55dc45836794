package recording

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// TestWhatACompressedFileHoldsIsBounded: a few bytes may hold any number, and an object of two bytes takes hundreds in
// memory.
func TestWhatACompressedFileHoldsIsBounded(t *testing.T) {
	t.Parallel()
	const scenario = `{"name":"one","hpa":{"metadata":{"name":"web","namespace":"shop"},"spec":{"maxReplicas":3}},"steps":[]}` + "\n"
	head := strings.TrimSuffix(scenario, "]}\n")
	for _, test := range []struct {
		name, text, want string
		read             int
	}{
		{"as much as may be", strings.Repeat(scenario, 100), "", 100},
		{"a line too many", strings.Repeat(scenario, 101), "r:101: the file has more than 10400 bytes, uncompressed", 100},
		{"empty lines count", strings.Repeat("\n", 100) + strings.Repeat(scenario, 100), "r:200: the file has more than 10400 bytes, uncompressed", 99},
		{"one line", head + strings.Repeat("{},", 4000), "r:1: the file has more than 10400 bytes, uncompressed", 0},
	} {
		for _, form := range []string{"plain", "compressed"} {
			t.Run(test.name+", "+form, func(t *testing.T) {
				t.Parallel()
				var in io.Reader = strings.NewReader(test.text)
				if form == "compressed" {
					var file bytes.Buffer
					w := gzip.NewWriter(&file)
					_, _ = w.Write([]byte(test.text))
					fatal.If(t, w.Close())
					in = &file
				}
				r := NewReader("r", in)
				r.most = int64(100 * len(scenario))
				read, failed := 0, ""
				for _, err := range r.All() {
					if err != nil {
						failed = err.Error()
						continue
					}
					read++
				}
				if read != test.read || (test.want == "") != (failed == "") || !strings.HasPrefix(failed, test.want) {
					t.Errorf("read %d, %q", read, failed)
				}
			})
		}
	}
}

func TestTheObjectsOfALineAreBounded(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"steps": "r:1: the line has 2000001 objects, more than 2000000: record fewer evaluations in a scenario",
		"calls": "r:1: the line has 2000001 objects, more than 2000000: record fewer evaluations in a scenario",
	} {
		line := `{"name":"one","` + field + `":[{}` + strings.Repeat(",{}", MaxLineObjects-1) + "]}"
		if _, err := NewReader("r", strings.NewReader(line)).Next(); err == nil || err.Error() != want {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestANameIsBounded(t *testing.T) {
	t.Parallel()
	line := `{"name":"` + strings.Repeat("a", 1001) + `"}`
	if _, err := NewReader("r", strings.NewReader(line)).Next(); err == nil || err.Error() != "r:1: name: is longer than 1000 bytes" {
		t.Errorf("%.200v", err)
	}
}
