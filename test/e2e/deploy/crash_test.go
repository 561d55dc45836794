//go:build linux

package deploy

import (
	"fmt"
	"strconv"
	"testing"

	"google.golang.org/grpc"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// crash kills the program of a service behind docker's back; docker must restart it.
func (c *composition) crash(service string) {
	c.t.Helper()
	pid := c.inspect(service, "{{.State.Pid}}") // as the daemon counts
	c.must(c.t, "nsenter", "--target="+strconv.Itoa(c.cmd.Process.Pid), "--pid", "--mount", "kill", "-KILL", pid)
}

// restarted returns an error unless docker started the service again so many times.
func (c *composition) restarted(service string, times int) error {
	if got := c.inspect(service, "{{.RestartCount}}"); got != strconv.Itoa(times) {
		return fmt.Errorf("%s was started again %s times", service, got)
	}
	return nil
}

// crashes kills each part in turn: whatever was decided stays decided, and while an
// instance is gone the other one answers.
func crashes(t *testing.T, c *composition, conn *grpc.ClientConn) {
	for _, instance := range []string{"setpoint-1", "setpoint-2"} {
		remembered := c.decided(t, conn, "before "+instance)
		c.crash(instance)
		for i := range 20 {
			if err := remembered(conn); err != nil {
				t.Errorf("call %d after the crash of %s: %v", i, instance, err)
			}
		}
		kit.Eventually(t, patience, "started again", func() error { return c.restarted(instance, 1) })
		kit.Eventually(t, patience, "behind the balancer again", func() error { return c.answeredBy(conn, instance) })
	}
	for _, part := range []string{"redis", "balancer"} {
		remembered := c.decided(t, conn, "before "+part)
		c.crash(part)
		kit.Eventually(t, patience, "started again", func() error { return c.restarted(part, 1) })
		// A connection that was lost may wait a while before it dials again.
		kit.Eventually(t, patience, "answering as before", func() error { return remembered(c.caller.connect(t)) })
		kit.Eventually(t, patience, "answering as before on the connection that was there", func() error { return remembered(conn) })
		// The balancer shares out calls, and each instance finds Redis again by itself.
		for _, instance := range []string{"setpoint-1", "setpoint-2"} {
			kit.Eventually(t, patience, "deciding again", func() error { return c.answeredBy(conn, instance) })
		}
	}
}

// decided has a request decided and returns the check that this stays so.
func (c *composition) decided(t *testing.T, conn *grpc.ClientConn, requestID string) func(*grpc.ClientConn) error {
	t.Helper()
	before, err := c.caller.ask(t, conn, composeTarget, requestID)
	fatal.If(t, err)
	return func(conn *grpc.ClientConn) error {
		after, err := c.caller.ask(t, conn, composeTarget, requestID)
		if err == nil && after.GetRecommendationId() != before.GetRecommendationId() {
			err = fmt.Errorf("the same request was decided as %q, and now as %q", before.GetRecommendationId(), after.GetRecommendationId())
		}
		return err
	}
}
