//go:build linux

package release

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/helm"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/pods"
)

// goal is the goal for the time from the first command to the first report of a shadow on an
// idle machine. It is reported, not checked: this machine may be busy.
const goal = 2 * time.Minute

// Installed as a shadow in either way, Setpoint has its first report within minutes. The images
// exist already: pulling them is not included.
func TestFirstShadowReport(t *testing.T) {
	for _, tt := range []struct {
		name    string
		install func(t *testing.T, c *kubetest.Cluster)
	}{
		{"helm install", func(t *testing.T, c *kubetest.Cluster) {
			helm.New(t, c, "setpoint", namespace).Install(helm.Load(t, repository+"/deploy/helm/setpoint"), "image: {repository: setpoint, tag: current}\nagent: {shadow: true}")
		}},
		{"kubectl apply", func(t *testing.T, c *kubetest.Cluster) {
			root, err := filepath.Abs(repository)
			fatal.If(t, err)
			folder := t.TempDir()
			relative, err := filepath.Rel(folder, filepath.Join(root, "deploy/kustomize"))
			fatal.If(t, err)
			fatal.If(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte("resources: ["+relative+"/base]\ncomponents: ["+relative+"/components/shadow]\n"), 0o600))
			secrets, err := exec.CommandContext(t.Context(), filepath.Join(root, "deploy/secrets.sh"), "--kubernetes").Output()
			fatal.If(t, err)
			c.Kubectl(t, "apply", "--server-side", "-k", folder)
			c.Apply(t, string(secrets))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := kubetest.Start(t, kubetest.Config{Native: true})
			node := pods.Start(t, c, namespace, images(t, "setpoint:dev"))
			shop := c.Namespace(t, "shop")
			c.Deployment(t, shop, "web", 2)
			c.Metrics.SetCPU(shop, "web", 300)
			c.Apply(t, `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 20
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
`, "--namespace="+shop)

			began := time.Now()
			tt.install(t, c)
			installed := time.Since(began)
			kit.Eventually(t, patience, "reporting", func() error {
				for _, answer := range node.Run(t.Context(), map[string]string{"app.kubernetes.io/name": "setpoint-agent"}, "/setpoint", "agent", "kubernetes", "--shadow", "--report", "-o=json") {
					var report shadow.Report
					if err := json.Unmarshal([]byte(answer), &report); err == nil && len(report.Objects) > 0 && report.Objects[0].Agreed+report.Objects[0].Diverged > 0 {
						return nil
					}
				}
				return errors.New("no agent has compared anything")
			})
			took := time.Since(began)
			t.Logf("FIGURE %s: the first shadow report after %.1f s, of which the command took %.1f s (goal: %v)", tt.name, took.Seconds(), installed.Seconds(), goal)
		})
	}
}
