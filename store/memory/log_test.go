package memory

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
)

func TestPositionRoundTrip(t *testing.T) {
	for _, p := range []position{1, 35, 36, 1 << 40, positionNewest} {
		if got, err := parsePosition(p.String()); err != nil || got != p {
			t.Errorf("parsePosition(%q) = %d, %v, want %d", p.String(), got, err, p)
		}
	}
	if got, err := parsePosition(""); err != nil || got != positionNewest {
		t.Errorf(`parsePosition("") = %d, %v, want positionNewest`, got, err)
	}
	for _, s := range []string{"-1", "+1", "1_0", " 1", "zzzzzzzzzzzzzz"} {
		if got, err := parsePosition(s); !errors.Is(err, store.ErrInvalidPosition) {
			t.Errorf("parsePosition(%q) = %d, %v, want ErrInvalidPosition", s, got, err)
		}
	}
}

// TestRecreatedLogHasNewPositions shows that a position of a deleted log does not
// point into the one that took its place.
func TestRecreatedLogHasNewPositions(t *testing.T) {
	s, k := New(Options{}), numbered(0)
	for range 3 {
		appendLog(t, s, k)
	}
	_, old, err := s.ReadLog(t.Context(), k, "", 1)
	if err != nil || old == "" {
		t.Fatalf("position %q, %v", old, err)
	}
	if _, err := s.Delete(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		appendLog(t, s, k)
	}
	if values, next, err := s.ReadLog(t.Context(), k, old, 10); err != nil || len(values) != 0 || next != "" {
		t.Errorf("from the old position: %q, %q, %v, want nothing", values, next, err)
	}
}

// TestLogKeepsTheNewest appends entries of many lengths, and reads all that are kept in pages
// after each: a log's memory is used again at other places each time.
func TestLogKeepsTheNewest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, bound := range []int{1, 2, 7, 100} {
		s, k := New(Options{LogLength: bound}), numbered(0)
		var kept [][]byte // newest first
		for i := range 5 * bound {
			entry := bytes.Repeat([]byte{byte(i)}, random.IntN(1+random.IntN(2000)))
			fatal.If(t, s.AppendLog(t.Context(), []store.LogEntry{{Key: k, Value: entry}}))
			kept = slices.Insert(kept, 0, entry)
			kept = kept[:min(bound, len(kept))]
			var read [][]byte
			for before := ""; len(read) == 0 || before != ""; {
				var values [][]byte
				var err error
				values, before, err = s.ReadLog(t.Context(), k, before, 1+random.IntN(bound))
				fatal.If(t, err)
				read = append(read, values...)
			}
			if !slices.EqualFunc(read, kept, bytes.Equal) {
				t.Fatalf("bound %d: entry %d: %d are read, want %d", bound, i, len(read), len(kept))
			}
		}
		size := 0
		for _, entry := range kept {
			size += len(entry) + footerBytes
		}
		if got := cap(s.find(k).logs[0].items[k].value); got > 4*size+4096 {
			t.Errorf("bound %d: %d bytes of memory for %d bytes of entries", bound, got, size)
		}
	}
}
