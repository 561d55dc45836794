package testlength

import "testing"

func TestOnlyTheRaceDetectorsRunIsShorter(t *testing.T) {
	for _, full := range []string{"", "1"} {
		shorter := RaceDetector && full == ""
		t.Setenv("FULL", full)
		skipped := true
		t.Run("skipped", func(t *testing.T) {
			SkipUnderRace(t)
			skipped = false
		})
		if skipped != shorter {
			t.Errorf("FULL=%q: skipped %t, want %t", full, skipped, shorter)
		}
		want := 3
		if shorter {
			want = 2
		}
		if got := len(FirstUnderRace(t, 2, []string{"a", "b", "c"})); got != want {
			t.Errorf("FULL=%q: the first %d of 3, want %d", full, got, want)
		}
		if got := len(FirstUnderRace(t, 4, []string{"a", "b", "c"})); got != 3 {
			t.Errorf("FULL=%q: the first %d of all 3", full, got)
		}
	}
}
