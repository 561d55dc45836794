//go:build linux

package kubetest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// DefaultSyncPeriod is the native controller's sync period.
const DefaultSyncPeriod = 2 * time.Second

// Config of a cluster. The zero value is one with the controllers of workloads, and
// without the native controller of HorizontalPodAutoscalers.
type Config struct {
	// Native runs the native controller of HorizontalPodAutoscalers.
	Native bool
	// SyncPeriod is that controller's; 0: DefaultSyncPeriod.
	SyncPeriod time.Duration
	// ControllerFlags go to kube-controller-manager, after the kit's own.
	ControllerFlags []string
	// APIServerFlags go to kube-apiserver, after the kit's own.
	APIServerFlags []string
	// WithoutWorkloads leaves the controllers of Deployments and the like out.
	WithoutWorkloads bool
	// WithoutMetrics leaves the APIs of metrics out.
	WithoutMetrics bool
}

// Cluster is a control plane: etcd, kube-apiserver and kube-controller-manager; this
// process plays kubelet and metrics server.
type Cluster struct {
	// Kubelet makes pods run.
	Kubelet *Kubelet
	// Metrics answers for metrics.k8s.io, custom.metrics.k8s.io and
	// external.metrics.k8s.io; nil with WithoutMetrics.
	Metrics *Metrics

	programs               programs
	files                  *files
	ports                  *process.Ports
	http                   *http.Client
	etcd, api, controllers *process.Process
	config                 *rest.Config
	kubeconfig             string
	apiServerFlags         []string
	client                 *kubernetes.Clientset
	dynamic                dynamic.Interface
}

// Start starts a cluster that ends with its test.
func Start(t testing.TB, config Config) *Cluster {
	t.Helper()
	Require(t)
	c, err := start(t.TempDir(), config)
	fatal.If(t, err)
	t.Cleanup(func() {
		c.ShowLogs(t)
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// starts serializes the starts of clusters: concurrently each would take longer than one does
// alone, on few processors longer than the tests' patience.
var starts sync.Mutex

// start starts a cluster with its files in the folder. After an error nothing runs.
func start(folder string, config Config) (c *Cluster, err error) {
	c = &Cluster{apiServerFlags: config.APIServerFlags}
	silence()
	starts.Lock()
	defer starts.Unlock()
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.programs, err = findPrograms(); err != nil {
		return c, err
	}
	if c.files, err = newFiles(folder); err != nil {
		return c, err
	}
	if c.ports, err = process.Reserve(portCount); err != nil {
		return c, err
	}
	if err := c.connect(); err != nil {
		return c, err
	}
	if err := c.startEtcd(); err != nil {
		return c, err
	}
	if err := c.StartAPIServer(); err != nil {
		return c, err
	}
	if c.Kubelet, err = startKubelet(c.client); err != nil {
		return c, err
	}
	if !config.WithoutMetrics {
		if c.Metrics, err = startMetrics(c); err != nil {
			return c, err
		}
	}
	return c, c.StartControllers(config)
}

// silence drops the log of Kubernetes' client: watches end whenever a server does.
var silence = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })

// connect makes the clients.
func (c *Cluster) connect() error {
	ca, err := os.ReadFile(c.files.path("server.crt"))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c.http = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	if c.kubeconfig, err = c.files.kubeconfig(adminUser, c.URL(), c.files.adminToken); err != nil {
		return err
	}
	if c.config, err = clientConfig(c.kubeconfig); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return err
	}
	c.dynamic, err = dynamic.NewForConfig(c.config)
	return err
}

// clientConfig is without a limit of its own: the test decides how fast it is.
func clientConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.UserAgent = -1, testAgent
	return config, nil
}

func (c *Cluster) close() error {
	if c.Kubelet != nil {
		c.Kubelet.stop()
	}
	if c.Metrics != nil {
		c.Metrics.stop()
	}
	err := c.stop()
	if c.ports != nil {
		c.ports.Release()
	}
	return err
}

// ShowLogs logs the ends of the servers' logs if the test failed.
func (c *Cluster) ShowLogs(t testing.TB) {
	if t.Failed() {
		t.Logf("the cluster's logs:\n%s", c.logs())
	}
}

// URL is the API server's.
func (c *Cluster) URL() string { return "https://" + c.ports.Address(portAPI) }

// CAFile names the file of the certificate that the API server has, PEM.
func (c *Cluster) CAFile() string { return c.files.path("server.crt") }

// Config returns the administrator's client configuration.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig is the name of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// Client is the administrator's client.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Dynamic is the administrator's dynamic client.
func (c *Cluster) Dynamic() dynamic.Interface { return c.dynamic }

// Namespace creates a namespace with a unique name that begins as given. It stays until the
// cluster ends; tests don't see each other's namespaces.
func (c *Cluster) Namespace(t testing.TB, prefix string) string {
	t.Helper()
	name := fmt.Sprintf("%s-%06x", prefix, rand.IntN(1<<24))
	_, err := c.client.CoreV1().Namespaces().Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	fatal.If(t, err)
	return name
}
