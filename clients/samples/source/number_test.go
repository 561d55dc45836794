package source

import (
	"math"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/typed"
)

func TestFloatsBecomeThousandths(t *testing.T) {
	for _, c := range []struct {
		name string
		in   float64
		want string
		err  error
	}{
		{"whole", 3, "3", nil},
		{"the rest after thousandths is cut off, as prometheus-adapter does", 1.0019, "1001m", nil},
		{"less than a thousandth is zero", 0.0009, "0", nil},
		{"the float nearest to 1.005 lies below it", 1.005, "1004m", nil},
		{"zero", 0, "0", nil},
		{"minus zero", math.Copysign(0, -1), "0", nil},
		{"noise below zero is zero", -1e-17, "0", nil},
		{"large", 9e15, "9P", nil},
		{"the largest, where floats are 1024 apart", 9223372036854774, "9223372036854773760m", nil},
		{"beyond the controller's arithmetic", 9223372036854776, "", ErrTooLarge},
		{"far beyond", 1e300, "", ErrTooLarge},
		{"beyond, when multiplied", math.MaxFloat64, "", ErrTooLarge},
		{"NaN", math.NaN(), "", ErrNaN},
		{"infinite", math.Inf(1), "", errInfinite},
		{"infinite below", math.Inf(-1), "", errInfinite},
		{"negative", -1, "", ErrNegative},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := FromFloat(c.in, false)
			if err != c.err || err == nil && got.String() != c.want {
				t.Fatalf("got %s and error %v, want %s and %v", got.String(), err, c.want, c.err)
			}
		})
	}
	if got, err := FromFloat(-1.5, true); err != nil || got.String() != "-1500m" {
		t.Errorf("a negative value that is allowed: %s, %v", got.String(), err)
	}
	if _, err := FromFloat(-1e300, true); err != ErrTooLarge {
		t.Errorf("far below: %v", err)
	}
}

func TestTextStaysExact(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		err            error
	}{
		{"number", "1.005", "1.005", nil},
		{"number of many digits", "123456789012.123456789", "123456789012123456789n", nil},
		{"quantity", "1500m", "1500m", nil},
		{"quantity of powers of two", "2Gi", "2Gi", nil},
		{"exponent", "15e2", "1500", nil},
		{"the largest", "9223372036854775.807", "9223372036854775807m", nil},
		{"beyond", "9223372036854775.808", "", ErrTooLarge},
		{"beyond with a suffix", "16Ei", "", ErrTooLarge},
		{"an exponent that would take for ever", "1e999999999", "", ErrTooLarge},
		{"one that would the other way", "1e-999999999", "1e-9", nil},
		{"an average that has decayed", "2.964393875E-314", "1e-9", nil},
		{"nothing, with an exponent", "0e-999999999", "0", nil},
		{"too long", strings.Repeat("1", 65), "", ErrNoNumber},
		{"negative", "-1", "", ErrNegative},
		{"word", "high", "", ErrNoNumber},
		{"nothing", "", "", ErrNoNumber},
		{"space", " 1", "", ErrNoNumber},
		{"NaN", "NaN", "", ErrNoNumber},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := FromText(c.in, false)
			if err != c.err || err == nil && got.String() != c.want {
				t.Fatalf("got %s and error %v, want %s and %v", got.String(), err, c.want, c.err)
			}
		})
	}
	if got, err := FromText("-0.5", true); err != nil || got.String() != "-500m" {
		t.Errorf("a negative value that is allowed: %s, %v", got.String(), err)
	}
}

func TestTextOfOthersIsMadeHarmless(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"short", "all right", "all right"},
		{"control characters", "a\nb\x1b[31m", "a b [31m"},
		{"no UTF-8", "a\xffb", "a?b"},
		{"long", "0123456789abcdef", "0123456789…"},
		{"cut within a character", "012345678é", "012345678…"},
	} {
		if got := typed.Shorten(c.in, 10); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
