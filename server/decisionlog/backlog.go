package decisionlog

import "slices"

// backlog has the decisions that wait to be written. Clusters take turns, and the namespaces of a
// cluster, so that nobody waits behind the burst of another; and where there is no room, who has the
// most waiting loses some. The zero value is empty.
type backlog struct{ lane }

// lane is the entries that wait of a namespace; or the lanes of a cluster, or of all.
type lane struct {
	name  string
	size  int // of the entries, in bytes
	count int // of the entries that are no markers

	// A namespace has entries, from first on.
	entries []queued
	first   int

	// Others have lanes by name. They are in a ring, in the order of their turns: last is followed by
	// the next one.
	lanes map[string]*lane
	last  *lane
	next  *lane
	spare *lane // empty ones, to be used again
}

// maxSpare limits the room for entries that is kept to be used again.
const maxSpare = 64

// maxCompared limits the lanes that are compared to find the one with the most waiting.
const maxCompared = 64

// of returns the lane of that name. It makes it if there is none.
func (l *lane) of(name string) *lane {
	if in := l.lanes[name]; in != nil {
		return in
	}
	in := l.spare
	if in != nil {
		l.spare = in.next
	} else {
		in = new(lane)
	}
	in.name = name
	if l.lanes == nil {
		l.lanes = make(map[string]*lane)
	}
	l.lanes[name] = in
	if l.last == nil {
		in.next = in
	} else {
		in.next, l.last.next = l.last.next, in
	}
	l.last = in
	return in
}

// add adds an entry of a size, or with none a marker.
func (b *backlog) add(e queued, size int) {
	cluster := b.of(e.key.Cluster)
	namespace := cluster.of(e.key.Namespace)
	if len(namespace.entries) == cap(namespace.entries) && 2*namespace.first >= len(namespace.entries) {
		// Half of the room is that of entries that were taken: a lane may have entries for hours.
		namespace.entries, namespace.first = slices.Delete(namespace.entries, 0, namespace.first), 0
	}
	namespace.entries = append(namespace.entries, e)
	for _, l := range [...]*lane{&b.lane, cluster, namespace} {
		l.size += size
		if size > 0 {
			l.count++
		}
	}
}

// take removes the entry whose turn it is; false if there is none.
func (l *lane) take() (e queued, ok bool) {
	if l.first < len(l.entries) {
		e, l.entries[l.first] = l.entries[l.first], queued{}
		l.first++
		if e.flushed == nil {
			l.size -= e.size()
			l.count--
		}
		return e, true
	}
	for l.last != nil {
		turn := l.last.next
		e, ok = turn.take()
		if turn.empty() {
			l.remove(turn)
		} else {
			l.last = turn // it comes last now
		}
		if ok {
			if e.flushed == nil {
				l.size -= e.size()
				l.count--
			}
			return e, true
		}
	}
	return e, false
}

// empty reports whether nothing waits there, nor a marker.
func (l *lane) empty() bool { return l.first == len(l.entries) && l.last == nil }

// remove removes the lane whose turn is next, and which is empty.
func (l *lane) remove(turn *lane) {
	delete(l.lanes, turn.name)
	if l.last == turn {
		l.last = nil
	} else {
		l.last.next = turn.next
	}
	turn.entries, turn.first = turn.entries[:0], 0
	if cap(turn.entries) > maxSpare {
		turn.entries = nil
	}
	turn.next, l.spare = l.spare, turn
}

// makeWay drops the newest entry of who has the most waiting, and reports whether it did: not if
// that would be the entry's own namespace.
func (b *backlog) makeWay(e *queued, size int) bool {
	cluster := b.largest(b.lanes[e.key.Cluster], size)
	if cluster == nil {
		return false
	}
	var own *lane
	if cluster.name == e.key.Cluster {
		own = cluster.lanes[e.key.Namespace]
	} else {
		size = 0
	}
	namespace := cluster.largest(own, size)
	if namespace == nil {
		return false
	}
	for i := len(namespace.entries) - 1; i >= namespace.first; i-- {
		if dropped := &namespace.entries[i]; dropped.flushed == nil {
			freed := dropped.size()
			namespace.entries = slices.Delete(namespace.entries, i, i+1)
			for _, l := range [...]*lane{&b.lane, cluster, namespace} {
				l.size -= freed
				l.count--
			}
			return true
		}
	}
	return false
}

// largest returns the lane with the most bytes, of those that have their turns next. The own one,
// nil for none yet, counts with the bytes that it wants to have. If it has the most, the result is
// the own cluster, but no namespace.
func (l *lane) largest(own *lane, wanted int) (most *lane) {
	for l.last != nil && l.last.next != own && l.last.next.empty() {
		l.remove(l.last.next)
	}
	bytes := wanted
	if own != nil {
		bytes += own.size
	}
	if own != nil && own.last != nil {
		most = own // a cluster: one of its other namespaces may have more
	}
	for at, n := l.last, 0; at != nil && n < maxCompared; at, n = at.next, n+1 {
		if at.next != own && at.next.size > bytes {
			most, bytes = at.next, at.next.size
		}
	}
	return most
}
