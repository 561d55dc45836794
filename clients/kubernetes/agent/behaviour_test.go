package agent

import (
	"context"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

// The Kubernetes adapter passes the suite of every platform.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	agenttest.Run(t, func(t *testing.T) agenttest.World {
		w := newWorld(t, agenttest.Period)
		w.halt() // the suite drives reconciles itself
		return &behaving{w}
	}, testserver.Recommendations)
}

// behaving is a world for the suite.
type behaving struct{ *world }

// watched is the platform with a watch; in production the controller runtime watches.
type watched struct {
	*platform
	world *world
}

func (w *watched) Watch(ctx context.Context, changed func(agent.Key)) error {
	w.world.with(func() {
		for key := range w.world.objects {
			changed(key)
		}
		w.world.watchers = append(w.world.watchers, changed)
	})
	<-ctx.Done()
	return nil
}

func (b *behaving) Platform() agent.Watched { return &watched{b.platform, b.world} }

func (b *behaving) Create(w agenttest.Workload) agent.Key {
	hpa := newHPA("shop", w.Name)
	hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas = new(int32(agenttest.MinReplicas)), agenttest.MaxReplicas
	if w.Steady {
		hpa.Spec.Behavior = nil
	}
	if w.Shadow {
		hpa.Annotations[ShadowAnnotation] = "true"
	}
	b.workload("shop/"+w.Name, w.Replicas, 10*int64(w.Replicas))
	return b.add(hpa)
}

func (b *behaving) Remove(name string) { b.remove(HPA.Key("shop", name)) }

func (b *behaving) Want(name string, replicas int32) {
	b.with(func() { b.load["shop/"+name] = 10 * int64(replicas) })
}

func (b *behaving) Scale(name string, replicas int32) {
	b.with(func() { b.replicas["shop/"+name] = replicas })
}

func (b *behaving) Replicas(name string) int32 { return b.count("shop/" + name) }

func (b *behaving) Changes() (n int) {
	b.with(func() {
		for _, at := range b.scaledAt {
			n += len(at)
		}
	})
	return n
}

func (b *behaving) FailReads(err error)     { b.with(func() { b.readErr = err }) }
func (b *behaving) FailWrites(err error)    { b.with(func() { b.applyErr = err }) }
func (b *behaving) BeforeWrite(call func()) { b.with(func() { b.beforeApply = call }) }
