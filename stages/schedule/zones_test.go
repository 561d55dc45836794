package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
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

// An offset is no zone, and the name of the zone that has it begins with the other sign.
func TestOffsetsAreNoZones(t *testing.T) {
	for name, want := range map[string]string{"+02:00": "Etc/GMT-2", "-0300": "Etc/GMT+3", "UTC+2": "Etc/GMT-2", "gmt+2": "Etc/GMT-2", "GMT-11": "Etc/GMT+11", "+14": "Etc/GMT-14", "+00:00": "Etc/GMT-0"} {
		_, err := Zone(name)
		if err == nil || !strings.HasSuffix(err.Error(), ", or for "+name+" all year "+want+", whose sign is the other way round") {
			t.Errorf("%s: %v, want %s", name, err, want)
			continue
		}
		zone, err := Zone(want)
		fatal.If(t, err)
		hours := strings.TrimLeft(strings.ToUpper(name), "UTCGM")
		if at, err := time.Parse("-07", hours[:min(3, len(hours))]); err == nil {
			if _, offset := at.Zone(); offset != int(offsetOf(zone).Seconds()) {
				t.Errorf("%s: %s is %s", name, want, offsetOf(zone))
			}
		}
	}
	for _, name := range []string{"-14", "+05:30", "+15"} { // no zone has these all year, or none that has its name from it
		if _, err := Zone(name); err == nil || !strings.HasSuffix(err.Error(), "such as Europe/Berlin, whose clocks are set forward and back") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func offsetOf(zone *time.Location) time.Duration { return offset(zone, time.Unix(0, 0)) }
