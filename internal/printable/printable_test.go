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
		if got := printable.Block(text + "\n\t"); got != want+"\n\t" && text[:3] != "two" {
			t.Errorf("%q: the block is %q", text, got)
		}
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{
		0: "0", 60: "60", 12.345: "12.3", 999.6: "1000", 1234.5: "1234", 13440: "13440", 6e7: "60000000", -1e6: "-1000000", -0.10000000000000009: "-0.1",
		0.0333333: "0.0333", 0.0000123456: "0.0000123", 1e21: "1000000000000000000000",
	} {
		if got := printable.Figures(f, 3); got != want {
			t.Errorf("%g: %s, want %s", f, got, want)
		}
	}
}

// Runners of GitHub trim blanks before they look for a command.
func TestNoLineIsACommandOfARunner(t *testing.T) {
	t.Parallel()
	const evil, harmless = "::error title=a::b.yaml: c", "a::b\n./::c"
	if got, want := printable.NoCommand(evil+"\n \t"+evil+"\n"+harmless), "./"+evil+"\n \t./"+evil+"\n"+harmless; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The page's test (web/src/lib/shadows.test.ts) has the same cases.
func TestPercent(t *testing.T) {
	t.Parallel()
	for want, of := range map[string][2]int64{"0 %": {0, 7}, "7.5 %": {3, 40}, "12.3 %": {49, 400}, "100 %": {1, 1}, "1230 %": {12345, 1000}, "0.0333 %": {1, 3000}} {
		if got := printable.Percent(of[0], of[1]); got != want {
			t.Errorf("%d of %d: %s, want %s", of[0], of[1], got, want)
		}
	}
}

func TestSomeSaysHowManyAreLeftOut(t *testing.T) {
	t.Parallel()
	for most, want := range map[int]string{1: "a and 2 more", 2: "a, b and 1 more", 3: "a, b, c", 4: "a, b, c"} {
		if got := printable.Some([]string{"a", "b", "c"}, most); got != want {
			t.Errorf("at most %d: %q, want %q", most, got, want)
		}
	}
}
