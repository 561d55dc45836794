package recommender

import "math"

// Tolerances are the ratios around 1 within which nothing changes.
type Tolerances struct {
	ScaleUp, ScaleDown float64
	// byDistance is Profile.toleranceByDistance; both are the same then.
	byDistance bool
}

// tolerancesOf returns the tolerances that apply: those of the behavior, else the
// option.
func tolerancesOf(behavior *Behavior, options *Options, profile *Profile) Tolerances {
	t := Tolerances{options.Tolerance, options.Tolerance, profile.toleranceByDistance}
	if b := behavior; b != nil && !t.byDistance {
		if b.ScaleUp.Tolerance != nil {
			t.ScaleUp = *b.ScaleUp.Tolerance
		}
		if b.ScaleDown.Tolerance != nil {
			t.ScaleDown = *b.ScaleDown.Tolerance
		}
	}
	return t
}

// within reports whether the usage ratio is on target. The form matters: with a
// tolerance of 0.1, 1.1 is within here, and not within abs(1-ratio) <= 0.1, for
// 1-1.1 is -0.10000000000000009. NaN and infinities are never within.
func (t Tolerances) within(ratio float64) bool {
	if t.byDistance {
		return math.Abs(1.0-ratio) <= t.ScaleUp
	}
	return 1.0-t.ScaleDown <= ratio && ratio <= 1.0+t.ScaleUp
}
