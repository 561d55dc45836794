//go:build linux

package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// autoscalerFlag is a flag of kube-controller-manager that concerns its autoscaler, as its
// help has it, with the default that the help ends in.
var autoscalerFlag = regexp.MustCompile(`(?m)^\s+(--[a-z-]*horizontal-pod-autoscaler[a-z-]*) .*$`)

// Each flag that the real controller manager has for its autoscaler is taken as it stands in
// a manifest by both commands, with the default that it has there, and is documented.
func TestTheControllerManagersFlagsAreTaken(t *testing.T) {
	t.Parallel()
	help := kubetest.ControllerManagerHelp(t)
	var flags []string
	for _, found := range autoscalerFlag.FindAllStringSubmatchIndex(help, -1) {
		name := help[found[2]:found[3]]
		_, value, ok := strings.Cut(help[found[0]:found[1]], "(default ")
		if !ok {
			t.Fatalf("%s: its help names no default:\n%s", name, help[found[0]:found[1]])
		}
		flags = append(flags, name+"="+strings.TrimSuffix(strings.TrimSpace(value), ")"))
	}
	if len(flags) < 6 {
		t.Fatalf("found %q: is that all?\n%s", flags, help)
	}
	t.Logf("%q", flags)
	serve, err := service.Program()
	must(t, err)
	agent, err := service.Kubernetes()
	must(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(kubeconfig, []byte("apiVersion: v1\nkind: Config\ncurrent-context: here\nclusters: [{name: one, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: me, user: {}}]\ncontexts: [{name: here, context: {cluster: one, user: me}}]\n"), 0o600))
	for program, args := range map[string][]string{
		serve: {"serve", "--check"},
		agent: {"agent", "--check", "--cluster=demo", "--source=hpa", "--insecure", "--kubeconfig=" + kubeconfig},
	} {
		if said, err := exec.Command(program, append(args, flags...)...).CombinedOutput(); err != nil {
			t.Errorf("%s with %q: %v\n%s", filepath.Base(program), flags, err, said)
		}
		if said, err := exec.Command(program, append(args, "--horizontal-pod-autoscaler-unheard-of=1")...).CombinedOutput(); err == nil {
			t.Errorf("%s accepts an unknown flag:\n%s", filepath.Base(program), said)
		}
	}
	page := file(t, "docs", "reference", "profiles.md")
	for _, flag := range flags {
		if name, _, _ := strings.Cut(flag, "="); !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("docs/reference/profiles.md has no row for %s", name)
		}
	}
}
