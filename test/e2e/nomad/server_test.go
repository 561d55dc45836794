//go:build linux

package nomad

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// management is the secret of the token that may do all.
const management = "6b6ab2f8-5e3c-4f52-9d6f-6f6c2f0c2b11"

// server is a real Nomad, server and client in one. Its addresses stay the same while its process
// comes and goes.
type server struct {
	process *process.Process
	command process.Command
	folder  string
	url     string
	client  *api.Client // that of management
	driver  string      // of tasks that only have to be there
}

// program is Nomad's file, found once.
var program = sync.OnceValues(func() (string, error) {
	root, err := process.Repository()
	if err != nil {
		return "", err
	}
	out, err := exec.Command(filepath.Join(root, "scripts", "nomad.sh")).Output()
	if err != nil {
		return "", fmt.Errorf("scripts/nomad.sh: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// newServer starts a Nomad with access control. Only a client that publishes metrics of
// allocations has their statistics.
func newServer(publish bool) (*server, error) {
	file, err := program()
	if err != nil {
		return nil, err
	}
	ports, err := process.Reserve(3)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "nomad-")
	if err != nil {
		return nil, err
	}
	s := &server{folder: folder, url: "http://" + ports.Address(0)}
	ports.Release() // gossip takes UDP ports, too
	config := filepath.Join(folder, "agent.hcl")
	// The denied fingerprints ask the network, or for programs that are not there.
	text := fmt.Sprintf(`
data_dir = %q
bind_addr = "127.0.0.1"
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
disable_update_check = true
ports {
  http = %s
  rpc  = %s
  serf = %s
}
acl { enabled = true }
server {
  enabled          = true
  bootstrap_expect = 1
}
client {
  enabled = true
  options = { "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean,vault,consul,cni" }
}
plugin "raw_exec" {
  config { enabled = true }
}
telemetry { publish_allocation_metrics = %t }
`, filepath.Join(folder, "data"), ports.Number(0), ports.Number(1), ports.Number(2), publish)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	s.command = process.Command{Name: "nomad", Program: file, Args: []string{"agent", "-config=" + config}, Env: []string{"TMPDIR=" + folder}, Log: filepath.Join(folder, "nomad.log")}
	if s.client, err = api.NewClient(&api.Config{Address: s.url, SecretID: management}); err != nil {
		return nil, err
	}
	return s, s.start()
}

// start starts the process, and waits until tasks can be placed.
func (s *server) start() error {
	var err error
	if s.process, err = process.Start(s.command); err != nil {
		return err
	}
	return s.process.Await("ready", process.Patience, func() error {
		_, _, err := s.client.ACLTokens().BootstrapOpts(management, nil)
		if err != nil && !strings.Contains(err.Error(), "already done") {
			return err
		}
		nodes, _, err := s.client.Nodes().List(nil)
		if err != nil {
			return err
		}
		if len(nodes) != 1 || nodes[0].Status != "ready" {
			return fmt.Errorf("its clients are %v", nodes)
		}
		s.driver = "raw_exec" // releases don't have the other one
		if d := nodes[0].Drivers["mock_driver"]; d != nil && d.Healthy {
			s.driver = "mock_driver"
		}
		return nil
	})
}

// kill ends the process as a crash would; its tasks go on.
func (s *server) kill() { s.process.Kill() }

// forget deletes all that the killed server has stored.
func (s *server) forget() error { return os.RemoveAll(filepath.Join(s.folder, "data", "server")) }

// purge removes all jobs of a namespace, and waits until their tasks have ended.
func (s *server) purge(namespace string) error {
	jobs, _, err := s.client.Jobs().List(&api.QueryOptions{Namespace: namespace})
	if err != nil {
		return err
	}
	for _, job := range jobs {
		if _, _, err := s.client.Jobs().Deregister(job.ID, true, &api.WriteOptions{Namespace: job.Namespace}); err != nil {
			return err
		}
	}
	for range 300 {
		running, _, err := s.client.Allocations().List(&api.QueryOptions{Namespace: namespace, Filter: `ClientStatus == "running" or ClientStatus == "pending"`})
		if err != nil || len(running) == 0 {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("tasks have not ended")
}

// end removes all jobs, so that no task stays, and ends the server.
func (s *server) end() error {
	if err := s.purge("*"); err != nil {
		fmt.Fprintln(os.Stderr, "nomad:", err)
	}
	s.process.Kill() // of what it still does nothing is wanted
	s.endLeft()
	for _, name := range []string{"secrets", "private"} {
		mounted, err := filepath.Glob(filepath.Join(s.folder, "data", "alloc", "*", "*", name))
		if err != nil {
			return err
		}
		for _, folder := range mounted {
			_ = syscall.Unmount(folder, syscall.MNT_DETACH) // some are not, any more
		}
	}
	return os.RemoveAll(s.folder)
}

// endLeft ends what a Nomad that was killed leaves behind: executors, which name its folder, and
// tasks, which run in it.
func (s *server) endLeft() {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, at := range processes {
		command, _ := os.ReadFile(filepath.Join(at, "cmdline"))
		in, _ := os.Readlink(filepath.Join(at, "cwd"))
		id, err := strconv.Atoi(filepath.Base(at))
		if err == nil && id != os.Getpid() && (strings.Contains(string(command), s.folder+"/") || strings.HasPrefix(in, s.folder+"/")) {
			_ = syscall.Kill(id, syscall.SIGKILL) // it may have ended
		}
	}
}

// common is the Nomad of all tests that need none of their own, once one has asked for it.
var common struct {
	once   sync.Once
	server *server
	err    error
}

func commonServer(t testing.TB) *server {
	t.Helper()
	require(t)
	common.once.Do(func() { common.server, common.err = newServer(true) })
	fatal.If(t, common.err)
	return common.server
}

// ownServer is one that the test may end. It publishes no metrics of allocations, as by default.
func ownServer(t testing.TB) *server {
	t.Helper()
	require(t)
	s, err := newServer(false)
	fatal.If(t, err)
	t.Cleanup(func() { fatal.If(t, s.end()) })
	return s
}

func require(t testing.TB) {
	t.Helper()
	if _, err := program(); err != nil {
		kit.Cannot(t, err.Error())
	}
	if os.Getuid() != 0 {
		kit.Cannot(t, "a client of Nomad needs root")
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	if s := common.server; s != nil {
		if err := s.end(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
