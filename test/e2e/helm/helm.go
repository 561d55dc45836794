//go:build linux

// Package helm installs, upgrades, rolls back, tests and removes releases with Helm's own code,
// on a cluster of kubetest.
package helm

import (
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/kube"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
)

// Patience is how long Helm waits for anything, on a machine that is busy.
const Patience = 5 * time.Minute

// Release is one in a cluster, whatever state it is in.
type Release struct {
	t               testing.TB
	cluster         *kubetest.Cluster
	name, namespace string
	// Wait waits for what an action begins: pods that are ready.
	Wait bool
}

// New names a release. It need not be there.
func New(t testing.TB, c *kubetest.Cluster, name, namespace string) *Release {
	return &Release{t: t, cluster: c, name: name, namespace: namespace}
}

// Load reads a chart.
func Load(t testing.TB, path string) *chart.Chart {
	t.Helper()
	chart, err := loader.Load(path)
	fatal.If(t, err)
	return chart
}

// Values parses YAML.
func Values(t testing.TB, text string) map[string]any {
	t.Helper()
	v := map[string]any{}
	fatal.If(t, yaml.Unmarshal([]byte(text), &v))
	return v
}

// configuration is how Helm acts on a cluster, with its releases in Secrets of the namespace.
func (r *Release) configuration() *action.Configuration {
	r.t.Helper()
	c := new(action.Configuration)
	fatal.If(r.t, c.Init(kube.GetConfig(r.cluster.Kubeconfig(), "", r.namespace), r.namespace, "secret", r.t.Logf))
	return c
}

func (r *Release) must(what string, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("helm %s: %v", what, err)
	}
}

// Install is helm install, with values as YAML.
func (r *Release) Install(chart *chart.Chart, values string) {
	r.t.Helper()
	r.must("install", r.TryInstall(chart, values))
}

// TryInstall is Install whose failure is returned.
func (r *Release) TryInstall(chart *chart.Chart, values string) error {
	r.t.Helper()
	install := action.NewInstall(r.configuration())
	install.ReleaseName, install.Namespace, install.CreateNamespace, install.Timeout, install.Wait = r.name, r.namespace, true, Patience, r.Wait
	_, err := install.RunWithContext(r.t.Context(), chart, Values(r.t, values))
	return err
}

// Upgrade is helm upgrade.
func (r *Release) Upgrade(chart *chart.Chart, values string) {
	r.t.Helper()
	upgrade := action.NewUpgrade(r.configuration())
	upgrade.Namespace, upgrade.Timeout, upgrade.Wait = r.namespace, Patience, r.Wait
	_, err := upgrade.RunWithContext(r.t.Context(), r.name, chart, Values(r.t, values))
	r.must("upgrade", err)
}

// Rollback is helm rollback to a revision, of which 1 is what was installed.
func (r *Release) Rollback(revision int) {
	r.t.Helper()
	rollback := action.NewRollback(r.configuration())
	rollback.Version, rollback.Timeout, rollback.Wait = revision, Patience, r.Wait
	r.must("rollback", rollback.Run(r.name))
}

// Uninstall is helm uninstall.
func (r *Release) Uninstall() {
	r.t.Helper()
	uninstall := action.NewUninstall(r.configuration())
	uninstall.Timeout = Patience
	_, err := uninstall.Run(r.name)
	r.must("uninstall", err)
}

// Test is helm test; its failure is returned.
func (r *Release) Test() error {
	r.t.Helper()
	test := action.NewReleaseTesting(r.configuration())
	test.Namespace, test.Timeout = r.namespace, Patience
	_, err := test.Run(r.name)
	return err
}
