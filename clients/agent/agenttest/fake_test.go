package agenttest_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

func TestAFakePlatform(t *testing.T) {
	t.Parallel()
	agenttest.Run(t, func(*testing.T) agenttest.World { return &agenttest.Fake{} }, testserver.Recommendations)
}
