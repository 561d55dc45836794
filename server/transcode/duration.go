package transcode

import "strconv"

const (
	// longestDuration is some ten thousand years, in seconds.
	longestDuration = 315_576_000_000
	nanosPerSecond  = 1_000_000_000
)

// parseDuration parses seconds such as 300s or -0.5s.
func parseDuration(text []byte) (seconds int64, nanos int32, ok bool) {
	c := cursor{text}
	negative := c.at(0) == '-'
	seconds, end := c.digits(0)
	if end == no || seconds < -longestDuration || seconds > longestDuration {
		return 0, 0, false
	}
	rest := text[end:]
	if c.at(end) == '.' {
		if nanos, rest, ok = fraction(rest[1:]); !ok {
			return 0, 0, false
		}
	}
	if negative {
		nanos = -nanos
	}
	return seconds, nanos, string(rest) == "s"
}

// appendDuration appends a duration, in quotes.
func appendDuration(out []byte, seconds int64, nanos int32) (quoted []byte, ok bool) {
	if seconds < -longestDuration || seconds > longestDuration || nanos <= -nanosPerSecond || nanos >= nanosPerSecond ||
		seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0 {
		return out, false
	}
	out = append(out, '"')
	if seconds < 0 || nanos < 0 {
		out = append(out, '-')
		seconds, nanos = -seconds, -nanos
	}
	out = strconv.AppendInt(out, seconds, 10)
	out = appendFraction(out, nanos)
	return append(out, 's', '"'), true
}

// fraction parses up to nine digits after a point, and returns the position after them.
func fraction(text []byte) (nanos int32, rest []byte, ok bool) {
	n := 0
	for ; n < len(text) && isDigit(text[n]); n++ {
		if n == 9 {
			return 0, nil, false
		}
		nanos = 10*nanos + int32(text[n]-'0')
	}
	for i := n; i < 9; i++ {
		nanos *= 10
	}
	return nanos, text[n:], n > 0
}

// appendFraction appends a point and 3, 6 or 9 digits; nothing for 0.
func appendFraction(out []byte, nanos int32) []byte {
	if nanos == 0 {
		return out
	}
	digits := 9
	for ; nanos%1000 == 0; nanos /= 1000 {
		digits -= 3
	}
	out = append(out, ".000000000"[:1+digits]...)
	for i := len(out) - 1; nanos > 0; i-- {
		out[i] = '0' + byte(nanos%10)
		nanos /= 10
	}
	return out
}
