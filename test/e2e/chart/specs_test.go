//go:build linux

package chart

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// twoSpecs are of a target and of a fleet of two other clusters.
const twoSpecs = `
service:
  specs:
  - name: clusters/default/namespaces/shop/targets/api
    spec: {minReplicas: 2, maxReplicas: 9, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}
  - name: clusters/all/namespaces/shop/targets/web
    spec: {minReplicas: 2, maxReplicas: 20, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}
    fleet: {members: [{target: clusters/east/namespaces/shop/targets/web}, {target: clusters/west/namespaces/store/targets/web, weight: 2}]}
`

// files writes the data of Secrets and ConfigMaps to a folder: NAME/KEY.
func files(t *testing.T, all []*unstructured.Unstructured) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for _, o := range all {
		data, _, err := unstructured.NestedStringMap(o.Object, "data")
		if err != nil || o.GetKind() != "Secret" && o.GetKind() != "ConfigMap" {
			continue
		}
		fatal.If(t, os.MkdirAll(filepath.Join(folder, o.GetName()), 0o700))
		for key, text := range data {
			if o.GetKind() == "Secret" {
				decoded, err := base64.StdEncoding.DecodeString(text)
				fatal.If(t, err)
				text = string(decoded)
			}
			fatal.If(t, os.WriteFile(filepath.Join(folder, o.GetName(), key), []byte(text), 0o600))
		}
	}
	return folder
}

// jobOf returns the Job that stores specs.
func jobOf(t *testing.T, all []*unstructured.Unstructured) *batchv1.Job {
	t.Helper()
	for _, o := range all {
		if o.GetKind() == "Job" {
			job := &batchv1.Job{}
			fatal.If(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, job))
			return job
		}
	}
	t.Fatal("there is no Job")
	return nil
}

// What the Job runs stores the specs, a fleet's too, at a service with the release's policy and tokens, and its token may
// do no more.
func TestTheJobStoresSpecs(t *testing.T) {
	rendered, err := render(t, twoSpecs)
	fatal.If(t, err)
	all := objects(t, rendered)
	folder := files(t, all)
	at := func(parts ...string) string { return filepath.Join(append([]string{folder}, parts...)...) }
	s := service.Start(t, "--tls-cert-file="+at("setpoint-tls", "tls.crt"), "--tls-key-file="+at("setpoint-tls", "tls.key"),
		"--auth-tokens-file="+at("setpoint-tokens", "tokens.yaml"), "--policy-file="+at("setpoint-policy", "policy.yaml"))
	program, err := service.Program()
	fatal.If(t, err)
	connected := []string{"--server=" + s.GRPCAddr(), "--tls-ca-file=" + at("setpoint-ca", "ca.crt"), "--token-file=" + at("setpoint-specs", "token")}
	run := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
		return string(out), err
	}
	pod := &jobOf(t, all).Spec.Template.Spec
	var args []string
	for _, arg := range pod.Containers[0].Args {
		for _, mount := range pod.Containers[0].VolumeMounts {
			for _, v := range pod.Volumes {
				switch {
				case v.Name != mount.Name:
				case v.Secret != nil:
					arg = strings.Replace(arg, mount.MountPath, at(v.Secret.SecretName), 1)
				case v.ConfigMap != nil:
					arg = strings.Replace(arg, mount.MountPath, at(v.ConfigMap.Name), 1)
				}
			}
		}
		args = append(args, strings.Replace(arg, "dns:///setpoint-grpc:9090", s.GRPCAddr(), 1))
	}
	for range 2 { // again: whatever is stored
		out, err := run(args...)
		if err != nil || !strings.Contains(out, "clusters/default/namespaces/shop/targets/api") || !strings.Contains(out, "clusters/all/namespaces/shop/targets/web") {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	for _, name := range []string{"clusters/default/namespaces/other/targets/api", "clusters/east/namespaces/store/targets/web"} {
		file := at("one.yaml")
		fatal.If(t, os.WriteFile(file, []byte("maxReplicas: 3\nmetrics: []\n"), 0o600))
		if out, err := run(append(connected, "specs", "set", name, "--file="+file)...); err == nil || !strings.Contains(out, "may not") {
			t.Errorf("the Job's token stores %s: %v\n%s", name, err, out)
		}
	}
	if out, err := run(append(connected, "specs", "get", "clusters/all/namespaces/shop/targets/web")...); err == nil {
		t.Errorf("the Job's token reads:\n%s", out)
	}
}

// Other specs, and another image, are stored by another Job, for a Job can't be changed; the same by the same.
func TestAnotherJobStoresOtherSpecs(t *testing.T) {
	name := func(text string) string {
		rendered, err := render(t, text)
		fatal.If(t, err)
		return jobOf(t, objects(t, rendered)).Name
	}
	first := name(twoSpecs)
	if again := name(twoSpecs + "  replicas: 3\n"); again != first {
		t.Errorf("the same specs are stored by %s and %s", first, again)
	}
	for what, text := range map[string]string{"specs": strings.Replace(twoSpecs, "maxReplicas: 20", "maxReplicas: 21", 1), "image": twoSpecs + "image: {tag: v9}\n"} {
		if other := name(text); other == first {
			t.Errorf("another %s has the same Job, %s", what, other)
		}
	}
}
