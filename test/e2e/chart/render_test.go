//go:build linux

package chart

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/helm"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
)

// The chart has the objects of the kustomization, except for the namespace, which Helm creates,
// and for Helm's own labels.
func TestTheChartHasWhatTheKustomizationHas(t *testing.T) {
	c := kubetest.Start(t, kubetest.Config{WithoutMetrics: true, WithoutWorkloads: true})
	const images = "\nimages: [{name: setpoint, newName: ghcr.io/setpoint-dev/setpoint, newTag: 0.1.0}, {name: setpoint-external-metrics, newName: ghcr.io/setpoint-dev/setpoint-external-metrics, newTag: 0.1.0}]"
	keda := func(t *testing.T) string {
		values, err := os.ReadFile(repository + "/deploy/keda/values.yaml")
		fatal.If(t, err)
		return string(values)
	}
	for _, tt := range []struct{ name, values, kustomization string }{
		{"base", "", "resources: [ROOT/base]"},
		{"HorizontalPodAutoscalers", "agent: {source: hpa}", "resources: [ROOT/base]\ncomponents: [ROOT/components/hpa]"},
		{"both kinds", "agent: {source: both}", "resources: [ROOT/base]\ncomponents: [ROOT/components/both]"},
		{"shadow", "agent: {shadow: true}", "resources: [ROOT/base]\ncomponents: [ROOT/components/shadow]"},
		{"KEDA", keda(t), "resources: [ROOT/../keda]"},
		// The kustomization leaves the grant of its identity to the user.
		{"external metric", "externalMetrics: {enabled: true}\nservice: {policy: {grants: [{identities: ['token:agent-default'], clusters: [default], verbs: [recommend, delete, read]}]}}", "resources: [ROOT/base, ROOT/external-metrics]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rendered, err := render(t, "secrets: {generate: false}\ntls: {mode: existing}\n"+tt.values)
			fatal.If(t, err)
			got, want := comparable(t, objects(t, rendered)), comparable(t, objects(t, kustomize(t, c, tt.kustomization+images)))
			for name := range want {
				if got[name] == nil {
					t.Errorf("the chart lacks %s", name)
				}
			}
			for name, object := range got {
				if want[name] == nil {
					if !strings.HasPrefix(name, "APIService/") { // the user creates it, as kubectl apply would take another's place
						t.Errorf("the kustomization lacks %s", name)
					}
				} else if diff := cmp.Diff(want[name], object); diff != "" {
					t.Errorf("%s differs (-kustomization +chart):\n%s", name, diff)
				}
			}
		})
	}
}

// Kustomize adds a hash of its contents to the name of Redis' ConfigMap.
var hashed = regexp.MustCompile(`^(setpoint-redis)-[0-9a-z]{10}$`)

// helms are labels and annotations that Helm, or rules of its charts, add.
var helms = []string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart", "helm.sh/resource-policy", "checksum/config"}

// comparable returns objects by kind and name, without the allowed differences.
func comparable(t *testing.T, objects []*unstructured.Unstructured) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, o := range objects {
		name := o.GetKind() + "/" + hashed.ReplaceAllString(o.GetName(), "$1")
		if o.GetKind() == "Namespace" {
			continue
		}
		if out[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		for _, rules := range []string{"ingress", "egress"} {
			if list, there, _ := unstructured.NestedSlice(o.Object, "spec", rules); o.GetKind() == "NetworkPolicy" && there && len(list) == 0 {
				t.Errorf("%s: the API server drops an empty %s, so that each apply finds a difference", name, rules)
			}
		}
		// Kustomize sets the namespaces that Helm leaves to the release.
		unstructured.RemoveNestedField(o.Object, "metadata", "namespace")
		out[name] = normal("", o.Object)
	}
	return out
}

// normal returns a value without Helm's own labels and empty mappings, with the policy parsed,
// and the environment sorted by name, because its order does not matter.
func normal(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, entry := range v {
			n := normal(k, entry)
			if m, ok := n.(map[string]any); slices.Contains(helms, k) || ok && len(m) == 0 && (k == "annotations" || k == "labels") || n == nil || k == "imagePullPolicy" {
				continue
			}
			// Labels of the component come with each object of the chart; some of the CRD's have none.
			if (k == "labels") && key == "metadata" {
				m, _ := n.(map[string]any)
				delete(m, "app.kubernetes.io/name")
				delete(m, "app.kubernetes.io/part-of")
				if len(m) == 0 {
					continue
				}
			}
			out[k] = n
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, entry := range v {
			out[i] = normal("", entry)
		}
		if key == "env" {
			slices.SortFunc(out, func(a, b any) int {
				return strings.Compare(nameOf(a), nameOf(b))
			})
		}
		return out
	case string:
		if key == "policy.yaml" {
			return meaning(v)
		}
		return hashed.ReplaceAllString(v, "$1")
	default:
		return v
	}
}

func nameOf(v any) string {
	m, _ := v.(map[string]any)
	name, _ := m["name"].(string)
	return name
}

// meaning is the parsed content of a YAML file.
func meaning(text string) any {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return err.Error()
	}
	return v
}

// matrix are values that users set.
var matrix = map[string]string{
	"defaults":             "",
	"one instance":         "service: {replicas: 1}\nredis: {mode: none}",
	"Redis by Sentinel":    "redis: {mode: external, url: 'rediss://r1,r2,r3/0?master=prod', passwordSecret: {name: '1', key: '2'}, caSecret: {name: '3'}}",
	"a Redis Cluster":      "redis: {mode: external, url: 'rediss://r1:6379,r2:6379,r3:6379', caSecret: {name: redis-ca}}",
	"Redis that asks who":  "redis: {mode: external, url: 'rediss://s1,s2/0?master=prod', user: setpoint, passwordSecret: {name: redis}, sentinelPasswordSecret: {name: '1', key: '2'}, caSecret: {name: redis-ca}, clientSecret: {name: '3'}}",
	"one Redis, in clear":  "redis: {mode: external, url: 'redis://redis.example.com:6379/1'}",
	"both kinds":           "agent: {source: both}",
	"many agents":          "agent: {replicas: 5, settings: {leader-elect-lease-duration: 8s, leader-elect-renew-deadline: 6s, leader-elect-retry-period: 1s}}",
	"another port":         "service: {enabled: false}\nagent: {server: 's1.example.com:7443,s2.example.com'}\ncluster: '2'",
	"an agent alone":       "service: {enabled: false}\nagent: {server: 'setpoint.example.com:9090'}\ncluster: eu-1",
	"a service alone":      "agent: {enabled: false}",
	"shadow":               "agent: {shadow: true}",
	"some namespaces":      "agent: {namespaces: [default, kube-public], source: both}",
	"HPAs":                 "agent: {source: hpa}",
	"everything":           "externalMetrics: {enabled: true}\nservice: {autoscaling: {enabled: true}}\nmonitoring: {dashboards: true}",
	"settings":             "service: {settings: {target-metrics: true, max-pods: 10000, tolerance: 0.05}}\nagent: {settings: {workers: 64}}",
	"placement":            "service: {nodeSelector: {a: b}, tolerations: [{key: x, operator: Exists}], priorityClassName: '7', podAnnotations: {a: b}}\nimagePullSecrets: [{name: r}]",
	"another name":         "fullnameOverride: autoscaling",
	"callers":              "service: {callers: [{identity: keda, verbs: [recommend]}], grants: [{groups: ['oidc:corp:sre'], clusters: ['*'], verbs: [read]}]}",
	"specs":                twoSpecs,
	"a policy":             "service: {policy: {grants: [{identities: ['*'], clusters: ['*'], verbs: [read]}]}}",
	"no network policies":  "networkPolicies: {enabled: false}",
	"issuers":              "service: {settings: {auth-oidc-file: /etc/setpoint/oidc/oidc.yaml}, extraVolumes: [{name: oidc, secret: {secretName: oidc}}], extraVolumeMounts: [{name: oidc, mountPath: /etc/setpoint/oidc}]}\nnetworkPolicies: {serviceEgress: [{ports: [{port: 443}]}]}",
	"sources of metrics":   "agent: {settings: {sources-file: /etc/setpoint/sources/sources.yaml}, extraVolumes: [{name: sources, secret: {secretName: sources}}], extraVolumeMounts: [{name: sources, mountPath: /etc/setpoint/sources}]}\nnetworkPolicies: {agentEgress: [{ports: [{port: 9090}]}]}",
	"storage":              "redis: {persistence: {size: 10Gi, storageClassName: '1'}}",
	"within another chart": "enabled: true\nglobal: {imageRegistry: registry.example.com}",
	"secrets of one's own": "secrets: {generate: false}\ntls: {mode: existing}",
}

// The API server accepts the rendered chart with any values.
func TestTheAPIServerTakesEachRendering(t *testing.T) {
	c := kubetest.Start(t, kubetest.Config{WithoutMetrics: true, WithoutWorkloads: true})
	c.Kubectl(t, "create", "namespace", namespace)
	defaults, err := render(t, "")
	fatal.If(t, err)
	for _, o := range objects(t, defaults) {
		if o.GetKind() == "CustomResourceDefinition" { // the kind must be there before its objects
			c.Apply(t, print(t, []*unstructured.Unstructured{o}))
		}
	}
	for name, text := range matrix {
		t.Run(name, func(t *testing.T) {
			linter := lint.AllWithKubeVersion(path, helm.Values(t, text), namespace, kubeVersion)
			for _, m := range linter.Messages {
				if m.Severity >= support.WarningSev {
					t.Errorf("helm lint: %s", m)
				}
			}
			rendered, err := render(t, text)
			fatal.If(t, err)
			// Objects that name no namespace are the release's.
			var own, others []*unstructured.Unstructured
			for _, o := range objects(t, rendered) {
				if o.GetNamespace() == "" {
					own = append(own, o)
				} else {
					others = append(others, o)
				}
			}
			if out, err := c.TryKubectl(print(t, own), "apply", "--server-side", "--dry-run=server", "--namespace="+namespace, "--filename=-"); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if others == nil {
				return
			}
			if out, err := c.TryKubectl(print(t, others), "apply", "--server-side", "--dry-run=server", "--filename=-"); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// Values that can't be meant are refused, and the message says which.
func TestWrongValuesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"servce: {replicas: 2}":               "servce",
		"service: {replica: 2}":               "replica",
		"service: {replicas: many}":           "replicas",
		"redis: {mode: sentinel}":             "mode",
		"agent: {source: keda}":               "source",
		"redis: {mode: none}":                 "service.replicas=1",
		"redis: {mode: external}":             "redis.url",
		"service: {enabled: false}":           "agent.server",
		"agent: {shadow: true, source: both}": "agent.shadow",
		"tls: {mode: letsencrypt}":            "mode",

		"cluster: 'a b'": "cluster",
		"cluster: '..'":  "cluster",
		"cluster: eu-":   "cluster",
		"service: {enabled: false}\nagent: {enabled: false}\nexternalMetrics: {enabled: true}": "agent.server",
		"agent: {settings: {leader-elect: false}}":                                             "agent.settings can't have leader-elect:",
		"agent: {settings: {leader-elect-namespace: kube-system}}":                             "agent.settings can't have leader-elect-namespace",
		"redis: {mode: external, url: 'http://redis'}":                                         "/redis/url",
		"service: {settings: {max-pods: [1]}}":                                                 "max-pods",
		"service: {settings: {SETPOINT_MAX_PODS: 1}}":                                          "SETPOINT_MAX_PODS",
		"service: {settings: {histroy-ttl: 2h}}":                                               "histroy-ttl",
		"agent: {settings: {history-ttl: 2h}}":                                                 "history-ttl",
		"service: {settings: {grpc-address: ':1'}}":                                            "service.settings can't have grpc-address",
		"service: {settings: {redis: 'redis://r'}}":                                            "redis.url",
		"agent: {settings: {server: 'other:9090'}}":                                            "agent.server",
		"agent: {settings: {shadow: true}}":                                                    "agent.shadow",
		"service: {autoscaling: {minReplicas: 0}}":                                             "minReplicas",
		"service: {autoscaling: {enabled: true, minReplicas: 9, maxReplicas: 3}}":              "minReplicas must not be above maxReplicas",
		"service: {autoscaling: {enabled: true}}\nagent: {shadow: true}":                       "service.autoscaling needs the agent",
		"service: {autoscaling: {enabled: true}}\nagent: {source: hpa}":                        "service.autoscaling needs the agent",
		"service: {autoscaling: {enabled: true}}\nagent: {enabled: false}":                     "service.autoscaling needs the agent",
		"service: {autoscaling: {enabled: true}, replicas: 1}\nredis: {mode: none}":            "service.autoscaling off",
		"service: {autoscaling: {enabled: true}}\nagent: {namespaces: [shop]}":                 "add setpoint to agent.namespaces",
		"agent: {namespaces: [shop], settings: {namespace: billing}}":                          "agent.settings can't have namespace: the chart sets it (agent.namespaces)",
		"agent: {namespaces: shop}":                                                            "namespaces",
		"agent: {namespaces: [Shop]}":                                                          "namespaces",
		"agent: {namespaces: ['']}":                                                            "namespaces",
		"agent: {namespaces: [1]}":                                                             "namespaces",
		"agent: {namespaces: [shop, shop]}":                                                    "namespaces",
		"tls: {validDays: 0}":                                                                  "validDays",
		// Misspelt, these would be ignored.
		"redis: {mode: external, url: 'redis://r', passwordSecret: {secret: redis}}":     "secret",
		"redis: {mode: external, url: 'rediss://r', caSecret: {name: ca, file: ca.crt}}": "file",
		"tls: {mode: certManager, certManager: {issuerRef: {name: ca, type: Issuer}}}":   "type",
		"service: {nodeSelector: {disk: true}}":                                          "disk",
		"imagePullSecrets: [registry]":                                                   "imagePullSecrets",
		"service: {extraVolumes: [{secret: {secretName: oidc}}]}":                        "name",
		"service: {resources: {limit: {memory: 1Gi}}}":                                   "limit",
		"agent: {affinity: {podAntiAfinity: {}}}":                                        "podAntiAfinity",
		"redis: {tolerations: [{kee: a, operator: Exists}]}":                             "kee",
		// What remained of these would be a rule for everything.
		"networkPolicies: {serviceEgress: [{port: 443}]}":                                                                              "port",
		"networkPolicies: {serviceEgress: [{ports: [{prot: 443}]}]}":                                                                   "prot",
		"networkPolicies: {agentEgress: [{to: [{podSelector: {matchLabel: {a: b}}}]}]}":                                                "matchLabel",
		"networkPolicies: {agentEgress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, exept: []}}]}]}":                                           "exept",
		"service: {callers: [{identity: keda}]}":                                                                                       "verbs",
		"service: {callers: [{identity: 'a b', verbs: [read]}]}":                                                                       "identity",
		"service: {callers: [{identity: k, cluster: x, verbs: [read]}]}":                                                               "cluster",
		"service: {specs: [{name: web, spec: {maxReplicas: 3}}]}":                                                                      "name",
		"service: {specs: [{name: clusters/a/namespaces/b/targets/c}]}":                                                                "spec",
		"service: {specs: [{name: clusters/a/namespaces/b/targets/c, spec: {maxReplicas: 0}}]}":                                        "maxReplicas",
		"service: {specs: [{name: clusters/a/namespaces/b/targets/c, spec: {}}, {name: clusters/a/namespaces/b/targets/c, spec: {}}]}": "targets/c twice",
		// With these, running instances would keep the old policy, and the next to start would end.
		"service: {callers: [{identity: k, verbs: [reccommend]}]}":                                 "verbs",
		"service: {grants: [{identities: ['token:k'], clusters: ['*'], verbs: [reed]}]}":           "verbs",
		"service: {grants: [{identities: ['token:k'], clusters: ['*'], verb: [read]}]}":            "verb",
		"service: {grants: [{identities: ['token:k'], verbs: [read]}]}":                            "clusters",
		"service: {grants: [{clusters: ['*'], verbs: [read]}]}":                                    "identities",
		"service: {grants: [{identities: [k], clusters: ['*'], verbs: [read]}]}":                   "identities",
		"service: {grants: [{identities: ['token:k'], clusters: ['a b'], verbs: [read]}]}":         "clusters",
		"service: {policy: {grants: [{identities: ['token:k'], clusters: ['*'], verbs: [reed]}]}}": "verbs",
		"service: {policy: {grant: []}}":                                                           "grant",
		"service: {policy: {options: [{defaults: {profile: '1.2'}}]}}":                             "profile",
		"tls: {names: [1]}":       "names",
		"image: {repository: ''}": "repository",
		"fullnameOverride: a.b":   "fullnameOverride",
		"redis: {mode: external, url: 'rediss://r1,r2/0?master=prod&sentinelPassword=hunter2'}": "redis.url can't have a password",
		"service: {callers: [{identity: a, verbs: [read], namespaces: []}]}":                    "namespaces",
		"redis: {passwordSecret: {name: a, key: ''}}":                                           "key",
		"redis: {passwordSecret: {name: a, key: null}}":                                         "key",
		"redis: {mode: external, url: 'rediss://a@r', user: b}":                                 "redis.url has a user",
		"redis: {mode: external, url: 'rediss://:hunter2@r:6379'}":                              "redis.url can't have a password",
		"redis: {mode: external, url: 'rediss://setpoint:hunter2@r1,r2/0?master=prod'}":         "redis.url can't have a password",
	} {
		_, err := render(t, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that names %q", text, err, want)
		}
	}
}

// Helm treats a null value as absent. The chart then renders, or names the missing value; it
// never fails within a template, with an error that only its author understands.
func TestValuesThatAreNullAreLeftOutOrRefused(t *testing.T) {
	file, err := os.ReadFile(path + "/values.yaml")
	fatal.If(t, err)
	tried := 0
	var null func(at []string, values map[string]any)
	null = func(at []string, values map[string]any) {
		for key, v := range values {
			at := append(slices.Clone(at), key)
			name := strings.Join(at, ".")
			tried++
			text := strings.Join(at, ": {") + ": null" + strings.Repeat("}", len(at)-1)
			if at[0] != "tls" && at[0] != "secrets" {
				text += "\ntls: {mode: existing}\nsecrets: {generate: false}" // no keys to make each time
			}
			rendered, err := render(t, text)
			switch {
			case err == nil:
				for _, o := range objects(t, rendered) {
					if o.GetKind() == "" || o.GetName() == "" {
						t.Errorf("%s: null renders an object without a name: %v", name, o.Object)
					}
				}
			case strings.Contains(err.Error(), "error calling") && !strings.Contains(err.Error(), "error calling fail"), strings.Contains(err.Error(), "nil pointer"),
				!strings.Contains(err.Error(), key):
				t.Errorf("%s: null: %v", name, err)
			}
			if m, ok := v.(map[string]any); ok {
				null(at, m)
			}
		}
	}
	null(nil, helm.Values(t, string(file)))
	if tried < 80 {
		t.Errorf("only %d values were tried", tried)
	}
}

// With a list of namespaces the agent serves these, has in each the rights that it has elsewhere in all, and no ClusterRole.
func TestTheAgentHasRightsInItsNamespacesOnly(t *testing.T) {
	for _, more := range []string{"source: autoscaler", "source: hpa", "source: both", "shadow: true"} {
		rights := func(values string) (perNamespace map[string]map[string]bool, manifest string) {
			rendered, err := render(t, "agent: {"+more+values+"}")
			fatal.If(t, err)
			perNamespace = map[string]map[string]bool{}
			bound := map[string]bool{}
			roles := slices.DeleteFunc(objects(t, rendered), func(o *unstructured.Unstructured) bool {
				return !strings.Contains(o.GetKind(), "Role") || !strings.HasPrefix(o.GetName(), "setpoint-agent-")
			})
			for _, o := range roles {
				if of, _, _ := unstructured.NestedStringMap(o.Object, "roleRef"); of != nil {
					subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
					if subject, _ := json.Marshal(subjects); string(subject) != `[{"kind":"ServiceAccount","name":"setpoint-agent","namespace":"setpoint"}]` {
						t.Errorf("%s binds %s", o.GetName(), subject)
					}
					bound[of["kind"]+" "+o.GetNamespace()+"/"+of["name"]] = true
				}
			}
			for _, o := range roles {
				if strings.HasSuffix(o.GetKind(), "Binding") {
					continue
				}
				if !bound[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] {
					t.Errorf("the %s %s of %q is not bound", o.GetKind(), o.GetName(), o.GetNamespace())
				}
				in := o.GetNamespace()
				if in == "kube-system" && o.GetName() != "setpoint-agent-identity-setpoint" {
					t.Errorf("%s: there may be releases of one name in several namespaces", o.GetName())
				}
				if o.GetKind() == "ClusterRole" {
					in = "all"
				}
				if perNamespace[in] == nil {
					perNamespace[in] = map[string]bool{}
				}
				rules, _, err := unstructured.NestedSlice(o.Object, "rules")
				fatal.If(t, err)
				for _, rule := range rules {
					text, err := json.Marshal(rule)
					fatal.If(t, err)
					perNamespace[in][string(text)] = true
				}
			}
			return perNamespace, rendered
		}
		const (
			identity = `{"apiGroups":[""],"resourceNames":["kube-system"],"resources":["namespaces"],"verbs":["get"]}`
			events   = `{"apiGroups":[""],"resources":["events"],"verbs":["create","patch"]}`
		)
		want, manifest := rights("")
		if strings.Contains(manifest, "SETPOINT_NAMESPACE") || !want["all"][identity] || !want["all"][events] || want[""][events] {
			t.Errorf("%s: without a list the rights are %v", more, want)
		}
		got, manifest := rights(", namespaces: [shop, billing]")
		if !strings.Contains(manifest, `{name: SETPOINT_NAMESPACE, value: "shop,billing"}`) {
			t.Errorf("%s: the agent does not know the list", more)
		}
		delete(want["all"], identity)
		want[""][events] = true // of the election
		if diff := cmp.Diff(map[string]map[string]bool{"": want[""], "kube-system": {identity: true}, "shop": want["all"], "billing": want["all"]}, got); diff != "" {
			t.Errorf("%s: rights differ (-want +got):\n%s", more, diff)
		}
	}
	rendered, err := render(t, "agent: {namespaces: [shop, setpoint]}\ncrds: {install: false}\nservice: {autoscaling: {enabled: true}}")
	fatal.If(t, err)
	for _, o := range objects(t, rendered) {
		if strings.HasPrefix(o.GetKind(), "Cluster") || o.GetKind() == "CustomResourceDefinition" {
			t.Errorf("%s %s is cluster-scoped", o.GetKind(), o.GetName())
		}
	}
}

// A node with the only instance can be drained: a budget that keeps the last one would hold the drain for ever.
func TestBudgetsLetTheLastInstanceGo(t *testing.T) {
	for _, values := range []string{"", "service: {replicas: 1}\nagent: {replicas: 1}\nexternalMetrics: {enabled: true, replicas: 1}", "service: {replicas: 1}\nredis: {mode: none}"} {
		rendered, err := render(t, values)
		fatal.If(t, err)
		budgets := 0
		for _, o := range objects(t, rendered) {
			if o.GetKind() != "PodDisruptionBudget" {
				continue
			}
			budgets++
			if n, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "maxUnavailable"); fmt.Sprint(n) != "1" {
				t.Errorf("%q: %s lets %v pods go, want 1 of however many there are", values, o.GetName(), n)
			}
		}
		if budgets < 2 {
			t.Errorf("%q: %d budgets", values, budgets)
		}
	}
}

// Each pod is in a NetworkPolicy for both directions, and gets of the CA the certificate only: the CA's Secret of
// cert-manager has the key, too.
func TestPodsReachAndGetWhatTheyNeedOnly(t *testing.T) {
	r, err := rendered(t, "setpoint", "externalMetrics: {enabled: true}\ntls: {mode: certManager}\n"+twoSpecs)
	fatal.If(t, err)
	all, templates := pods(t, r)
	for name, pod := range templates {
		labels, _, _ := unstructured.NestedStringMap(pod, "metadata", "labels")
		covered := false
		for _, policy := range all {
			if policy.GetKind() != "NetworkPolicy" {
				continue
			}
			selector, _, _ := unstructured.NestedStringMap(policy.Object, "spec", "podSelector", "matchLabels")
			types, _, _ := unstructured.NestedStringSlice(policy.Object, "spec", "policyTypes")
			covered = covered || len(types) == 2 && k8slabels.SelectorFromSet(selector).Matches(k8slabels.Set(labels))
		}
		if !covered {
			t.Errorf("%s has no NetworkPolicy for both directions", name)
		}
		volumes, _, _ := unstructured.NestedSlice(pod, "spec", "volumes")
		for _, v := range volumes {
			secret, _, _ := unstructured.NestedMap(v.(map[string]any), "secret")
			if items, _ := json.Marshal(secret["items"]); secret["secretName"] == "setpoint-ca" && string(items) != `[{"key":"ca.crt","path":"ca.crt"}]` {
				t.Errorf("%s gets %s of the CA", name, items)
			}
		}
	}
	if len(templates) != 6 {
		t.Errorf("%d templates of pods", len(templates))
	}
}

// All pods, the Job's and the test's with the service's values, tolerate what the values say.
func TestPodsGoWhereTheyAreTold(t *testing.T) {
	const place = "{tolerations: [{operator: Exists}], nodeSelector: {a: b}, affinity: {nodeAffinity: {}}, priorityClassName: '7'}"
	r, err := rendered(t, "setpoint", twoSpecs+"  tolerations: [{operator: Exists}]\n  nodeSelector: {a: b}\n  affinity: {nodeAffinity: {}}\n  priorityClassName: '7'\nagent: "+place+"\nredis: "+place+"\nexternalMetrics: {enabled: true, "+place[1:])
	fatal.If(t, err)
	_, templates := pods(t, r)
	for name, pod := range templates {
		spec, _ := pod["spec"].(map[string]any)
		if spec["tolerations"] == nil || spec["nodeSelector"] == nil || spec["affinity"] == nil || spec["priorityClassName"] != "7" {
			t.Errorf("%s has %v %v %v %v", name, spec["tolerations"], spec["nodeSelector"], spec["affinity"], spec["priorityClassName"])
		}
	}
	if len(templates) != 6 {
		t.Errorf("%d templates of pods", len(templates))
	}
}

// OpenShift takes no pods with users of their own choice, and its DNS listens at port 5353.
func TestOpenShiftChoosesUsers(t *testing.T) {
	for api, want := range map[string]bool{"v1": true, "security.openshift.io/v1": false} {
		r, err := rendered(t, "setpoint", "externalMetrics: {enabled: true}\n"+twoSpecs, api)
		fatal.If(t, err)
		_, templates := pods(t, r)
		for name, pod := range templates {
			security, _, _ := unstructured.NestedMap(pod, "spec", "securityContext")
			if _, user := security["runAsUser"]; user != want || security["runAsNonRoot"] != true {
				t.Errorf("%s with %s: %v", name, api, security)
			}
		}
		if n := strings.Count(r.Manifest, "port: 5353,"); n != map[bool]int{true: 0, false: 8}[want] {
			t.Errorf("with %s: port 5353 is there %d times", api, n)
		}
	}
}

// Redis refuses writes before it has the memory that its container is killed for.
func TestRedisStaysBelowItsLimit(t *testing.T) {
	for limits, want := range map[string]string{
		"{memory: 1Gi}": "768mb", "{memory: 512Mi}": "384mb", "{memory: 1.5G}": "1072mb", "{memory: 1000000000}": "715mb",
		`{memory: "2147483648"}`: "1536mb", "{memory: null}": "0", "null": "0",
	} {
		rendered, err := render(t, "redis: {resources: {limits: "+limits+"}}")
		fatal.If(t, err)
		if got := strings.Count(rendered, "\n    maxmemory "+want+"\n"); got != 1 || strings.Count(rendered, "    maxmemory ") != 1 {
			t.Errorf("limits %s: no maxmemory %s, or others", limits, want)
		}
	}
}

// Within another chart, whose name the release has, a Redis of that chart gets none of our calls and none of our bounds.
func TestAnotherRedisOfTheReleaseIsLeftAlone(t *testing.T) {
	r, err := rendered(t, "shop", "")
	fatal.If(t, err)
	all, templates := pods(t, r)
	another := k8slabels.Set{"app.kubernetes.io/name": "redis", "app.kubernetes.io/instance": "shop", "app.kubernetes.io/component": "master"}
	ours, _, _ := unstructured.NestedStringMap(templates["shop-redis"], "metadata", "labels")
	found := 0
	for _, o := range all {
		var selectors []map[string]string
		switch o.GetKind() {
		case "Service":
			selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector")
			selectors = append(selectors, selector)
		case "NetworkPolicy":
			selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "podSelector", "matchLabels")
			selectors = append(selectors, selector)
			egress, _, _ := unstructured.NestedSlice(o.Object, "spec", "egress")
			for _, rule := range egress {
				to, _ := rule.(map[string]any)["to"].([]any)
				for _, peer := range to {
					selector, _, _ := unstructured.NestedStringMap(peer.(map[string]any), "podSelector", "matchLabels")
					selectors = append(selectors, selector)
				}
			}
		}
		for _, selector := range selectors {
			if k8slabels.SelectorFromSet(selector).Matches(another) {
				t.Errorf("%s %s selects the pods of another Redis: %v", o.GetKind(), o.GetName(), selector)
			}
			if k8slabels.SelectorFromSet(selector).Matches(k8slabels.Set(ours)) {
				found++
			}
		}
	}
	if found != 3 {
		t.Errorf("%d selectors are of our Redis, want those of its Service, its policy and the service's egress", found)
	}
}

// What a release prints names a recommendation only where helm test can ask for one.
func TestNotesAskWhereThereIsSomethingToAsk(t *testing.T) {
	for values, want := range map[string]bool{"": true, matrix["an agent alone"]: false, matrix["a service alone"]: false} {
		r, err := rendered(t, "setpoint", values)
		fatal.If(t, err)
		for _, part := range []string{"ask it for a recommendation", "helm test setpoint"} {
			if strings.Contains(r.Info.Notes, part) != want {
				t.Errorf("%q: that %q is there should be %v:\n%s", values, part, want, r.Info.Notes)
			}
		}
	}
}

// Kubernetes waits for a pod that stops at least as long as the settings let the program wait.
func TestPodsHaveTheTimeToStop(t *testing.T) {
	for values, want := range map[string][2]int64{
		"": {40, 30},
		"service: {settings: {drain-timeout: 1m30s, shutdown-delay: 5s}}\nagent: {settings: {drain-timeout: 45s}}": {115, 55},
	} {
		r, err := rendered(t, "setpoint", values)
		fatal.If(t, err)
		_, templates := pods(t, r)
		for i, name := range []string{"setpoint", "setpoint-agent"} {
			if got, _, err := unstructured.NestedFieldNoCopy(templates[name], "spec", "terminationGracePeriodSeconds"); err != nil || fmt.Sprint(got) != fmt.Sprint(want[i]) {
				t.Errorf("%q: %s has %v s to stop, want %d: %v", values, name, got, want[i], err)
			}
		}
	}
}

// The adapter of the external metric refuses to start where the API is another Service's.
func TestTheExternalMetricKnowsItsService(t *testing.T) {
	rendered, err := renderAs(t, "scaler", "externalMetrics: {enabled: true}")
	fatal.If(t, err)
	for _, o := range objects(t, rendered) {
		if o.GetKind() != "APIService" {
			continue
		}
		service, _, err := unstructured.NestedMap(o.Object, "spec", "service")
		fatal.If(t, err)
		if want := fmt.Sprintf("- --service=%s/%s\n", service["namespace"], service["name"]); !strings.Contains(rendered, want) {
			t.Errorf("no argument %q", want)
		}
		return
	}
	t.Error("no APIService")
}

// Helm takes names of releases that no Service can have, and some that YAML takes for something else.
func TestNamesOfReleasesThatNoServiceCanHaveAreRefused(t *testing.T) {
	for name, ok := range map[string]bool{"setpoint": true, "1st": false, "set.point": false, "no": true, "123": false, "a-release-whose-name-is-as-long-as-helm-takes-it-is": true} {
		const values = "externalMetrics: {enabled: true}\nmonitoring: {podMonitors: true, rules: true}\ntls: {mode: certManager}"
		rendered, err := renderAs(t, name, values)
		if ok && err != nil || !ok && (err == nil || !strings.Contains(err.Error(), "set fullnameOverride")) {
			t.Errorf("a release called %s: %v", name, err)
		}
		if ok {
			namesAreText(t, name, rendered)
		}
		rendered, err = renderAs(t, name, "fullnameOverride: autoscaling\n"+values)
		if err != nil {
			t.Errorf("a release called %s, with fullnameOverride: %v", name, err)
			continue
		}
		namesAreText(t, name, rendered)
	}
}

// namesAreText checks that all names and labels of a release are strings.
func namesAreText(t *testing.T, release, rendered string) {
	t.Helper()
	for _, o := range objects(t, rendered) {
		_, named, err := unstructured.NestedString(o.Object, "metadata", "name")
		if _, _, labels := unstructured.NestedStringMap(o.Object, "metadata", "labels"); !named || err != nil || labels != nil {
			t.Errorf("a release called %s has an object %s %v: %v %v", release, o.GetKind(), o.Object["metadata"], err, labels)
		}
	}
}

// A setting arrives as it was written, whatever Helm takes it for.
func TestSettingsArriveAsWritten(t *testing.T) {
	rendered, err := render(t, "service: {settings: {tolerance: 0.05, max-pods: 10000000, target-metrics: true, log-level: debug, downscale-stabilization: 30s}}")
	fatal.If(t, err)
	for name, want := range map[string]string{
		"SETPOINT_TOLERANCE": "0.05", "SETPOINT_MAX_PODS": "10000000", "SETPOINT_TARGET_METRICS": "true",
		"SETPOINT_LOG_LEVEL": "debug", "SETPOINT_DOWNSCALE_STABILIZATION": "30s",
	} {
		if line := "{name: " + name + ", value: \"" + want + "\"}"; !strings.Contains(rendered, line) {
			t.Errorf("the pod lacks %s", line)
		}
	}
}

// A policy with limits only keeps the chart's grants; one with grants has its own.
func TestAPolicyWithoutGrantsHasTheCharts(t *testing.T) {
	for policy, want := range map[string]bool{"{}": true, "{limits: [{identities: ['*'], requestsPerSecond: 50}]}": true, "{grants: []}": false} {
		rendered, err := render(t, "service: {policy: "+policy+"}")
		fatal.If(t, err)
		if got := strings.Contains(rendered, "- token:agent-default\n"); got != want {
			t.Errorf("policy %s: a grant for the agent is %v, want %v", policy, got, want)
		}
	}
}

// A cluster's name is a string, even one that YAML would take for a number; and the agent may
// reach a service elsewhere at the ports that its address names.
func TestNamesAndPortsArriveAsWritten(t *testing.T) {
	rendered, err := render(t, "cluster: '2'\nexternalMetrics: {enabled: true}\nservice: {callers: [{identity: keda, verbs: [recommend]}]}")
	fatal.If(t, err)
	if n := strings.Count(rendered, `clusters:
      - "2"
`); n != 3 {
		t.Errorf("%d of 3 grants name the cluster \"2\"", n)
	}
	rendered, err = render(t, "service: {enabled: false}\nagent: {server: 's1.example.com:7443,s2.example.com'}")
	fatal.If(t, err)
	for _, port := range []string{"7443", "9090"} {
		if !strings.Contains(rendered, "  - ports: [{port: "+port+"}]\n") {
			t.Errorf("the agent may not reach port %s", port)
		}
	}
}

// The schema knows every value, and its defaults are the file's.
func TestTheSchemaIsThatOfTheValues(t *testing.T) {
	text, err := os.ReadFile(path + "/values.schema.json")
	fatal.If(t, err)
	var schema map[string]any
	fatal.If(t, json.Unmarshal(text, &schema))
	file, err := os.ReadFile(path + "/values.yaml")
	fatal.If(t, err)
	known(t, "", schema, helm.Values(t, string(file)))
}

func known(t *testing.T, at string, schema map[string]any, v map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	if properties == nil {
		return // the keys are the user's
	}
	for key, entry := range v {
		property, ok := properties[key].(map[string]any)
		if !ok {
			t.Errorf("the schema lacks %s.%s", at, key)
			continue
		}
		if m, ok := entry.(map[string]any); ok {
			known(t, at+"."+key, property, m)
		} else if property["type"] == nil {
			t.Errorf("%s.%s has no type", at, key)
		}
	}
	if schema["additionalProperties"] != false {
		t.Errorf("%s takes other keys", reflect.ValueOf(at))
	}
}

// deploy/secrets.sh makes what the chart does not with secrets.generate=false and tls.mode=existing: each Secret that a pod
// mounts, with its keys, and a token for each identity that has a grant.
func TestTheScriptMakesTheSecrets(t *testing.T) {
	rendered, err := renderAs(t, "scaler", "secrets: {generate: false}\ntls: {mode: existing}\nexternalMetrics: {enabled: true}\ncluster: eu\n"+twoSpecs+"  callers: [{identity: keda, verbs: [recommend]}]\n")
	fatal.If(t, err)
	script := exec.CommandContext(t.Context(), repository+"/deploy/secrets.sh", "--kubernetes")
	script.Env = append(os.Environ(), "RELEASE=scaler", "NAMESPACE="+namespace, "CLUSTER=eu", "PARTS=external-metrics,specs", "CALLERS=keda")
	out, err := script.Output()
	fatal.If(t, err)
	all := objects(t, rendered)
	folder := files(t, slices.Concat(all, objects(t, string(out))))
	mounted := 0
	for _, o := range all {
		volumes, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "volumes")
		for _, v := range volumes {
			secret, ok, _ := unstructured.NestedMap(v.(map[string]any), "secret")
			if !ok {
				continue
			}
			mounted++
			name, _ := secret["secretName"].(string)
			if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
				t.Errorf("%s mounts the Secret %s, which the script does not make", o.GetName(), name)
			}
			items, _ := secret["items"].([]any)
			for _, item := range items {
				if _, err := os.Stat(filepath.Join(folder, name, item.(map[string]any)["key"].(string))); err != nil {
					t.Errorf("%s mounts a key that the Secret of the script lacks: %v", o.GetName(), err)
				}
			}
		}
	}
	if mounted < 9 {
		t.Errorf("%d Secrets are mounted", mounted)
	}
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{folder}, path...)...))
		fatal.If(t, err)
		return string(text)
	}
	tokens := read("scaler-tokens", "tokens.yaml")
	for _, match := range regexp.MustCompile(`token:([a-z-]+)`).FindAllStringSubmatch(read("scaler-policy", "policy.yaml"), -1) {
		if !strings.Contains(tokens, "- identity: "+match[1]+"\n") {
			t.Errorf("the policy has a grant for %s, and there is no token:\n%s", match[1], tokens)
		}
	}
	block, _ := pem.Decode([]byte(read("scaler-tls", "tls.crt")))
	certificate, err := x509.ParseCertificate(block.Bytes)
	fatal.If(t, err)
	fatal.If(t, certificate.VerifyHostname("scaler-grpc."+namespace+".svc"))
}
