package quantity

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounds of a quantity's text. The library computes with as many digits as the text and
// its exponent require, so that "1e-999999999" would take more than a minute; the
// digits of an int64 are 19.
const (
	MaxLength   = 1000
	maxExponent = 1000
)

// Parsing errors that are not the library's.
var (
	ErrLength   = fmt.Errorf("may not be more than %d bytes", MaxLength)
	errExponent = errors.New("exponent must be between -" + strconv.Itoa(maxExponent) + " and " + strconv.Itoa(maxExponent))
)

// ParseLibrary parses a quantity as the API server does, which allows surrounding
// space. Unlike the API server it refuses texts that are unreasonably expensive: longer
// than 1000 bytes, or with a decimal exponent beyond ±1000. A quantity that it returns
// is cheap to convert and to compare.
func ParseLibrary(text string) (resource.Quantity, error) {
	if len(text) > MaxLength {
		return resource.Quantity{}, ErrLength
	}
	text = strings.TrimSpace(text)
	if exponent, ok := decimalExponent(text); ok && (exponent < -maxExponent || exponent > maxExponent) {
		return resource.Quantity{}, errExponent
	}
	return resource.ParseQuantity(text)
}

// decimalExponent returns the exponent of a text in scientific notation. ok is false if
// there is none, as in "1E" and "1Ei", or none that parses.
func decimalExponent(text string) (exponent int64, ok bool) {
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return 0, false
	}
	exponent, err := strconv.ParseInt(text[at+1:], 10, 64)
	return exponent, err == nil
}
