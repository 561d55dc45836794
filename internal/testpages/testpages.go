// Package testpages reads pages, and other files, for tests, and compares figures that pages tell with what tests
// measure, so that neither moves without the other.
package testpages

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Read returns the text of a file; it ends the test if it can't be read.
func Read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	fatal.If(t, err)
	return string(text)
}

// Figure fails a test unless a page tells a figure, at the "#" of a text of it, in the text's unit, which may be off by
// a share of what was measured. The page is a file; its text has one space where the page has any.
func Figure(t testing.TB, page, text string, measured, share float64) {
	t.Helper()
	if err := compare(Read(t, page), text, measured, share); err != nil {
		t.Errorf("%s: %v", page, err)
	}
}

func compare(page, text string, measured, share float64) error {
	pattern := strings.Replace(regexp.QuoteMeta(text), "#", `([\d,]+(?:\.\d+)?)`, 1)
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(strings.Join(strings.Fields(page), " "), -1)
	if len(found) == 0 {
		return fmt.Errorf("it does not say %q; measured were %.4g", text, measured)
	}
	for _, each := range found {
		told, err := strconv.ParseFloat(strings.ReplaceAll(each[1], ",", ""), 64)
		if err != nil || !(math.Abs(told-measured) <= share*measured) {
			return fmt.Errorf("it says %q, measured were %.4g", each[0], measured)
		}
	}
	return nil
}
