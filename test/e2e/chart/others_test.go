//go:build linux

package chart

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/helm"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
)

// An API server with the kinds of Prometheus' operator and cert-manager accepts the chart's
// objects, and a release finds the way back from the latter.
func TestKindsOfOtherOperators(t *testing.T) {
	c := kubetest.Start(t, kubetest.Config{WithoutMetrics: true, WithoutWorkloads: true})
	c.Kubectl(t, "create", "namespace", namespace)
	install(t, c, "github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd", "podmonitors", "prometheusrules")
	install(t, c, "github.com/cert-manager/cert-manager@v1.21.2", "deploy/crds", "certificates", "issuers")

	rendered, err := render(t, "monitoring: {podMonitors: true, rules: true, labels: {release: prometheus}}\ntls: {mode: certManager, names: ['*.example.com']}")
	fatal.If(t, err)
	kinds := map[string]int{}
	var own []*unstructured.Unstructured
	for _, o := range objects(t, rendered) {
		kinds[o.GetKind()]++
		switch o.GetKind() {
		case "PodMonitor", "PrometheusRule", "Certificate", "Issuer":
			own = append(own, o)
		}
		// Agents trust what the CA is now. With another key it would not be the one that has signed the service's certificate.
		if ca, _, _ := unstructured.NestedBool(o.Object, "spec", "isCA"); ca {
			if policy, _, _ := unstructured.NestedString(o.Object, "spec", "privateKey", "rotationPolicy"); policy != "Never" {
				t.Errorf("the key of the CA is replaced when it is renewed: %q", policy)
			}
		}
		if o.GetKind() == "PrometheusRule" {
			if groups, _, _ := unstructured.NestedSlice(o.Object, "spec", "groups"); len(groups) < 3 {
				t.Errorf("the PrometheusRule has %d groups", len(groups))
			}
		}
	}
	for kind, want := range map[string]int{"PodMonitor": 2, "PrometheusRule": 1, "Certificate": 2, "Issuer": 2, "Secret": 3} {
		if kinds[kind] != want {
			t.Errorf("%d of %s, want %d", kinds[kind], kind, want)
		}
	}
	if out, err := c.TryKubectl(print(t, own), "apply", "--server-side", "--validate=strict", "--namespace="+namespace, "--filename=-"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	c.Kubectl(t, "delete", "issuers,certificates", "--all", "--namespace="+namespace)

	// The way back that README.md has, from Secrets as cert-manager makes them.
	release, chart := helm.New(t, c, "setpoint", namespace), helm.Load(t, path)
	release.Install(chart, "")
	made := secret(t, c, "setpoint-ca")["ca.crt"]
	release.Upgrade(chart, "tls: {mode: certManager, certManager: {issuerRef: {name: corp, kind: ClusterIssuer}}}")
	if !bytes.Equal(secret(t, c, "setpoint-ca")["ca.crt"], made) {
		t.Error("with an issuer whose CA cert-manager does not write into setpoint-ca, the Secret has another")
	}
	release.Upgrade(chart, "tls: {mode: certManager}")
	for _, name := range []string{"setpoint-ca", "setpoint-tls"} {
		c.Apply(t, "{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {name: "+name+", namespace: setpoint}, stringData: {ca.crt: a, tls.crt: b, tls.key: c}}")
	}
	c.Kubectl(t, "-n", "setpoint", "delete", "certificate/setpoint", "certificate/setpoint-ca", "secret/setpoint-tls", "secret/setpoint-ca")
	release.Rollback(1)
	if !bytes.Equal(secret(t, c, "setpoint-ca")["ca.crt"], made) {
		t.Error("after the rollback the CA is another")
	}
}

// install makes kinds known, from the files of a Go module.
func install(t *testing.T, c *kubetest.Cluster, module, folder string, kinds ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // no module of ours needs it
	output, err := cmd.Output()
	if err != nil {
		kit.Cannot(t, module+" can't be downloaded: "+string(output))
	}
	var downloaded struct{ Dir string }
	fatal.If(t, json.Unmarshal(output, &downloaded))
	for _, kind := range kinds {
		files, err := filepath.Glob(filepath.Join(downloaded.Dir, folder, "*_"+kind+".yaml"))
		fatal.If(t, err)
		if len(files) != 1 {
			t.Fatalf("%s has %q of %s", module, files, kind)
		}
		c.Kubectl(t, "apply", "--server-side", "--filename="+files[0])
		c.AwaitKind(t, kind+map[bool]string{true: ".monitoring.coreos.com", false: ".cert-manager.io"}[kind == "podmonitors" || kind == "prometheusrules"])
	}
}
