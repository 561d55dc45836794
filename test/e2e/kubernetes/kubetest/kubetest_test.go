//go:build linux

package kubetest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// within is the longest that something may take that takes a second or two.
const within = 3 * time.Minute

func TestTheNativeControllerScalesOnWhatTheMetricsServerSays(t *testing.T) {
	c := kubetest.Shared(t)
	namespace := c.Namespace(t, "native")
	mark := c.Mark(t)
	c.Deployment(t, namespace, "web", 2)
	c.Metrics.SetCPU(namespace, "web", 500)
	c.HPA(t, namespace, "web", kubetest.CPU("web", 50, 1, 20))
	awaitReplicas(t, c, namespace, 10) // 500 m at 50 % of 100 m
	c.Metrics.SetCPU(namespace, "web", 150)
	awaitReplicas(t, c, namespace, 3)
	counts := c.Since(t, mark).Of(kubetest.NativeUser).Counts()
	if counts["list pods"] == 0 || counts["update deployments/scale"] != 2 {
		t.Errorf("requests of the native controller: %v", counts)
	}
}

func awaitReplicas(t *testing.T, c *kubetest.Cluster, namespace string, want int32) {
	t.Helper()
	var got int32
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		deployment, err := c.Client().AppsV1().Deployments(namespace).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got = deployment.Status.ReadyReplicas; got == want && *deployment.Spec.Replicas == want && deployment.Status.Replicas == want {
			return
		}
	}
	t.Fatalf("%d ready replicas, want %d\n%s", got, want, c.Kubectl(t, "describe", "hpa,deployment", "-n", namespace))
}

func TestAnAccountMayDoWhatItIsGranted(t *testing.T) {
	c := kubetest.Shared(t)
	namespace := c.Namespace(t, "accounts")
	account := c.Account(t, namespace, "reader")
	client, err := kubernetes.NewForConfig(account.Config)
	if err != nil {
		t.Fatal(err)
	}
	list := func() error {
		_, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(); !apierrors.IsForbidden(err) {
		t.Errorf("without a grant: %v", err)
	}
	mark := c.Mark(t)
	c.Grant(t, account, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}})
	await(t, func() bool { return list() == nil })
	if own := c.Since(t, mark).Of(account.User); len(own) == 0 || own[len(own)-1].What() != "list pods" || own[len(own)-1].Code != 200 {
		t.Errorf("requests of the account: %v", own)
	}
	c.Grant(t, account)
	await(t, func() bool { return apierrors.IsForbidden(list()) })
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v", within)
		}
	}
}

func TestTheAdapterAnswersForCustomAndExternalMetrics(t *testing.T) {
	c := kubetest.Shared(t)
	namespace := c.Namespace(t, "adapter")
	c.Deployment(t, namespace, "web", 2)
	awaitReplicas(t, c, namespace, 2)
	c.Metrics.SetPods(namespace, "web", "requests", 3000)
	c.Metrics.SetObject(namespace, "services", "front", "requests", resource.MustParse("7"))
	c.Metrics.SetExternal(namespace, "queue", kubetest.Series{Labels: map[string]string{"q": "a"}, Value: resource.MustParse("5")})
	for path, want := range map[string]string{
		"/apis/custom.metrics.k8s.io/v1beta2/namespaces/" + namespace + "/pods/*/requests?labelSelector=app%3Dweb": `"value":"1500m"`,
		"/apis/custom.metrics.k8s.io/v1beta2/namespaces/" + namespace + "/services/front/requests":                 `"value":"7"`,
		"/apis/external.metrics.k8s.io/v1beta1/namespaces/" + namespace + "/queue?labelSelector=q%3Da":             `"value":"5"`,
		"/apis/external.metrics.k8s.io/v1beta1/namespaces/" + namespace + "/queue?labelSelector=q%3Db":             `"items":[]`,
	} {
		if got := c.Kubectl(t, "get", "--raw", path); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	c.Metrics.Fail(kubetest.CustomMetrics, namespace, 503, "the adapter is tired")
	if _, err := c.TryKubectl("", "get", "--raw", "/apis/custom.metrics.k8s.io/v1beta2/namespaces/"+namespace+"/pods/*/requests"); err == nil || !strings.Contains(err.Error(), "the adapter is tired") {
		t.Errorf("a failing API: %v", err)
	}
}

func TestTheAPIServerComesBackOnItsPort(t *testing.T) {
	c := kubetest.Start(t, kubetest.Config{WithoutWorkloads: true, WithoutMetrics: true})
	namespace := c.Namespace(t, "kept")
	c.KillAPIServer()
	if _, err := c.Client().CoreV1().Namespaces().Get(context.Background(), namespace, metav1.GetOptions{}); err == nil {
		t.Error("it answers when it is killed")
	}
	began := time.Now()
	if err := c.StartAPIServer(); err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %v", time.Since(began))
	if _, err := c.Client().CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if version := c.Kubectl(t, "version"); !strings.Contains(version, "Server Version: v1.36.3") || !strings.Contains(version, "Client Version: v1.36.3") {
		t.Error(version)
	}
}
