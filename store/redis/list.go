package redis

import (
	"container/heap"
	"context"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/store"
)

const (
	// A listing requests from each bucket its share of the missing keys and a little
	// more, at most this many members at a time.
	maxListStep = 512
	// maxListChecks limits the members looked up at a time.
	maxListChecks = 1024
)

// List implements store.Store. It merges the buckets' indexes; a page takes a few round
// trips per shard, however many keys there are.
func (s *Store) List(ctx context.Context, filter store.Filter, after store.Key, limit int) ([]store.Key, error) {
	if err := s.begin(ctx, "list"); err != nil {
		return nil, err
	}
	keys, dead, err := s.list(ctx, filter, after, limit)
	if err != nil {
		return nil, err
	}
	s.purge(ctx, dead)
	return keys, nil
}

// list returns a page, and the keys in the index that have no record.
func (s *Store) list(ctx context.Context, filter store.Filter, after store.Key, limit int) (keys, dead []store.Key, err error) {
	m := newMerge(s, filter, after)
	for len(keys) < limit {
		candidates, err := m.next(ctx, min(limit-len(keys), maxListChecks))
		if err != nil || len(candidates) == 0 {
			return keys, dead, err
		}
		alive, err := s.exist(ctx, candidates)
		if err != nil {
			return nil, nil, err
		}
		for i, key := range candidates {
			if alive[i] {
				keys = append(keys, key)
			} else {
				dead = append(dead, key)
			}
		}
	}
	return keys, dead, nil
}

// exist reports which of the keys have a record.
func (s *Store) exist(ctx context.Context, keys []store.Key) ([]bool, error) {
	alive := make([]bool, len(keys))
	errs := s.perform(ctx, len(keys), &exchange{
		operation: "list",
		args:      func(i int, _ bool) []any { return []any{"exists", s.layout.place(keys[i]).record()} },
		take: func(i int, reply any, _ bool) error {
			alive[i] = reply == int64(1)
			return nil
		},
	})
	return alive, joined(errs)
}

// purge removes keys from the index if they still have no record. It ignores errors:
// the next listing or sweep tries again.
func (s *Store) purge(ctx context.Context, keys []store.Key) {
	if len(keys) == 0 {
		return
	}
	s.perform(ctx, len(keys), &exchange{
		operation: "purge",
		args: func(i int, whole bool) []any {
			p := s.layout.place(keys[i])
			return purgeScript.args(whole, []string{p.record(), p.index()}, p.member())
		},
		take: func(_ int, reply any, _ bool) error {
			if reply == int64(1) {
				s.stats.purged.Add(1)
			}
			return nil
		},
	})
}

// merge iterates over the buckets' indexes in the order of all keys.
type merge struct {
	store  *Store
	filter store.Filter
	to     string // end of the filter's range, for ZRANGE
	// cursors is a heap, by first member, of the buckets with loaded members; unloaded
	// are those that have none loaded and may have more in Redis.
	cursors  cursors
	unloaded []*cursor
	// wanted is how many members are still needed.
	wanted int
}

// cursor is a position in one bucket's index.
type cursor struct {
	index   string
	from    string // where to continue, for ZRANGE
	members []string
	ended   bool
}

func newMerge(s *Store, filter store.Filter, after store.Key) *merge {
	m := &merge{store: s, filter: filter, to: "+"}
	from := "-"
	prefix := ""
	if filter.Cluster != "" {
		prefix = filter.Cluster + "\x00"
		if filter.Namespace != "" {
			prefix += filter.Namespace + "\x00"
		}
		from, m.to = "["+prefix, "("+prefix[:len(prefix)-1]+"\x01"
	}
	if last := after.Cluster + "\x00" + after.Namespace + "\x00" + after.Target; after != (store.Key{}) && last >= prefix {
		from = "(" + last
	}
	for b := range bucketCount {
		m.unloaded = append(m.unloaded, &cursor{index: s.layout.index(b), from: from})
	}
	return m
}

// next returns the next keys that match the filter, n at most; none at the end.
func (m *merge) next(ctx context.Context, n int) ([]store.Key, error) {
	var keys []store.Key
	for len(keys) < n {
		m.wanted = n - len(keys)
		if err := m.feed(ctx); err != nil {
			return nil, err
		}
		if len(m.cursors) == 0 {
			break
		}
		key, ok := memberKey(m.cursors[0].members[0])
		switch {
		case ok && m.filter.Matches(key):
			keys = append(keys, key)
			m.pop()
		case ok && m.filter.Namespace != "":
			target, more := m.filter.Seek(key)
			if !more {
				return keys, nil
			}
			m.seek(lowest(target))
		default:
			m.pop() // written by another program
		}
	}
	return keys, nil
}

// pop removes the first member.
func (m *merge) pop() {
	c := m.cursors[0]
	c.members = c.members[1:]
	if len(c.members) > 0 {
		heap.Fix(&m.cursors, 0)
		return
	}
	heap.Pop(&m.cursors)
	if !c.ended {
		m.unloaded = append(m.unloaded, c)
	}
}

// lowest returns the least member that a key at or after the target can have. Keys and
// members order differently: after the cluster "a" the least cluster name is "a" and a
// NUL byte, but members are joined by NUL bytes, so the least member after those of "a"
// begins with "a" and the byte 1.
func lowest(target store.Key) string {
	if name, next := strings.CutSuffix(target.Cluster, "\x00"); next {
		return name + "\x01"
	}
	return target.Cluster + "\x00" + target.Namespace + "\x00" + target.Target
}

// seek skips all members before the target.
func (m *merge) seek(target string) {
	var rest cursors
	for _, c := range m.cursors {
		for len(c.members) > 0 && c.members[0] < target {
			c.members = c.members[1:]
		}
		switch {
		case len(c.members) > 0:
			rest = append(rest, c)
		case !c.ended:
			c.from = "[" + target
			m.unloaded = append(m.unloaded, c)
		}
	}
	m.cursors = rest
	heap.Init(&m.cursors)
}

// feed loads members of the buckets in unloaded, so that the first of all is known.
func (m *merge) feed(ctx context.Context) error {
	if len(m.unloaded) == 0 {
		return nil
	}
	step := min(max(m.wanted*2/bucketCount, 2)+2, maxListStep)
	errs := m.store.perform(ctx, len(m.unloaded), &exchange{
		operation: "list",
		args: func(i int, _ bool) []any {
			c := m.unloaded[i]
			return []any{"zrange", c.index, c.from, m.to, "bylex", "limit", 0, step}
		},
		take: func(i int, reply any, _ bool) error {
			c := m.unloaded[i]
			members, ok := reply.([]any)
			if !ok {
				return fmt.Errorf("%w: the index %s", store.ErrUnreadable, c.index)
			}
			c.members = c.members[:0]
			for _, member := range members {
				text, _ := member.(string)
				c.members = append(c.members, text)
			}
			c.ended = len(members) < step
			return nil
		},
	})
	if errs != nil {
		return joined(errs)
	}
	for _, c := range m.unloaded {
		if len(c.members) > 0 {
			c.from = "(" + c.members[len(c.members)-1]
			heap.Push(&m.cursors, c)
		}
	}
	m.unloaded = m.unloaded[:0]
	return nil
}

// cursors is a heap of cursors with members, by first member.
type cursors []*cursor

func (h cursors) Len() int           { return len(h) }
func (h cursors) Less(i, j int) bool { return h[i].members[0] < h[j].members[0] }
func (h cursors) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *cursors) Push(c any) { *h = append(*h, c.(*cursor)) }

// Pop implements heap.Interface.
func (h *cursors) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
