package quantity

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// decimalSuffixes are those of whole numbers, one for each factor of 1,000.
const decimalSuffixes = "\x00kMGTPE"

// FormatDecimal prints milli-units as the controller prints a metric's value:
// canonical, with decimal suffixes ("1400m", "20", "3M").
func FormatDecimal(milli int64) string {
	if milli == 0 {
		return "0"
	}
	var buffer [24]byte
	if milli%1000 != 0 {
		return string(append(strconv.AppendInt(buffer[:0], milli, 10), 'm'))
	}
	n, thousands := milli/1000, 0
	for n%1000 == 0 {
		n /= 1000
		thousands++
	}
	out := strconv.AppendInt(buffer[:0], n, 10)
	if thousands > 0 {
		out = append(out, decimalSuffixes[thousands])
	}
	return string(out)
}

// FormatBinary prints milli-units as the controller prints memory: canonical,
// with binary suffixes ("110Mi"), or as FormatDecimal where it is not a whole
// number.
func FormatBinary(milli int64) string {
	return resource.NewMilliQuantity(milli, resource.BinarySI).String()
}
