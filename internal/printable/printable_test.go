package printable_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/printable"
)

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"examples/a b.yaml → 3 ÷ 4":    "examples/a b.yaml → 3 ÷ 4",
		"q\x1b[31mred\x1b]0;title\a":   "q\ufffd[31mred\ufffd]0;title\ufffd",
		"two\nlines\r and a\ttab":      "two\ufffdlines\ufffd and a\ufffdtab",
		"turned \u202e around, \u009b": "turned \ufffd around, \ufffd",
		"no UTF-8: \xff":               "no UTF-8: \ufffd",
	} {
		if got := printable.Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
