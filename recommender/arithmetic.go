package recommender

import "math"

// toInt32 converts as Go does on a platform that saturates: toward zero, and NaN to
// 0. Upstream leaves numbers out of range to the platform.
func toInt32(f float64) int32 {
	switch {
	case f >= math.MaxInt32:
		return math.MaxInt32
	case f <= math.MinInt32:
		return math.MinInt32
	case f != f:
		return 0
	}
	return int32(f)
}

func toInt64(f float64) int64 {
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	case f != f:
		return 0
	}
	return int64(f)
}

// outOfInt32 reports whether toInt32 saturates.
func outOfInt32(f float64) bool {
	return f != f || f >= math.MaxInt32+1.0 || f <= math.MinInt32-1.0
}
