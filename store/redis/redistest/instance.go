//go:build unix

package redistest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/setpoint-dev/setpoint/internal/process"
)

const host = "127.0.0.1"

const (
	configName = "redis.conf"
	logName    = "redis.log"
	adminUser  = "redistest"
	// stopTimeout is longer than Redis waits for its replicas when it shuts down.
	stopTimeout = 20 * time.Second
)

// adminPassword is the password of adminUser, which has all rights on every server of
// this process, whatever users a test configures.
var adminPassword = rand.Text()

// spec says what to start.
type spec struct {
	Config
	cluster  bool     // a cluster's node
	sentinel bool     // a sentinel, to which the Directives do not apply
	lines    []string // lines of the configuration before the Directives
}

// instance is a redis-server process and its address, or the address alone while none
// runs.
type instance struct {
	spec
	dir   string
	ports *process.Ports // that of clients, and of a cluster's node that of the bus

	mu     sync.Mutex
	cmd    *exec.Cmd // nil while it is not running; guarded by mu
	paused bool      // guarded by mu
}

var errPortTaken = errors.New("another process took the port")

// newInstance starts a server on a free port.
func newInstance(s spec) (*instance, error) {
	for attempt := 1; ; attempt++ {
		in, err := tryInstance(s)
		// A port is only known to be free until another process binds it.
		if errors.Is(err, errPortTaken) && attempt < 10 {
			continue
		}
		return in, err
	}
}

func tryInstance(s spec) (*instance, error) {
	g, err := theGuard()
	if err != nil {
		return nil, err
	}
	in := &instance{spec: s}
	if in.dir, err = os.MkdirTemp(g.dir, "server-"); err != nil {
		return nil, err
	}
	if in.ports, err = process.Reserve(2); err != nil {
		return nil, err
	}
	config := strings.Join(in.config(), "\n") + "\n"
	if err := os.WriteFile(filepath.Join(in.dir, configName), []byte(config), 0o600); err != nil {
		return nil, err
	}
	if err := in.start(); err != nil {
		in.remove()
		return nil, err
	}
	return in, nil
}

// startAll starts several servers at once, and none if one of them fails.
func startAll(specs []spec) ([]*instance, error) {
	instances, errs := make([]*instance, len(specs)), make([]error, len(specs))
	var wg sync.WaitGroup
	for i, s := range specs {
		wg.Go(func() { instances[i], errs[i] = newInstance(s) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		removeAll(instances)
		return nil, err
	}
	return instances, nil
}

// removeAll removes the non-nil ones.
func removeAll(instances []*instance) {
	for _, in := range instances {
		if in != nil {
			in.remove()
		}
	}
}

func (in *instance) addr() string { return in.ports.Address(0) }

func (in *instance) port() string { return in.ports.Number(0) }

// config returns the lines of the configuration file.
func (in *instance) config() []string {
	lines := []string{
		"bind " + host,
		"protected-mode no",
		fmt.Sprintf("user %s on >%s ~* &* +@all", adminUser, adminPassword),
	}
	port := "port"
	if in.TLS != nil {
		port = "tls-port"
		lines = append(lines, "port 0", "tls-replication yes", "tls-auth-clients yes",
			fmt.Sprintf("tls-ca-cert-file %q", in.TLS.CAFile),
			fmt.Sprintf("tls-cert-file %q", in.TLS.ServerCertFile),
			fmt.Sprintf("tls-key-file %q", in.TLS.ServerKeyFile))
	}
	lines = append(lines, port+" "+in.port())
	password := in.Password
	if in.sentinel {
		password = in.SentinelPassword
	}
	if password != "" {
		lines = append(lines, fmt.Sprintf("requirepass %q", password))
	}
	if in.sentinel {
		return append(lines, in.lines...)
	}
	lines = append(lines, `save ""`, "masteruser "+adminUser, "masterauth "+adminPassword,
		// Through a file, the first synchronization starts at once.
		"repl-diskless-sync no",
		// A cluster's replicas refuse clients until they have received something.
		"repl-ping-replica-period 1")
	if in.cluster {
		lines = append(lines, "cluster-enabled yes", "cluster-port "+in.ports.Number(1), "cluster-announce-ip "+host)
		if in.TLS != nil {
			lines = append(lines, "tls-cluster yes")
		}
	}
	lines = append(lines, in.lines...)
	return append(lines, in.Directives...)
}

// options are an administrator's, for a client without retries.
func (in *instance) options() *redis.Options {
	o := &redis.Options{
		Addr:                     in.addr(),
		Username:                 adminUser,
		Password:                 adminPassword,
		MaxRetries:               -1,
		DialerRetries:            1,
		DialTimeout:              startTimeout,
		ReadTimeout:              startTimeout,
		WriteTimeout:             startTimeout,
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if in.TLS != nil {
		o.TLSConfig = in.TLS.Config()
	}
	return o
}

// start starts the process and waits until it answers with its data loaded.
func (in *instance) start() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	g, err := theGuard()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(in.dir, logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	before, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	args := []string{configName}
	if in.sentinel {
		args = append(args, "--sentinel")
	}
	cmd := exec.Command("redis-server", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = in.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.group}
	if err := cmd.Start(); err != nil {
		return err
	}
	in.cmd, in.paused = cmd, false
	if err := in.awaitReady(); err != nil {
		in.killLocked()
		text := in.log(before)
		if strings.Contains(text, "Address already in use") {
			err = errPortTaken
		}
		return fmt.Errorf("start of redis-server on %s: %w\n%s", in.addr(), err, text)
	}
	return nil
}

func (in *instance) awaitReady() error {
	client := redis.NewClient(in.options())
	defer client.Close()
	exited := false
	err := eventually(func(ctx context.Context) error {
		if exited = in.reapLocked(); exited {
			return nil
		}
		return in.ready(ctx, client)
	})
	if exited {
		return errors.New("it exited")
	}
	return err
}

// ready returns nil if the server answers with its data loaded.
func (in *instance) ready(ctx context.Context, client *redis.Client) error {
	// A go-redis client backs off after failed connections.
	conn, err := net.DialTimeout("tcp", in.addr(), time.Second)
	if err != nil {
		return err
	}
	if err := conn.Close(); err != nil {
		return err
	}
	fields, err := info(ctx, client, "server", "persistence")
	if err != nil {
		return err
	}
	// Another server answers if it bound the port first.
	if pid := strconv.Itoa(in.cmd.Process.Pid); fields["process_id"] != pid {
		return fmt.Errorf("process %s answers instead of %s", fields["process_id"], pid)
	}
	if fields["loading"] == "1" { // a sentinel does not report it
		return errors.New("still loading")
	}
	return nil
}

// reapLocked reports whether the process has exited, and if so forgets it.
func (in *instance) reapLocked() bool {
	pid, err := syscall.Wait4(in.cmd.Process.Pid, nil, syscall.WNOHANG, nil)
	if pid == 0 && err == nil {
		return false
	}
	in.cmd = nil
	return true
}

func (in *instance) kill() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.killLocked()
}

func (in *instance) killLocked() {
	if in.cmd == nil {
		return
	}
	// Both fail only if the process is already gone.
	_ = in.cmd.Process.Kill()
	_ = in.cmd.Wait()
	in.cmd = nil
}

// stop shuts the server down.
func (in *instance) stop() error {
	if err := in.resume(); err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.cmd == nil {
		return nil
	}
	client := redis.NewClient(in.options())
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	// Any other error comes from the connection, which the shutdown closes.
	if refused := redis.Error(nil); errors.As(client.Shutdown(ctx).Err(), &refused) {
		return fmt.Errorf("SHUTDOWN of %s: %w", in.addr(), refused)
	}
	running := in.cmd.Process
	late := time.AfterFunc(stopTimeout, func() { _ = running.Kill() })
	_ = in.cmd.Wait()
	in.cmd = nil
	if !late.Stop() {
		return fmt.Errorf("%s was still running %v after SHUTDOWN", in.addr(), stopTimeout)
	}
	return nil
}

// pause stops the process where it is, and returns once it has stopped.
func (in *instance) pause() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.cmd == nil {
		return fmt.Errorf("pause of %s: it is not running", in.addr())
	}
	if in.paused {
		return nil
	}
	if err := in.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pause of %s: %w", in.addr(), err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(in.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil {
		return fmt.Errorf("pause of %s: %w", in.addr(), err)
	}
	if !status.Stopped() {
		in.cmd = nil
		return fmt.Errorf("pause of %s: it exited", in.addr())
	}
	in.paused = true
	return nil
}

// resume continues a paused process.
func (in *instance) resume() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.cmd == nil || !in.paused {
		return nil
	}
	if err := in.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("resume of %s: %w", in.addr(), err)
	}
	in.paused = false
	return nil
}

// pid returns 0 if no process runs.
func (in *instance) pid() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.cmd == nil {
		return 0
	}
	return in.cmd.Process.Pid
}

// answers reports whether the server runs and is not paused.
func (in *instance) answers() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.cmd != nil && !in.paused
}

// remove kills the server and removes its files.
func (in *instance) remove() {
	in.kill()
	// A child that was saving may still write; the guard removes what remains.
	_ = os.RemoveAll(in.dir)
	in.ports.Release()
}

// log returns the end of the log, from an offset in bytes on.
func (in *instance) log(from int64) string {
	const most = 4 << 10 // bytes
	text, err := os.ReadFile(filepath.Join(in.dir, logName))
	if err != nil {
		return err.Error()
	}
	text = text[min(from, int64(len(text))):]
	if len(text) > most {
		text = append([]byte("…"), text[len(text)-most:]...)
	}
	return string(bytes.TrimSpace(text))
}
