// Package printable makes untrusted text safe to print, and numbers that are none readable.
package printable

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Text returns text that is safe in a line for people: characters that move the cursor, end
// the line, or change colors or the direction of writing are replaced.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Block is Text of several lines, which may have tabs.
func Block(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Lines returns text that is safe in several lines for people: control characters other than
// newline, carriage return and tab are replaced.
func Lines(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// command is where a runner of GitHub would take a line as a command: it trims blanks before it looks for one.
var command = regexp.MustCompile(`(?m)^(\s*)::`)

// NoCommand returns lines of which none is a command to a runner of GitHub that shows them: whoever names files that are
// checked there would choose it.
func NoCommand(lines string) string { return command.ReplaceAllString(lines, "$1./::") }

// JSON returns the same JSON with escapes for what Text replaces in texts.
func JSON(doc []byte) []byte {
	out := make([]byte, 0, len(doc))
	for _, r := range string(doc) { // JSON has the control characters of ASCII only between texts
		if r >= 0x7f && r <= 0xffff && !unicode.IsPrint(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// Some lists the first few names, and says how many more there are.
func Some(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Age is how long ago something was, in a table: 40s, 3m, 5h, 9d.
func Age(age time.Duration) string {
	switch age = max(0, age); {
	case age < 2*time.Minute:
		return fmt.Sprintf("%ds", int(age.Seconds()))
	case age < 2*time.Hour:
		return fmt.Sprintf("%dm", int(age.Minutes()))
	case age < 48*time.Hour:
		return fmt.Sprintf("%dh", int(age.Hours()))
	}
	return fmt.Sprintf("%dd", int(age.Hours()/24))
}

// Duration is a duration without zeros at its end: 45s, 5m.
func Duration(d time.Duration) string {
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// Percent is a part of something in three digits, as the page writes it: 7.5 %, 12.3 %, 1230 %.
func Percent(part, of int64) string {
	up := 100 * float64(part) / float64(of) * (1 + 0x1p-52) // of halves, JavaScript takes the larger
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(up, 'g', 3, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64) + " %"
}

// Figures is a number in so many figures, or in those of its whole part if these are more, without an exponent.
func Figures(f float64, figures int) string {
	text := strconv.FormatFloat(f, 'g', figures, 64)
	switch {
	case !strings.Contains(text, "e"):
		return text
	case math.Abs(f) >= 1:
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	rounded, _ := strconv.ParseFloat(text, 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// Wrap breaks a text into lines that are not longer, where words allow it. The first line begins with
// first, the others with indent.
func Wrap(text, first, indent string, width int) string {
	var out strings.Builder
	line, words := first, 0
	for _, word := range strings.Fields(text) {
		if words > 0 && len([]rune(line))+1+len([]rune(word)) > width {
			out.WriteString(line + "\n")
			line, words = indent, 0
		}
		if words > 0 {
			line += " "
		}
		line += word
		words++
	}
	return out.String() + strings.TrimRight(line, " ") + "\n"
}

// WithoutDigits is a text by which errors that differ in times, ports and numbers are alike.
func WithoutDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// maxCauses limits how many causes of one outage are told.
const maxCauses = 16

// Causes are the causes that were told of one outage. Digits do not count, for a connection's port is
// another each time. The zero value has none.
type Causes struct{ told map[string]bool }

// New reports whether to tell a cause: it was not told yet, and there were not too many. It counts as told then.
func (c *Causes) New(cause string) bool {
	cause = WithoutDigits(cause)
	if c.told[cause] || len(c.told) >= maxCauses {
		return false
	}
	if c.told == nil {
		c.told = make(map[string]bool)
	}
	c.told[cause] = true
	return true
}

// Any reports whether any was told.
func (c *Causes) Any() bool { return len(c.told) > 0 }

// NoAverage is the average per replica where there is none, as Kubernetes' controller has it, the largest number: no
// replicas were there to divide by, or the sum is too large or negative.
const NoAverage = "9223372036854775807m"

// Average puts an average per replica into words.
func Average(text string) string {
	if text == NoAverage {
		return "no average"
	}
	return text
}
