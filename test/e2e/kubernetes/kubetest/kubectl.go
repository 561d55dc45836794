//go:build linux

package kubetest

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Kubectl runs the real kubectl as administrator, and returns its output. A failure ends the
// test.
func (c *Cluster) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	output, err := c.TryKubectl("", args...)
	fatal.If(t, err)
	return output
}

// Apply applies manifests, YAML, as the API server's server-side apply does.
func (c *Cluster) Apply(t testing.TB, manifests string, args ...string) {
	t.Helper()
	if _, err := c.TryKubectl(manifests, append([]string{"apply", "--server-side", "--force-conflicts", "-f", "-"}, args...)...); err != nil {
		t.Fatal(err)
	}
}

// TryKubectl runs kubectl with an input. The error contains kubectl's.
func (c *Cluster) TryKubectl(input string, args ...string) (string, error) {
	cmd := c.KubectlCommand(append([]string{"--kubeconfig=" + c.kubeconfig}, args...)...)
	var output, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &output, &complaints
	if err := cmd.Run(); err != nil {
		return output.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return output.String(), nil
}

// AwaitKind waits until the API server serves the kind that a CustomResourceDefinition defines. kubectl
// wait fails where a definition has no status yet, as it has for a moment on a busy machine.
func (c *Cluster) AwaitKind(t testing.TB, definition string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		state, err := c.TryKubectl("", "get", "customresourcedefinition", definition, `--output=jsonpath={.status.conditions[?(@.type=="Established")].status}`)
		if err == nil && state == "True" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not established within two minutes: %q, %v", definition, state, err)
		}
	}
}

// KubectlCommand is a command of the real kubectl, without credentials.
func (c *Cluster) KubectlCommand(args ...string) *exec.Cmd {
	return exec.Command(c.programs.path("kubectl"), args...)
}
