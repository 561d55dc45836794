package main

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
)

// docs/reference/profiles.md has a section for each profile, a row with its period, and names what it
// ignores.
func TestProfilesAreDocumented(t *testing.T) {
	t.Parallel()
	page := testpages.Read(t, "../../docs/reference/profiles.md")
	options := map[recommender.OptionSet]string{
		recommender.CPUInitializationPeriodOption: "cpuInitializationPeriod",
		recommender.InitialReadinessDelayOption:   "initialReadinessDelay",
		recommender.DownscaleStabilizationOption:  "downscaleStabilization",
		recommender.UpscaleDelayOption:            "upscaleDelay",
		recommender.DownscaleDelayOption:          "downscaleDelay",
	}
	for _, name := range recommender.ProfileNames() {
		profile, _ := recommender.ProfileByName(name)
		_, section, found := strings.Cut(page, "\n## `"+name+"`\n")
		section, _, _ = strings.Cut(section, "\n## ")
		_, ignored, said := strings.Cut(section, "\n- Ignored: ")
		if !found || !said {
			t.Errorf("%s has no section that says what it ignores", name)
			continue
		}
		for option, text := range options {
			if got := strings.Contains(ignored, "`"+text+"`"); got != (profile.Ignores()&option != 0) {
				t.Errorf("%s: that %s is ignored is said: %t", name, text, got)
			}
		}
		row := ""
		for line := range strings.SplitSeq(page, "\n") {
			if strings.HasPrefix(line, "| `"+name+"` |") {
				row = line
			}
		}
		if want := "| " + strings.TrimSuffix(profile.SyncPeriod().String(), "s") + " s |"; !strings.Contains(row, want) {
			t.Errorf("the row of %s does not say %q: %s", name, want, row)
		}
	}
}
