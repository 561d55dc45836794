package recommender

// Tolerances are the ratios around 1 within which nothing changes.
type Tolerances struct {
	ScaleUp, ScaleDown float64
}

// tolerancesOf returns the tolerances that apply: those of the behavior, else
// the option.
func tolerancesOf(spec *Spec, options *Options) Tolerances {
	t := Tolerances{options.Tolerance, options.Tolerance}
	if b := spec.Behavior; b != nil {
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
	return 1.0-t.ScaleDown <= ratio && ratio <= 1.0+t.ScaleUp
}
