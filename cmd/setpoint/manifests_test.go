package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

const kustomize = "../../deploy/kustomize"

// rolesOf reads the ClusterRoles of a file of manifests.
func rolesOf(t *testing.T, elements ...string) map[string]rbacv1.ClusterRole {
	t.Helper()
	text := testpages.Read(t, filepath.Join(append([]string{kustomize}, elements...)...))
	roles := map[string]rbacv1.ClusterRole{}
	for _, manifest := range strings.Split(text, "\n---\n") {
		var role rbacv1.ClusterRole
		fatal.If(t, yaml.Unmarshal([]byte(manifest), &role))
		if role.Kind == "ClusterRole" {
			roles[role.Name] = role
		}
	}
	return roles
}

// kubectl apply deletes nothing. A component that added an object, or took one out, would
// leave it behind in a cluster that changes to another: components change what is in the
// base only.
func TestComponentsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	base := rolesOf(t, "agent", "roles.yaml")
	components, err := os.ReadDir(filepath.Join(kustomize, "components"))
	if err != nil || len(components) < 3 {
		t.Fatalf("%v, %d components", err, len(components))
	}
	for _, component := range components {
		text, err := os.ReadFile(filepath.Join(kustomize, "components", component.Name(), "kustomization.yaml"))
		fatal.If(t, err)
		var has map[string]any
		fatal.If(t, yaml.Unmarshal(text, &has))
		for key := range has {
			if !slices.Contains([]string{"apiVersion", "kind", "patches"}, key) {
				t.Errorf("components/%s has %s", component.Name(), key)
			}
		}
		if strings.Contains(string(text), "$patch: delete") {
			t.Errorf("components/%s takes something out", component.Name())
		}
		if _, err := os.Stat(filepath.Join(kustomize, "components", component.Name(), "roles.yaml")); err != nil {
			continue
		}
		for name := range rolesOf(t, "components", component.Name(), "roles.yaml") {
			if _, ok := base[name]; !ok {
				t.Errorf("components/%s has a role %s, which the base has not", component.Name(), name)
			}
		}
	}
}

// The rights of the component both are those of either source.
func TestBothHasTheRightsOfEither(t *testing.T) {
	t.Parallel()
	const source = "setpoint-agent-source"
	granted := func(role rbacv1.ClusterRole) []string {
		var all []string
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						all = append(all, verb+" "+resource+"."+group)
					}
				}
			}
		}
		slices.Sort(all)
		return all
	}
	autoscalers := granted(rolesOf(t, "agent", "roles.yaml")[source])
	hpas := granted(rolesOf(t, "components", "hpa", "roles.yaml")[source])
	want := slices.Concat(autoscalers, hpas)
	slices.Sort(want)
	if got := granted(rolesOf(t, "components", "both", "roles.yaml")[source]); !slices.Equal(got, want) || len(autoscalers) == 0 || len(hpas) == 0 {
		t.Errorf("got %q, want %q and %q", got, autoscalers, hpas)
	}
}

// Who may view, edit or administer a namespace may do so with its Autoscalers, by the labels
// that Kubernetes goes by, and nobody gets more than of a HorizontalPodAutoscaler.
func TestPeopleHaveRightsToAutoscalers(t *testing.T) {
	t.Parallel()
	roles := rolesOf(t, "crd", "roles.yaml")
	for to, want := range map[string][]string{
		"view":  {"get", "list", "watch"},
		"edit":  {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		"admin": {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
	} {
		var got []string
		for _, role := range roles {
			if role.Labels["rbac.authorization.k8s.io/aggregate-to-"+to] != "true" {
				continue
			}
			for _, rule := range role.Rules {
				if !slices.Equal(rule.APIGroups, []string{"autoscaling.setpoint.dev"}) || rule.Resources[0] != "autoscalers" {
					t.Errorf("%s: %v", role.Name, rule)
				}
				got = append(got, rule.Verbs...)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
}

// A certificate of a year is renewed without new tokens and passwords, which everybody who has one would need.
func TestTheCertificateOfADeploymentIsRenewedAlone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	secrets := func(env ...string) (string, error) {
		script := exec.CommandContext(t.Context(), "../../deploy/secrets.sh", folder)
		script.Env = append(os.Environ(), env...)
		said, err := script.CombinedOutput()
		return string(said), err
	}
	read := func() map[string]string {
		all := map[string]string{}
		for _, name := range []string{"tls.pem", "ca.crt", "tokens.yaml", "token", "password", "redis.conf"} {
			all[name] = testpages.Read(t, filepath.Join(folder, name))
		}
		return all
	}
	if said, err := secrets(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	before := read()
	if said, err := secrets(); err == nil || !strings.Contains(said, "tls.pem is there already; ONLY=certificate") || !maps.Equal(before, read()) {
		t.Errorf("a second time: %v, %q", err, said)
	}
	if said, err := secrets("ONLY=certificate"); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for name, now := range read() {
		if changed, want := now != before[name], name == "tls.pem" || name == "ca.crt"; changed != want {
			t.Errorf("%s: changed %t, want %t", name, changed, want)
		}
	}
	pem := filepath.Join(folder, "tls.pem")
	tokens := filepath.Join(folder, "tokens.yaml")
	if got := run(t, "", "serve", "--check", "--tls-cert-file="+pem, "--tls-key-file="+pem, "--auth-tokens-file="+tokens); got.Code != 0 {
		t.Errorf("the service takes neither: %s", got.Stderr)
	}
}
