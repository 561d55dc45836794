// Package quantity parses and prints Kubernetes quantities ("450m", "1Gi",
// "123456789n") as the HorizontalPodAutoscaler controller does: as int64 milli-units,
// rounded away from zero, overflowing silently.
//
// It parses plain integers with the common suffixes without allocating, and everything
// else by k8s.io/apimachinery, whose results define what is right.
package quantity

import (
	"cmp"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxExact limits the magnitude, in milli-units, of values that are added and compared
// as plain integers; a sum of fewer than 1,024 of them cannot overflow.
const maxExact = math.MaxInt64 >> 10

// Quantity is an exact amount of a resource. The zero value is 0.
type Quantity struct {
	// milli is the amount in milli-units as the controller reads it: rounded
	// away from zero, wrapped or 0 where it does not fit.
	milli int64
	// exact is the amount itself where milli is not exact; else nil.
	exact *resource.Quantity
}

// FromMilli returns the quantity of v milli-units.
func FromMilli(v int64) Quantity {
	return fromLibrary(resource.NewMilliQuantity(v, resource.DecimalSI))
}

// Parse reads a quantity; see ParseLibrary for what it refuses.
func Parse(s string) (Quantity, error) {
	if milli, exact, ok := parseFast(s); ok && exact {
		return Quantity{milli: milli}, nil
	}
	q, err := ParseLibrary(s)
	if err != nil {
		return Quantity{}, err
	}
	return fromLibrary(&q), nil
}

// ParseBytes is Parse for bytes. Usually it need not allocate a string.
func ParseBytes(b []byte) (Quantity, error) {
	if milli, exact, ok := parseFast(b); ok && exact {
		return Quantity{milli: milli}, nil
	}
	return Parse(string(b))
}

// ParseMilliBytes is ParseMilli for bytes. Usually it need not allocate a string.
func ParseMilliBytes(b []byte) (milli int64, inRange bool, err error) {
	if milli, _, ok := parseFast(b); ok {
		return milli, true, nil
	}
	return ParseMilli(string(b))
}

// ParseMilli parses a quantity as milli-units: the amount times 1,000 rounded away from
// zero. inRange is false where that does not fit an int64; milli is then the
// controller's value (0, or wrapped).
func ParseMilli(s string) (milli int64, inRange bool, err error) {
	if milli, _, ok := parseFast(s); ok {
		return milli, true, nil
	}
	q, err := Parse(s)
	return q.milli, q.InRange(), err
}

// ParseFine is ParseMilli with the fraction of a milli-unit, for amounts that are multiplied: "500u" is 0.5.
func ParseFine(s string) (milli float64, inRange bool, err error) {
	q, err := Parse(s)
	if err != nil || q.exact == nil || !q.InRange() {
		return float64(q.milli), q.InRange(), err
	}
	const perMilli = 1_000_000
	// A quantity has no smaller part than a billionth; as many as there are may not fit.
	nano := q.exact.ScaledValue(resource.Nano)
	if q.exact.Cmp(*resource.NewScaledQuantity(nano, resource.Nano)) != 0 {
		return float64(q.milli), true, nil
	}
	return float64(nano) / perMilli, true, nil
}

func fromLibrary(q *resource.Quantity) Quantity {
	milli := q.MilliValue()
	if -maxExact < milli && milli < maxExact && q.Cmp(*resource.NewMilliQuantity(milli, resource.DecimalSI)) == 0 {
		return Quantity{milli: milli}
	}
	return Quantity{milli: milli, exact: q}
}

// Milli returns the amount in milli-units as the controller reads it.
func (q Quantity) Milli() int64 { return q.milli }

// InRange reports whether Milli is the rounded amount; false after an overflow.
func (q Quantity) InRange() bool {
	if q.exact == nil {
		return true
	}
	rounded := q.exact.DeepCopy()
	rounded.RoundUp(resource.Milli)
	return rounded.Cmp(*resource.NewMilliQuantity(q.milli, resource.DecimalSI)) == 0
}

// Add returns the exact sum.
func (q Quantity) Add(other Quantity) Quantity {
	if q.exact == nil && other.exact == nil {
		if sum := q.milli + other.milli; -maxExact < sum && sum < maxExact {
			return Quantity{milli: sum}
		}
	}
	sum := q.library()
	sum.Add(other.library())
	return fromLibrary(&sum)
}

// Cmp compares the exact amounts: -1, 0 or +1.
func (q Quantity) Cmp(other Quantity) int {
	if q.exact == nil && other.exact == nil {
		return cmp.Compare(q.milli, other.milli)
	}
	left := q.library()
	return left.Cmp(other.library())
}

func (q Quantity) library() resource.Quantity {
	if q.exact != nil {
		return q.exact.DeepCopy()
	}
	return *resource.NewMilliQuantity(q.milli, resource.DecimalSI)
}

// ApproximateFloat reads a quantity as the controller reads a tolerance: the
// decimal mantissa of its canonical form times a power of ten, in float64.
func ApproximateFloat(s string) (float64, error) {
	q, err := ParseLibrary(s)
	if err != nil {
		return 0, err
	}
	// The API server stores the canonical form and the controller reads that.
	canonical, err := resource.ParseQuantity(q.String())
	if err != nil {
		return 0, err
	}
	return canonical.AsApproximateFloat64(), nil
}
