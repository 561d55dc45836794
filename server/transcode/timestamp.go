package transcode

import "time"

const (
	firstInstant = -62135596800 // 0001-01-01T00:00:00Z
	lastInstant  = 253402300799 // 9999-12-31T23:59:59Z
)

// parseTimestamp parses an RFC 3339 timestamp with up to nine digits after the point;
// package time accepts more, and ignores them.
func parseTimestamp(text []byte) (seconds int64, nanos int32, ok bool) {
	longest := len("2006-01-02T15:04:05.999999999+07:00")
	if len(text) > 0 && text[len(text)-1] == 'Z' {
		longest = len("2006-01-02T15:04:05.999999999Z")
	}
	var t time.Time
	if len(text) > longest || t.UnmarshalText(text) != nil {
		return 0, 0, false
	}
	seconds = t.Unix()
	return seconds, int32(t.Nanosecond()), seconds >= firstInstant && seconds <= lastInstant
}

// appendTimestamp appends a timestamp, in quotes, with 3, 6 or 9 digits after the point or
// none.
func appendTimestamp(out []byte, seconds int64, nanos int32) (quoted []byte, ok bool) {
	if seconds < firstInstant || seconds > lastInstant || nanos < 0 || nanos >= nanosPerSecond {
		return out, false
	}
	out = append(out, '"')
	out = time.Unix(seconds, 0).UTC().AppendFormat(out, time.RFC3339)
	out = appendFraction(out[:len(out)-len("Z")], nanos)
	return append(out, 'Z', '"'), true
}
