package schedule

import (
	"strings"
	"testing"
	"time"
)

// Each name of the list is a zone's, and a name that is close to one is guessed.
func TestUnknownZones(t *testing.T) {
	all := strings.Fields(names)
	if len(all) < 500 {
		t.Fatalf("%d names", len(all))
	}
	for _, name := range all {
		if _, err := time.LoadLocation(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	const unknown = "the IANA time zone database has no zone of that name"
	for name, want := range map[string]string{
		"Europe/Berln": "; did you mean Europe/Berlin?", "europe/berlim": "; did you mean Europe/Berlin?", "Berlin": "; did you mean Europe/Berlin?",
		"America/New York": "; did you mean America/New_York?", "US/Newyork": "", "Asia/Kolkatta": "; did you mean Asia/Kolkata?", "UCT2": "; did you mean UCT?",
		"Local": "", "CEST": "; did you mean CET?", "/": "", "//": "", "Europe/": "", strings.Repeat("Europe/", 1<<10): "", strings.Repeat("E", 1<<12): "",
	} {
		if _, err := Zone(name); err == nil || err.Error() != unknown+want {
			t.Errorf("%.40q: %v, want %q", name, err, want)
		}
	}
}
