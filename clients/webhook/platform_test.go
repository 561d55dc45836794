package webhook_test

import (
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

func newServer(t *testing.T) setpointv1.RecommendationServiceServer {
	t.Helper()
	engine := memory.New(memory.Options{})
	srv, err := server.New(engine, engine, server.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		srv.Close()
		_ = engine.Close()
	})
	return srv.Recommendations()
}

func TestBehaviour(t *testing.T) {
	t.Parallel()
	agenttest.Run(t, func(t *testing.T) agenttest.World {
		w := newWorld(t)
		w.options.GoneAfter = time.Second // the suite waits for a few lists
		return w
	}, newServer)
}
