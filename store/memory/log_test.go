package memory

import (
	"errors"
	"testing"

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
