package clitest

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/managerflags"
)

// inManifests are flags from manifests of controller managers since v1.1, with the resulting
// settings.
var inManifests = map[string]string{
	"--horizontal-pod-autoscaler-sync-period=7s":                 "sync-period: 7s # set",
	"--horizontal-pod-autoscaler-tolerance=0.25":                 `tolerance: "0.25" # set`,
	"--horizontal-pod-autoscaler-downscale-stabilization=1m30s":  "downscale-stabilization: 1m30s # set",
	"--horizontal-pod-autoscaler-cpu-initialization-period=2m0s": "cpu-initialization-period: 2m # set",
	"--horizontal-pod-autoscaler-initial-readiness-delay=45s":    "initial-readiness-delay: 45s # set",
	"--horizontal-pod-autoscaler-upscale-delay=1m0s":             "upscale-delay: 1m # set",
	"--horizontal-pod-autoscaler-downscale-delay=2m0s":           "downscale-delay: 2m # set",
	"--horizontal-pod-autoscaler-use-rest-clients=true":          "",
	"--concurrent-horizontal-pod-autoscaler-syncs=5":             "workers: 5 # set",
}

func nameOf(flag string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
	return name
}

// TakesManagerFlags tests that a command accepts each of the controller manager's flags, sets
// the corresponding setting, and notes flags without effect. The arguments make it print its
// settings.
func TakesManagerFlags(t *testing.T, root func() *cobra.Command, command string, args ...string) {
	t.Helper()
	if len(inManifests) != len(managerflags.All) {
		t.Errorf("%d flags are tried, there are %d", len(inManifests), len(managerflags.All))
	}
	for i := range managerflags.All {
		f := &managerflags.All[i]
		for given, want := range inManifests {
			if nameOf(given) != f.Name {
				continue
			}
			got := Run(t, root(), "", append(slices.Clone(args), given)...)
			own := f.Setting(command)
			if got.Code != 0 {
				t.Errorf("%s %s: exit code %d, %s", command, given, got.Code, got.Stderr)
			}
			if set := want != "" && strings.Contains(got.Stdout, "\n"+want+"\n"); set != (own != "") {
				t.Errorf("%s %s: sets %q: %t, want %t", command, given, want, set, own != "")
			}
			if own != "" && !strings.HasPrefix(want, own+": ") {
				t.Errorf("%s %s stands for %s, want %s", command, given, own, want)
			}
			if told := strings.Contains(got.Stderr, "--"+f.Name+" has no effect here: "); told != (own == "") {
				t.Errorf("%s %s: said to be without effect: %t", command, given, told)
			}
			if strings.Contains(got.Stdout, f.Name) {
				t.Errorf("%s %s is shown as a setting:\n%s", command, given, got.Stdout)
			}
		}
	}
}

// HasManagerSettings tests that a command has the settings of those flags.
func HasManagerSettings(t *testing.T, cmd *cobra.Command, command string) {
	t.Helper()
	for i := range managerflags.All {
		f := &managerflags.All[i]
		if own := f.Setting(command); own != "" && cmd.Flags().Lookup(own) == nil {
			t.Errorf("%s: %s has no flag --%s", f.Name, command, own)
		}
	}
}
