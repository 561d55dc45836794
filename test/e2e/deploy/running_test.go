//go:build linux

package deploy

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
)

// running are containers as a kubelet would make them of the manifests: with the image,
// arguments, environment, files, user, limits and probes that stand there.
type running struct {
	*daemon
	t       *testing.T
	c       *kubetest.Cluster
	files   map[string]map[string]string
	network string
	// addresses of containers, by the name of the Service that leads there.
	addresses map[string]string
}

// Service, Redis and agent of the base work together, and scale.
func TestTheBaseScales(t *testing.T) {
	d := docker(t)
	standInForRedis(t, d)
	c := kubetest.Start(t, kubetest.Config{})
	secrets, err := exec.Command(filepath.Join(repository, "deploy/secrets.sh"), "--kubernetes").Output()
	fatal.If(t, err)
	base := build(t, c, "base")
	c.Apply(t, base)
	c.Apply(t, string(secrets))
	r := &running{daemon: d, t: t, c: c, files: filesOf(t, base+"\n---\n"+string(secrets)), addresses: map[string]string{}}
	r.network = d.must(t, "docker", "network", "create", "pods")
	t.Cleanup(func() { d.must(t, "docker", "network", "rm", r.network) })
	pods := map[string]template{}
	for _, pod := range templates(t, base) {
		pods[pod.name] = pod
	}
	r.start(pods["setpoint-redis"], "redis:7.2", "--network="+r.network, "--network-alias=setpoint-redis", "--volume=/data")
	r.addresses["setpoint-grpc"] = r.start(pods["setpoint"], image(t, d), "--network="+r.network)
	r.startAgent(pods["setpoint-agent"])

	in := c.Namespace(t, "shop")
	c.Deployment(t, in, "web", 2)
	c.Metrics.SetCPU(in, "web", 600) // of 100 a pod, at 50 %
	c.Apply(t, `apiVersion: autoscaling.setpoint.dev/v1
kind: Autoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 20
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
  syncPeriodSeconds: 1
`, "--namespace="+in)
	kit.Eventually(t, patience, "scaled", func() error {
		deployment, err := c.Client().AppsV1().Deployments(in).Get(context.Background(), "web", metav1.GetOptions{})
		if err == nil && *deployment.Spec.Replicas != 12 {
			err = fmt.Errorf("%d replicas, want 12: %s", *deployment.Spec.Replicas, c.Kubectl(t, "get", "asr", "--output=yaml", "--namespace="+in))
		}
		return err
	})
	if shown := c.Kubectl(t, "get", "leases", "--namespace="+namespace); !strings.Contains(shown, "setpoint-agent") {
		t.Errorf("no agent was elected:\n%s", shown)
	}
}

// start runs a pod's container until it is ready by its probe and returns its address.
func (r *running) start(pod template, image string, more ...string) string {
	r.t.Helper()
	container := &pod.Spec.Containers[0]
	folder := r.t.TempDir()
	fatal.If(r.t, mount(folder, &pod.Spec, r.files))
	r.readable(folder, pod.Spec.SecurityContext)
	args := []string{"run", "--detach", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges",
		fmt.Sprintf("--user=%d:%d", *pod.Spec.SecurityContext.RunAsUser, *pod.Spec.SecurityContext.RunAsGroup),
		"--memory=" + strconv.FormatInt(container.Resources.Limits.Memory().Value(), 10)}
	for _, mounted := range container.VolumeMounts {
		if source := filepath.Join(folder, mounted.MountPath); exists(source) {
			args = append(args, "--volume="+source+":"+mounted.MountPath+":ro")
		}
	}
	for _, variable := range container.Env {
		value := variable.Value
		if variable.ValueFrom != nil { // limits.memory
			value = strconv.FormatInt(container.Resources.Limits.Memory().Value(), 10)
		}
		args = append(args, "--env="+variable.Name+"="+value)
	}
	args = append(append(args, more...), image)
	id := r.must(r.t, "docker", append(args, container.Args...)...)
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.t.Log(r.run("sh", "-c", "docker logs --tail=40 "+id+" 2>&1"))
		}
		r.must(r.t, "docker", "rm", "--force", "--volumes", id)
	})
	address := r.must(r.t, "docker", "inspect", "--format={{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", id)
	kit.Eventually(r.t, patience, pod.name+" ready", func() error { return r.probe(address, container, args) })
	return address
}

// probe probes as the manifests tell a kubelet to.
func (r *running) probe(address string, container *corev1.Container, args []string) error {
	handler := container.ReadinessProbe.ProbeHandler
	if handler.TCPSocket != nil {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(address, "6379"), 10*time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	at := ""
	for _, port := range container.Ports {
		if port.Name == handler.HTTPGet.Port.StrVal {
			at = net.JoinHostPort(address, strconv.Itoa(int(port.ContainerPort)))
		}
	}
	for _, arg := range args { // where the test says so
		if own, ok := strings.CutPrefix(arg, "--env=SETPOINT_ADMIN_ADDRESS=127."); ok {
			at = "127." + own
		}
	}
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get("http://" + at + handler.HTTPGet.Path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s", at, handler.HTTPGet.Path, response.Status)
	}
	return nil
}

// startAgent starts the agent with a pod's view of its cluster. As the API server listens on
// loopback only, so does the agent.
func (r *running) startAgent(pod template) {
	r.t.Helper()
	account := r.t.TempDir()
	for name, text := range map[string]string{
		"token":     r.c.Kubectl(r.t, "create", "token", "setpoint-agent", "--namespace="+namespace),
		"ca.crt":    read(r.t, r.c.CAFile()),
		"namespace": namespace,
	} {
		fatal.If(r.t, os.WriteFile(filepath.Join(account, name), []byte(strings.TrimSpace(text)), 0o600))
	}
	r.readable(account, pod.Spec.SecurityContext)
	server, err := url.Parse(r.c.URL())
	fatal.If(r.t, err)
	p, err := process.Reserve(1)
	fatal.If(r.t, err)
	r.t.Cleanup(p.Release)
	more := []string{"--network=host", "--volume=" + account + ":/var/run/secrets/kubernetes.io/serviceaccount:ro",
		"--env=KUBERNETES_SERVICE_HOST=" + server.Hostname(), "--env=KUBERNETES_SERVICE_PORT=" + server.Port(),
		"--env=SETPOINT_ADMIN_ADDRESS=" + p.Address(0)}
	for name, address := range r.addresses {
		more = append(more, "--add-host="+name+":"+address)
	}
	r.start(pod, image(r.t, r.daemon), more...)
}

// readable makes files readable for the pod's group, as in the volumes of a pod with fsGroup.
func (r *running) readable(folder string, security *corev1.PodSecurityContext) {
	r.t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o440)
		if entry.IsDir() {
			mode = 0o750
		}
		if err := os.Chown(path, 0, int(*security.FSGroup)); err != nil {
			return err
		}
		return os.Chmod(path, mode)
	})
	fatal.If(r.t, err)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
