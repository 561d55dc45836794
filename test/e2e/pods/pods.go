//go:build linux

// Package pods runs the pods of a namespace of kubetest's cluster as real programs, so that
// what a chart or a kustomization renders is tried and not only read.
//
//	node := pods.Start(t, cluster, "setpoint", map[string]pods.Image{"setpoint:dev": image})
//	// install; Deployments, ReplicaSets and StatefulSets are those of the real controllers
//	client, err := setpoint.New(node.Target("setpoint-grpc", 9090), …)
//
// It stands in for scheduler, kubelet, container runtime, network and DNS. Of a pod it takes:
// the image (a folder's worth of files and an entry point), arguments and environment; Secrets,
// ConfigMaps, empty folders and claims as volumes, with their modes; user, group and the group
// of files; the token of its service account; startup, readiness and liveness probes, whose
// timeouts are ten times as long, for the machine of a test may be busy; a preStop that
// sleeps, SIGTERM, the grace period and SIGKILL; restarts. Anything else of a kind that
// would matter fails the test.
//
// What it does not have: cgroups (limits are only told, by GOMEMLIMIT), network namespaces and
// policies, capabilities and seccomp, /proc, image pulls, and volumes that follow a Secret
// that changes. Each pod has a loopback address of its own, at which a program listens that
// was to listen on all, and a folder as its root. A Service is a name in DNS, for all its pods
// that are ready and not ending; its ports are those of the pods.
//
// It needs root: for users, roots of their own and the port of DNS.
package pods

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
)

// nodeName is where all pods are.
const nodeName = "node"

// Node runs the pods of one namespace until its test ends.
type Node struct {
	t         testing.TB
	cluster   *kubetest.Cluster
	namespace string
	images    map[string]Image
	folder    string
	names     *names
	pods      cache.SharedIndexInformer
	services  cache.SharedIndexInformer
	cancel    context.CancelFunc
	done      sync.WaitGroup

	mu      sync.Mutex
	running map[types.UID]*pod
	last    int // of the addresses given out
	ends    []End
}

// End is that of a container's process.
type End struct {
	// Pod and Image are their names.
	Pod, Image string
	// Code is its exit code; -1: a signal ended it.
	Code int
	// Asked says that the pod was to end; the process did not end by itself, and no probe had it
	// ended.
	Asked bool
	// Killed says that it had not ended within the grace period.
	Killed bool
	// Log is the end of its output.
	Log string
}

// Start runs the namespace's pods, including future ones. Images are by their names in
// manifests. If that is impossible here the test is skipped, or fails in CI.
func Start(t testing.TB, c *kubetest.Cluster, namespace string, images map[string]Image) *Node {
	t.Helper()
	if os.Getuid() != 0 {
		kit.Cannot(t, "users, roots and DNS of pods need root")
	}
	c.Kubelet.Leave(namespace)
	n := &Node{t: t, cluster: c, namespace: namespace, images: images, folder: t.TempDir(), running: map[types.UID]*pod{}, last: 1}
	// Other users need access to the folders below it.
	for folder := n.folder; len(folder) > len(os.TempDir()); folder = filepath.Dir(folder) {
		fatal.If(t, os.Chmod(folder, 0o755))
	}
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client(), 0, informers.WithNamespace(namespace))
	n.pods, n.services = factory.Core().V1().Pods().Informer(), factory.Core().V1().Services().Informer()
	var err error
	n.names, err = listen(n.addressesOf)
	fatal.If(t, err)
	_, err = n.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { n.see(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { n.see(o.(*corev1.Pod)) },
		DeleteFunc: n.gone,
	})
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	n.done.Go(func() { n.pods.RunWithContext(ctx) })
	n.done.Go(func() { n.services.RunWithContext(ctx) })
	n.done.Go(n.names.serve)
	t.Cleanup(n.end)
	if !cache.WaitForCacheSync(ctx.Done(), n.pods.HasSynced, n.services.HasSynced) {
		t.Fatal("the node lists no pods")
	}
	return n
}

// end kills all processes.
func (n *Node) end() {
	n.mu.Lock()
	n.cancel()
	for _, p := range n.running {
		p.abandon()
	}
	n.mu.Unlock()
	n.names.close()
	n.done.Wait()
	if !n.t.Failed() {
		return
	}
	for _, e := range n.Ends() {
		n.t.Logf("%s of %s ended: code %d, asked %v, killed %v\n%s", e.Pod, e.Image, e.Code, e.Asked, e.Killed, e.Log)
	}
}

// see starts a pod that is new, and ends one that is deleted.
func (n *Node) see(object *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.running[object.UID]
	switch {
	case p == nil && object.DeletionTimestamp == nil && object.Status.Phase != corev1.PodSucceeded && object.Status.Phase != corev1.PodFailed:
		ctx, cancel := context.WithCancel(context.Background())
		n.last++
		address, err := n.names.address(n.last)
		p = &pod{
			node: n, object: object, address: address, folder: filepath.Join(n.folder, string(object.UID)),
			deleted: make(chan struct{}), abandon: cancel,
		}
		n.running[object.UID] = p
		n.done.Go(func() {
			defer cancel()
			if err == nil {
				err = p.run(ctx)
			}
			if err != nil && ctx.Err() == nil {
				n.t.Errorf("pod %s: %v", object.Name, err)
			}
		})
	case p != nil && object.DeletionTimestamp != nil:
		p.delete(object)
	}
}

// gone ends a pod that the API server has forgotten.
func (n *Node) gone(o any) {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.running[o.(*corev1.Pod).UID]; p != nil {
		p.abandon()
		delete(n.running, p.object.UID)
	}
}

func (n *Node) ended(e End) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ends = append(n.ends, e)
}

// Ends are the ends of all processes so far, in order.
func (n *Node) Ends() []End {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.ends)
}

// Target is a gRPC target for a Service: its name is resolved as in a pod.
func (n *Node) Target(service string, port int) string {
	return fmt.Sprintf("dns://%s/%s.%s.svc.cluster.local:%d", n.names.dns(), service, n.namespace, port)
}

// Resolver is the content of /etc/resolv.conf in a pod.
func (n *Node) Resolver() string {
	return fmt.Sprintf("search %s.svc.cluster.local svc.cluster.local cluster.local\nnameserver %s\noptions ndots:5\n", n.namespace, n.names.dns())
}

// Run runs a program in the root of each ready pod with the labels, as kubectl exec does, and
// returns the outputs.
func (n *Node) Run(ctx context.Context, labels map[string]string, command ...string) (answers []string) {
	n.mu.Lock()
	var in []*pod
	for _, p := range n.running {
		if matches(labels, p.object.Labels) && p.isReady() {
			in = append(in, p)
		}
	}
	n.mu.Unlock()
	for _, p := range in {
		answer, err := p.exec(ctx, command)
		if err != nil {
			answer += err.Error()
		}
		answers = append(answers, answer)
	}
	return answers
}

// addressesOf are the addresses of the ready pods of a Service, nil if there is no such
// Service.
func (n *Node) addressesOf(service string) []net.IP {
	object, exists, err := n.services.GetStore().GetByKey(n.namespace + "/" + service)
	if err != nil || !exists {
		return nil
	}
	addresses := []net.IP{}
	for _, o := range n.pods.GetStore().List() {
		p := o.(*corev1.Pod)
		if p.DeletionTimestamp == nil && p.Status.PodIP != "" && matches(object.(*corev1.Service).Spec.Selector, p.Labels) && ready(p) {
			addresses = append(addresses, net.ParseIP(p.Status.PodIP))
		}
	}
	return addresses
}

func matches(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return len(selector) > 0
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// again calls f until it succeeds, fails permanently, or ctx ends, as the kubelet does with
// missing objects.
func again(ctx context.Context, f func() error) error {
	for {
		err := f()
		var never neverError
		if err == nil || errors.As(err, &never) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// neverError is a permanent error.
type neverError struct{ error }

func never(format string, args ...any) error { return neverError{fmt.Errorf(format, args...)} }

// remove takes a pod that has ended from the API server.
func (n *Node) remove(p *corev1.Pod) error {
	now := int64(0)
	err := n.cluster.Client().CoreV1().Pods(n.namespace).Delete(context.Background(), p.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
