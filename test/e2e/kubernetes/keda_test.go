//go:build linux

package kubernetes

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// kedasRights let HPAs read external metrics, as KEDA's installation does.
const kedasRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: keda-external-metrics-reader}
rules:
- {apiGroups: [external.metrics.k8s.io], resources: ["*"], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: keda-hpa-controller-external-metrics}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: keda-external-metrics-reader}
subjects:
- {kind: ServiceAccount, name: horizontal-pod-autoscaler, namespace: kube-system}
`

// followsKEDA is the spec of the HorizontalPodAutoscaler that KEDA creates for
// docs/guides/keda.md's ScaledObject.
func followsKEDA(name string) autoscalingv2.HorizontalPodAutoscalerSpec {
	spec := follows(name)
	spec.Metrics[0].External.Metric = autoscalingv2.MetricIdentifier{
		Name: "s0-recommended-replicas", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"scaledobject.keda.sh/name": name}},
	}
	return spec
}

// startKEDA starts the stand-in for KEDA's metrics adapter, with KEDA's own scaler code, and
// registers it with the cluster.
func startKEDA(t *testing.T, c *kubetest.Cluster, s *service.Instance) {
	t.Helper()
	program, err := process.Build("test/keda/standin", false)
	must(t, err)
	ports, err := process.Reserve(1)
	must(t, err)
	t.Cleanup(ports.Release)
	p, err := process.Start(process.Command{
		Name: "standin", Program: program, Log: filepath.Join(t.TempDir(), "log"),
		Args: []string{"-listen=" + ports.Address(0), "-scaler=" + s.GRPCAddr(), "-cluster=test"},
	})
	must(t, err)
	t.Cleanup(func() {
		if p.Alive() {
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			t.Logf("log of the stand-in for KEDA:\n%s", p.Log())
		}
	})
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	must(t, p.Await("ready", within, func() error {
		return process.OK(insecure, "https://"+ports.Address(0)+"/apis/external.metrics.k8s.io/v1beta1")
	}))
	must(t, c.Metrics.Unregister(c, kubetest.ExternalMetrics))
	c.Kubectl(t, "create", "namespace", "keda")
	for _, manifest := range strings.Split(kedasRights, "\n---\n") {
		c.Apply(t, manifest)
	}
	_, err = c.Client().CoreV1().Services("keda").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "keda-metrics-apiserver"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	must(t, err)
	registration := apiServiceManifest(t)
	registration["spec"].(map[string]any)["service"] = map[string]any{"namespace": "keda", "name": "keda-metrics-apiserver", "port": json.Number(ports.Number(0))}
	c.Apply(t, manifestOf(t, registration))
	await(t, "the API is served", func() string {
		out, err := c.TryKubectl("", "get", "--raw", "/apis/external.metrics.k8s.io/v1beta1")
		if err == nil && strings.Contains(out, `"externalmetrics"`) {
			return ""
		}
		return fmt.Sprint(out, err)
	})
}

// KEDA's HorizontalPodAutoscaler, with the real controller, reaches exactly the service's
// recommendation, up and down and by one of many; and holds its count while KEDA gets an error.
func TestAnHPAOfKEDAEndsAtTheCount(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t, kubetest.Config{Native: true, APIServerFlags: kubetest.FrontProxy(t)})
	s := service.Start(t)
	startKEDA(t, c, s)

	namespace := c.Namespace(t, "follows")
	target := "clusters/test/namespaces/" + namespace + "/targets/web"
	open := &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(0)), Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 1000, PeriodSeconds: 1}}}
	_, err := s.Targets().SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: target, TargetSpec: &setpointv1.TargetSpec{
		Period: durationpb.New(1e9),
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
	replicas := func() int32 {
		scale, err := c.Client().AppsV1().Deployments(namespace).GetScale(t.Context(), "web", metav1.GetOptions{})
		must(t, err)
		return scale.Spec.Replicas
	}
	c.Deployment(t, namespace, "web", 3)
	c.HPA(t, namespace, "web", followsKEDA("web"))
	for _, step := range []struct {
		queue int
		want  int32
	}{{70, 7}, {400, 40}, {391, 40}, {401, 41}, {400, 40}, {15, 2}} {
		await(t, fmt.Sprintf("%d replicas", step.want), func() string {
			_, err := s.Recommendations().ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{
				Target: target, Scale: &setpointv1.Scale{SpecReplicas: replicas()}, NoPods: true,
				ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: fmt.Sprint(step.queue)}},
			})
			must(t, err)
			if got := replicas(); got != step.want {
				return fmt.Sprintf("%d replicas", got)
			}
			return ""
		})
	}

	_, err = s.Targets().DeleteTargetSpec(t.Context(), &setpointv1.DeleteTargetSpecRequest{Name: target})
	must(t, err)
	await(t, "the condition says that there is no metric", func() string {
		hpa, err := c.Client().AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), "web", metav1.GetOptions{})
		must(t, err)
		for _, condition := range hpa.Status.Conditions {
			if condition.Type == autoscalingv2.ScalingActive && condition.Status == corev1.ConditionFalse && condition.Reason == "FailedGetExternalMetric" {
				return ""
			}
		}
		return fmt.Sprint(hpa.Status.Conditions)
	})
	if got := replicas(); got != 2 {
		t.Errorf("%d replicas without a recommendation, there were 2", got)
	}
}
