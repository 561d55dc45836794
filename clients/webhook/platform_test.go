package webhook_test

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

func TestBehaviour(t *testing.T) {
	t.Parallel()
	agenttest.Run(t, func(t *testing.T) agenttest.World {
		w := newWorld(t)
		w.options.GoneAfter = time.Second // the suite waits for a few lists
		return w
	}, testserver.Recommendations)
}
