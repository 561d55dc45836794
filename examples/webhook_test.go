package examples_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	// What the agent is built from.
	_ "github.com/setpoint-dev/setpoint/clients/webhook"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// patience is how long what must happen may take. It takes seconds on an idle machine.
const patience = 3 * time.Minute

// process is one that runs beside a test.
type process struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	read  sync.WaitGroup
	mu    sync.Mutex
	lines []string // guarded by mu
}

// start starts a process, which is stopped with SIGTERM when the test ends and must then end
// well.
func start(t *testing.T, dir string, command ...string) *process {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, name: filepath.Base(command[0]), cmd: cmd}
	p.read.Go(func() { p.collect(stdout) })
	t.Cleanup(p.stop)
	return p
}

func (p *process) collect(from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		p.mu.Unlock()
	}
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// await waits for a line that contains the text, and returns it.
func (p *process) await(text string) string {
	p.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for line := range strings.SplitSeq(p.said(), "\n") {
			if strings.Contains(line, text) {
				return line
			}
		}
	}
	p.t.Fatalf("%s never said %q:\n%s", p.name, text, p.said())
	return ""
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	killed := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer killed.Stop()
	p.read.Wait()
	if err := p.cmd.Wait(); err != nil || p.t.Failed() {
		p.t.Errorf("%s ended with %v:\n%s", p.name, err, p.said())
	}
}

// The example's server runs workers, the agent has their number decided by the service: with
// jobs in the queue there are more of them, without them fewer. Both know each other by
// certificates and sign.
func TestWebhook(t *testing.T) {
	needs(t, installed("python3"), "python3", "apt-get install python3")
	examples := tree(t)
	vectors, err := filepath.Abs("../clients/webhook/testdata/signatures.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(examples, "webhook")
	mustRun(t, dir, []string{"PYTHONDONTWRITEBYTECODE=1", "VECTORS=" + vectors}, "python3", "-m", "unittest", "-v")

	agent := filepath.Join(t.TempDir(), "setpoint-webhook")
	mustRun(t, "..", nil, "go", "build", "-o", agent, "./cmd/setpoint-webhook")
	address, _ := serve(t)
	files := redistest.NewTLS(t)
	if err := os.WriteFile(filepath.Join(dir, "keys"), []byte("k1:"+strings.Repeat("0123456789abcdef", 4)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	jobs := filepath.Join(dir, "jobs")
	if err := os.Mkdir(jobs, 0o755); err != nil {
		t.Fatal(err)
	}
	server := start(t, dir, "python3", "server.py", "--port=0", "--max=6", "--seconds=0.2",
		"--cert", files.ServerCertFile, "--cert-key", files.ServerKeyFile, "--client-ca", files.CAFile)
	_, url, _ := strings.Cut(server.await("listening on "), "listening on ")
	admin := listen(t)
	adminAddress := admin.Addr().String()
	_ = admin.Close()
	began := time.Now()
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(jobs, fmt.Sprintf("%03d.job", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	running := start(t, dir, agent, "agent", "--cluster=demo", "--insecure", "--server="+address, "--list-every=1s",
		"--webhook-url="+url, "--webhook-key-file=keys", "--webhook-tls-ca-file="+files.CAFile, "--admin-address="+adminAddress,
		"--webhook-tls-cert-file="+files.ClientCertFile, "--webhook-tls-key-file="+files.ClientKeyFile)
	server.await("1 -> 6 workers: external metric queue")
	t.Logf("six workers %s after the jobs were there", time.Since(began).Round(time.Millisecond))
	server.await(" -> 1 workers: ")
	// What a worker has begun is in the folder, too, by another name.
	if left, err := filepath.Glob(filepath.Join(jobs, "*.job")); err != nil || len(left) > 5 {
		t.Errorf("scaled down with %d jobs left, %v", len(left), err)
	}
	if status := mustRun(t, dir, nil, agent, "status", "--admin-address="+adminAddress); !strings.Contains(status, "demo/workers  ok") {
		t.Errorf("the status is\n%s", status)
	}
	if said := running.said(); strings.Contains(said, `"level":"error"`) || strings.Contains(said, `"level":"warn"`) {
		t.Errorf("the agent complained:\n%s", said)
	}
}
