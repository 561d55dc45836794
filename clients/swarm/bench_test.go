package swarm_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
)

// The cost of a reconcile on the adapter's side: two reads of the service and one of its tasks,
// over HTTP to an engine in the same process, whose cost is included.
func BenchmarkRead(b *testing.B) {
	w := newWorld(b)
	p := w.Platform()
	key := w.Create(agenttest.Workload{Name: "web", Replicas: 10})
	b.ReportAllocs()
	for b.Loop() {
		o, err := p.Object(b.Context(), key, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Observe(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
}
