package source

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Why a value can't be used.
var (
	ErrNaN      = errors.New("the value is NaN, as 0/0 is: if a quotient without a divisor shall be 0, query «a / (b > 0) or b == 0», in which no data stays an error")
	errInfinite = errors.New("the value is infinite: guard the division")
	ErrNegative = errors.New("the value is negative, which the controller would take for an overflow: use clamp_min(…, 0), or set allowNegative")
	errReported = errors.New("the value is negative, which the controller would take for an overflow: report 0 or more")
	ErrTooLarge = errors.New("the value is beyond ±9223372036854775.807, which the controller's arithmetic can't hold: choose a larger unit")
	ErrNoSample = errors.New("there is no value")
	ErrNoNumber = errors.New("the value is neither a number nor a quantity such as 1500m or 2Gi")
)

// FromFloat converts a floating-point number to a quantity as prometheus-adapter does: in
// thousandths, truncated. It fails where that conversion overflows.
func FromFloat(v float64, allowNegative bool) (resource.Quantity, error) {
	switch {
	case math.IsNaN(v):
		return resource.Quantity{}, ErrNaN
	case math.IsInf(v, 0):
		return resource.Quantity{}, errInfinite
	}
	thousandths := v * 1000
	if thousandths >= math.MaxInt64 || thousandths <= math.MinInt64 { // both are rounded to ±2⁶³
		return resource.Quantity{}, ErrTooLarge
	}
	milli := int64(thousandths)
	if milli < 0 && !allowNegative {
		return resource.Quantity{}, ErrNegative
	}
	return *resource.NewMilliQuantity(milli, resource.DecimalSI), nil
}

// Bounds on a quantity's text: the parser computes with as many digits as the text requests. Those of an average that
// decays are down to 1e-323.
const (
	maxQuantityLength   = 64
	maxQuantityExponent = 400
)

var (
	mostMilli  = resource.NewMilliQuantity(math.MaxInt64, resource.DecimalSI)
	leastMilli = resource.NewMilliQuantity(-math.MaxInt64, resource.DecimalSI)
)

// CheckValue returns an error for a quantity that the controller's arithmetic would take for an
// overflow, and scale to the maximum: one below 0, or too large. Other texts are no quantities for
// the service to refuse.
func CheckValue(text string) error {
	switch _, err := FromText(text, false); {
	case errors.Is(err, ErrNegative):
		return errReported // no query's answer
	case errors.Is(err, ErrTooLarge):
		return err
	}
	return nil
}

// FromText converts a number or quantity in text form exactly (to the billionth, the precision
// of a quantity, rounded away from 0).
func FromText(text string, allowNegative bool) (resource.Quantity, error) {
	if len(text) > maxQuantityLength {
		return resource.Quantity{}, ErrNoNumber
	}
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		// Not for 1E and 1Ei, which have no exponent.
		switch e, err := strconv.ParseInt(text[at+1:], 10, 64); {
		case err == nil && e > maxQuantityExponent:
			return resource.Quantity{}, ErrTooLarge
		case err == nil && e < -maxQuantityExponent: // far below a billionth either way
			text = text[:at] + "e-" + strconv.Itoa(maxQuantityExponent)
		}
	}
	q, err := resource.ParseQuantity(text)
	switch {
	case err != nil:
		return resource.Quantity{}, ErrNoNumber
	case q.Cmp(*mostMilli) > 0 || q.Cmp(*leastMilli) < 0:
		return resource.Quantity{}, ErrTooLarge
	case q.Sign() < 0 && !allowNegative:
		return resource.Quantity{}, ErrNegative
	}
	return q, nil
}
