package generate

import (
	"math"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
)

// cluster is the workload and its pods, which follow the decisions.
type cluster struct {
	// replicas are those of the scale's spec.
	replicas int32
	// observed is added to the existing pods in the scale's status, for surges and
	// controllers that lag.
	observed int64
	selector podSelector
	template template
	pods     []*pod
	// made counts the created pods, for their names.
	made int
	// follows is how the workload's replicas follow decisions.
	follows following
	// startup is how long pods take to start and to become ready.
	startup, readiness span
	// grace is how long deleted pods take to disappear.
	grace span
	// quirks is the share of unusual pods.
	quirks float64
}

// span is a range of whole seconds.
type span struct{ low, high int }

// following is how the workload's replicas follow decisions.
type following int

const (
	// obediently: the written count is that of the next step.
	obediently following = iota
	// never: somebody reverts writes at once.
	never
	// loosely: somebody reverts some of the writes.
	loosely
)

// newCluster returns a workload with pods, most of them old.
func (g *generator) newCluster() cluster {
	c := cluster{
		selector:  pick(g.random, podSelectors),
		template:  g.template(),
		follows:   pick(g.random, []weighted[following]{{8, obediently}, {1, never}, {1, loosely}}),
		startup:   oneOf(g.random, span{0, 2}, span{1, 10}, span{20, 60}),
		readiness: oneOf(g.random, span{0, 5}, span{5, 30}, span{25, 35}, span{60, 200}),
		grace:     oneOf(g.random, span{0, 1}, span{5, 40}),
		quirks:    oneOf(g.random, 0, 0, 0.05, 0.2, 0.5),
	}
	c.replicas = g.startingReplicas()
	g.cluster = c
	young := g.chance(0.3)
	for range g.wantedPods() {
		age := g.seconds(600, 5*24*3600)
		if young && g.chance(0.5) {
			age = g.seconds(0, 600)
		}
		g.create(g.clock.now.Add(-age))
	}
	return g.cluster
}

// startingReplicas are usually within the bounds.
func (g *generator) startingReplicas() int32 {
	least, most := g.spec.min(), g.spec.MaxReplicas
	if least == 0 && g.chance(0.2) || g.chance(0.03) {
		return 0
	}
	return pick(g.random, []weighted[int32]{
		{10, int32(g.between(int(max(least, 1)), int(max(1, min(most, least+20)))))},
		{1, max(least, 1)},
		{2, min(most, 100000)},
		{0.7, min(most, 100000) + int32(g.between(1, 10))},
		{0.7, max(1, least-1)},
	})
}

// decided applies a written count.
func (c *cluster) decided(replicas int32) {
	if c.follows != never {
		c.replicas = replicas
	}
}

// wantedPods returns how many pods the workload should have.
func (g *generator) wantedPods() int {
	return min(int(g.cluster.replicas), g.parameters.MaxPods)
}

// live advances the pods to the current instant: it creates missing ones, starts
// deleting excess ones, and removes those that have disappeared.
func (g *generator) live() {
	c, now := &g.cluster, g.clock.now
	c.pods = slices.DeleteFunc(c.pods, func(p *pod) bool { return p.goneBy(now) })
	staying := 0
	for _, p := range c.pods {
		if !p.going() {
			staying++
		}
	}
	for ; staying < g.wantedPods(); staying++ {
		g.create(now.Add(-g.seconds(0, 20)))
	}
	// The newest are deleted first, as workloads prefer.
	for i := len(c.pods) - 1; i >= 0 && staying > g.wantedPods(); i-- {
		if p := c.pods[i]; !p.going() {
			p.deleted, p.grace = now, g.seconds(c.grace.low, c.grace.high)
			staying--
		}
	}
	if c.quirks > 0 && g.chance(c.quirks) && len(c.pods) > 0 {
		oneOf(g.random, c.pods...).quirk = g.quirk()
	}
}

// starts returns when the younger pods start.
func (c *cluster) starts() []time.Time {
	var out []time.Time
	for i := max(0, len(c.pods)-4); i < len(c.pods); i++ {
		out = append(out, c.pods[i].start)
	}
	return out
}

// scale returns the scale of the workload at the current instant.
func (g *generator) scale() *autoscalingv1.Scale {
	c := &g.cluster
	scale := &autoscalingv1.Scale{}
	scale.Spec.Replicas = c.replicas
	scale.Status.Selector = c.selector.text
	scale.Status.Replicas = g.observed()
	if g.chance(0.01) {
		scale.Status.Replicas = oneOf[int32](g.random, 1, 1000, 1<<31-1)
	}
	return scale
}

// observed returns the replicas of the scale's status: the workload's pods, with a
// surge or a lag. A metric divided by none of them differs between processors.
func (g *generator) observed() int32 {
	c := &g.cluster
	present := int64(0)
	for _, p := range c.pods {
		if !p.going() {
			present++
		}
	}
	// Those beyond the listed pods.
	present += int64(c.replicas) - int64(g.wantedPods())
	if g.chance(0.1) {
		c.observed = int64(g.between(-3, 3))
	} else if g.chance(0.3) {
		c.observed = 0
	}
	present = max(0, min(present+c.observed, math.MaxInt32))
	if present == 0 && g.spec.dividesByStatus() && !g.extreme && !g.idle() {
		return 1
	}
	return int32(present)
}

// idle reports whether the controller leaves the workload alone without reading
// metrics, whatever its version.
func (g *generator) idle() bool {
	return g.cluster.replicas == 0 && !g.scenario.Config.ScaleToZero
}
