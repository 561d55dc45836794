package generate

import (
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Factors of milli-units.
const (
	milliPerUnit = 1000
	milliPerKi   = 1024 * milliPerUnit
	milliPerMi   = 1024 * milliPerKi
	milliPerGi   = 1024 * milliPerMi
)

// parse parses a valid quantity.
func parse(text string) resource.Quantity { return resource.MustParse(text) }

// quantity formats milli-units in one of the many equivalent ways.
func (r random) quantity(milli int64) resource.Quantity {
	switch r.IntN(8) {
	case 0:
		if text, ok := withSuffix(milli, r.IntN(len(suffixes))); ok {
			return parse(text)
		}
	case 1:
		return parse(belowMilli(milli, 1000, "u", r))
	case 2:
		return parse(belowMilli(milli, 1000_000, "n", r))
	case 3:
		return parse(decimalPoint(milli))
	case 4:
		return parse(strconv.FormatInt(milli, 10) + "e-3")
	}
	return *resource.NewMilliQuantity(milli, resource.DecimalSI)
}

// suffixes and the milli-units that they stand for, largest first by kind.
var suffixes = []struct {
	text  string
	milli int64
}{
	{"Gi", milliPerGi},
	{"Mi", milliPerMi},
	{"Ki", milliPerKi},
	{"G", 1e12},
	{"M", 1e9},
	{"k", 1e6},
	{"e3", 1e6},
	{"E3", 1e6},
	{"", 1e3},
	{"m", 1},
}

// withSuffix formats a number with the first suffix, from one on, that divides it.
func withSuffix(milli int64, from int) (string, bool) {
	for _, s := range suffixes[from:] {
		if milli%s.milli == 0 {
			return strconv.FormatInt(milli/s.milli, 10) + s.text, true
		}
	}
	return "", false
}

// belowMilli formats a number in a finer unit, that many beyond the previous whole
// milli-unit: any excess rounds up to the next one.
func belowMilli(milli, parts int64, unit string, r random) string {
	if milli == 0 || milli > math.MaxInt64/parts || milli < -math.MaxInt64/parts {
		return strconv.FormatInt(milli, 10) + "m"
	}
	less := r.Int64N(parts)
	if milli < 0 {
		less = -less
	}
	return strconv.FormatInt(milli*parts-less, 10) + unit
}

// decimalPoint writes a number of units with three digits after the point.
func decimalPoint(milli int64) string {
	sign, whole := "", uint64(milli)
	if milli < 0 {
		sign, whole = "-", -uint64(milli)
	}
	fraction := strconv.FormatUint(1000+whole%1000, 10)[1:]
	return sign + strconv.FormatUint(whole/1000, 10) + "." + fraction
}

// beyond are quantities that the controller reads as another number: 0, one of the
// other sign, or the largest.
var beyond = []string{"10P", "1E", "9223372036854776", "9223372036854775807m", "16Ei", "-9223372036854775808m", "4611686018427387904m"}

// readsAsZero are large quantities that the controller reads as 0, on any processor.
var readsAsZero = []string{"10P", "1E", "100P"}
