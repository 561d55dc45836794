//go:build linux

package chart

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"

	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

const patience = 3 * time.Minute

var (
	getOptions  = metav1.GetOptions{}
	autoscalers = schema.GroupVersionResource{Group: "autoscaling.setpoint.dev", Version: "v1", Resource: "autoscalers"}
	secrets     = []string{"setpoint-tls", "setpoint-ca", "setpoint-tokens", "setpoint-agent", "setpoint-redis"}
)

// A release is installed, upgraded, rolled back and removed: its pods are let into a namespace
// whose pods must be restricted and run, its secrets stay as they are, and Autoscalers outlive it.
func TestInstallUpgradeRollbackUninstall(t *testing.T) {
	c := kubetest.Start(t, kubetest.Config{})
	c.Apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: setpoint, labels: {pod-security.kubernetes.io/enforce: restricted}}}`)

	install := action.NewInstall(configuration(t, c))
	install.ReleaseName, install.Namespace, install.Timeout = "setpoint", namespace, patience
	_, err := install.RunWithContext(t.Context(), load(t), values(t, ""))
	must(t, err)
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
	upgrade := action.NewUpgrade(configuration(t, c))
	upgrade.Namespace, upgrade.Timeout = namespace, patience
	_, err = upgrade.RunWithContext(t.Context(), "setpoint", load(t), values(t, "service: {replicas: 3, settings: {target-metrics: true}}"))
	must(t, err)
	same("after the upgrade")
	awaitPods(t, c, map[string]int{"setpoint": 3, "setpoint-agent": 2, "redis": 1})

	rollback := action.NewRollback(configuration(t, c))
	rollback.Version, rollback.Timeout = 1, patience
	must(t, rollback.Run("setpoint"))
	same("after the rollback")
	awaitPods(t, c, map[string]int{"setpoint": 2, "setpoint-agent": 2, "redis": 1})

	uninstall := action.NewUninstall(configuration(t, c))
	uninstall.Timeout = patience
	_, err = uninstall.Run("setpoint")
	must(t, err)
	if _, err := c.Dynamic().Resource(autoscalers).Namespace("default").Get(t.Context(), "web", getOptions); err != nil {
		t.Errorf("the Autoscaler is gone with the release: %v", err)
	}
	if _, err := c.Client().RbacV1().ClusterRoles().Get(t.Context(), "setpoint-agent-apply", getOptions); !errors.IsNotFound(err) {
		t.Errorf("a ClusterRole outlives the release: %v", err)
	}

	// The cluster has no garbage collector, which would remove what the Deployments owned.
	c.Kubectl(t, "delete", "replicasets,pods", "--all", "--namespace="+namespace, "--wait=false")

	// Again, over the kind that was kept.
	again := action.NewInstall(configuration(t, c))
	again.ReleaseName, again.Namespace, again.Timeout = "setpoint", namespace, patience
	_, err = again.RunWithContext(t.Context(), load(t), values(t, "agent: {shadow: true}"))
	must(t, err)
	awaitPods(t, c, map[string]int{"setpoint": 2, "setpoint-agent": 2, "redis": 1})
	if string(secret(t, c, "setpoint-agent")["token"]) == string(made["setpoint-agent"]["token"]) {
		t.Error("a new release has the token of the one that was removed")
	}
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

// credentialsAreGood checks that the parts of what was made fit each other.
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
	must(t, err)
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
			must(t, err)
			for name, text := range m.Data {
				data[name] = []byte(text)
			}
		}
		must(t, os.MkdirAll(filepath.Join(folder, mount.MountPath), 0o700))
		for name, text := range data {
			must(t, os.WriteFile(filepath.Join(folder, mount.MountPath, name), text, 0o600))
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
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append(pod.Containers[0].Args, "--check")...)
	cmd.Env = env
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("setpoint serve --check: %v\n%s", err, output)
	}
}
