//go:build linux

package kubernetes

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const (
	// syncPeriod is that of both controllers.
	syncPeriod = kubetest.DefaultSyncPeriod
	// within is the longest that something may take that takes a reconcile or two, on a
	// machine that is busy.
	within = 2 * time.Minute
	poll   = 50 * time.Millisecond
)

var must = fatal.If

// await waits until problem returns "".
func await(t testing.TB, what string, problem func() string) {
	t.Helper()
	awaitFor(t, within, what, problem)
}

// awaitFor is await with another bound.
func awaitFor(t testing.TB, within time.Duration, what string, problem func() string) {
	t.Helper()
	kit.Eventually(t, within, what, func() error {
		if last := problem(); last != "" {
			return errors.New(last)
		}
		return nil
	})
}

// file reads a file of the repository.
func file(t testing.TB, path ...string) string {
	t.Helper()
	root, err := process.Repository()
	must(t, err)
	content, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	must(t, err)
	return string(content)
}

// withAutoscalers makes sure that the cluster knows Autoscalers.
func withAutoscalers(t testing.TB, c *kubetest.Cluster) *kubetest.Cluster {
	t.Helper()
	once, _ := definitions.LoadOrStore(c, sync.OnceValue(func() error {
		root, err := process.Repository()
		if err != nil {
			return err
		}
		name := filepath.Join(root, "deploy", "helm", "setpoint", "files", "crd", "autoscalers.yaml")
		// More than once: an API server that is busy may not answer in its time, and kubectl
		// does not wait for one that has no status yet.
		for deadline := time.Now().Add(within); ; time.Sleep(poll) {
			if _, err = c.TryKubectl("", "apply", "--server-side", "--force-conflicts", "-f", name); err == nil {
				_, err = c.TryKubectl("", "wait", "--for=condition=Established", "--timeout=60s", "crd/autoscalers.autoscaling.setpoint.dev")
			}
			if err == nil || time.Now().After(deadline) {
				return err
			}
		}
	}))
	must(t, once.(func() error)())
	return c
}

// definitions are the clusters with the CRD, which tests that share one install once.
var definitions sync.Map

func textFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}
