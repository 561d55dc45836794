package transcode

import "strconv"

// longestDuration is some ten thousand years, in seconds.
const longestDuration = 315_576_000_000

// parseDuration reads seconds such as 300s or -0.5s.
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
