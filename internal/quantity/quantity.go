// Package quantity parses quantities from untrusted sources.
package quantity

import (
	"errors"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Limits of a text: the library's parser computes with as many digits as the text has or its
// exponent implies, which can take minutes.
const (
	mostLength   = 64
	mostExponent = 64
)

var errTooLong = errors.New("a quantity with that many digits, or that exponent, is not supported")

// Parse is resource.ParseQuantity for untrusted texts. It refuses texts longer than 64
// bytes, or with an exponent beyond ±64.
func Parse(text string) (resource.Quantity, error) {
	if len(text) > mostLength {
		return resource.Quantity{}, errTooLong
	}
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		// 1E and 1Ei have no exponent.
		e, err := strconv.Atoi(text[at+1:])
		if err == nil && (e > mostExponent || e < -mostExponent) || errors.Is(err, strconv.ErrRange) {
			return resource.Quantity{}, errTooLong
		}
	}
	return resource.ParseQuantity(text)
}
