package transcode

import "time"

const (
	firstInstant = -62135596800 // 0001-01-01T00:00:00Z
	lastInstant  = 253402300799 // 9999-12-31T23:59:59Z
)

// parseTimestamp parses an RFC 3339 timestamp with up to nine digits after the point;
// package time accepts more, and ignores them.
func parseTimestamp(text []byte) (seconds int64, nanos int32, ok bool) {
	if seconds, nanos, ok = parseUTC(text); ok {
		return seconds, nanos, true
	}
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

// daysOf are the days that each month has in every year.
var daysOf = [12]uint{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// parseUTC parses the form that clients send, in UTC. A request has three timestamps for each pod,
// and package time takes twice as long. All other forms, leap days and invalid timestamps have a
// false ok, and are left to package time.
func parseUTC(text []byte) (seconds int64, nanos int32, ok bool) {
	const form = "2006-01-02T15:04:05"
	if len(text) <= len(form) || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':' {
		return 0, 0, false
	}
	year, month, day := 100*twoDigits(text)+twoDigits(text[2:]), twoDigits(text[5:]), twoDigits(text[8:])
	hour, minute, second := twoDigits(text[11:]), twoDigits(text[14:]), twoDigits(text[17:])
	if year-1 > 9998 || month-1 > 11 || day-1 >= daysOf[month-1] || hour > 23 || minute > 59 || second > 59 {
		return 0, 0, false
	}
	if text = text[len(form):]; text[0] == '.' {
		if nanos, text, ok = fraction(text[1:]); !ok {
			return 0, 0, false
		}
	}
	if string(text) != "Z" {
		return 0, 0, false
	}
	return daysTo(year, month, day)*secondsPerDay + int64(hour*60*60+minute*60+second), nanos, true
}

const (
	secondsPerDay = 24 * 60 * 60
	// daysToEpoch are the days from 0000-03-01 to 1970-01-01.
	daysToEpoch = 719_468
)

// daysTo returns the days from 1970-01-01 to a date.
func daysTo(year, month, day uint) int64 {
	// Years begin with March here, so that a leap day is the last of a year, and five months in
	// turn have 153 days.
	if month -= 3; month > 11 {
		month += 12
		year--
	}
	return int64(365*year+year/4-year/100+year/400+(153*month+2)/5+day-1) - daysToEpoch
}

// twoDigits parses a number of two digits. For anything else it returns more than any part of a
// timestamp may have.
func twoDigits(text []byte) uint {
	tens, ones := text[0]-'0', text[1]-'0'
	if tens > 9 || ones > 9 {
		return 10_000
	}
	return 10*uint(tens) + uint(ones)
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
