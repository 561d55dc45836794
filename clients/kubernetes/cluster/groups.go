package cluster

import (
	"sync"
	"time"
)

const (
	// narrowFor is how long the lists of a whole namespace are disabled after one failed.
	narrowFor = 10 * time.Minute
	// groupAge is how long an empty group is remembered: longer than the longest period of an
	// autoscaler.
	groupAge = 2 * time.Hour
)

// groups detects readings that several autoscalers request at the same moment, so that one list
// of the whole namespace replaces a list for each.
type groups struct {
	mu sync.Mutex
	// maxAge is the length of a moment: how long answers are shared. Guarded by mu.
	maxAge time.Duration
	// groups by reading. Guarded by mu.
	byKey map[string]*group
	// swept is when empty groups were last dropped. Guarded by mu.
	swept time.Time
}

// group is the autoscalers that request one reading.
type group struct {
	// began is the start of the current moment.
	began time.Time
	// pods are the pods of each autoscaler that requested it in the moment, and their sum.
	pods map[autoscalerKey]int
	sum  int
	// total is the number of the namespace's pods at the start of the moment: counting them takes a
	// time that grows with them, and each reconcile asks.
	total int
	// before is the size in the previous moment: the same autoscalers request together every
	// period, so the first need not wait for the second.
	before gathering
	// narrow is until when the group is disabled.
	narrow time.Time
}

// gathering is the size of a group.
type gathering struct{ autoscalers, pods int }

func newGroups(maxAge time.Duration) *groups {
	return &groups{maxAge: maxAge, byKey: map[string]*group{}, swept: time.Now()}
}

// listsTogether records that an autoscaler requests a reading of its pods, and reports whether to
// read it from a list of all pods of the namespace, total in number: if two or more request it,
// their pods are not a small part of all, and all are at most most (0: no bound).
func (c *groups) listsTogether(key string, autoscaler autoscalerKey, pods, most int, total func() int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.sweep(now)
	g := c.byKey[key]
	if g == nil {
		g = new(group)
		c.byKey[key] = g
	}
	if now.Sub(g.began) >= c.maxAge {
		g.before = g.gathered()
		g.began, g.pods, g.sum, g.total = now, map[autoscalerKey]int{}, 0, total()
	}
	g.sum += pods - g.pods[autoscaler]
	g.pods[autoscaler] = pods
	size := g.gathered()
	size.autoscalers = max(size.autoscalers, g.before.autoscalers)
	size.pods = max(size.pods, g.before.pods)
	return size.autoscalers >= 2 && now.After(g.narrow) && 4*size.pods >= g.total && (most == 0 || g.total <= most)
}

// gathered returns the size of the group in the current moment.
func (c *group) gathered() gathering {
	return gathering{autoscalers: len(c.pods), pods: c.sum}
}

// listFailed records that a list of the whole namespace failed.
func (c *groups) listFailed(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if group := c.byKey[key]; group != nil {
		group.narrow = time.Now().Add(narrowFor)
	}
}

// sweep drops empty groups. The caller holds c.mu.
func (c *groups) sweep(now time.Time) {
	if now.Sub(c.swept) < groupAge {
		return
	}
	c.swept = now
	for key, group := range c.byKey {
		if now.Sub(group.began) >= groupAge {
			delete(c.byKey, key)
		}
	}
}

// setMaxAge changes the length of a moment.
func (c *groups) setMaxAge(age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxAge = age
}
