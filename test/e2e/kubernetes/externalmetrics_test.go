//go:build linux

package kubernetes

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// follows is the spec of a HorizontalPodAutoscaler that passes the count of a target on, as
// docs/guides/external-metrics.md has it.
func follows(target string) autoscalingv2.HorizontalPodAutoscalerSpec {
	zero, none, one := resource.MustParse("0"), int32(0), resource.MustParse("1")
	return autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: target},
		MinReplicas:    new(int32(1)), MaxReplicas: 1000,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: "recommended-replicas", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"target": target}}},
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &one},
		}}},
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleUp: &autoscalingv2.HPAScalingRules{
				Tolerance: &zero, StabilizationWindowSeconds: &none,
				Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 1_000_000, PeriodSeconds: 15}},
			},
			ScaleDown: &autoscalingv2.HPAScalingRules{Tolerance: &zero, StabilizationWindowSeconds: &none},
		},
	}
}

// externalMetrics is the program of that name before a cluster.
type externalMetrics struct {
	ports *process.Ports
	log   string
	*process.Process
}

// startExternalMetrics starts the program with the rights that deploy/ gives it.
func startExternalMetrics(t *testing.T, c *kubetest.Cluster, s *service.Instance, flags ...string) *externalMetrics {
	t.Helper()
	program, err := process.Build("cmd/setpoint-external-metrics", false)
	must(t, err)
	account := c.Account(t, "setpoint", "setpoint-external-metrics")
	ports, err := process.Reserve(1)
	must(t, err)
	t.Cleanup(ports.Release)
	e := &externalMetrics{ports: ports, log: filepath.Join(t.TempDir(), "log")}
	e.Process, err = process.Start(process.Command{
		Name: "setpoint-external-metrics", Program: program, Log: e.log,
		Args: append([]string{
			"--server=" + s.GRPCAddr(), "--server-insecure", "--cluster=test", "--service=setpoint/external-metrics",
			"--secure-port=" + ports.Number(0), "--bind-address=127.0.0.1", "--cert-dir=" + t.TempDir(),
			"--lister-kubeconfig=" + account.Kubeconfig, "--authentication-kubeconfig=" + account.Kubeconfig, "--authorization-kubeconfig=" + account.Kubeconfig,
		}, flags...),
	})
	must(t, err)
	t.Cleanup(func() {
		if e.Alive() {
			if err := e.Stop(); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			t.Logf("log of setpoint-external-metrics:\n%s", e.Log())
		}
	})
	return e
}

// A plain HorizontalPodAutoscaler of the real controller follows the service's recommendation,
// up and down, even by one replica of many; it holds its count without a recommendation, and
// does not see other namespaces'.
func TestAnHPAFollowsTheExternalMetric(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t, kubetest.Config{Native: true, APIServerFlags: kubetest.FrontProxy(t)})
	s := service.Start(t)
	c.Kubectl(t, "create", "namespace", "setpoint")
	root, err := process.Repository()
	must(t, err)
	built := c.Kubectl(t, "kustomize", filepath.Join(root, "deploy", "kustomize", "external-metrics"))
	if strings.Contains(built, "kind: APIService") {
		t.Error("applying the kustomization takes the API from another provider")
	}
	for manifest := range strings.SplitSeq(built, "\n---\n") {
		if strings.Contains(manifest, "apiVersion: rbac.") {
			c.Apply(t, manifest)
		}
	}

	// Another provider has the API: that of the kit.
	refused := startExternalMetrics(t, c, s)
	select {
	case <-refused.Ended():
	case <-time.After(within):
		t.Fatal("it runs beside another provider")
	}
	if said := refused.Log(); !strings.Contains(said, "belongs to kubetest-metrics/metrics, not to setpoint/external-metrics") {
		t.Errorf("it refuses with %q", said)
	}
	must(t, c.Metrics.Unregister(c, kubetest.ExternalMetrics))

	// A cluster accepts the manifests even where pods are restricted.
	c.Kubectl(t, "label", "namespace", "setpoint", "pod-security.kubernetes.io/warn=restricted")
	c.Apply(t, built, "--server-side", "--force-conflicts", "--dry-run=server", "--warnings-as-errors")

	e := startExternalMetrics(t, c, s)
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	base := "https://" + e.ports.Address(0)
	must(t, e.Await("ready", within, func() error { return process.OK(insecure, base+"/readyz") }))
	_, err = c.Client().CoreV1().Services("setpoint").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "external-metrics"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	must(t, err)
	registration := apiServiceManifest(t)
	registration["spec"].(map[string]any)["service"] = map[string]any{"namespace": "setpoint", "name": "external-metrics", "port": json.Number(e.ports.Number(0))}
	c.Apply(t, manifestOf(t, registration))
	await(t, "the API is served", func() string {
		out, err := c.TryKubectl("", "get", "--raw", "/apis/external.metrics.k8s.io/v1beta1")
		if err == nil && strings.Contains(out, `"recommended-replicas"`) {
			return ""
		}
		return fmt.Sprint(out, err)
	})

	namespace, other := c.Namespace(t, "follows"), c.Namespace(t, "other")
	target := "clusters/test/namespaces/" + namespace + "/targets/web"
	open := &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(0)), Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 1000, PeriodSeconds: 1}}}
	_, err = s.Targets().SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: target, TargetSpec: &setpointv1.TargetSpec{
		Period: durationpb.New(time.Second),
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MinReplicas: new(int32(1)), MaxReplicas: 100,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("10")},
			}}},
			Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: open, ScaleDown: open},
		},
		Options: &setpointv1.RecommendOptions{Tolerance: new("0")},
	}})
	must(t, err)
	replicas := func(namespace string) int32 {
		scale, err := c.Client().AppsV1().Deployments(namespace).GetScale(t.Context(), "web", metav1.GetOptions{})
		must(t, err)
		return scale.Spec.Replicas
	}
	report := func(queue int) {
		t.Helper()
		_, err := s.Recommendations().ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{
			Target: target, Scale: &setpointv1.Scale{SpecReplicas: replicas(namespace), StatusReplicas: new(replicas(namespace))}, NoPods: true,
			ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: fmt.Sprint(queue)}},
		})
		must(t, err)
	}
	for _, in := range []string{namespace, other} {
		c.Deployment(t, in, "web", 3)
		c.HPA(t, in, "web", follows("web"))
	}
	for _, step := range []struct {
		queue int
		want  int32
	}{{70, 7}, {400, 40}, {391, 40}, {401, 41}, {400, 40}, {15, 2}} {
		await(t, fmt.Sprintf("%d replicas", step.want), func() string {
			report(step.queue)
			if got := replicas(namespace); got != step.want {
				return fmt.Sprintf("%d replicas", got)
			}
			return ""
		})
	}

	// Without a recommendation the count stays, and the condition says why.
	_, err = s.Targets().DeleteTargetSpec(t.Context(), &setpointv1.DeleteTargetSpecRequest{Name: target})
	must(t, err)
	condition := func(namespace string) string {
		hpa, err := c.Client().AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), "web", metav1.GetOptions{})
		must(t, err)
		for _, condition := range hpa.Status.Conditions {
			if condition.Type == autoscalingv2.ScalingActive {
				return fmt.Sprintf("%s/%s: %s", condition.Status, condition.Reason, condition.Message)
			}
		}
		return ""
	}
	await(t, "the condition says that there is no spec", func() string {
		if got := condition(namespace); !strings.HasPrefix(got, "False/FailedGetExternalMetric") || !strings.Contains(got, "SPEC_NOT_FOUND") {
			return got
		}
		return ""
	})
	if got := replicas(namespace); got != 2 {
		t.Errorf("%d replicas without a recommendation, there were 2", got)
	}
	// The same target's name in another namespace is another target.
	if got := condition(other); !strings.Contains(got, "namespaces/"+other+"/targets/web") || replicas(other) != 3 {
		t.Errorf("in the other namespace: %d replicas, %s", replicas(other), got)
	}

	// An account that may not read the API through the API server may not read it directly
	// either.
	nobody := c.Account(t, other, "nobody")
	path := "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + namespace + "/recommended-replicas?labelSelector=target%3Dweb"
	for _, tt := range []struct {
		name, token string
		rules       []rbacv1.PolicyRule
		want        int
	}{
		{"without a token", "", nil, http.StatusForbidden},
		{"without rights", nobody.Config.BearerToken, nil, http.StatusForbidden},
		{"with rights", nobody.Config.BearerToken, []rbacv1.PolicyRule{{APIGroups: []string{"external.metrics.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}}, http.StatusNotFound},
	} {
		if tt.rules != nil {
			c.Grant(t, nobody, tt.rules...)
		}
		await(t, tt.name, func() string {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
			must(t, err)
			if tt.token != "" {
				request.Header.Set("Authorization", "Bearer "+tt.token)
			}
			// Only the API server may set these headers about its callers.
			request.Header.Set("X-Remote-User", "system:serviceaccount:kube-system:horizontal-pod-autoscaler")
			request.Header.Set("X-Remote-Group", "system:masters")
			response, err := insecure.Do(request)
			must(t, err)
			_ = response.Body.Close()
			if response.StatusCode != tt.want {
				return response.Status
			}
			return ""
		})
	}

	// Another provider takes the API: the program says that it is not ready.
	registration["spec"].(map[string]any)["service"] = map[string]any{"namespace": "keda", "name": "keda-metrics-apiserver", "port": 443}
	c.Apply(t, manifestOf(t, registration))
	must(t, e.Await("unready", within, func() error {
		if err := process.OK(insecure, base+"/readyz"); err == nil {
			return fmt.Errorf("it is ready although another has the API")
		}
		return nil
	}))
	text, err := os.ReadFile(e.log)
	must(t, err)
	if !strings.Contains(string(text), "another provider has taken the API") {
		t.Errorf("its log says nothing of the other provider:\n%s", text)
	}
}

// apiServiceManifest is that of deploy/.
func apiServiceManifest(t *testing.T) map[string]any {
	t.Helper()
	for _, manifest := range strings.Split(file(t, "deploy", "kustomize", "external-metrics", "apiservice.yaml"), "\n---\n") {
		var object map[string]any
		must(t, utilyaml.Unmarshal([]byte(manifest), &object))
		if object["kind"] == "APIService" {
			return object
		}
	}
	t.Fatal("deploy/ has no APIService")
	return nil
}

func manifestOf(t *testing.T, object map[string]any) string {
	t.Helper()
	text, err := json.Marshal(object)
	must(t, err)
	return string(text)
}
