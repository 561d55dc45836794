package fleets

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/internal/numbers"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store"
)

// state is what the store keeps of a fleet. It is immutable.
type state struct {
	// spec is the version of the stored spec under which the record was written.
	spec store.Version
	// fleet is the record of package fleet, and decisions that of the fleet's decisions as targets have it;
	// the former has the latter's history.
	fleet     fleet.Record
	decisions record.Record
	// tail is decisions, encoded; empty: there was no decision.
	tail []byte
	// clusters are those of the members that told theirs.
	clusters []cluster
}

// cluster is which cluster a member called from.
type cluster struct {
	// member is the key of its record.
	member uint64
	// hash is that of the cluster's uid.
	hash uint32
}

// shared returns the record of decisions as they were shared out: without what found no member, and with none pending,
// though the engine still waits for what it sees of them.
func (s *state) shared() *record.Record {
	known := s.decisions
	last := &known.Last
	last.To -= s.fleet.Unplaced
	switch known.Pending = nil; {
	case last.To == last.From:
		last.Reason, last.Outcome = "", recommender.NotChanged
	case last.Outcome == recommender.Undecided:
		last.Outcome = recommender.Applied
	}
	return &known
}

// stateFormat 1: the format's byte, then length and bytes of the spec's version, of the fleet's record without
// history and of the clusters, then the record of its decisions. Both records have checksums.
const stateFormat = 1

var errCorrupt = errors.New("corrupt record of a fleet")

// append appends the encoding.
func (s *state) append(b []byte) []byte {
	b = append(b, stateFormat)
	b = append(binary.AppendUvarint(b, uint64(len(s.spec))), s.spec...)
	bare := s.fleet
	bare.History = nil
	value := fleet.AppendRecord(make([]byte, 0, cap(b)), &bare)
	b = append(binary.AppendUvarint(b, uint64(len(value))), value...)
	b = binary.AppendUvarint(b, uint64(len(s.clusters)*clusterBytes))
	for _, c := range s.clusters {
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(b, c.member), c.hash)
	}
	return append(b, s.tail...)
}

const clusterBytes = 8 + 4

// decodeState decodes what append wrote. The result shares memory with b.
func decodeState(b []byte) (*state, error) {
	if len(b) == 0 {
		return nil, errCorrupt
	}
	if b[0] != stateFormat {
		return nil, fleet.ErrFormat
	}
	r := numbers.Reader{Rest: b[1:]}
	part := func() []byte { return r.Bytes(r.Count(len(r.Rest))) }
	s := &state{spec: store.Version(part())}
	var err error
	if s.fleet, err = fleet.DecodeRecord(part()); err != nil {
		return nil, err
	}
	clusters := part()
	if r.Bad || len(clusters)%clusterBytes != 0 || len(clusters) > fleet.MaxMembers*clusterBytes {
		return nil, errCorrupt
	}
	for one := range slices.Chunk(clusters, clusterBytes) {
		s.clusters = append(s.clusters, cluster{binary.LittleEndian.Uint64(one), binary.LittleEndian.Uint32(one[8:])})
	}
	if s.tail = r.Rest; len(s.tail) == 0 {
		return s, nil
	}
	if s.decisions, err = record.Decode(s.tail); err != nil {
		return nil, err
	}
	s.fleet.History = &s.decisions.History
	return s, nil
}
