// Package quantity parses quantities that others wrote.
package quantity

import (
	"errors"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounds of a text: the library's parser computes with as many digits as it asks for, by its
// exponent, too, which keeps it busy for minutes.
const (
	mostLength   = 64
	mostExponent = 64
)

var errTooLong = errors.New("a quantity of that many digits, or that exponent, is not taken")

// Parse is resource.ParseQuantity for texts whose authors are not trusted. What is longer
// than 64 bytes, or has an exponent beyond ±64, is an error.
func Parse(text string) (resource.Quantity, error) {
	if len(text) > mostLength {
		return resource.Quantity{}, errTooLong
	}
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		// Not of 1E and 1Ei, which have none.
		e, err := strconv.Atoi(text[at+1:])
		if err == nil && (e > mostExponent || e < -mostExponent) || errors.Is(err, strconv.ErrRange) {
			return resource.Quantity{}, errTooLong
		}
	}
	return resource.ParseQuantity(text)
}
