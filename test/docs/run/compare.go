package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Values that differ from run to run.
var (
	instant = regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d| UTC)?`)
	id      = regexp.MustCompile(`\b([0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})\b`)
)

// anything stands for any lines where it is a line, and for any part of one otherwise.
const anything = "…"

// compare returns the part of an output that differs from the page, or nil.
func compare(expected, got string, isJSON bool) error {
	if isJSON {
		expected, got = indented(expected), indented(got)
	}
	want, have := normal(expected), normal(got)
	patterns := make([]*regexp.Regexp, len(want))
	for i, line := range want {
		if line != anything {
			patterns[i] = regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(line), anything, ".*") + "$")
		}
	}
	// reached[i] are the numbers of lines that the first i patterns can have taken.
	reached := map[int]bool{0: true}
	for i, pattern := range patterns {
		next := map[int]bool{}
		for taken := range reached {
			switch {
			case pattern == nil:
				for n := taken; n <= len(have); n++ {
					next[n] = true
				}
			case taken < len(have) && pattern.MatchString(have[taken]):
				next[taken+1] = true
			}
		}
		if len(next) == 0 {
			return fmt.Errorf("the page shows %q and the program did not print that there; it printed:\n%s", want[i], got)
		}
		reached = next
	}
	if !reached[len(have)] {
		return fmt.Errorf("the program prints more than the page shows (a line %s stands for any lines); it printed:\n%s", anything, got)
	}
	return nil
}

func normal(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		line = instant.ReplaceAllString(line, "TIME")
		lines = append(lines, id.ReplaceAllString(line, "ID"))
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// indented formats JSON; text that is not JSON, because of omitted lines, stays.
func indented(text string) string {
	decoder := json.NewDecoder(strings.NewReader(text))
	var all strings.Builder
	for decoder.More() {
		var one json.RawMessage
		if decoder.Decode(&one) != nil {
			return text
		}
		var laid bytes.Buffer
		if json.Indent(&laid, one, "", "  ") != nil {
			return text
		}
		all.Write(laid.Bytes())
		all.WriteByte('\n')
	}
	return all.String()
}
