//go:build linux

package keda

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

const target = "clusters/default/namespaces/shop/targets/worker"

// quicker is the example with times of a test.
var quicker = strings.NewReplacer(
	"stabilizationWindowSeconds: 60", "stabilizationWindowSeconds: 5",
	"assumeApplied: true", "period: 2s\nassumeApplied: true",
	"cooldownPeriod: 60", "cooldownPeriod: 5\n  pollingInterval: 20",
)

// A workload follows Setpoint by KEDA as docs/guides/keda-installed.md connects both: up, down, to
// zero and back. Where a setting is wrong, KEDA says what that page says.
func TestKEDAFollowsTheInstalledService(t *testing.T) {
	c := kubetest.Start(t, kubetest.Config{Native: true, APIServerFlags: kubetest.FrontProxy(t)})
	node := install(t, c)
	log := start(t, c, node)

	// The page's steps 2 and 3.
	folder := t.TempDir()
	written := func(name, text string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	ca, token := written("ca.crt", secret(t, c, "setpoint-ca", "ca.crt")), written("token", secret(t, c, "setpoint-caller-keda-shop", "token"))
	specs := written("specs-token", secret(t, c, "setpoint-caller-specs", "token"))
	c.Kubectl(t, "create", "namespace", "shop")
	c.Kubectl(t, "-n", "shop", "create", "secret", "generic", "setpoint", "--from-file="+ca, "--from-file="+token)
	address := node.Target("setpoint-grpc", 9090)
	program, err := service.Program()
	fatal.If(t, err)
	spec := written("spec.yaml", quicker.Replace(file(t, "deploy/keda/spec.yaml")))
	setpointDoes := func(arguments ...string) {
		t.Helper()
		await(t, strings.Join(arguments, " "), func() string {
			output, err := exec.CommandContext(t.Context(), program, append(arguments, "--server="+address, "--tls-ca-file="+ca, "--token-file="+specs)...).CombinedOutput()
			if err != nil {
				return string(output)
			}
			return ""
		})
	}
	setpointDoes("specs", "set", target, "-f", spec)
	queue := report(t, address, ca, specs)

	// Step 4.
	queue.Store(35)
	example := quicker.Replace(file(t, "deploy/keda/worker.yaml"))
	c.Apply(t, example)
	await(t, "the ScaledObject is ready", func() string {
		ready, err := c.TryKubectl("", "-n", "shop", "get", "scaledobject", "worker", `--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if err != nil || ready != "True" {
			return fmt.Sprint(ready, err)
		}
		return ""
	})
	follows := func(jobs int64, want int32) {
		t.Helper()
		queue.Store(jobs)
		began := time.Now()
		left := time.Duration(0) // when the count was above 0 first
		await(t, fmt.Sprintf("%d replicas for %d jobs", want, jobs), func() string {
			d, err := c.Client().AppsV1().Deployments("shop").Get(t.Context(), "worker", metav1.GetOptions{})
			fatal.If(t, err)
			if left == 0 && *d.Spec.Replicas > 0 {
				left = time.Since(began)
			}
			if *d.Spec.Replicas != want {
				return fmt.Sprintf("%d replicas", *d.Spec.Replicas)
			}
			return ""
		})
		t.Logf("%d jobs: %d replicas after %v, above 0 after %v", jobs, want, time.Since(began).Round(100*time.Millisecond), left.Round(100*time.Millisecond))
	}
	follows(35, 4)
	follows(193, 20)
	follows(178, 18) // an HPA's own tolerance would keep 20
	follows(0, 0)
	follows(35, 4)

	polls(t, c)
	wrongSettings(t, c, log, example)

	// While there is no recommendation the count stays, and the HPA says so.
	setpointDoes("specs", "delete", target)
	await(t, "the condition says that there is no metric", func() string {
		hpa, err := c.Client().AutoscalingV2().HorizontalPodAutoscalers("shop").Get(t.Context(), "keda-hpa-worker", metav1.GetOptions{})
		fatal.If(t, err)
		for _, condition := range hpa.Status.Conditions {
			if condition.Type == autoscalingv2.ScalingActive && condition.Reason == "FailedGetExternalMetric" {
				return ""
			}
		}
		return fmt.Sprint(hpa.Status.Conditions)
	})
	follows(35, 4)
}

// polls creates the ScaledObject of docs/guides/http-contracts.md, which follows the same target by the trigger metrics-api. Its operator
// trusts every certificate: with the CA in --ca-dir it would for all triggers, also where wrongSettings leaves caCert out.
func polls(t *testing.T, c *kubetest.Cluster) {
	t.Helper()
	_, example, _ := strings.Cut(file(t, "docs/guides/http-contracts.md"), "## KEDA's metrics-api")
	_, example, _ = strings.Cut(example, "```yaml\n")
	example, _, found := strings.Cut(example, "```")
	if !found {
		t.Fatal("the page lacks the example")
	}
	c.Apply(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: registry.example.com/web}]}
---
apiVersion: keda.sh/v1alpha1
kind: TriggerAuthentication
metadata: {name: metrics-api, namespace: shop}
spec: {secretTargetRef: [{parameter: token, name: setpoint, key: token}]}
---
`+strings.NewReplacer("targets/web/", "targets/worker/", "{name: setpoint}", "{name: metrics-api}", "authMode: bearer", "authMode: bearer\n        unsafeSsl: \"true\"").Replace(example))
	await(t, "the trigger metrics-api leads to 4 replicas", func() string {
		d, err := c.Client().AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
		fatal.If(t, err)
		if *d.Spec.Replicas != 4 {
			return fmt.Sprintf("%d replicas", *d.Spec.Replicas)
		}
		return ""
	})
}

// wrongSettings creates the example's objects with one setting wrong in each. Each workload has pods
// of its own: an HPA whose pods another HPA selects, too, says only that.
func wrongSettings(t *testing.T, c *kubetest.Cluster, log, example string) {
	t.Helper()
	page := file(t, "docs/guides/keda-installed.md")
	const tls, auth, env = "      enableTLS: \"true\"\n", "    authenticationRef: {name: setpoint}\n", "      tokenFromEnv: SETPOINT_TOKEN\n"
	tests := []struct {
		name     string
		old, new []string
		says     string // which the page has, too
	}{
		{"address", []string{"setpoint-grpc.setpoint.svc"}, []string{"setpoint-headless.setpoint.svc"}, "no children to pick from"},
		{"clear", []string{tls, auth}, []string{"", ""}, "error reading server preface: EOF"},
		{"no-ca", []string{auth}, []string{""}, "certificate signed by unknown authority"},
		{"no-token", []string{env}, []string{""}, "a bearer token is needed"},
		{"cluster", []string{"cluster: default"}, []string{"cluster: prod"}, "may not recommend"},
		{"no-spec", []string{env}, []string{env + "      target: other\n"}, "no spec is stored of clusters/"},
	}
	for _, tt := range tests {
		text := strings.NewReplacer("name: worker", "name: "+tt.name, "app: worker", "app: "+tt.name).Replace(example)
		for i := range tt.old {
			if !strings.Contains(text, tt.old[i]) {
				t.Fatalf("the example lacks %q", tt.old[i])
			}
			text = strings.ReplaceAll(text, tt.old[i], tt.new[i])
		}
		c.Apply(t, text)
	}
	for _, tt := range tests {
		if !strings.Contains(page, tt.says) {
			t.Errorf("the page lacks %q", tt.says)
		}
		line := regexp.MustCompile(`(?m)^.*"` + regexp.QuoteMeta(tt.name) + `".*` + regexp.QuoteMeta(tt.says))
		await(t, tt.name+": KEDA says "+tt.says, func() string {
			text, err := os.ReadFile(log)
			fatal.If(t, err)
			if line.Match(text) {
				return ""
			}
			return "it does not"
		})
	}
}

// report reports the length of the queue twice a second.
func report(t *testing.T, address, ca, token string) *atomic.Int64 {
	t.Helper()
	client, err := setpoint.New(address, setpoint.WithTLS(setpoint.TLS{CAFile: ca}), setpoint.WithTokenFile(token))
	fatal.If(t, err)
	queue, ended := new(atomic.Int64), make(chan struct{})
	go func() {
		defer close(ended)
		for ; t.Context().Err() == nil; time.Sleep(500 * time.Millisecond) {
			_, err := setpointv1.NewRecommendationServiceClient(client.Conn()).ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{
				Target:          target,
				ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: fmt.Sprint(queue.Load())}},
			})
			if err != nil && t.Context().Err() == nil {
				t.Errorf("ReportObservation: %v", err)
			}
		}
	}()
	t.Cleanup(func() { <-ended; _ = client.Close() })
	return queue
}
