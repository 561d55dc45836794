//go:build linux

package keda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/test/e2e/helm"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/pods"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

const (
	repository = "../../.."
	// patience bounds waits that take seconds on an idle machine.
	patience = 3 * time.Minute
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// await waits until problem returns "".
func await(t testing.TB, what string, problem func() string) {
	t.Helper()
	kit.Eventually(t, patience, what, func() error {
		if last := problem(); last != "" {
			return errors.New(last)
		}
		return nil
	})
}

// file reads a file of the repository.
func file(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
	fatal.If(t, err)
	return string(text)
}

// install installs the chart with the example's values.
func install(t *testing.T, c *kubetest.Cluster) *pods.Node {
	t.Helper()
	serve, err := service.Program()
	fatal.If(t, err)
	agent, err := service.Kubernetes()
	fatal.If(t, err)
	redis, err := pods.Redis()
	if err != nil {
		kit.Cannot(t, err.Error())
	}
	node := pods.Start(t, c, "setpoint", map[string]pods.Image{"redis:7.2": redis, "setpoint:current": pods.Setpoint(serve, agent)})
	release := helm.New(t, c, "setpoint", "setpoint")
	release.Install(helm.Load(t, repository+"/deploy/helm/setpoint"), file(t, "deploy/keda/values.yaml")+"\nimage: {repository: setpoint, tag: current}\n")
	return node
}

// secret is an entry of a Secret of the release.
func secret(t *testing.T, c *kubetest.Cluster, name, key string) string {
	t.Helper()
	s, err := c.Client().CoreV1().Secrets("setpoint").Get(t.Context(), name, metav1.GetOptions{})
	fatal.If(t, err)
	return string(s.Data[key])
}

// start starts KEDA's operator, for which names are those of a pod, and its metrics adapter, which
// it registers, and returns the name of the operator's log. Both are the cluster's administrator.
func start(t *testing.T, c *kubetest.Cluster, node *pods.Node) (log string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), filepath.Join(repository, "scripts/keda.sh"))
	build.Stderr = os.Stderr
	output, err := build.Output()
	if err != nil {
		kit.Cannot(t, "scripts/keda.sh: "+err.Error())
	}
	keda := strings.TrimSpace(string(output))

	c.Kubectl(t, "create", "namespace", "keda")
	for _, kind := range []string{"scaledobjects", "scaledjobs", "triggerauthentications", "clustertriggerauthentications"} {
		c.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(keda, "config/crd/bases/keda.sh_"+kind+".yaml"))
		c.AwaitKind(t, kind+".keda.sh")
	}
	for _, kind := range []string{"cloudeventsources", "clustercloudeventsources"} {
		c.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(keda, "config/crd/bases/eventing.keda.sh_"+kind+".yaml"))
		c.AwaitKind(t, kind+".eventing.keda.sh")
	}
	for _, name := range []string{"role.yaml", "role_binding.yaml"} { // HPAs may read external metrics
		c.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(keda, "config/metrics-server", name))
	}

	root := t.TempDir()
	put := func(name string, text []byte) {
		t.Helper()
		fatal.If(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		fatal.If(t, os.WriteFile(filepath.Join(root, name), text, 0o755)) //nolint:gosec // one of them is a program
	}
	copied := func(to, from string) {
		t.Helper()
		content, err := os.ReadFile(from)
		fatal.If(t, err)
		put(to, content)
	}
	authority := testpki.New("keda")
	pair := authority.Issue("keda")
	put("certs/ca.crt", authority.CertPEM())
	put("certs/tls.crt", pair.CertPEM())
	put("certs/tls.key", pair.KeyPEM())
	put("etc/resolv.conf", []byte(node.Resolver()))
	put("etc/hosts", []byte("127.0.0.1 localhost\n"))
	put("tmp/.keep", nil)
	copied("operator", filepath.Join(keda, "operator"))
	copied("kubeconfig", c.Kubeconfig())
	copied(c.CAFile(), c.CAFile())

	ports, err := process.Reserve(5)
	fatal.If(t, err)
	t.Cleanup(ports.Release)
	run := func(name, program string, env []string, args ...string) (log string) {
		t.Helper()
		log = filepath.Join(t.TempDir(), "log")
		p, err := process.Start(process.Command{Name: name, Program: program, Args: args, Env: append(env, "POD_NAMESPACE=keda", "KEDA_CLUSTER_OBJECT_NAMESPACE=keda", "WATCH_NAMESPACE="), Log: log})
		fatal.If(t, err)
		t.Cleanup(func() {
			p.Kill()
			if t.Failed() {
				t.Logf("log of KEDA's %s:\n%s", name, p.Log())
			}
		})
		return log
	}
	log = run("operator", "chroot", nil, root, "/operator", "--kubeconfig=/kubeconfig", "--cert-dir=/certs", "--zap-log-level=info",
		"--metrics-bind-address="+ports.Address(0), "--health-probe-bind-address="+ports.Address(1), "--metrics-service-bind-address="+ports.Address(2))
	certs := filepath.Join(root, "certs")
	run("adapter", filepath.Join(keda, "adapter"), []string{"KUBECONFIG=" + c.Kubeconfig()}, "--bind-address=127.0.0.1", "--secure-port="+ports.Number(3), "--port="+ports.Number(4),
		"--cert-dir="+certs, "--tls-cert-file="+certs+"/tls.crt", "--tls-private-key-file="+certs+"/tls.key", "--metrics-service-address="+ports.Address(2),
		"--lister-kubeconfig="+c.Kubeconfig(), "--authentication-kubeconfig="+c.Kubeconfig(), "--authorization-kubeconfig="+c.Kubeconfig())

	fatal.If(t, c.Metrics.Unregister(c, kubetest.ExternalMetrics))
	_, err = c.Client().CoreV1().Services("keda").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "keda-metrics-apiserver"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	fatal.If(t, err)
	c.Apply(t, `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1beta1.external.metrics.k8s.io}, spec: {
		group: external.metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true,
		service: {namespace: keda, name: keda-metrics-apiserver, port: `+ports.Number(3)+`}}}`)
	await(t, "KEDA serves external metrics", func() string {
		out, err := c.TryKubectl("", "get", "--raw", "/apis/external.metrics.k8s.io/v1beta1")
		if err == nil && strings.Contains(out, `"externalmetrics"`) {
			return ""
		}
		return fmt.Sprint(out, err)
	})
	return log
}
