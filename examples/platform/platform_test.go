package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

// The adapter passes the suite of every platform.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	agenttest.Run(t, func(t *testing.T) agenttest.World { return &world{t: t, platform: platform{t.TempDir()}} }, testserver.Recommendations)
}

// world is a folder of pools. It implements agenttest.World.
type world struct {
	agenttest.Faults
	platform
	t    *testing.T
	made int
}

// Platform implements agenttest.World: the adapter, and failures.
func (w *world) Platform() agent.Watched { return failing{w.platform, w} }

type failing struct {
	platform
	world *world
}

func (f failing) Observe(ctx context.Context, o *agent.Object) (*agent.Observation, error) {
	if err := f.world.ReadErr(); err != nil {
		return nil, err
	}
	return f.platform.Observe(ctx, o)
}

func (f failing) Apply(ctx context.Context, o *agent.Object, seen *agent.Observation, change agent.Change) error {
	f.world.BeginWrite()
	if err := f.world.WriteErr(); err != nil {
		return err
	}
	err := f.platform.Apply(ctx, o, seen, change)
	if err == nil {
		f.world.Wrote()
	}
	return err
}

func (w *world) file(name, file, text string) {
	w.t.Helper()
	path := filepath.Join(w.folder, name, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// Create implements agenttest.World.
func (w *world) Create(load agenttest.Workload) agent.Key {
	w.t.Helper()
	behavior := `, "behavior": {"scaleUp": %[1]s, "scaleDown": %[1]s}`
	if behavior = fmt.Sprintf(behavior, `{"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 100, "periodSeconds": 1}]}`); load.Steady {
		behavior = ""
	}
	w.made++
	w.Scale(load.Name, load.Replicas)
	w.Want(load.Name, load.Replicas)
	text, err := json.Marshal(pool{ID: fmt.Sprint(w.made), Shadow: load.Shadow, Spec: fmt.Appendf(nil,
		`{"minReplicas": %d, "maxReplicas": %d, "metrics": [{"type": "External", "external": {"metric": {"name": "jobs"}, "target": {"type": "AverageValue", "averageValue": "10"}}}]%s}`,
		agenttest.MinReplicas, agenttest.MaxReplicas, behavior)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.file(load.Name, "pool.json", string(text))
	return keyOf(load.Name)
}

// Remove implements agenttest.World.
func (w *world) Remove(name string) {
	w.t.Helper()
	if err := os.RemoveAll(filepath.Join(w.folder, name)); err != nil {
		w.t.Fatal(err)
	}
}

// Want implements agenttest.World.
func (w *world) Want(name string, replicas int32) {
	w.t.Helper()
	if err := os.RemoveAll(filepath.Join(w.folder, name, "jobs")); err != nil {
		w.t.Fatal(err)
	}
	for i := range 10 * replicas {
		w.file(name, fmt.Sprintf("jobs/job-%d", i), "")
	}
}

// Scale implements agenttest.World.
func (w *world) Scale(name string, replicas int32) {
	w.t.Helper()
	w.file(name, "workers", fmt.Sprintln(replicas))
}

// Replicas implements agenttest.World.
func (w *world) Replicas(name string) int32 {
	w.t.Helper()
	n, err := w.workers(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}
