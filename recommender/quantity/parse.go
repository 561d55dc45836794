package quantity

import "math"

// maxFastDigits limits the digits of the fast path, so that the number safely fits an
// int64.
const maxFastDigits = 15

// suffix is the scale of a quantity's suffix, in milli-units.
type suffix struct {
	multiply, divide int64
}

// parseFast parses most quantities: up to 15 digits and a suffix. exact reports whether
// no rounding was needed; if ok is false, the library must parse the text, valid or
// not.
func parseFast[T string | []byte](s T) (milli int64, exact, ok bool) {
	var n int64
	i := 0
	for ; i < len(s) && s[i]-'0' <= 9; i++ {
		if i == maxFastDigits {
			return 0, false, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	if i == 0 {
		return 0, false, false
	}
	by, ok := suffixOf(string(s[i:]))
	if !ok {
		return 0, false, false
	}
	if by.divide > 1 {
		milli = n / by.divide
		if milli*by.divide != n {
			return milli + 1, false, true // away from zero; n is not negative
		}
		return milli, true, true
	}
	if n > math.MaxInt64/1024/by.multiply {
		return 0, false, false
	}
	return n * by.multiply, true, true
}

func suffixOf(s string) (suffix, bool) {
	switch s {
	case "":
		return suffix{multiply: 1000}, true
	case "m":
		return suffix{multiply: 1}, true
	case "n":
		return suffix{divide: 1e6}, true
	case "u":
		return suffix{divide: 1e3}, true
	case "k":
		return suffix{multiply: 1e6}, true
	case "M":
		return suffix{multiply: 1e9}, true
	case "G":
		return suffix{multiply: 1e12}, true
	case "Ki":
		return suffix{multiply: 1000 << 10}, true
	case "Mi":
		return suffix{multiply: 1000 << 20}, true
	case "Gi":
		return suffix{multiply: 1000 << 30}, true
	}
	return suffix{}, false
}
