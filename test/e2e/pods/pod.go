//go:build linux

package pods

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// searchPath is the default PATH of container runtimes.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// pod is one that runs.
type pod struct {
	node    *Node
	object  *corev1.Pod // as it was first seen
	address string
	folder  string
	image   Image
	env     []string
	// abandon ends it at once.
	abandon context.CancelFunc

	deleted   chan struct{} // closed when it should end
	deletion  sync.Once
	grace     time.Duration // valid once deleted is closed
	restarts  int32
	started   metav1.Time
	claims    map[string]string // folders of claims, by where they are while the pod has them
	statuses  sync.Mutex        // one writes the status at a time
	mu        sync.Mutex
	readyness bool
}

// delete begins its end.
func (p *pod) delete(object *corev1.Pod) {
	p.deletion.Do(func() {
		if object.DeletionGracePeriodSeconds != nil {
			p.grace = time.Duration(*object.DeletionGracePeriodSeconds) * time.Second
		}
		close(p.deleted)
	})
}

func (p *pod) isDeleted() bool {
	select {
	case <-p.deleted:
		return true
	default:
		return false
	}
}

func (p *pod) isReady() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readyness
}

func (p *pod) container() *corev1.Container { return &p.object.Spec.Containers[0] }

// run runs the pod until it has ended.
func (p *pod) run(ctx context.Context) error {
	if err := p.supported(); err != nil {
		return err
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.object.Name, UID: p.object.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}
	err := p.node.cluster.Client().CoreV1().Pods(p.node.namespace).Bind(ctx, binding, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it has gone already
	}
	if err != nil {
		return err
	}
	prepared, cancel := context.WithCancel(ctx)
	go func() { // a pod that is deleted does not wait for its volumes
		select {
		case <-p.deleted:
			cancel()
		case <-prepared.Done():
		}
	}()
	err = again(prepared, func() error { return p.prepare(prepared) })
	cancel()
	if err != nil {
		if p.isDeleted() {
			return errors.Join(p.release(), p.node.remove(p.object))
		}
		return err
	}
	p.started = metav1.Now()
	for {
		code, err := p.once(ctx)
		switch {
		case err != nil:
			return err
		case p.isDeleted():
			return errors.Join(p.release(), p.node.remove(p.object))
		case p.object.Spec.RestartPolicy == corev1.RestartPolicyNever:
			phase := corev1.PodSucceeded
			if code != 0 {
				phase = corev1.PodFailed
			}
			return p.report(ctx, phase, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code)}})
		}
		p.restarts++
		if err := p.report(ctx, corev1.PodRunning, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}); err != nil {
			return err
		}
		select { // the kubelet waits ten seconds, and ever longer
		case <-ctx.Done():
			return ctx.Err()
		case <-p.deleted:
		case <-time.After(time.Second):
		}
	}
}

// supported refuses unsupported fields instead of ignoring them.
func (p *pod) supported() error {
	spec := &p.object.Spec
	if len(spec.Containers) != 1 || len(spec.InitContainers) > 0 || spec.HostNetwork || spec.HostPID {
		return never("only pods with one container and without the host's namespaces are run here")
	}
	c := p.container()
	if len(c.Command) > 0 || len(c.EnvFrom) > 0 || c.WorkingDir != "" {
		return never("command, envFrom and workingDir are not read here")
	}
	if c.Lifecycle != nil && (c.Lifecycle.PostStart != nil || c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep == nil) {
		return never("of the lifecycle only a preStop that sleeps is done here")
	}
	if spec.SecurityContext == nil || spec.SecurityContext.RunAsUser == nil || spec.SecurityContext.RunAsGroup == nil {
		return never("it says not which user it runs as")
	}
	image, ok := p.node.images[c.Image]
	if !ok {
		return never("there is no image %s; there are %q", c.Image, slices.Sorted(maps.Keys(p.node.images)))
	}
	p.image = image
	return nil
}

// prepare makes the root of the pod, and its environment.
func (p *pod) prepare(ctx context.Context) error {
	if err := errors.Join(p.release(), os.RemoveAll(p.folder)); err != nil {
		return err
	}
	if err := p.image.unpack(filepath.Join(p.node.folder, "images"), p.folder); err != nil {
		return never("image: %w", err)
	}
	files := map[string]string{
		"/etc/resolv.conf": p.node.Resolver(),
		"/etc/hosts":       fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", p.address, p.object.Name),
	}
	for name, text := range files {
		name = filepath.Join(p.folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	if len(p.image.Entrypoint) > 0 { // by which a program finds those beside it
		self := filepath.Join(p.folder, "proc/self")
		if err := errors.Join(os.MkdirAll(self, 0o755), os.Symlink(p.image.Entrypoint[0], filepath.Join(self, "exe"))); err != nil {
			return err
		}
	}
	for _, mount := range p.container().VolumeMounts {
		if err := p.mount(ctx, mount); err != nil {
			return fmt.Errorf("volume %s: %w", mount.Name, err)
		}
	}
	if err := p.account(ctx); err != nil {
		return fmt.Errorf("service account %s: %w", p.object.Spec.ServiceAccountName, err)
	}
	return p.environment()
}

func (p *pod) environment() error {
	p.env = []string{"PATH=" + searchPath, "HOME=/", "HOSTNAME=" + p.object.Name}
	server := strings.TrimPrefix(p.node.cluster.URL(), "https://")
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return err
	}
	p.env = append(p.env, "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port)
	for _, e := range p.container().Env {
		value := e.Value
		switch from := e.ValueFrom; {
		case from == nil:
			if strings.HasPrefix(value, ":") && p.image.Listen == nil {
				value = p.address + value
			}
		case from.ResourceFieldRef != nil && from.ResourceFieldRef.Resource == "limits.memory":
			value = strconv.FormatInt(p.container().Resources.Limits.Memory().Value(), 10)
		default:
			return never("the variable %s is from where nothing is read here", e.Name)
		}
		p.env = append(p.env, e.Name+"="+value)
	}
	return nil
}

// mount puts a volume into the root. A missing object may still appear.
func (p *pod) mount(ctx context.Context, mount corev1.VolumeMount) error {
	core := p.node.cluster.Client().CoreV1()
	i := slices.IndexFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
	if i < 0 || mount.SubPath != "" {
		return never("it is not there, or a part of it is mounted")
	}
	volume, at := p.object.Spec.Volumes[i], filepath.Join(p.folder, mount.MountPath)
	var data map[string][]byte
	var items []corev1.KeyToPath
	mode := os.FileMode(0o644)
	switch {
	case volume.Secret != nil:
		secret, err := core.Secrets(p.node.namespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		data, items = secret.Data, volume.Secret.Items
		if volume.Secret.DefaultMode != nil {
			mode = os.FileMode(*volume.Secret.DefaultMode)
		}
	case volume.ConfigMap != nil:
		config, err := core.ConfigMaps(p.node.namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		data = map[string][]byte{}
		for key, text := range config.Data {
			data[key] = []byte(text)
		}
		items = volume.ConfigMap.Items
		if volume.ConfigMap.DefaultMode != nil {
			mode = os.FileMode(*volume.ConfigMap.DefaultMode)
		}
	case volume.EmptyDir != nil:
		return p.writable(at)
	case volume.PersistentVolumeClaim != nil:
		claim := filepath.Join(p.node.folder, "claims", volume.PersistentVolumeClaim.ClaimName)
		if p.claims == nil {
			p.claims = map[string]string{}
		}
		p.claims[at] = claim
		return errors.Join(p.writable(claim), os.MkdirAll(filepath.Dir(at), 0o755), os.Rename(claim, at))
	default:
		return never("it is of a kind that is not read here")
	}
	if items == nil {
		for key := range data {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	for _, item := range items {
		text, ok := data[item.Key]
		if !ok {
			return fmt.Errorf("it has no key %q", item.Key)
		}
		if err := p.file(filepath.Join(at, item.Path), text, mode); err != nil {
			return err
		}
	}
	return nil
}

// release puts the folders of claims back where the next pod looks for them.
func (p *pod) release() error {
	var errs []error
	for at, claim := range p.claims {
		errs = append(errs, os.Rename(at, claim))
	}
	p.claims = nil
	return errors.Join(errs...)
}

// file writes one that root has, and the group of files.
func (p *pod) file(name string, text []byte, mode os.FileMode) error {
	group := -1
	if p.object.Spec.SecurityContext.FSGroup != nil {
		group = int(*p.object.Spec.SecurityContext.FSGroup)
	}
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text, mode), os.Chmod(name, mode), os.Chown(name, 0, group))
}

// writable makes a folder that the group of files may write.
func (p *pod) writable(folder string) error {
	group := -1
	if p.object.Spec.SecurityContext.FSGroup != nil {
		group = int(*p.object.Spec.SecurityContext.FSGroup)
	}
	return errors.Join(os.MkdirAll(folder, 0o770), os.Chown(folder, 0, group), os.Chmod(folder, 0o2770))
}

// account puts the token of the service account where clients look for it.
func (p *pod) account(ctx context.Context) error {
	if mounted := p.object.Spec.AutomountServiceAccountToken; mounted == nil || !*mounted {
		return nil
	}
	seconds := int64(3600)
	token, err := p.node.cluster.Client().CoreV1().ServiceAccounts(p.node.namespace).CreateToken(ctx, p.object.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(p.node.cluster.CAFile())
	if err != nil {
		return err
	}
	const folder = "/var/run/secrets/kubernetes.io/serviceaccount"
	for name, text := range map[string][]byte{"token": []byte(token.Status.Token), "ca.crt": ca, "namespace": []byte(p.node.namespace)} {
		if err := p.file(filepath.Join(p.folder, folder, name), text, 0o440); err != nil {
			return err
		}
	}
	return nil
}

// command is a program in the pod's root, as its user.
func (p *pod) command(arguments []string) (*exec.Cmd, error) {
	path, err := p.find(arguments[0])
	if err != nil {
		return nil, err
	}
	security := p.object.Spec.SecurityContext
	credential := &syscall.Credential{Uid: uint32(*security.RunAsUser), Gid: uint32(*security.RunAsGroup)}
	if security.FSGroup != nil {
		credential.Groups = []uint32{uint32(*security.FSGroup)}
	}
	return &exec.Cmd{
		Path: path, Args: arguments, Env: p.env, Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{Chroot: p.folder, Credential: credential, Pdeathsig: syscall.SIGKILL},
	}, nil
}

// find returns the path of a program in the pod's root, as a runtime looks for it.
func (p *pod) find(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for folder := range strings.SplitSeq(searchPath, ":") {
		if _, err := os.Stat(filepath.Join(p.folder, folder, name)); err == nil {
			return filepath.Join(folder, name), nil
		}
	}
	return "", never("exec: %q: executable file not found in $PATH", name)
}

func (p *pod) exec(ctx context.Context, arguments []string) (string, error) {
	cmd, err := p.command(arguments)
	if err != nil {
		return "", err
	}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	err = cmd.Wait()
	return output.String(), err
}

// once runs the container's program once, and returns its exit code.
func (p *pod) once(ctx context.Context) (code int, err error) {
	arguments := slices.Concat(p.image.Entrypoint, p.container().Args)
	if p.image.Listen != nil {
		arguments = append(arguments, p.image.Listen(p.address)...)
	}
	cmd, err := p.command(arguments)
	if err != nil {
		return 0, err
	}
	name := filepath.Join(p.node.folder, fmt.Sprintf("%s-%d.log", p.object.Name, p.restarts))
	log, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	asked, killed := p.tend(ctx, cmd.Process, exited)
	<-exited
	p.setReady(false)
	code = cmd.ProcessState.ExitCode()
	text, _ := os.ReadFile(name)
	if ctx.Err() == nil || asked {
		p.node.ended(End{Pod: p.object.Name, Image: p.container().Image, Code: code, Asked: asked, Killed: killed, Log: process.End(text)})
	}
	return code, ctx.Err()
}

// tend probes the process until it ends, or should end.
func (p *pod) tend(ctx context.Context, process *os.Process, exited <-chan struct{}) (asked, killed bool) {
	probing, stop := context.WithCancel(ctx)
	defer stop()
	unwell := make(chan struct{})
	var probes sync.WaitGroup
	defer probes.Wait()
	defer stop()
	probes.Go(func() { p.probe(probing, unwell) })
	select {
	case <-exited:
		return false, false
	case <-ctx.Done():
		_ = process.Kill()
		return false, true
	case <-unwell:
		_, killed = p.terminate(ctx, process, exited, time.Duration(*p.object.Spec.TerminationGracePeriodSeconds)*time.Second)
		return false, killed
	case <-p.deleted:
		return p.terminate(ctx, process, exited, p.grace)
	}
}

// terminate lets the process end, after the preStop, within the grace period.
func (p *pod) terminate(ctx context.Context, process *os.Process, exited <-chan struct{}, grace time.Duration) (asked, killed bool) {
	over := time.After(grace)
	if hooks := p.container().Lifecycle; hooks != nil && hooks.PreStop != nil {
		select {
		case <-exited:
			return false, false // by itself
		case <-ctx.Done():
		case <-over:
		case <-time.After(time.Duration(hooks.PreStop.Sleep.Seconds) * time.Second):
		}
	}
	_ = process.Signal(syscall.SIGTERM)
	select {
	case <-exited:
		return true, false
	case <-ctx.Done():
	case <-over:
	}
	_ = process.Kill()
	return true, true
}

// setReady sets the readiness, which Run uses.
func (p *pod) setReady(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readyness = is
}

// report writes the status of the pod.
func (p *pod) report(ctx context.Context, phase corev1.PodPhase, state corev1.ContainerState) error {
	p.statuses.Lock()
	defer p.statuses.Unlock()
	now, is := metav1.Now(), corev1.ConditionFalse
	if phase == corev1.PodRunning && p.isReady() {
		is = corev1.ConditionTrue
	}
	started := state.Running != nil
	status := corev1.PodStatus{
		Phase: phase, PodIP: p.address, PodIPs: []corev1.PodIP{{IP: p.address}}, StartTime: &p.started,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: is, LastTransitionTime: now},
			{Type: corev1.ContainersReady, Status: is, LastTransitionTime: now},
		},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: p.container().Name, Image: p.container().Image, ImageID: p.container().Image, RestartCount: p.restarts,
			Ready: is == corev1.ConditionTrue, Started: &started, State: state,
		}},
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.object.UID}, "status": status})
	if err != nil {
		return err
	}
	return again(ctx, func() error {
		_, err := p.node.cluster.Client().CoreV1().Pods(p.node.namespace).Patch(ctx, p.object.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // it has gone
		}
		return err
	})
}
