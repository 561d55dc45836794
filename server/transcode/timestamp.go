package transcode

const (
	secondsPerDay  = 24 * 60 * 60
	nanosPerSecond = 1_000_000_000

	firstInstant = -62135596800 // 0001-01-01T00:00:00Z
	lastInstant  = 253402300799 // 9999-12-31T23:59:59Z
)

// parseTimestamp reads an RFC 3339 timestamp.
func parseTimestamp(text []byte) (seconds int64, nanos int32, ok bool) {
	const form = "2006-01-02T15:04:05"
	if len(text) <= len(form) || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':' {
		return 0, 0, false
	}
	year, month, day := 100*twoDigits(text)+twoDigits(text[2:]), twoDigits(text[5:]), twoDigits(text[8:])
	hour, minute, second := twoDigits(text[11:]), twoDigits(text[14:]), twoDigits(text[17:])
	if year < 1 || year > 9999 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 59 {
		return 0, 0, false
	}
	text = text[len(form):]
	if text[0] == '.' {
		if nanos, text, ok = fraction(text[1:]); !ok {
			return 0, 0, false
		}
	}
	offset, ok := zone(text)
	seconds = daysTo(year, month, day)*secondsPerDay + int64(hour*60*60+minute*60+second) - offset
	return seconds, nanos, ok && seconds >= firstInstant && seconds <= lastInstant
}

// notDigits is more than any number that is written here, or than its square.
const notDigits = 10_000

// twoDigits reads a number of two digits.
func twoDigits(text []byte) int {
	tens, ones := text[0]-'0', text[1]-'0'
	if tens > 9 || ones > 9 {
		return notDigits
	}
	return 10*int(tens) + int(ones)
}

// fraction reads the digits after a point, as many as there are up to nine, and
// returns what comes after them.
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

// zone reads Z or an offset such as +02:00 and returns its seconds.
func zone(text []byte) (offset int64, ok bool) {
	if string(text) == "Z" {
		return 0, true
	}
	if len(text) != len("+02:00") || text[0] != '+' && text[0] != '-' || text[3] != ':' {
		return 0, false
	}
	hours, minutes := twoDigits(text[1:]), twoDigits(text[4:])
	if hours > 23 || minutes > 59 {
		return 0, false
	}
	offset = int64(hours*60*60 + minutes*60)
	if text[0] == '-' {
		offset = -offset
	}
	return offset, true
}

// daysIn is how many days a month has, 0 if there is no such month.
func daysIn(year, month int) int {
	switch month {
	case 1, 3, 5, 7, 8, 10, 12:
		return 31
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 0
}

// The calendar repeats every 400 years. Here years begin with March, so that a leap
// day is the last of a year.
const (
	daysPerEra = 400*365 + 97
	// daysToEpoch are those from 0000-03-01 to 1970-01-01.
	daysToEpoch = 719_468
)

// daysTo is how many days a day comes after 1970-01-01.
func daysTo(year, month, day int) int64 {
	if month -= 3; month < 0 {
		month += 12
		year--
	}
	return int64(365*year + year/4 - year/100 + year/400 + (153*month+2)/5 + day - 1 - daysToEpoch)
}

// dateOf is the inverse of daysTo.
func dateOf(days int64) (year, month, day int) {
	n := int(days) + daysToEpoch
	era, n := n/daysPerEra, n%daysPerEra
	year = (n - n/1460 + n/36524 - n/146096) / 365
	n -= 365*year + year/4 - year/100
	month = (5*n + 2) / 153
	day = n - (153*month+2)/5 + 1
	year += 400 * era
	if month += 3; month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

// appendTimestamp appends a timestamp, in quotes.
func appendTimestamp(out []byte, seconds int64, nanos int32) (quoted []byte, ok bool) {
	if seconds < firstInstant || seconds > lastInstant || nanos < 0 || nanos >= nanosPerSecond {
		return out, false
	}
	days, clock := seconds/secondsPerDay, int(seconds%secondsPerDay)
	if clock < 0 {
		days, clock = days-1, clock+secondsPerDay
	}
	year, month, day := dateOf(days)
	out = appendTwoDigits(append(out, '"'), year/100)
	out = appendTwoDigits(out, year%100)
	out = appendTwoDigits(append(out, '-'), month)
	out = appendTwoDigits(append(out, '-'), day)
	out = appendTwoDigits(append(out, 'T'), clock/3600)
	out = appendTwoDigits(append(out, ':'), clock/60%60)
	out = appendTwoDigits(append(out, ':'), clock%60)
	out = appendFraction(out, nanos)
	return append(out, 'Z', '"'), true
}

func appendTwoDigits(out []byte, n int) []byte {
	return append(out, '0'+byte(n/10), '0'+byte(n%10))
}

// appendFraction appends a point and 3, 6 or 9 digits, nothing of 0.
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
