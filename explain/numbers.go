package explain

import (
	"math"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// unit is a metric's unit.
type unit int

// The units: a metric's own, cores, bytes, megahertz.
const (
	inUnits unit = iota
	inCores
	inBytes
	inMHz
)

// inMHzOn is the API version of targets whose cpu is in megahertz: Nomad's task groups.
const inMHzOn = "nomadproject.io/v1"

// unitOf is the unit of a resource of a target of that API version.
func unitOf(resource, apiVersion string) unit {
	switch {
	case resource == "cpu" && apiVersion == inMHzOn:
		return inMHz
	case resource == "cpu":
		return inCores
	case resource == "memory":
		return inBytes
	}
	return inUnits
}

// text prints milli-units for a sentence: "450m", "1.35 cores", "110.5Mi", "4200",
// "300 MHz".
func (u unit) text(milli int64) string {
	switch {
	case milli == 0:
		return "0"
	case u == inBytes:
		return binary(milli)
	case u == inUnits:
		return decimal(milli)
	case u == inMHz:
		return decimal(milli) + nbsp + "MHz"
	case milli == 1000:
		return "1" + nbsp + "core"
	case -1000 < milli && milli < 1000:
		return strconv.FormatInt(milli, 10) + "m"
	}
	return decimal(milli) + nbsp + "cores"
}

// cell prints milli-units for a column, where all are in one unit.
func (u unit) cell(milli int64) string {
	if u == inCores && milli != 0 {
		return strconv.FormatInt(milli, 10) + "m"
	}
	return u.text(milli)
}

// decimal prints milli-units as a decimal number.
func decimal(milli int64) string {
	whole, fraction := milli/1000, milli%1000
	if fraction == 0 {
		return strconv.FormatInt(whole, 10)
	}
	sign := ""
	if milli < 0 {
		sign, whole, fraction = "-", -whole, -fraction
	}
	return sign + strconv.FormatInt(whole, 10) + "." + strings.TrimRight(strconv.FormatInt(1000+fraction, 10)[1:], "0")
}

// binary prints milli-bytes in the unit that suits them, with ≈ where digits were
// left out.
func binary(milli int64) string {
	value, suffix := math.Abs(float64(milli)/1000), ""
	for _, next := range []string{"Ki", "Mi", "Gi", "Ti", "Pi"} {
		// A whole number of Mi is read more easily than a fraction of Gi.
		if value < 1024 || suffix == "Mi" && value < 10*1024 && value == math.Trunc(value) {
			break
		}
		value, suffix = value/1024, next
	}
	if suffix == "" {
		return decimal(milli) + nbsp + "bytes"
	}
	if milli < 0 {
		value = -value
	}
	rounded := math.Round(value*100) / 100
	text := trimZeros(strconv.FormatFloat(rounded, 'f', 2, 64)) + suffix
	if rounded != value {
		return "≈" + text
	}
	return text
}

// milli parses a quantity of the trace; ok is false if it is absent.
func milli(s string) (value int64, ok bool) {
	if s == "" {
		return 0, false
	}
	value, inRange, err := quantity.ParseMilli(s)
	return value, inRange && err == nil
}

// Digits after the point.
const (
	fewDigits  = 2
	someDigits = 4
	allDigits  = 17
)

// huge is the end of decimal notation.
const huge = 1e9

// digits prints f with the fewest digits that suffice: 2 to 4, and more if enough requires
// them. It cuts trailing zeros beyond least digits.
func digits(f float64, least int, enough func(printed float64) bool) string {
	if math.Abs(f) >= huge {
		return magnitude(f)
	}
	for n := least; n < allDigits; n++ {
		text := strconv.FormatFloat(f, 'f', n, 64)
		printed, _ := strconv.ParseFloat(text, 64)
		if (printed == f || n >= someDigits) && enough(printed) {
			return trimTo(text, least)
		}
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// trimTo cuts zeros at the end of a decimal fraction, but keeps that many digits.
func trimTo(text string, digits int) string {
	trimmed := trimZeros(text)
	whole, fraction, _ := strings.Cut(trimmed, ".")
	if missing := digits - len(fraction); missing > 0 {
		return whole + "." + fraction + strings.Repeat("0", missing)
	}
	return trimmed
}

// magnitude prints a number that is out of the ordinary.
func magnitude(f float64) string {
	switch {
	case f >= math.MaxFloat64:
		return "infinite"
	case f <= -math.MaxFloat64:
		return "minus infinite"
	}
	text := strconv.FormatFloat(f, 'g', 4, 64)
	if exact, _ := strconv.ParseFloat(text, 64); exact != f {
		return "≈" + text
	}
	return text
}

// ratioText prints a usage ratio so that it is on the right side of 1.
func ratioText(f float64) string {
	return digits(f, fewDigits, func(printed float64) bool { return (printed < 1) == (f < 1) && (printed > 1) == (f > 1) })
}

// tolerance is the range of ratios without a change.
type tolerance struct {
	low, high float64
	// distance is the tolerance where a ratio is held against it by its distance from 1,
	// which is not quite the same in floating point. Nil: it is not.
	distance *float64
}

func (t tolerance) holds(ratio float64) bool {
	if t.distance != nil {
		return math.Abs(1-ratio) <= *t.distance
	}
	return t.low <= ratio && ratio <= t.high
}

func (t tolerance) text() string { return boundText(t.low) + " to " + boundText(t.high) }

// distanceText explains a ratio at a bound that is on the other side of it by its distance
// from 1; empty anywhere else.
func (t tolerance) distanceText(ratio float64) string {
	if t.distance == nil || t.holds(ratio) == (t.low <= ratio && ratio <= t.high) {
		return ""
	}
	return " by its distance from 1, which in floating point is " + strconv.FormatFloat(math.Abs(1-ratio), 'g', -1, 64)
}

func boundText(f float64) string { return trimTo(strconv.FormatFloat(f, 'f', 6, 64), fewDigits) }

// ratioText prints a ratio so that it is on the right side of the bounds as they
// are printed, too.
func (t tolerance) ratioText(f float64) string {
	low, _ := strconv.ParseFloat(boundText(t.low), 64)
	high, _ := strconv.ParseFloat(boundText(t.high), 64)
	printedBounds := tolerance{low: low, high: high}
	return digits(f, fewDigits, func(printed float64) bool {
		return printedBounds.holds(printed) == t.holds(f) && (printed < 1) == (f < 1) && (printed > 1) == (f > 1)
	})
}

// productText prints the product that is rounded up to a count, with enough digits to show why.
func productText(f float64) string {
	return digits(f, 0, func(printed float64) bool { return math.Ceil(printed) == math.Ceil(f) })
}

// equals is the sign and the number that follow from a calculation.
func equals(text string) string {
	if rounded, ok := strings.CutPrefix(text, "≈"); ok {
		return " ≈ " + rounded
	}
	return " = " + text
}

// count prints a number of things: "1 pod", "3 pods".
func count[N int | int32](n N, thing string) string {
	text := strconv.Itoa(int(n)) + nbsp + thing
	if n == 1 {
		return text
	}
	if strings.HasSuffix(thing, "ies") || strings.HasSuffix(thing, "s") {
		return text
	}
	return text + "s"
}

func number(n int32) string { return strconv.Itoa(int(n)) }
