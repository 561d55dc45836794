//go:build linux

package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// daemon is a dockerd with everything it has in a folder. It is the first process of a
// PID namespace and has a mount namespace, so that containers, shims and mounts end with
// it, and it with the test process, however that ends.
type daemon struct {
	folder string
	lock   *os.File
	cmd    *exec.Cmd
	log    *os.File
	ended  chan struct{}
}

// required are the programs that the tests run.
var required = []string{"dockerd", "docker", "docker-compose", "containerd", "runc", "redis-server", "haproxy", "openssl", "ip"}

var shared struct {
	sync.Mutex
	daemon *daemon
	err    error
}

func TestMain(m *testing.M) {
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin") // where Debian has daemons
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		end(1)
	}()
	end(m.Run())
}

// end stops the daemon and exits.
func end(code int) {
	shared.Lock() // for good: no other test starts one
	if shared.daemon != nil {
		if err := shared.daemon.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// docker returns the daemon that the tests share.
func docker(t *testing.T) *daemon {
	t.Helper()
	kit.NeedsDocker(t, required...)
	shared.Lock()
	defer shared.Unlock()
	if shared.daemon == nil && shared.err == nil {
		shared.daemon, shared.err = startDaemon()
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.daemon
}

func startDaemon() (*daemon, error) {
	if err := removeLeftovers(); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", folders)
	if err != nil {
		return nil, err
	}
	d := &daemon{folder: folder, ended: make(chan struct{})}
	if d.lock, err = lock(folder); err != nil {
		return nil, err
	}
	if d.log, err = os.Create(d.path("dockerd.log")); err != nil {
		return nil, err
	}
	d.cmd = exec.Command("sh", "-c", `mount --make-rprivate / && mount -t proc proc /proc && exec dockerd "$@"`, "dockerd",
		"--data-root="+d.path("data"), "--exec-root="+d.path("exec"), "--pidfile="+d.path("pid"),
		"--host="+d.host(), "--cgroup-parent="+d.cgroup(),
		"--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--storage-driver=vfs")
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // so that interrupting the tests lets them stop it
	}
	if err := d.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	go func() {
		_ = d.cmd.Wait() // its output is in the log
		close(d.ended)
	}()
	if err := d.await(patience); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

func (d *daemon) path(name string) string { return filepath.Join(d.folder, name) }

func (d *daemon) host() string { return "unix://" + d.path("docker.sock") }

// cgroup is the control group of its containers, so that none stays elsewhere.
func (d *daemon) cgroup() string { return "/" + filepath.Base(d.folder) }

func (d *daemon) await(within time.Duration) error {
	for deadline := time.Now().Add(within); ; {
		if _, err := d.run("docker", "version"); err == nil {
			return nil
		}
		select {
		case <-d.ended:
			return fmt.Errorf("dockerd ended\n%s", d.logs())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("dockerd was not ready within %v\n%s", within, d.logs())
		}
	}
}

func (d *daemon) logs() string {
	text, err := os.ReadFile(d.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4<<10):])
}

// stop stops the daemon and removes its files.
func (d *daemon) stop() error {
	defer d.lock.Close()
	defer d.log.Close()
	err := d.cmd.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case <-d.ended:
	case <-time.After(patience):
		err = errors.Join(err, fmt.Errorf("dockerd was still running %v after SIGTERM", patience), d.cmd.Process.Kill())
		<-d.ended
	}
	return errors.Join(err, removeFolder(d.folder))
}

// run runs a program for this daemon, in the repository, and returns its output.
func (d *daemon) run(name string, args ...string) (string, error) {
	return d.runWith(nil, name, args...)
}

func (d *daemon) runWith(env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+d.host(), "DOCKER_CONFIG="+d.path("config"), "DOCKER_BUILDKIT=0")
	cmd.Env = append(cmd.Env, env...)
	var output, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &complaints
	if err := cmd.Run(); err != nil {
		return output.String(), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, output.String(), complaints.String())
	}
	return strings.TrimSpace(output.String()), nil
}

// must is run; a failure ends the test.
func (d *daemon) must(t *testing.T, name string, args ...string) string {
	t.Helper()
	output, err := d.run(name, args...)
	fatal.If(t, err)
	return output
}

// users returns the user ids of a container's processes, at least one.
func (d *daemon) users(t *testing.T, container string) []string {
	t.Helper()
	lines := strings.Split(d.must(t, "docker", "top", container, "-eo", "pid,uid"), "\n")
	var users []string
	for _, line := range lines[1:] {
		users = append(users, strings.Fields(line)[1])
	}
	if len(users) == 0 {
		t.Fatalf("nothing runs in %s", container)
	}
	return users
}
