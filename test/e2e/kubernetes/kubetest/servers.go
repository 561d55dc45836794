//go:build linux

package kubetest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// startTimeout bounds the start of a server, on a machine that is busy.
const startTimeout = 3 * time.Minute

// Ports of a cluster.
const (
	portEtcd = iota
	portEtcdPeer
	portAPI
	portControllers
	portCount
)

func (c *Cluster) startEtcd() error {
	client, peer := "http://"+c.ports.Address(portEtcd), "http://"+c.ports.Address(portEtcdPeer)
	var err error
	c.etcd, err = process.Start(process.Command{
		Name: "etcd", Program: c.programs.path("etcd"), Log: c.files.path("etcd.log"),
		Args: []string{
			"--data-dir=" + c.files.path("etcd"), "--name=test", "--initial-cluster=test=" + peer,
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
			"--unsafe-no-fsync", "--log-level=error", "--quota-backend-bytes=4294967296",
		},
	})
	if err != nil {
		return err
	}
	return c.etcd.Await("ready", startTimeout, func() error { return process.OK(http.DefaultClient, client+"/health") })
}

// StartAPIServer starts the API server again after KillAPIServer, on its port, and
// waits until it is ready.
func (c *Cluster) StartAPIServer() error {
	var err error
	c.api, err = process.Start(process.Command{
		Name: "kube-apiserver", Program: c.programs.path("kube-apiserver"), Log: c.files.path("kube-apiserver.log"),
		Args: append([]string{
			"--etcd-servers=http://" + c.ports.Address(portEtcd),
			"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + c.ports.Number(portAPI),
			"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/16",
			"--tls-cert-file=" + c.files.path("server.crt"), "--tls-private-key-file=" + c.files.path("server.key"),
			"--token-auth-file=" + c.files.path("tokens.csv"), "--authorization-mode=RBAC", "--anonymous-auth=true",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + c.files.path("accounts.crt"),
			"--service-account-signing-key-file=" + c.files.path("accounts.key"),
			// No controller makes the accounts and tokens that pods would be given.
			"--disable-admission-plugins=ServiceAccount",
			"--audit-policy-file=" + c.files.path("audit.yaml"), "--audit-log-path=" + c.files.path("audit.log"), "--audit-log-mode=blocking", "--audit-log-maxsize=4000",
			"--shutdown-delay-duration=0s", "--event-ttl=1h", "--profiling=false",
		}, c.apiServerFlags...),
	})
	if err != nil {
		return err
	}
	return c.api.Await("ready", startTimeout, func() error { return process.OK(c.http, c.URL()+"/readyz") })
}

// KillAPIServer ends the API server as a crash would.
func (c *Cluster) KillAPIServer() {
	c.api.Kill()
	c.api = nil
}

// Controllers of kube-controller-manager for Deployments, StatefulSets and similar kinds. The
// one of HorizontalPodAutoscalers is Native.
const workloadControllers = "deployment-controller,replicaset-controller,statefulset-controller,replicationcontroller-controller"

// StartControllers starts kube-controller-manager as the configuration says. It is
// ready when its controllers run.
func (c *Cluster) StartControllers(config Config) error {
	controllers := workloadControllers
	if config.WithoutWorkloads {
		controllers = ""
	}
	if config.Native {
		controllers = strings.TrimPrefix(controllers+",horizontal-pod-autoscaler-controller", ",")
	}
	if controllers == "" {
		return nil
	}
	if config.SyncPeriod == 0 {
		config.SyncPeriod = DefaultSyncPeriod
	}
	kubeconfig, err := c.files.kubeconfig(controllersUser, c.URL(), c.files.systemToken)
	if err != nil {
		return err
	}
	c.controllers, err = process.Start(process.Command{
		Name: "kube-controller-manager", Program: c.programs.path("kube-controller-manager"), Log: c.files.path("kube-controller-manager.log"),
		Args: append([]string{
			"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--use-service-account-credentials=true",
			"--bind-address=127.0.0.1", "--secure-port=" + c.ports.Number(portControllers),
			"--tls-cert-file=" + c.files.path("server.crt"), "--tls-private-key-file=" + c.files.path("server.key"),
			"--authorization-always-allow-paths=/healthz,/metrics",
			"--controllers=" + controllers, "--horizontal-pod-autoscaler-sync-period=" + config.SyncPeriod.String(),
			"--kube-api-qps=1000", "--kube-api-burst=2000", "--concurrent-horizontal-pod-autoscaler-syncs=10",
			"--profiling=false",
		}, config.ControllerFlags...),
	})
	if err != nil {
		return err
	}
	healthy := "https://" + c.ports.Address(portControllers) + "/healthz"
	return c.controllers.Await("ready", startTimeout, func() error { return process.OK(c.http, healthy) })
}

// Controllers is the process of kube-controller-manager, and APIServer that of the API server;
// nil if not running. They are for measuring: the cluster ends them.
func (c *Cluster) Controllers() *process.Process { return c.controllers }

// APIServer is described with Controllers.
func (c *Cluster) APIServer() *process.Process { return c.api }

// StopControllers ends kube-controller-manager, if it runs.
func (c *Cluster) StopControllers() {
	if c.controllers != nil {
		c.controllers.Kill()
		c.controllers = nil
	}
}

// stop ends the servers in order.
func (c *Cluster) stop() error {
	c.StopControllers()
	var errs []error
	if c.api != nil {
		// On SIGTERM it would wait for its clients' requests; kill it.
		c.api.Kill()
	}
	if c.etcd != nil {
		c.etcd.Kill()
	}
	c.api, c.etcd = nil, nil
	return errors.Join(errs...)
}

// logs returns the ends of the logs, for a test that failed.
func (c *Cluster) logs() string {
	var all strings.Builder
	for _, p := range []*process.Process{c.etcd, c.api, c.controllers} {
		if p != nil {
			fmt.Fprintf(&all, "%s\n\n", p.Log())
		}
	}
	return all.String()
}
