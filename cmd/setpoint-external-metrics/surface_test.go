package main

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/setpoint-dev/setpoint/cmd/internal/buildmetric"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

var update = flag.Bool("update", false, "write the list of flags anew, as a release does")

// Flags of the last release still exist (docs/reference/compatibility.md). The list is here
// because the flags are known only in this module. Of the library's flags it has those that our
// manifests set: others change with versions of Kubernetes.
func TestFlagsOfTheLastReleaseAreThere(t *testing.T) {
	t.Parallel()
	const list = "../../test/compatibility/testdata/flags-external-metrics.txt"
	today := make(map[string]bool)
	newRoot().Flags().VisitAll(func(f *pflag.Flag) {
		ours := strings.HasPrefix(f.Name, "server") || slices.Contains([]string{"cluster", "service", "request-timeout"}, f.Name)
		if ours || slices.Contains([]string{"secure-port", "cert-dir", "tls-cert-file", "tls-private-key-file"}, f.Name) {
			today["setpoint-external-metrics --"+f.Name] = true
		}
	})
	if *update {
		var lines []string
		for line := range today {
			lines = append(lines, line)
		}
		slices.Sort(lines)
		fatal.If(t, os.WriteFile(list, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	}
	text := testpages.Read(t, list)
	before := strings.Fields(strings.ReplaceAll(text, "setpoint-external-metrics ", ""))
	if len(before) < 10 {
		t.Fatalf("%s has %d flags: that is no list", list, len(before))
	}
	for _, name := range before {
		if !today["setpoint-external-metrics "+name] {
			t.Errorf("%s of the last release is gone: users' manifests set it. Keep it, deprecated, at least until the next major release; if it was in no release yet, run go test -update here", name)
		}
	}
}

// The library's registry has the build metric.
func TestTheBuildIsAMetric(t *testing.T) {
	t.Parallel()
	legacyregistry.RawMustRegister(buildmetric.New())
	families, err := legacyregistry.DefaultGatherer.Gather()
	fatal.If(t, err)
	for _, family := range families {
		if family.GetName() != "setpoint_build_info" {
			continue
		}
		var labels []string
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		if want := []string{"commit", "date", "goversion", "version"}; !slices.Equal(labels, want) {
			t.Errorf("its labels are %q, want %q", labels, want)
		}
		return
	}
	t.Error("there is no setpoint_build_info")
}
