//go:build linux

package nomad

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// Of two agents with one lock one acts. When that is killed the other one follows, and when it ends
// in order, at once.
func TestTheLock(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	n.queue.Store(20)
	n.register("web", n.group("web", 2, byQueue))
	s := service.Start(t)
	first := startAgent(t, n, s, "--nomad-lock=setpoint/agent@"+n.namespace)
	first.awaitReconciles(2)
	second := startAgent(t, n, s, "--nomad-lock=setpoint/agent@"+n.namespace)
	fatal.If(t, second.Await("standing by", patience, func() error {
		if !strings.Contains(second.problem(), "stands by") {
			return errors.New(second.problem())
		}
		return nil
	}))
	n.queue.Store(30)
	n.await("web", 3)
	if had := second.Metric("setpoint_agent_reconciles_total"); had > 0 {
		t.Errorf("the second agent has reconciled %v times", had)
	}
	for one, want := range map[*agent]float64{first: 1, second: 0} {
		if leads := one.Metric("setpoint_agent_leading"); leads != want {
			t.Errorf("setpoint_agent_leading is %v, want %v", leads, want)
		}
	}
	first.Kill()
	n.queue.Store(40)
	began := time.Now()
	n.await("web", 4)
	t.Logf("the second agent followed a killed one after %s", time.Since(began).Round(100*time.Millisecond))
	first.Start()
	fatal.If(t, first.Await("standing by", patience, func() error {
		if err := first.Ready(); err != nil {
			return err
		}
		if !strings.Contains(first.problem(), "stands by") {
			return errors.New(first.problem())
		}
		return nil
	}))
	second.Stop()
	n.queue.Store(50)
	began = time.Now()
	n.await("web", 5)
	took := time.Since(began)
	t.Logf("the first agent followed one that ended after %s", took.Round(100*time.Millisecond))
	if took > 12*time.Second {
		t.Errorf("that is longer than until a lock ends by itself")
	}
}

// What doctor says of an agent that has all, and of one that lacks much.
func TestDoctor(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	n.register("web", n.group("web", 2, byQueue))
	n.register("wrong", n.group("wrong", 2, "cpuu: 60"))
	n.allow("doctor-of-"+n.namespace, "scale-job")
	s := service.Start(t)
	a := startAgent(t, n, s)
	doctor := func(want int, flags ...string) string {
		t.Helper()
		sources := slices.IndexFunc(a.Command.Args, func(arg string) bool { return strings.HasPrefix(arg, "--sources-file=") })
		out, err := exec.Command(a.Command.Program, append([]string{"doctor", a.Command.Args[sources], "--cluster=test", "--server=" + s.GRPCAddr(), "--insecure", "--nomad-namespace=" + n.namespace, "--nomad-address=" + n.url}, flags...)...).CombinedOutput()
		code := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		if code != want {
			t.Errorf("exit code %d, want %d:\n%s", code, want, out)
		}
		return string(out)
	}
	for _, c := range []struct {
		code  int
		flags []string
		says  []string
	}{
		{1, []string{"--nomad-token-file=" + a.tokenFile}, []string{"the token has what is needed in " + n.namespace, "2 groups have a block setpoint", "group wrong of job wrong", "did you mean cpu?"}},
		{1, nil, []string{"the token lacks list-scaling-policies, read-scaling-policy, read-job, scale-job in " + n.namespace}},
		{1, []string{"--nomad-address=http://127.0.0.1:1"}, []string{"does not answer", "skipped"}},
	} {
		out := doctor(c.code, c.flags...)
		for _, text := range c.says {
			if !strings.Contains(out, text) {
				t.Errorf("doctor %v does not say %q:\n%s", c.flags, text, out)
			}
		}
	}
	fatal.If(t, os.WriteFile(a.tokenFile, []byte(n.token("doctor-of-"+n.namespace).SecretID), 0o600))
	if out := doctor(1, "--nomad-token-file="+a.tokenFile); !strings.Contains(out, "the token lacks scale-job in ") {
		t.Errorf("doctor does not name the capability:\n%s", out)
	}
	if _, _, err := n.client.Jobs().Deregister("wrong", true, nil); err != nil {
		t.Fatal(err)
	}
	if out := doctor(0, "--shadow", "--nomad-token-file="+a.tokenFile); !strings.Contains(out, "no problem found") {
		t.Errorf("%s", out)
	}
}
