//go:build linux

package deploy

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

const (
	namespace = "setpoint"
	account   = "system:serviceaccount:setpoint:setpoint-agent"
)

// variants are the users' deployments: kustomizations in files of their own.
var variants = map[string]string{
	"base":   "resources: [BASE]",
	"hpa":    "resources: [BASE]\ncomponents: [COMPONENTS/hpa]",
	"both":   "resources: [BASE]\ncomponents: [COMPONENTS/both]",
	"shadow": "resources: [BASE]\ncomponents: [COMPONENTS/shadow]",
	"other":  "resources: [BASE]\nnamespace: other",
}

// build renders a variant with the real kubectl.
func build(t *testing.T, c *kubetest.Cluster, variant string) string {
	t.Helper()
	root, err := filepath.Abs(repository)
	fatal.If(t, err)
	folder := t.TempDir()
	relative, err := filepath.Rel(folder, filepath.Join(root, "deploy/kustomize"))
	fatal.If(t, err)
	text := strings.NewReplacer("BASE", relative+"/base", "COMPONENTS", relative+"/components").Replace(variants[variant])
	fatal.If(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600))
	return c.Kubectl(t, "kustomize", folder)
}

// A cluster takes all manifests, also where pods must be restricted, and runs them.
func TestManifests(t *testing.T) {
	c := kubetest.Start(t, kubetest.Config{})
	secrets, err := exec.Command(filepath.Join(repository, "deploy/secrets.sh"), "--kubernetes").Output()
	fatal.If(t, err)
	base := build(t, c, "base")
	c.Apply(t, base)
	c.Apply(t, string(secrets))
	c.Apply(t, base) // again: nothing prevents an update

	t.Run("pods run", func(t *testing.T) { podsRun(t, c) })
	t.Run("pods may do the least", func(t *testing.T) { podsMayDoLeast(t, base) })
	t.Run("programs take their settings", func(t *testing.T) { settingsAreGood(t, c, base, string(secrets)) })
	t.Run("the agent has the least rights", func(t *testing.T) {
		rights(t, c, map[string]bool{
			"list autoscalers.autoscaling.setpoint.dev": true, "update autoscalers.autoscaling.setpoint.dev/status": true,
			"update autoscalers.autoscaling.setpoint.dev": false, "delete autoscalers.autoscaling.setpoint.dev": false,
			"update deployments.apps/scale": true, "update horizontalpodautoscalers.autoscaling/status": false,
		})
	})
	t.Run("in another namespace the agent has its rights, too", func(t *testing.T) {
		manifests := build(t, c, "other")
		for _, kind := range []string{"RoleBinding", "ClusterRoleBinding"} {
			for _, binding := range objects[rbacv1.ClusterRoleBinding](t, manifests, kind) {
				for _, subject := range binding.Subjects {
					if subject.Namespace != "other" {
						t.Errorf("%s %s binds %s/%s", kind, binding.Name, subject.Namespace, subject.Name)
					}
				}
			}
		}
	})
	t.Run("kubectl shows an Autoscaler as a HorizontalPodAutoscaler", func(t *testing.T) { columns(t, c) })
	for _, variant := range []string{"hpa", "both", "shadow", "base"} {
		want := map[string]map[string]bool{"hpa": {
			"update horizontalpodautoscalers.autoscaling/status": true, "update deployments.apps/scale": true,
			"list autoscalers.autoscaling.setpoint.dev": false,
		}, "both": {
			"update horizontalpodautoscalers.autoscaling/status": true, "update autoscalers.autoscaling.setpoint.dev/status": true,
			"list autoscalers.autoscaling.setpoint.dev": true, "update deployments.apps/scale": true,
		}, "base": {
			"update horizontalpodautoscalers.autoscaling/status": false, "update autoscalers.autoscaling.setpoint.dev/status": true,
			"list autoscalers.autoscaling.setpoint.dev": true, "update deployments.apps/scale": true,
		}, "shadow": {
			"update horizontalpodautoscalers.autoscaling/status": false, "update deployments.apps/scale": false,
			"get deployments.apps/scale": true, "list autoscalers.autoscaling.setpoint.dev": false,
		}}[variant]
		t.Run("changed to "+variant, func(t *testing.T) {
			manifests := build(t, c, variant)
			c.Apply(t, manifests)
			rights(t, c, want)
			nothingLeft(t, c, manifests)
			settingsAreGood(t, c, manifests, string(secrets))
		})
	}
}

// podsRun checks that the pods of everything are let into the namespace.
func podsRun(t *testing.T, c *kubetest.Cluster) {
	want := map[string]int{"setpoint": 2, "setpoint-agent": 2, "redis": 1}
	kit.Eventually(t, patience, "running", func() error {
		pods, err := c.Client().CoreV1().Pods(namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		got := map[string]int{}
		for _, pod := range pods.Items {
			if pod.Status.Phase == corev1.PodRunning {
				got[pod.Labels["app.kubernetes.io/name"]]++
			}
		}
		for name, count := range want {
			if got[name] != count {
				return fmt.Errorf("%v, want %v: %s", got, want, c.Kubectl(t, "get", "events", "--namespace="+namespace))
			}
		}
		return nil
	})
}

// nothingLeft checks that only the manifests' roles and bindings exist: kubectl apply removes
// nothing of another variant.
func nothingLeft(t *testing.T, c *kubetest.Cluster, manifests string) {
	t.Helper()
	var want []string
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
		for _, object := range objects[metav1.PartialObjectMetadata](t, manifests, kind) {
			want = append(want, strings.ToLower(kind)+".rbac.authorization.k8s.io/"+object.Name)
		}
	}
	got := strings.Fields(c.Kubectl(t, "get", "clusterrole,clusterrolebinding", "--selector=app.kubernetes.io/part-of=setpoint", "--output=name"))
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("left in the cluster: %q, want %q", got, want)
	}
}

// rights checks the agent's permissions, beyond those of all variants.
func rights(t *testing.T, c *kubetest.Cluster, want map[string]bool) {
	t.Helper()
	for right, allowed := range map[string]bool{
		"list pods": true, "watch pods": true, "get secrets": false, "delete pods": false, "create pods": false,
		"get deployments.apps/scale": true, "list deployments.apps": true, "update deployments.apps": false,
		"list horizontalpodautoscalers.autoscaling": true, "update horizontalpodautoscalers.autoscaling": false,
		"create events": true, "delete events": false, "list pods.metrics.k8s.io": true,
		"update leases.coordination.k8s.io/setpoint-agent --namespace=" + namespace: true,
		"update leases.coordination.k8s.io/other --namespace=" + namespace:          false,
		"update leases.coordination.k8s.io/setpoint-agent --namespace=default":      false,
	} {
		may(t, c, right, allowed)
	}
	for right, allowed := range want {
		may(t, c, right, allowed)
	}
}

// may queries the API server: "verb resource[/subresource]", and further arguments.
func may(t *testing.T, c *kubetest.Cluster, right string, want bool) {
	t.Helper()
	args := strings.Fields(right)
	// kubectl takes a slash for a name.
	if resource, subresource, ok := strings.Cut(args[1], "/"); ok && (subresource == "scale" || subresource == "status") {
		args[1] = resource
		args = append(args, "--subresource="+subresource)
	}
	output, _ := c.TryKubectl("", append([]string{"auth", "can-i", "--as=" + account}, args...)...)
	if got := strings.TrimSpace(output); got != map[bool]string{true: "yes", false: "no"}[want] {
		t.Errorf("%s: %s", right, got)
	}
}

// columns compares kubectl's columns of an Autoscaler and of a HorizontalPodAutoscaler with the
// same spec and status: the latter's columns come first, then our own.
func columns(t *testing.T, c *kubetest.Cluster) {
	in := c.Namespace(t, "columns")
	const spec = "spec: {maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}"
	const status = `{"status":{"currentReplicas":3,"desiredReplicas":4,"currentMetrics":[{"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":63}}}]`
	c.Apply(t, "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n"+spec, "--namespace="+in)
	c.Apply(t, "apiVersion: autoscaling.setpoint.dev/v1\nkind: Autoscaler\nmetadata: {name: web}\n"+spec, "--namespace="+in)
	c.Kubectl(t, "patch", "hpa", "web", "--namespace="+in, "--subresource=status", "--type=merge", "--patch="+status+"}}")
	c.Kubectl(t, "patch", "asr", "web", "--namespace="+in, "--subresource=status", "--type=merge",
		"--patch="+status+`,"reference":"Deployment/web","targets":"cpu: 63%/80%","ready":"True","explanation":"Because.",`+
			`"conditions":[{"type":"AbleToScale","status":"True"},{"type":"ScalingLimited","status":"False"}]}}`)
	// The ages differ by moments.
	shown := func(kind string) [][]string {
		var rows [][]string
		for line := range strings.Lines(c.Kubectl(t, "get", kind, "--namespace="+in)) {
			fields := strings.Fields(line)
			rows = append(rows, fields[:len(fields)-1])
		}
		return rows
	}
	want := shown("hpa")
	for i, more := range [][]string{{"DESIRED", "READY", "LIMITED", "SHADOW"}, {"4", "True", "False"}} {
		want[i] = append(want[i], more...)
	}
	if asr, want := fmt.Sprint(shown("asr")), fmt.Sprint(want); asr != want {
		t.Errorf("kubectl get asr\n%s\nwant, as of kubectl get hpa and more\n%s", asr, want)
	}
	if all := c.Kubectl(t, "get", "all", "--namespace="+in); !strings.Contains(all, "autoscaler.autoscaling.setpoint.dev/web") {
		t.Errorf("kubectl get all\n%s", all)
	}
	if wide := c.Kubectl(t, "get", "asr", "--output=wide", "--namespace="+in); !strings.Contains(wide, "Because.") {
		t.Errorf("kubectl get asr -o wide\n%s", wide)
	}
	if text := c.Kubectl(t, "explain", "asr.spec.options.tolerance"); !strings.Contains(text, "without a change") {
		t.Errorf("kubectl explain\n%s", text)
	}
}

// settingsAreGood runs the program with --check and the settings and files that the
// manifests give to containers.
func settingsAreGood(t *testing.T, c *kubetest.Cluster, manifests, secrets string) {
	t.Helper()
	program, err := service.Program()
	fatal.If(t, err)
	// The agent's program is not beside it, as it is in the image, but on the PATH.
	agent, err := service.Kubernetes()
	fatal.If(t, err)
	path := t.TempDir()
	fatal.If(t, os.Symlink(agent, filepath.Join(path, "setpoint-kubernetes")))
	files := filesOf(t, manifests+"\n---\n"+secrets)
	deployments := objects[appsv1.Deployment](t, manifests, "Deployment")
	for i := range deployments {
		deployment := &deployments[i]
		pod := deployment.Spec.Template.Spec
		container, folder := pod.Containers[0], t.TempDir()
		fatal.If(t, mount(folder, &pod, files))
		cmd := exec.Command(program, append(container.Args, "--check")...)
		cmd.Env = []string{"KUBECONFIG=" + c.Kubeconfig(), "PATH=" + path}
		for _, variable := range container.Env {
			if variable.ValueFrom == nil {
				cmd.Env = append(cmd.Env, variable.Name+"="+strings.ReplaceAll(variable.Value, "/etc/setpoint", folder+"/etc/setpoint"))
			}
		}
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", deployment.Name, err, output)
		}
	}
	if len(deployments) != 2 {
		t.Errorf("%d Deployments", len(deployments))
	}
}

func objects[T any](t *testing.T, manifests, kind string) []T {
	t.Helper()
	var found []T
	for _, manifest := range strings.Split(manifests, "\n---\n") {
		var is metav1.TypeMeta
		fatal.If(t, utilyaml.Unmarshal([]byte(manifest), &is))
		if is.Kind != kind {
			continue
		}
		var object T
		fatal.If(t, utilyaml.Unmarshal([]byte(manifest), &object))
		found = append(found, object)
	}
	return found
}

// filesOf returns the contents of Secrets and ConfigMaps.
func filesOf(t *testing.T, manifests string) map[string]map[string]string {
	t.Helper()
	files := map[string]map[string]string{}
	for _, manifest := range strings.Split(manifests, "---\n") {
		var object struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
			Data              map[string]string `json:"data"`
		}
		if err := utilyaml.Unmarshal([]byte(manifest), &object); err != nil || object.Kind != "Secret" && object.Kind != "ConfigMap" {
			continue
		}
		for key, value := range object.Data {
			if object.Kind == "Secret" {
				decoded, err := base64.StdEncoding.DecodeString(value)
				if err != nil {
					t.Fatalf("%s: %s: %v", object.Name, key, err)
				}
				object.Data[key] = string(decoded)
			}
		}
		files[object.Name] = object.Data
	}
	return files
}

// mount writes the mounts of the pod's first container below folder.
func mount(folder string, pod *corev1.PodSpec, files map[string]map[string]string) error {
	for _, mounted := range pod.Containers[0].VolumeMounts {
		for _, volume := range pod.Volumes {
			if volume.Name != mounted.Name {
				continue
			}
			name, items := "", []corev1.KeyToPath(nil)
			switch {
			case volume.Secret != nil:
				name, items = volume.Secret.SecretName, volume.Secret.Items
			case volume.ConfigMap != nil:
				name, items = volume.ConfigMap.Name, volume.ConfigMap.Items
			}
			contents, ok := files[name]
			if !ok {
				return fmt.Errorf("volume %s: there is no %q", volume.Name, name)
			}
			if items == nil {
				for key := range contents {
					items = append(items, corev1.KeyToPath{Key: key, Path: key})
				}
			}
			for _, item := range items {
				path := filepath.Join(folder, mounted.MountPath, item.Path)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(contents[item.Key]), 0o600)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
