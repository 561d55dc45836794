//go:build linux

package chart

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/helm"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
)

const (
	repository = "../../.."
	path       = repository + "/deploy/helm/setpoint"
	namespace  = "setpoint"
)

// kubeVersion is that of the cluster that tests start.
var kubeVersion = &chartutil.KubeVersion{Version: "v1.36.0", Major: "1", Minor: "36"}

func TestMain(m *testing.M) { kubetest.Main(m) }

// render returns the manifests as `helm template` prints them, hooks left out.
func render(t *testing.T, text string) (string, error) {
	t.Helper()
	return renderAs(t, "setpoint", text)
}

// renderAs is render for a release of that name.
func renderAs(t *testing.T, name, text string) (string, error) {
	t.Helper()
	r, err := rendered(t, name, text)
	if err != nil {
		return "", err
	}
	return r.Manifest, nil
}

// rendered is renderAs with all that Helm knows, hooks among it, for a cluster that has those APIs, too.
func rendered(t *testing.T, name, text string, apis ...string) (*release.Release, error) {
	t.Helper()
	install := action.NewInstall(&action.Configuration{Log: t.Logf, Capabilities: chartutil.DefaultCapabilities})
	install.DryRun, install.ClientOnly, install.ReleaseName, install.Namespace = true, true, name, namespace
	install.KubeVersion, install.APIVersions = kubeVersion, apis
	return install.Run(helm.Load(t, path), helm.Values(t, text))
}

// pods returns the release's objects and hooks, and its pods' templates by name.
func pods(t *testing.T, r *release.Release) (all []*unstructured.Unstructured, templates map[string]map[string]any) {
	t.Helper()
	manifests, templates := r.Manifest, map[string]map[string]any{}
	for _, hook := range r.Hooks {
		manifests += "\n---\n" + hook.Manifest
	}
	all = objects(t, manifests)
	for _, o := range all {
		if template, ok, _ := unstructured.NestedMap(o.Object, "spec", "template"); ok {
			templates[o.GetName()] = template
		} else if o.GetKind() == "Pod" {
			templates[o.GetName()] = o.Object
		}
	}
	return all, templates
}

// objects parses manifests, ordered by kind and name.
func objects(t *testing.T, manifests string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		o := map[string]any{}
		if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("what the chart renders is no YAML: %v", err)
		}
		if len(o) > 0 {
			out = append(out, &unstructured.Unstructured{Object: o})
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetName(), b.GetName()))
	})
	if len(out) == 0 {
		t.Fatal("there are no objects in the manifests")
	}
	return out
}

// print returns objects as YAML.
func print(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	var b bytes.Buffer
	for _, o := range objects {
		text, err := yaml.Marshal(o.Object)
		fatal.If(t, err)
		b.WriteString("---\n")
		b.Write(text)
	}
	return b.String()
}

// kustomize builds a kustomization of the repository with the real kubectl.
func kustomize(t *testing.T, c *kubetest.Cluster, text string) string {
	t.Helper()
	root, err := filepath.Abs(repository + "/deploy/kustomize")
	fatal.If(t, err)
	folder := t.TempDir()
	relative, err := filepath.Rel(folder, root)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(strings.ReplaceAll(text, "ROOT", relative)), 0o600))
	return c.Kubectl(t, "kustomize", folder)
}

// secret returns the data of a Secret of the release.
func secret(t *testing.T, c *kubetest.Cluster, name string) map[string][]byte {
	t.Helper()
	s, err := c.Client().CoreV1().Secrets(namespace).Get(t.Context(), name, getOptions)
	fatal.If(t, err)
	return s.Data
}
