//go:build linux

package chart

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	helmchart "helm.sh/helm/v3/pkg/chart"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/helm"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

const patience = 3 * time.Minute

var (
	getOptions  = metav1.GetOptions{}
	autoscalers = schema.GroupVersionResource{Group: "autoscaling.setpoint.dev", Version: "v1", Resource: "autoscalers"}
	secrets     = []string{"setpoint-tls", "setpoint-ca", "setpoint-tokens", "setpoint-agent", "setpoint-redis"}
)

// A release is installed, upgraded, rolled back and removed: its pods run in a namespace that
// restricts pods, its secrets stay, and Autoscalers survive.
func TestInstallUpgradeRollbackUninstall(t *testing.T) {
	c := kubetest.Start(t, kubetest.Config{})
	c.Apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: setpoint, labels: {pod-security.kubernetes.io/enforce: restricted}}}`)

	before := everything(t, c)
	release, chart := helm.New(t, c, "setpoint", namespace), helm.Load(t, path)
	release.Install(chart, "")
	awaitPods(t, c, map[string]int{"setpoint": 2, "setpoint-agent": 2, "redis": 1})
	made := map[string]map[string][]byte{}
	for _, name := range secrets {
		made[name] = secret(t, c, name)
	}
	credentialsAreGood(t, c)
	settingsAreGood(t, c)
	c.Apply(t, `
apiVersion: autoscaling.setpoint.dev/v1
kind: Autoscaler
metadata: {name: web, namespace: default}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 3}`)

	same := func(when string) {
		t.Helper()
		for _, name := range secrets {
			if !maps.EqualFunc(made[name], secret(t, c, name), bytes.Equal) {
				t.Errorf("%s: the Secret %s is another", when, name)
			}
		}
	}
	release.Upgrade(chart, "service: {replicas: 3, settings: {target-metrics: true}}")
	same("after the upgrade")
	release.Upgrade(chart, "service: {replicas: 3, settings: {target-metrics: true}}\nsecrets: {generate: false}\ntls: {mode: existing}")
	same("when the values say that they are there")
	callersComeAndGo(t, c, release, chart)
	awaitPods(t, c, map[string]int{"setpoint": 3, "setpoint-agent": 2, "redis": 1})

	release.Rollback(1)
	same("after the rollback")
	awaitPods(t, c, map[string]int{"setpoint": 2, "setpoint-agent": 2, "redis": 1})

	release.Uninstall()
	if _, err := c.Dynamic().Resource(autoscalers).Namespace("default").Get(t.Context(), "web", getOptions); err != nil {
		t.Errorf("the Autoscaler is gone with the release: %v", err)
	}
	// The cluster has no garbage collector, which would remove what the Deployments owned.
	c.Kubectl(t, "delete", "replicasets,pods,controllerrevisions", "--all", "--namespace="+namespace)
	left := slices.DeleteFunc(everything(t, c), func(name string) bool { return slices.Contains(before, name) })
	// README.md says so; the agents, which do not run here, leave a Lease.
	if want := []string{
		"default Autoscaler.autoscaling.setpoint.dev/v1/web",
		" CustomResourceDefinition.apiextensions.k8s.io/v1/autoscalers.autoscaling.setpoint.dev",
		" APIService.apiregistration.k8s.io/v1/v1.autoscaling.setpoint.dev", // the API server's own, of the kind
		" ClusterRole.rbac.authorization.k8s.io/v1/setpoint-autoscalers-edit",
		" ClusterRole.rbac.authorization.k8s.io/v1/setpoint-autoscalers-view",
		"setpoint PersistentVolumeClaim.v1/data-setpoint-redis-0",
	}; !sameSet(left, want) {
		t.Errorf("after helm uninstall there are %q, want %q", left, want)
	}

	// Again, over the kind that was kept.
	release.Install(chart, "agent: {shadow: true}")
	awaitPods(t, c, map[string]int{"setpoint": 2, "setpoint-agent": 2, "redis": 1})
	if string(secret(t, c, "setpoint-agent")["token"]) == string(made["setpoint-agent"]["token"]) {
		t.Error("a new release has the token of the one that was removed")
	}

	// Then with a service elsewhere, whose CA and token are put into the Secrets that are there.
	c.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: setpoint-agent, namespace: setpoint}\nstringData: {token: sp_elsewhere}")
	release.Upgrade(chart, "service: {enabled: false}\nagent: {server: 'setpoint.example.com:9090'}")
	if ca, token := secret(t, c, "setpoint-ca"), secret(t, c, "setpoint-agent"); ca["ca.crt"] == nil || string(token["token"]) != "sp_elsewhere" {
		t.Errorf("with a service elsewhere the Secrets of the agent have %d bytes and %q", len(ca["ca.crt"]), token["token"])
	}
}

// The service can be set to scale itself once the kind is there, without a moment at another
// count, and to a fixed count again.
func TestTheServiceIsMadeToScaleItself(t *testing.T) {
	c := kubetest.Start(t, kubetest.Config{})
	chart := helm.Load(t, path)
	const itself = "service: {autoscaling: {enabled: true, minReplicas: 2, maxReplicas: 6}}"
	release := helm.New(t, c, "setpoint", namespace)
	if err := release.TryInstall(chart, itself); err == nil || !strings.Contains(err.Error(), "then upgrade with true") {
		t.Errorf("installed at once: %v", err)
	}
	release.Install(chart, "service: {replicas: 4}")
	awaitPods(t, c, map[string]int{"setpoint": 4, "setpoint-agent": 2, "redis": 1})
	replicas := func(want int32, when string) {
		t.Helper()
		d, err := c.Client().AppsV1().Deployments(namespace).Get(t.Context(), "setpoint", getOptions)
		fatal.If(t, err)
		if *d.Spec.Replicas != want {
			t.Errorf("%s: %d instances, want %d", when, *d.Spec.Replicas, want)
		}
	}
	release.Upgrade(chart, itself)
	replicas(4, "when autoscaling begins")
	if _, err := c.Dynamic().Resource(autoscalers).Namespace(namespace).Get(t.Context(), "setpoint", getOptions); err != nil {
		t.Errorf("the Autoscaler of the service: %v", err)
	}
	c.Kubectl(t, "scale", "deployment/setpoint", "--replicas=5", "--namespace="+namespace) // as the agent would
	release.Upgrade(chart, itself+"\nagent: {replicas: 1}")
	replicas(5, "after another upgrade")
	release.Upgrade(chart, "service: {replicas: 3}")
	replicas(3, "with a fixed count again")
}

// callersComeAndGo names callers in the release's values and takes them out again. Their tokens
// are in the file with those of people, whose entries are appended as `setpoint token` prints
// them, and stay.
func callersComeAndGo(t *testing.T, c *kubetest.Cluster, release *helm.Release, chart *helmchart.Chart) {
	t.Helper()
	const more = "service: {replicas: 3, settings: {target-metrics: true, keda-metadata-tokens: true}"
	before := secret(t, c, "setpoint-tokens")
	program, err := service.Program()
	fatal.If(t, err)
	var entry bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, "token", "oncall", "--lifetime=24h")
	cmd.Stderr = &entry
	fatal.If(t, cmd.Run())
	put := func(file []byte) {
		t.Helper()
		c.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: setpoint-tokens, namespace: setpoint}\ndata: {tokens.yaml: "+base64.StdEncoding.EncodeToString(file)+"}")
	}
	put(append(slices.Clone(before["tokens.yaml"]), entry.Bytes()...))
	settingsAreGood(t, c)

	release.Upgrade(chart, more+", callers: [{identity: keda-shop, namespaces: [shop], verbs: [recommend]}, {identity: specs, verbs: [configure]}]}")
	settingsAreGood(t, c)
	token := secret(t, c, "setpoint-caller-keda-shop")["token"]
	digest := sha256.Sum256(token)
	for _, want := range []string{"identity: agent-default\n", "identity: keda-shop\n", "identity: oncall\n", "identity: specs\n", hex.EncodeToString(digest[:])} {
		if tokens := string(secret(t, c, "setpoint-tokens")["tokens.yaml"]); strings.Count(tokens, want) != 1 {
			t.Errorf("the file of tokens should have %q once:\n%s", want, tokens)
		}
	}
	release.Upgrade(chart, more+", callers: [{identity: keda-shop, namespaces: [shop], verbs: [recommend]}]}")
	if tokens := string(secret(t, c, "setpoint-tokens")["tokens.yaml"]); strings.Contains(tokens, "specs") || !strings.Contains(tokens, "oncall") || !strings.Contains(tokens, hex.EncodeToString(digest[:])) {
		t.Errorf("without the caller specs the file of tokens has\n%s", tokens)
	}
	// Another name of the cluster is in the agent's identity; a Secret that is deleted is made again, and the old token is worth nothing.
	release.Upgrade(chart, more+"}\ncluster: eu")
	settingsAreGood(t, c)
	sum := func(token []byte) string { digest := sha256.Sum256(token); return hex.EncodeToString(digest[:]) }
	old := sum(secret(t, c, "setpoint-agent")["token"])
	tokens := string(secret(t, c, "setpoint-tokens")["tokens.yaml"])
	if strings.Contains(tokens, "agent-default") || strings.Count(tokens, "identity: agent-eu\n") != 1 || !strings.Contains(tokens, old) || !strings.Contains(tokens, "oncall") {
		t.Errorf("with the cluster eu the file of tokens has\n%s", tokens)
	}
	// Who puts a token there by hand has it from a file, with the end of its line.
	c.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: setpoint-agent, namespace: setpoint}\nstringData: {token: \"sp_of-a-file\\n\"}")
	release.Upgrade(chart, more+"}\ncluster: eu")
	if tokens = string(secret(t, c, "setpoint-tokens")["tokens.yaml"]); !strings.Contains(tokens, sum([]byte("sp_of-a-file"))) {
		t.Errorf("with a token of a file the file of tokens has\n%s", tokens)
	}
	c.Kubectl(t, "delete", "secret", "setpoint-agent", "--namespace="+namespace)
	release.Upgrade(chart, more+"}\ncluster: eu")
	tokens = string(secret(t, c, "setpoint-tokens")["tokens.yaml"])
	if strings.Contains(tokens, old) || !strings.Contains(tokens, sum(secret(t, c, "setpoint-agent")["token"])) {
		t.Errorf("with another token of the agent the file of tokens has\n%s", tokens)
	}
	put(before["tokens.yaml"])
}

// everything is the namespaces, kinds and names of all objects except events and Kubernetes'
// own.
func everything(t *testing.T, c *kubetest.Cluster) []string {
	t.Helper()
	kinds := strings.Fields(c.Kubectl(t, "api-resources", "--verbs=list,create", "--output=name"))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool {
		return strings.HasPrefix(kind, "events") || strings.HasPrefix(kind, "leases.") || strings.HasSuffix(kind, ".metrics.k8s.io")
	})
	list := c.Kubectl(t, "get", strings.Join(kinds, ","), "--all-namespaces", "--ignore-not-found",
		`--output=go-template={{range .items}}{{with .metadata.namespace}}{{.}}{{end}} {{.kind}}.{{.apiVersion}}/{{.metadata.name}}{{"\n"}}{{end}}`)
	return strings.Split(strings.TrimSpace(list), "\n")
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// awaitPods waits until so many pods run, and no others.
func awaitPods(t *testing.T, c *kubetest.Cluster, want map[string]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		got := map[string]int{}
		pods, err := c.Client().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err == nil {
			for _, pod := range pods.Items {
				if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
					got[pod.Labels["app.kubernetes.io/name"]]++
				}
			}
			if maps.Equal(got, want) {
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%v run, want %v (%v): %s", got, want, err, c.Kubectl(t, "get", "events", "--namespace="+namespace))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// credentialsAreGood checks that the generated credentials fit each other.
func credentialsAreGood(t *testing.T, c *kubetest.Cluster) {
	t.Helper()
	token := secret(t, c, "setpoint-agent")["token"]
	digest := sha256.Sum256(token)
	if tokens := string(secret(t, c, "setpoint-tokens")["tokens.yaml"]); !strings.Contains(tokens, "identity: agent-default\n") || !strings.Contains(tokens, hex.EncodeToString(digest[:])) {
		t.Errorf("the file of tokens lacks the agent's:\n%s", tokens)
	}
	redis := secret(t, c, "setpoint-redis")
	if string(redis["redis.conf"]) != "requirepass "+string(redis["password"])+"\n" || len(redis["password"]) < 32 {
		t.Error("the password of Redis is not that of its file")
	}
}

// settingsAreGood runs `setpoint serve --check` with the environment, the files and the arguments
// of the service's pod.
func settingsAreGood(t *testing.T, c *kubetest.Cluster) {
	t.Helper()
	deployment, err := c.Client().AppsV1().Deployments(namespace).Get(t.Context(), "setpoint", getOptions)
	fatal.If(t, err)
	pod := deployment.Spec.Template.Spec
	folder := t.TempDir()
	// Files of the pod's volumes, in a folder of the test.
	for _, mount := range pod.Containers[0].VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 {
			t.Fatalf("there is no volume %s", mount.Name)
		}
		data := map[string][]byte{}
		switch v := pod.Volumes[i]; {
		case v.Secret != nil:
			data = secret(t, c, v.Secret.SecretName)
		case v.ConfigMap != nil:
			m, err := c.Client().CoreV1().ConfigMaps(namespace).Get(t.Context(), v.ConfigMap.Name, getOptions)
			fatal.If(t, err)
			for name, text := range m.Data {
				data[name] = []byte(text)
			}
		}
		fatal.If(t, os.MkdirAll(filepath.Join(folder, mount.MountPath), 0o700))
		for name, text := range data {
			fatal.If(t, os.WriteFile(filepath.Join(folder, mount.MountPath, name), text, 0o600))
		}
	}
	var env []string
	for _, e := range pod.Containers[0].Env {
		value := e.Value
		if strings.HasPrefix(value, "/") {
			value = filepath.Join(folder, value)
		}
		if e.ValueFrom == nil {
			env = append(env, e.Name+"="+value)
		}
	}
	program, err := service.Program()
	fatal.If(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append(pod.Containers[0].Args, "--check")...)
	cmd.Env = env
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("setpoint serve --check: %v\n%s", err, output)
	}
}
