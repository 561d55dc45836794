package scenario

import (
	"math"
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/simulation"
)

// number reads a number between 0 and most.
func number(to *float64, most float64) func(document.Value) {
	return func(v document.Value) {
		text, ok := v.Raw()
		if !ok {
			return
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f >= 0 && f <= most) {
			v.Refuse("must be a number between 0 and %g", most)
			return
		}
		*to = f
	}
}

// load reads a load, in units per second.
func load(to *float64) func(document.Value) { return number(to, simulation.MaxLoad) }

// whole reads a whole number between 0 and most.
func whole[T int | int32](to *T, most int64) func(document.Value) {
	return func(v document.Value) {
		if n, ok := v.Int(0, most); ok {
			*to = T(n)
		}
	}
}

// duration reads a duration between 0 and most.
func duration(to *time.Duration, most time.Duration) func(document.Value) {
	return func(v document.Value) {
		if d, ok := v.Duration(most); ok {
			*to = d
		}
	}
}

// positive is duration, and refuses 0s, which would mean the default.
func positive(to *time.Duration, most time.Duration) func(document.Value) {
	return func(v document.Value) {
		if d, ok := v.Duration(most); ok && d == 0 {
			v.Refuse("is 0s, must be longer")
		} else if ok {
			*to = d
		}
	}
}

// word reads one of some words, and sets its value.
func word[T any](to *T, words []string, values []T) func(document.Value) {
	return func(v document.Value) {
		text, ok := v.Text()
		if !ok {
			return
		}
		for i := range words {
			if words[i] == text {
				*to = values[i]
				return
			}
		}
		v.Refuse("must be one of %v", words)
	}
}

// amount reads a quantity of at least 0, in milli-units, of which there may be parts.
func amount(to *float64) func(document.Value) {
	return func(v document.Value) {
		text, ok := v.Raw()
		if !ok {
			return
		}
		milli, inRange, err := quantity.ParseFine(text)
		switch {
		case err != nil || milli < 0:
			v.Refuse(`must be a quantity of at least 0, such as "250m" or "1Gi"`)
			return
		case !inRange || milli > math.MaxInt64/1000:
			v.Refuse("must be at most 9223372036854")
			return
		}
		*to = milli
	}
}

// resources are the resources that containers can request.
var resources = []string{"cpu", "memory"}

// amounts reads quantities of resources, rounded up to milli-units as the API server does.
func amounts(to *[]recommender.ResourceUsage) func(document.Value) {
	return func(v document.Value) {
		var fields []document.Field
		for _, name := range resources {
			fields = append(fields, document.Optional(name, func(v document.Value) {
				var milli float64
				amount(&milli)(v)
				*to = append(*to, recommender.ResourceUsage{Resource: name, Milli: int64(math.Ceil(milli))})
			}))
		}
		v.Map(fields...)
	}
}
