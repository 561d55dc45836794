package transcode_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestTimestamps(t *testing.T) {
	timestamps := subjectOf(&timestamppb.Timestamp{})
	for text, taken := range map[string]bool{
		"2026-01-31T12:00:00Z": true, "2024-02-29T23:59:59.123456789Z": true, "2026-01-31T12:00:00.1Z": true,
		"2026-01-31T12:00:00+02:00": true, "2026-01-31T12:00:00.5-23:59": true, "2026-01-31T12:00:00-00:00": true,
		"0001-01-01T00:00:00Z": true, "9999-12-31T23:59:59.999999999Z": true, "9999-12-31T23:59:59-00:01": false,
		"0001-01-01T00:00:00+00:01": false, "0001-01-01T00:00:00-00:01": true, "0000-12-31T23:59:59Z": false,
		"2026-02-29T12:00:00Z": false, "2000-02-29T12:00:00Z": true, "1900-02-29T12:00:00Z": false, "2026-04-31T12:00:00Z": false,
		"2026-00-10T12:00:00Z": false, "2026-13-10T12:00:00Z": false, "2026-01-00T12:00:00Z": false, "2026-01-32T12:00:00Z": false,
		"2026-01-31T24:00:00Z": false, "2026-01-31T23:60:00Z": false, "2026-01-31T23:59:60Z": false,
		"2026-01-31T12:00:00": false, "2026-01-31T12:00:00z": false, "2026-01-31t12:00:00Z": false, "2026-01-31 12:00:00Z": false,
		"2026-01-31T12:00:00.Z": false, "2026-01-31T12:00:00,5Z": true, "2026-01-31T12:00:00.1234567890Z": false,
		"2026-01-31T12:00:00+0200": false, "2026-01-31T12:00:00+24:00": true, "2026-01-31T12:00:00+02:60": true,
		"2026-01-31T12:00:00+2:000": false, "2026-01-31T12:00:00Z ": false, " 2026-01-31T12:00:00Z": false, "2026-1-31T12:00:00Z0": false,
		"2026-01-31T12:00:00.5": false, "": false, "Z": false, "202x-01-31T12:00:00Z": false, "x026-01-31T12:00:00Z": false,
		"-026-01-31T12:00:00Z": false, "2026-01-31T1:00:000Z": false, "\\u0032026-01-31T12:00:00Z": false,
		"2026/01-31T12:00:00Z": false, "2026-01/31T12:00:00Z": false, "2026-01-31T12.00:00Z": false, "2026-01-31T12:00.00Z": false,
	} {
		if got := timestamps.toWire(t, []byte(`"`+text+`"`)); got != taken {
			t.Errorf("%q taken: %t, want %t", text, got, taken)
		}
	}
}

// Every day of the first, of the last, and of the present centuries is the one that
// package time says.
func TestDays(t *testing.T) {
	tables := subjectOf(&timestamppb.Timestamp{}).tables
	for _, from := range []int{1, 1890, 1990, 9890} {
		var wire, text []byte
		for day := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < from+110; day = day.Add(24*time.Hour + time.Second) {
			want := day.AppendFormat([]byte{'"'}, time.RFC3339)
			want = append(want, '"')
			var ok bool
			if wire, ok = tables.AppendWire(wire[:0], want); !ok {
				t.Fatalf("%s is not taken", want)
			}
			if text, ok = tables.AppendJSON(text[:0], wire); !ok || string(text) != string(want) {
				t.Fatalf("got %s, want %s", text, want)
			}
			if want := encode(t, timestamppb.New(day)); string(wire) != string(want) {
				t.Fatalf("%v: got %x, want %x", day, wire, want)
			}
		}
	}
}

func TestDurations(t *testing.T) {
	durations := subjectOf(&durationpb.Duration{})
	for text, taken := range map[string]bool{
		"0s": true, "300s": true, "-300s": true, "0.5s": true, "-0.5s": true, "-0s": true, "1.000000001s": true, "12.340s": true,
		"315576000000s": true, "-315576000000s": true, "315576000001s": false, "315576000000.5s": true, "-315576000000.999999999s": true,
		"99999999999999999999s": false, "01s": false, "+1s": false, ".5s": false, "1.s": false, "1.0000000001s": false,
		"1": false, "s": false, "": false, "-s": false, "5m": false, "1 s": false, "1ss": false, "1.5": false, "1e1s": false, "--1s": false,
	} {
		if got := durations.toWire(t, []byte(`"`+text+`"`)); got != taken {
			t.Errorf("%q taken: %t, want %t", text, got, taken)
		}
	}
}
