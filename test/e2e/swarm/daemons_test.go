//go:build linux

package swarm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// repository is its root.
const repository = "../../.."

// patience bounds waits that take seconds on an idle machine.
const patience = 3 * time.Minute

// swarm is two joined daemons: the first one is the manager. Both run in one PID, mount and
// network namespace, whose first process is a shell that restarts a daemon when it ends,
// unless its folder has a file "away". Everything ends with that shell.
type swarm struct {
	folder string
	init   *exec.Cmd
	ended  chan struct{}
}

// Programs that the tests run.
var programs = []string{"dockerd", "docker", "containerd", "runc", "ip", "tar"}

const daemons = `mount --make-rprivate / && mount -t proc proc /proc && ip link set lo up || exit 1
for n in 1 2; do
  d=$1/d$n
  mkdir -p "$d"
  while :; do
    while test -e "$d/away"; do sleep 0.1; done
    dockerd --data-root="$d/data" --exec-root="$d/exec" --pidfile="$d/pid" --host="unix://$d/docker.sock" \
      --cgroup-parent="/$(basename "$1")" --bridge=none --iptables=false --ip6tables=false --ip-forward=false \
      --storage-driver=vfs >>"$d/log" 2>&1
    rm -f "$d/pid"
  done &
done
wait`

// startDaemons runs a script in namespaces of its own, which starts daemons below the folder that is
// its argument.
func startDaemons(t *testing.T, script string) *swarm {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin") // where Debian has daemons
	kit.NeedsDocker(t, programs...)
	folder, err := os.MkdirTemp("", "setpoint-swarm-") // short, for sockets
	fatal.If(t, err)
	s := &swarm{folder: folder, ended: make(chan struct{})}
	s.init = exec.Command("sh", "-c", script, "daemons", folder)
	s.init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL, Setpgid: true,
	}
	fatal.If(t, s.init.Start())
	go func() {
		_ = s.init.Wait() // it is killed
		close(s.ended)
	}()
	t.Cleanup(func() { s.stop(t) })
	return s
}

func startSwarm(t *testing.T) *swarm {
	t.Helper()
	s := startDaemons(t, daemons)
	for n := 1; n <= 2; n++ {
		s.await(t, n)
	}
	s.must(t, 1, "swarm", "init", "--advertise-addr=127.0.0.1", "--listen-addr=127.0.0.1:2377")
	token := s.must(t, 1, "swarm", "join-token", "-q", "worker")
	s.must(t, 2, "swarm", "join", "--token="+token, "--advertise-addr=127.0.0.2", "--listen-addr=127.0.0.2:2377", "127.0.0.1:2377")
	image := filepath.Join(s.folder, "burn")
	buildOwn(t, image, "burn")
	tar := archive(t, image)
	for n := 1; n <= 2; n++ {
		s.must(t, n, "import", "--change=ENTRYPOINT [\"/burn\"]", tar, "burn:1")
		s.must(t, n, "import", "--change=ENTRYPOINT [\"/burn\"]", `--change=HEALTHCHECK --start-period=10m --interval=1s --timeout=1m --retries=3 CMD ["/burn", "check"]`, tar, "checked:1")
	}
	return s
}

// buildOwn builds one of these tests' own programs into a folder.
func buildOwn(t *testing.T, folder, program string) {
	t.Helper()
	build := exec.Command("go", "build", "-o", filepath.Join(folder, program), "./"+program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// archive makes a file of a folder, from which an image can be imported.
func archive(t *testing.T, folder string) string {
	t.Helper()
	if out, err := exec.Command("tar", "-C", folder, "-cf", folder+".tar", ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return folder + ".tar"
}

// stop stops the daemons and everything they started.
func (s *swarm) stop(t *testing.T) {
	if t.Failed() {
		for n := 1; n <= 2; n++ {
			text, _ := os.ReadFile(filepath.Join(s.daemon(n), "log"))
			// Docker's own, which a second try may do without; after one of ours there is none.
			text = bytes.ReplaceAll(text, []byte("panic: "), []byte("panic of dockerd: "))
			t.Logf("daemon %d:\n%s", n, text[max(0, len(text)-3<<10):])
		}
	}
	_ = s.init.Process.Kill() // and with it all of its PID namespace
	<-s.ended
	if err := errors.Join(kit.RemoveGroups(filepath.Base(s.folder)), os.RemoveAll(s.folder)); err != nil {
		t.Error(err)
	}
}

func (s *swarm) daemon(n int) string { return filepath.Join(s.folder, fmt.Sprint("d", n)) }
func (s *swarm) socket(n int) string { return filepath.Join(s.daemon(n), "docker.sock") }

// certificates is the folder of a node's certificates from the swarm.
func (s *swarm) certificates(n int) string {
	return filepath.Join(s.daemon(n), "data/swarm/certificates")
}

// docker runs the client against a daemon.
func (s *swarm) docker(n int, args ...string) (string, error) { return s.dockerWith(n, nil, args...) }

// dockerWith is docker with further variables.
func (s *swarm) dockerWith(n int, env []string, args ...string) (string, error) {
	cmd := exec.Command("docker", append([]string{"--host=unix://" + s.socket(n)}, args...)...)
	cmd.Env = append(append(os.Environ(), "DOCKER_CONFIG="+filepath.Join(s.folder, "config")), env...)
	var output, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &complaints
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("docker %s: %w\n%s%s", strings.Join(args, " "), err, output.String(), complaints.String())
	}
	return strings.TrimSpace(output.String()), nil
}

func (s *swarm) must(t *testing.T, n int, args ...string) string {
	t.Helper()
	out, err := s.docker(n, args...)
	fatal.If(t, err)
	return out
}

// mustWith runs the client against the manager with further variables.
func (s *swarm) mustWith(t *testing.T, env []string, args ...string) {
	t.Helper()
	if _, err := s.dockerWith(1, env, args...); err != nil {
		t.Fatal(err)
	}
}

func (s *swarm) await(t *testing.T, n int) {
	t.Helper()
	kit.Eventually(t, patience, fmt.Sprintf("an answer of daemon %d", n), func() error {
		_, err := s.docker(n, "version")
		return err
	})
}

// restart ends a daemon, and waits until it is there again, after away.
func (s *swarm) restart(t *testing.T, n int, away time.Duration) {
	t.Helper()
	before, mark := s.pid(t, n), filepath.Join(s.daemon(n), "away")
	fatal.If(t, os.WriteFile(mark, nil, 0o600))
	fatal.If(t, syscall.Kill(before, syscall.SIGTERM))
	kit.Eventually(t, patience, "the end of the daemon", func() error {
		if s.pid(t, n) == before {
			return errors.New("it is there")
		}
		return nil
	})
	time.Sleep(away)
	fatal.If(t, os.Remove(mark))
	s.await(t, n)
	kit.Eventually(t, patience, "a manager again", func() error {
		_, err := s.docker(n, "node", "ls")
		return err
	})
}

// pid is a daemon's number here, found by its own arguments: the one in its file is of
// another namespace. 0: it is not there.
func (s *swarm) pid(t *testing.T, n int) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	fatal.If(t, err)
	for _, entry := range entries {
		var pid int
		if _, err := fmt.Sscan(entry.Name(), &pid); err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		args := strings.Split(string(line), "\x00")
		if err == nil && filepath.Base(args[0]) == "dockerd" && len(args) > 1 && args[1] == "--data-root="+s.daemon(n)+"/data" {
			return pid
		}
	}
	return 0
}
