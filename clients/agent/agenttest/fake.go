package agenttest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
)

// Fake is a platform in memory with its adapter, the simplest possible one. It implements World
// and agent.Watched. The zero value is empty.
type Fake struct {
	Faults

	mu       sync.Mutex
	services map[string]*service // guarded by mu, as is all that follows
	made     int
	watchers map[chan string]bool
}

// service is both a workload and its object.
type service struct {
	Workload
	uid     string
	version int
	load    int32 // ten times the wanted replicas
	seen    bool  // an agent has reconciled it
}

var (
	_ World         = (*Fake)(nil)
	_ agent.Watched = (*Fake)(nil)
	_ agent.Teller  = (*Fake)(nil)
)

// Platform implements World.
func (f *Fake) Platform() agent.Watched { return f }

func keyOf(name string) agent.Key { return agent.Key{Kind: "Service", Namespace: "shop", Name: name} }

// Create implements World.
func (f *Fake) Create(w Workload) agent.Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.services == nil {
		f.services = map[string]*service{}
	}
	f.made++
	f.services[w.Name] = &service{Workload: w, uid: fmt.Sprintf("uid-%d", f.made), load: 10 * w.Replicas}
	f.changed(w.Name)
	return keyOf(w.Name)
}

// Remove implements World.
func (f *Fake) Remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.services, name)
	f.changed(name)
}

// Want implements World.
func (f *Fake) Want(name string, replicas int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.services[name].load = 10 * replicas
}

// Scale implements World.
func (f *Fake) Scale(name string, replicas int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.services[name].scale(replicas)
}

func (s *service) scale(replicas int32) {
	s.Replicas = replicas
	s.version++
}

// Replicas implements World.
func (f *Fake) Replicas(name string) int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.services[name].Replicas
}

// changed notifies the watchers. The caller holds the lock.
func (f *Fake) changed(name string) {
	for watcher := range f.watchers {
		watcher <- name
	}
}

// The adapter.

// Watch implements agent.Watched.
func (f *Fake) Watch(ctx context.Context, changed func(agent.Key)) error {
	names := make(chan string, 1000)
	f.mu.Lock()
	if f.watchers == nil {
		f.watchers = map[chan string]bool{}
	}
	f.watchers[names] = true
	there := slices.Sorted(maps.Keys(f.services))
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, names)
	}()
	for _, name := range there {
		changed(keyOf(name))
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case name := <-names:
			changed(keyOf(name))
		}
	}
}

// Object implements agent.Platform.
func (f *Fake) Object(_ context.Context, key agent.Key, _ *agent.Object) (*agent.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.services[key.Name]
	if s == nil {
		return nil, agent.ErrGone
	}
	return &agent.Object{Key: key, UID: s.uid, New: !s.seen, Shadow: s.Shadow, Spec: s.spec(), Revision: agent.Version(s.uid)}, nil
}

// Observe implements agent.Platform.
func (f *Fake) Observe(_ context.Context, o *agent.Object) (*agent.Observation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.services[o.Key.Name]
	if s == nil {
		return nil, agent.ErrGone
	}
	if f.ReadErr() != nil {
		return nil, f.ReadErr()
	}
	return &agent.Observation{
		Request: &setpointv1.RecommendRequest{
			Spec:  s.spec(),
			Scale: &setpointv1.Scale{SpecReplicas: s.Replicas, StatusReplicas: new(s.Replicas)},
			ExternalMetrics: []*setpointv1.ExternalMetric{{
				Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: fmt.Sprint(s.load),
			}},
		},
		InCharge: &shadow.Side{Replicas: s.Replicas}, Against: "the count",
		Native: s.version,
	}, nil
}

// spec scales by ten units of load a replica.
func (s *service) spec() *setpointv1.HorizontalPodAutoscalerSpec {
	spec := &setpointv1.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: &setpointv1.CrossVersionObjectReference{ApiVersion: "fake/v1", Kind: "Service", Name: s.Name},
		MinReplicas:    new(int32(MinReplicas)), MaxReplicas: MaxReplicas,
		Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
			Metric: &setpointv1.MetricIdentifier{Name: "queue"},
			Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("10")},
		}}},
	}
	if !s.Steady {
		atOnce := func() *setpointv1.HPAScalingRules {
			return &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(0)), Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 100, PeriodSeconds: 1}}}
		}
		spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: atOnce(), ScaleDown: atOnce()}
	}
	return spec
}

// Apply implements agent.Platform.
func (f *Fake) Apply(_ context.Context, o *agent.Object, seen *agent.Observation, change agent.Change) error {
	f.BeginWrite()
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.services[o.Key.Name]
	switch {
	case f.WriteErr() != nil:
		return f.WriteErr()
	case s == nil:
		return agent.ErrGone
	case s.version != seen.Native.(int):
		return agent.ErrMoved
	}
	s.scale(change.To)
	f.Wrote()
	return nil
}

// Tell implements agent.Teller: it remembers which services were evaluated.
func (f *Fake) Tell(_ context.Context, t *agent.Telling) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.services[t.Object.Key.Name]; s != nil && s.uid == t.Object.UID && t.Decision != nil {
		s.seen = true
	}
}
