package stages

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"slices"
)

// State is what stages remember of a target. All instants are in milliseconds since the Unix epoch; 0 is
// none.
type State struct {
	// Metrics are by the index of the spec's metric.
	Metrics []MetricState
	// InactiveSince is since when no metric is active, AtOneSince since when the count is one, and Begun
	// when idle scaling saw the target first.
	InactiveSince, AtOneSince, Begun int64
	// bucket is what a forecast remembers.
	bucket bucket
	// overrides are those in force that decisions have told.
	overrides []seen
}

// MetricState is what stages remember of one metric. A metric of which nothing is remembered takes no
// bytes.
type MetricState struct {
	name uint32 // a hash of the metric's
	// FailingSince is the first of the failures without a success in between.
	FailingSince int64
	// Proposal is the last that was computed, at ProposedAt.
	Proposal   int32
	ProposedAt int64
	// Believed is the last value that the zero guard believed, in milli-units, if HasBelieved; SuspectSince
	// is the first of the lower ones after it.
	Believed     int64
	HasBelieved  bool
	SuspectSince int64
}

// The encoding: three instants, then for each metric with something to remember a hash of its name and
// its fields, all varints. Zero values at the end are left out, so that no state takes no bytes. The
// state is small and local: what can't be read counts as none. Overrides follow a name of zeros, so that earlier
// versions take them for metrics that the spec does not have; so they take what a forecast remembers, which has a name
// that one metric in 2^32 has, too: that one then remembers nothing beside a forecast.

// bucketName is the name under which a forecast remembers.
const bucketName = 1

// encode returns kept where nothing changed: a new slice would be garbage of most decisions.
func (s *State) encode(kept []byte) []byte {
	var room [512]byte
	b := s.append(room[:0])
	switch {
	case len(b) == 0:
		return nil
	case bytes.Equal(b, kept):
		return kept
	}
	return bytes.Clone(b)
}

func (s *State) append(b []byte) []byte {
	b = binary.AppendVarint(b, s.InactiveSince)
	b = binary.AppendVarint(b, s.AtOneSince)
	b = binary.AppendVarint(b, s.Begun)
	some := s.InactiveSince != 0 || s.AtOneSince != 0 || s.Begun != 0
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if *m == (MetricState{name: m.name}) {
			continue
		}
		some = true
		b = binary.LittleEndian.AppendUint32(b, m.name)
		believed := int64(0)
		if m.HasBelieved {
			believed = 1
		}
		for _, v := range []int64{m.FailingSince, int64(m.Proposal), m.ProposedAt, believed, m.Believed, m.SuspectSince} {
			b = binary.AppendVarint(b, v)
		}
	}
	if f := &s.bucket; f.index > 0 {
		some = true
		void := int64(0)
		if f.void {
			void = 1
		}
		b = binary.LittleEndian.AppendUint32(b, bucketName)
		for _, v := range []int64{f.index, int64(f.largest), int64(f.basis), void, 0, 0} {
			b = binary.AppendVarint(b, v)
		}
	}
	if len(s.overrides) > 0 {
		return appendSeen(binary.LittleEndian.AppendUint32(b, 0), s.overrides)
	}
	if !some {
		return b[:0]
	}
	return b
}

// decode reads what encode wrote, for metrics of these names. It uses the capacity of the state's lists.
func (s *State) decode(b []byte, names []string) {
	*s = State{Metrics: slices.Grow(s.Metrics[:0], len(names))[:len(names)], overrides: s.overrides[:0]}
	clear(s.Metrics)
	var seen map[string]int
	if len(names) > 16 {
		seen = make(map[string]int, len(names))
	}
	for i := range names {
		h := fnv.New32a()
		h.Write([]byte(names[i]))
		nth := seen[names[i]]
		if seen == nil {
			nth = nthOf(names, i)
		} else {
			seen[names[i]]++
		}
		if nth > 0 { // no name has a byte of 0
			h.Write([]byte{0, byte(nth), byte(nth >> 8)})
		}
		s.Metrics[i].name = h.Sum32()
	}
	next := func() (v int64) {
		v, n := binary.Varint(b)
		if n <= 0 {
			b = nil
			return 0
		}
		b = b[n:]
		return v
	}
	s.InactiveSince, s.AtOneSince, s.Begun = next(), next(), next()
	for len(b) > 4 {
		name := binary.LittleEndian.Uint32(b)
		if b = b[4:]; name == 0 {
			s.overrides = decodeSeen(s.overrides, b)
			break
		}
		if name == bucketName {
			s.bucket = bucket{index: next(), largest: int32(next()), basis: uint32(next()), void: next() == 1}
			next()
			next()
			continue
		}
		m := MetricState{name: name, FailingSince: next(), Proposal: int32(next()), ProposedAt: next(), HasBelieved: next() == 1, Believed: next(), SuspectSince: next()}
		for i := range s.Metrics {
			if s.Metrics[i].name == name {
				s.Metrics[i] = m
			}
		}
	}
}

// withoutFuture moves later instants, which a wrong clock has made, to the given one.
func (s *State) withoutFuture(now int64) {
	s.InactiveSince, s.AtOneSince, s.Begun = min(s.InactiveSince, now), min(s.AtOneSince, now), min(s.Begun, now)
	for i := range s.Metrics {
		m := &s.Metrics[i]
		m.FailingSince, m.ProposedAt, m.SuspectSince = min(m.FailingSince, now), min(m.ProposedAt, now), min(m.SuspectSince, now)
	}
}
