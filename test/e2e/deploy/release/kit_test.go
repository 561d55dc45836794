//go:build linux

package release

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/pods"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

const (
	repository = "../../../.."
	namespace  = "setpoint"
	// patience bounds waits that take seconds on an idle machine.
	patience = 3 * time.Minute
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// images are those of this version as "setpoint:current" and under the other given names, and
// Redis.
func images(t *testing.T, names ...string) map[string]pods.Image {
	t.Helper()
	serve, err := service.Program()
	fatal.If(t, err)
	agent, err := service.Kubernetes()
	fatal.If(t, err)
	redis, err := pods.Redis()
	if err != nil {
		kit.Cannot(t, err.Error())
	}
	images := map[string]pods.Image{"redis:7.2": redis}
	for _, name := range append(names, "setpoint:current") {
		images[name] = pods.Setpoint(serve, agent)
	}
	return images
}

// data is that of a Secret of the release.
func data(t *testing.T, c *kubetest.Cluster, secret, key string) string {
	t.Helper()
	s, err := c.Client().CoreV1().Secrets(namespace).Get(t.Context(), secret, metav1.GetOptions{})
	fatal.If(t, err)
	return string(s.Data[key])
}

// client calls the service in the cluster as another pod would, as the agent.
func client(t *testing.T, c *kubetest.Cluster, node *pods.Node, options ...setpoint.Option) *setpoint.Client {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	fatal.If(t, os.WriteFile(ca, []byte(data(t, c, "setpoint-ca", "ca.crt")), 0o600))
	client, err := setpoint.New(node.Target("setpoint-grpc", 9090),
		append([]setpoint.Option{setpoint.WithTLS(setpoint.TLS{CAFile: ca}), setpoint.WithToken(data(t, c, "setpoint-agent", "token"))}, options...)...)
	fatal.If(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}
