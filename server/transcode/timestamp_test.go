package transcode

import (
	"fmt"
	"testing"
	"time"
)

// The usual form takes no detour: leap days and offsets do.
func TestUsualTimestampsAreParsedHere(t *testing.T) {
	for text, here := range map[string]bool{
		"2026-01-31T12:00:00Z": true, "0001-01-01T00:00:00Z": true, "9999-12-31T23:59:59.999999999Z": true, "2026-02-28T00:00:00.5Z": true,
		"2024-02-29T12:00:00Z": false, "2026-01-31T12:00:00+00:00": false, "2026-01-31T12:00:00,5Z": false,
	} {
		if _, _, ok := parseUTC([]byte(text)); ok != here {
			t.Errorf("%s: parsed here: %t, want %t", text, ok, here)
		}
	}
}

// FuzzParseUTC compares with package time: what is parsed here, it parses, too, to the same instant.
func FuzzParseUTC(f *testing.F) {
	for _, month := range []int{0, 1, 2, 4, 12, 13} {
		for _, day := range []int{0, 1, 28, 29, 30, 31, 32} {
			f.Add(fmt.Sprintf("2024-%02d-%02dT23:59:59.123Z", month, day))
		}
	}
	for _, text := range []string{
		"0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "2026-01-31T24:00:00Z", "2026-01-31T23:60:00Z",
		"2026-01-31T23:59:60Z", "2026-01-31T12:00:00.1234567890Z", "2026-01-31T12:00:00.Z", "2026-01-31T12:00:00,5Z", "2026-01-31T12:00:00+02:00",
		"2026-01-31T12:00:00Zx", "2026-01-31T12:00:00", "2026-01-31T1:000:00Z", "2026-0x-31T12:00:00Z", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		seconds, nanos, ok := parseUTC([]byte(text))
		if !ok {
			return
		}
		var want time.Time
		if err := want.UnmarshalText([]byte(text)); err != nil {
			t.Fatalf("%q: package time refuses it: %v", text, err)
		}
		if got := time.Unix(seconds, int64(nanos)); !got.Equal(want) || seconds < firstInstant || seconds > lastInstant {
			t.Fatalf("%q: %v, package time: %v", text, got, want)
		}
	})
}
