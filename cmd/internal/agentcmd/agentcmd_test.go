package agentcmd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/clients/agent/status"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// program is the program of a platform in memory.
func program(platform *Platform) Program {
	return Program{
		Platform: "fake", Short: "Scale the services of a fake",
		Settings: []config.Setting{config.String(new(string), "fake-address", "`address` of the fake")},
		Validate: func(*Settings, config.Refuse) {},
		Open:     func(Parts) (*Platform, error) { return platform, nil },
	}
}

func fake(f *agenttest.Fake) *Platform {
	return &Platform{Platform: f, Kinds: map[string]string{"Service": "service"}}
}

func root(p Program) *cobra.Command {
	return cli.Root(&cobra.Command{Use: "setpoint-fake"}, New(p)...)
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	sources := clitest.File(t, "sources.yaml", "sources: {prom: {prometheus: {}}}")
	for _, tt := range []struct {
		name string
		args []string
		want string
		code int
	}{
		{"the cluster is required", nil, "--cluster: is required", cli.ExitSettings},
		{"a cluster that is a path", []string{"--cluster=a/b"}, `--cluster: cluster "a/b": must be`, cli.ExitSettings},
		{"a cluster that is a folder", []string{"--cluster=.."}, `--cluster: cluster ".."`, cli.ExitSettings},
		{"a period that is too short", []string{"--cluster=x", "--sync-period=100ms"}, "--sync-period: 100ms is not from 1s to 1h", cli.ExitSettings},
		{"no time", []string{"--cluster=x", "--request-timeout=0s"}, "--request-timeout: 0s is not above 0", cli.ExitSettings},
		{"no workers", []string{"--cluster=x", "--workers=0"}, "--workers: 0 is not above 0", cli.ExitSettings},
		{"half a certificate", []string{"--cluster=x", "--tls-cert-file=x.pem"}, "--tls-cert-file: must be given together with --tls-key-file", cli.ExitSettings},
		{"a level that there is not", []string{"--cluster=x", "--log-level=loud"}, `--log-level: "loud"`, cli.ExitSettings},
		{"a form that there is not", []string{"--cluster=x", "--log-format=xml"}, `--log-format: "xml"`, cli.ExitSettings},
		{"a recording without room", []string{"--cluster=x", "--record-max-bytes=0"}, "--record-max-bytes: 0 is not above 0", cli.ExitSettings},
		{"sources that are not there", []string{"--cluster=x", "--insecure", "--check", "--sources-file=nowhere"}, "--sources-file: open nowhere", cli.ExitUsage},
		{"sources that can't be", []string{"--cluster=x", "--insecure", "--check", "--sources-file=" + sources}, "--sources-file: sources.yaml: sources.prom.prometheus.url: is required", cli.ExitUsage},
		{"a folder that is none", []string{"--cluster=x", "--insecure", "--check", "--state-dir=" + sources}, "is not a folder", cli.ExitUsage},
		{"arguments", []string{"now"}, "unexpected argument", cli.ExitSettings},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := clitest.Run(t, root(program(fake(&agenttest.Fake{}))), "", append([]string{"agent"}, tt.args...)...)
			if got.Code != tt.code || !strings.Contains(got.Stderr, tt.want) {
				t.Errorf("exit code %d, %q, want %q", got.Code, got.Stderr, tt.want)
			}
		})
	}
	got := clitest.Run(t, root(program(fake(&agenttest.Fake{}))), "", "agent", "--check", "--cluster=demo", "--insecure", "--fake-address=here")
	if got.Code != 0 || !strings.Contains(got.Stdout, `cluster: "demo" # set`) || !strings.Contains(got.Stdout, `fake-address: "here" # set`) {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
}

// freePort is a port without a listener.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// running is an agent that runs.
type running struct {
	t     *testing.T
	admin string
	stop  func()
	ended chan clitest.Result
}

func start(t *testing.T, p Program, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{t: t, admin: freePort(t), stop: cancel, ended: make(chan clitest.Result, 1)}
	cmd := root(p)
	cmd.SetArgs(append([]string{"agent", "--cluster=demo", "--insecure", "--sync-period=1s", "--log-level=error", "--admin-address=" + r.admin}, args...))
	go func() {
		err := cmd.ExecuteContext(ctx)
		r.ended <- clitest.Result{Stderr: cli.Failure(err), Code: cli.ExitCode(err)}
	}()
	t.Cleanup(cancel)
	return r
}

// end stops the agent and returns its result.
func (r *running) end() clitest.Result {
	r.t.Helper()
	r.stop()
	return r.await()
}

func (r *running) await() clitest.Result {
	r.t.Helper()
	select {
	case result := <-r.ended:
		return result
	case <-time.After(time.Minute):
		r.t.Fatal("the agent does not end")
		return clitest.Result{}
	}
}

// status waits until the status is as it should be.
func (r *running) status(what string, is func(*status.Status) bool) *status.Status {
	r.t.Helper()
	var now status.Status
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		got := clitest.Run(r.t, root(program(nil)), "", "status", "-o", "json", "--admin-address="+r.admin)
		now = status.Status{}
		if got.Code == 0 && json.Unmarshal([]byte(got.Stdout), &now) == nil && is(&now) {
			return &now
		}
	}
	r.t.Fatalf("never %s: %+v", what, now)
	return nil
}

func objectOf(s *status.Status, name string) *status.Object {
	for _, o := range s.Objects {
		if o.Name == name {
			return o
		}
	}
	return &status.Object{}
}

// An agent scales and shows it in its status, and so does the agent that replaces it.
func TestAnAgentTellsWhatItDoes(t *testing.T) {
	t.Parallel()
	world, state := &agenttest.Fake{}, t.TempDir()
	world.Create(agenttest.Workload{Name: "web", Replicas: 3})
	world.Want("web", 6)
	server := "--server=" + clitest.StartServer(t)
	first := start(t, program(fake(world)), server, "--state-dir="+state)
	first.status("scaled", func(s *status.Status) bool { o := objectOf(s, "web"); return o.Scaled != nil && o.Scaled.To == 6 })
	text := clitest.Run(t, root(program(nil)), "", "status", "shop/web", "--admin-address="+first.admin)
	if text.Code != 0 || !strings.Contains(text.Stdout, "fake demo: 1 objects, 0 held, 0 with errors") || !strings.Contains(text.Stdout, "shop/web  ok") || !strings.Contains(text.Stdout, "3 → 6") {
		t.Errorf("exit code %d\n%s%s", text.Code, text.Stdout, text.Stderr)
	}
	if all := clitest.Run(t, root(program(nil)), "", "status", "--admin-address="+first.admin); strings.Contains(all.Stdout, "next: ") || !strings.Contains(text.Stdout, "    next: ") || !strings.Contains(text.Stdout, " possible") {
		t.Errorf("what comes next is told of all, or not of the named:\n%s%s", all.Stdout, text.Stdout)
	}
	if other := clitest.Run(t, root(program(nil)), "", "status", "api", "--admin-address="+first.admin); other.Code != cli.ExitFailed || !strings.Contains(other.Stderr, "the agent has no object api") {
		t.Errorf("exit code %d, %q", other.Code, other.Stderr)
	}
	world.FailReads(errors.New("the manager is away"))
	first.status("failing", func(s *status.Status) bool { return strings.Contains(objectOf(s, "web").Error, "the manager is away") })
	if report := clitest.Run(t, root(program(nil)), "", "agent", "--report", "--admin-address="+first.admin); report.Code != 0 || !strings.Contains(report.Stdout, "No shadow has had a reconcile yet.") {
		t.Errorf("exit code %d, %q", report.Code, report.Stdout)
	}
	if got := first.end(); got.Code != 0 {
		t.Fatalf("ended with %+v", got)
	}
	second := start(t, program(fake(world)), server, "--state-dir="+state)
	second.status("as before", func(s *status.Status) bool { o := objectOf(s, "web"); return o.Scaled != nil && o.Scaled.From == 3 })
	world.Remove("web")
	second.status("empty", func(s *status.Status) bool { return len(s.Objects) == 0 })
	if got := second.end(); got.Code != 0 {
		t.Errorf("ended with %+v", got)
	}
	if left, err := filepath.Glob(filepath.Join(state, ".agent.json.*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// If a companion of the loop fails, the agent stops; an unreachable cluster is retried.
func TestWhatRunsBeside(t *testing.T) {
	t.Parallel()
	p := fake(&agenttest.Fake{})
	asked, fail := 0, make(chan struct{})
	p.ClusterUID = func(context.Context) (string, error) {
		if asked++; asked < 2 {
			return "", errors.New("no manager")
		}
		return "uid", nil
	}
	p.Run = func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-fail:
			return errors.New("the port is taken")
		}
	}
	r := start(t, program(p), "--server=127.0.0.1:1")
	r.status("waiting for the cluster", func(s *status.Status) bool { return s.Problem == "the cluster can't be reached: no manager" })
	r.status("known", func(s *status.Status) bool { return s.Problem == "" })
	close(fail)
	if got := r.await(); got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "the port is taken") {
		t.Errorf("ended with %+v", got)
	}
}

// Alerts can tell an agent that never read its platform.
func TestAnAgentExportsWhetherItIsReady(t *testing.T) {
	t.Parallel()
	p := fake(&agenttest.Fake{})
	var listed atomic.Bool
	p.Ready = func() error {
		if !listed.Load() {
			return errors.New("permission denied")
		}
		return nil
	}
	r := start(t, program(p), "--server=127.0.0.1:1")
	r.status("not ready", func(s *status.Status) bool { return s.Problem == "permission denied" })
	if report := clitest.Run(t, root(program(nil)), "", "agent", "--report", "--admin-address="+r.admin); !strings.HasSuffix(report.Stdout, "yet.\npermission denied\n") {
		t.Errorf("an empty report does not say why: %q", report.Stdout)
	}
	for _, want := range []string{"setpoint_agent_ready 0\n", "setpoint_agent_ready 1\n"} {
		response, err := http.Get("http://" + r.admin + "/metrics")
		fatal.If(t, err)
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v: /metrics lacks %q", err, want)
		}
		listed.Store(true)
	}
}

// While the service is away objects are held, the status shows since when, and a restart does
// not reset that.
func TestHoldsOutliveTheAgent(t *testing.T) {
	t.Parallel()
	world, state := &agenttest.Fake{}, t.TempDir()
	world.Create(agenttest.Workload{Name: "web", Replicas: 3})
	since := func() time.Time {
		r := start(t, program(fake(world)), "--server=127.0.0.1:1", "--request-timeout=200ms", "--state-dir="+state)
		s := r.status("held", func(s *status.Status) bool { return objectOf(s, "web").Hold != nil })
		if got := r.end(); got.Code != 0 {
			t.Fatalf("ended with %+v", got)
		}
		if h := objectOf(s, "web").Hold; h.Reason != agent.ReasonRecommenderUnavailable {
			t.Errorf("held for %+v", h)
		}
		return objectOf(s, "web").Hold.Since
	}
	if first, second := since(), since(); !first.Equal(second) {
		t.Errorf("held since %s, then since %s", first, second)
	}
}

// With a count of 0 nothing is scaled, and the status says so.
func TestTheStatusOfACountOfZero(t *testing.T) {
	t.Parallel()
	world := &agenttest.Fake{}
	world.Create(agenttest.Workload{Name: "web", Replicas: 0})
	r := start(t, program(fake(world)), "--server="+clitest.StartServer(t))
	s := r.status("decided", func(s *status.Status) bool { return objectOf(s, "web").Decision != nil })
	if why := objectOf(s, "web").Why(time.Now()); !strings.Contains(why, "ScalingDisabled: scaling is disabled since the replica count of the target is zero") {
		t.Errorf("got %q", why)
	}
	if got := r.end(); got.Code != 0 {
		t.Errorf("ended with %+v", got)
	}
}

// A count written while the agent stops is recorded.
func TestTheLastScaleIsKept(t *testing.T) {
	t.Parallel()
	world, state := &agenttest.Fake{}, t.TempDir()
	world.Create(agenttest.Workload{Name: "web", Replicas: 3})
	writing, write := make(chan struct{}), make(chan struct{})
	world.BeforeWrite(func() {
		close(writing)
		<-write
	})
	world.Want("web", 6)
	r := start(t, program(fake(world)), "--server="+clitest.StartServer(t), "--state-dir="+state)
	<-writing
	r.stop()
	// The file may still change after the agent was told to stop. A write in flight is done a
	// second later.
	time.Sleep(time.Second)
	close(write)
	if got := r.await(); got.Code != 0 {
		t.Fatalf("ended with %+v", got)
	}
	text, err := os.ReadFile(filepath.Join(state, "agent.json"))
	var kept struct{ Objects []*status.Object }
	fatal.If(t, errors.Join(err, json.Unmarshal(text, &kept)))
	for _, o := range kept.Objects {
		if o.Name == "web" && o.Scaled != nil && o.Scaled.To == 6 {
			return
		}
	}
	t.Errorf("the file has %s", text)
}

// An agent on another machine, without what the one before it kept, has the time of the last scale from the service.
func TestTheLastScaleIsKnownOnAnotherMachine(t *testing.T) {
	t.Parallel()
	world, server := &agenttest.Fake{}, clitest.StartServer(t)
	world.Create(agenttest.Workload{Name: "web", Replicas: 3})
	world.Want("web", 6)
	for _, moved := range []bool{false, true} {
		r := start(t, program(fake(world)), "--server="+server, "--state-dir="+t.TempDir())
		s := r.status("decided", func(s *status.Status) bool { return objectOf(s, "web").Decision != nil })
		if o := objectOf(s, "web"); (o.Scaled == nil) != moved || o.LastChange == nil || time.Since(*o.LastChange) > time.Minute {
			t.Errorf("moved: %t: scaled %v, last change %v", moved, o.Scaled, o.LastChange)
		}
		if got := r.end(); got.Code != 0 {
			t.Fatalf("ended with %+v", got)
		}
	}
}

// The heap grows by more only where there is so much garbage that collecting it would take much time.
func TestAHeapThatIsCollectedOftenGrowsByMore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		growth int
		n      uint64
		want   int
	}{
		{35, 0, 35}, {35, 5, 35}, {35, 10, 70}, {35, 24, 100}, {100, 7, 100}, {100, 5, 100}, {100, 3, 60}, {60, 5, 60}, {60, 1, 35}, {100, 1 << 40, 100},
	} {
		if got := growthAfter(tt.growth, tt.n); got != tt.want {
			t.Errorf("after %d collections at %d %%: %d %%, want %d %%", tt.n, tt.growth, got, tt.want)
		}
	}
	before := collected()
	runtime.GC()
	if collected() == before {
		t.Error("collections are not counted")
	}
}
