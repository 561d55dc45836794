package fleet

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/setpoint-dev/setpoint/internal/numbers"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
)

// Record is the state of a fleet. The zero value is that of a new one. A Record is immutable: Step returns
// new ones, which share parts with it.
type Record struct {
	// Updated is when the last call came, Began the first one, Decided the last decision: in nanoseconds
	// since the Unix epoch, 0: there was none. Awake is when calls began to come without a long pause.
	Updated, Began, Decided, Awake int64
	// Desired is the count of the last decision, Total the sum of the shares, and Unplaced and Missing
	// what members could not take of that, and of what would survive a loss.
	Desired, Total, Unplaced, Missing int32
	// Members are those of the spec at the last call.
	Members []MemberRecord
	// History is the engine's; nil: there is none.
	History *recommender.History
}

// MemberRecord is the state of one member.
type MemberRecord struct {
	// Key stands for the name.
	Key uint64
	// Seen is when it called last, 0: never; and Told when it told Digest, in nanoseconds since the Unix epoch.
	Seen, Told int64
	// Digest is encoded; nil: it has told nothing yet.
	Digest []byte
	// Version is that of the digest.
	Version uint64
	// Share is its last share, where HasShare.
	Share    int32
	HasShare bool
	// Answered is the share that it learnt at its last call. Obeys reports whether it then had the one that it
	// had learnt before.
	Answered int32
	Obeys    bool
	// Gone reports whether it was lost at the last decision.
	Gone bool
	// Back is how many decisions its share still stays as it is because it has come back.
	Back uint8
	// Off reports whether somebody else set its replicas to 0; Emptied whether it has 0 because the fleet told it so.
	Off, Emptied bool
	// ShortSince is since when fewer replicas of it are ready than its share and Stuck; 0: enough are. Nobody
	// waits for Stuck of them any more.
	ShortSince int64
	Stuck      int32
	// PendingSince is since when it has pods without a place to run; 0: it has none.
	PendingSince int64
	// Capacity is how many pods it can place, or has where it did not do what it was told, until CapacityUntil;
	// 0: that is unknown.
	Capacity      int32
	CapacityUntil int64
	// MissedSince is since when it has Had, which is not what it was told; 0: it does what it is told.
	MissedSince int64
	Had         int32
	// Rest is below what it did not go when it was told to, until RestUntil; 0: it is told.
	Rest      int32
	RestUntil int64
}

// recordFormat 1: the format's byte, the fields in the order below, a CRC-32C. Integers are varints,
// instants differences to Updated. A history, see package recommender/encoding, follows the members.
const recordFormat = 1

// MaxRecord limits an encoded record, in bytes.
const MaxRecord = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Bits of a member.
const (
	hasShareBit = 1 << iota
	goneBit
	toldBit
	pendingBit
	capacityBit
	obeysBit
	offBit
	shortBit
	stuckBit
	missedBit
	emptiedBit
	restBit
	memberBits
)

// AppendRecord appends the record's encoding to b.
func AppendRecord(b []byte, r *Record) []byte {
	begin := len(b)
	since := func(at int64) { b = binary.AppendVarint(b, r.Updated-at) }
	b = append(b, recordFormat)
	b = binary.AppendVarint(b, r.Updated)
	since(r.Began)
	since(r.Decided)
	since(r.Awake)
	for _, n := range []int32{r.Desired, r.Total, r.Unplaced, r.Missing} {
		b = binary.AppendVarint(b, int64(n))
	}
	b = binary.AppendUvarint(b, uint64(len(r.Members)))
	for i := range r.Members {
		m := &r.Members[i]
		has := uint64(0)
		for _, bit := range []struct {
			bit uint64
			is  bool
		}{{hasShareBit, m.HasShare}, {goneBit, m.Gone}, {toldBit, m.Digest != nil}, {pendingBit, m.PendingSince != 0}, {capacityBit, m.CapacityUntil != 0}, {obeysBit, m.Obeys}, {offBit, m.Off}, {shortBit, m.ShortSince != 0}, {stuckBit, m.Stuck != 0}, {missedBit, m.MissedSince != 0}, {emptiedBit, m.Emptied}, {restBit, m.RestUntil != 0}} {
			if bit.is {
				has |= bit.bit
			}
		}
		b = binary.LittleEndian.AppendUint64(b, m.Key)
		b = binary.AppendUvarint(b, has)
		b = append(b, m.Back)
		b = binary.AppendVarint(b, int64(m.Share))
		b = binary.AppendVarint(b, int64(m.Answered)-int64(m.Share))
		since(m.Seen)
		if m.Digest != nil {
			since(m.Told)
			b = binary.AppendUvarint(b, uint64(len(m.Digest)))
			b = append(b, m.Digest...) // with the version
		}
		if m.PendingSince != 0 {
			since(m.PendingSince)
		}
		if m.CapacityUntil != 0 {
			since(m.CapacityUntil)
			b = binary.AppendVarint(b, int64(m.Capacity))
		}
		if m.ShortSince != 0 {
			since(m.ShortSince)
		}
		if m.Stuck != 0 {
			b = binary.AppendVarint(b, int64(m.Stuck))
		}
		if m.MissedSince != 0 {
			since(m.MissedSince)
			b = binary.AppendVarint(b, int64(m.Had))
		}
		if m.RestUntil != 0 {
			since(m.RestUntil)
			b = binary.AppendVarint(b, int64(m.Rest))
		}
	}
	if r.History != nil {
		b = encoding.AppendHistory(b, r.History)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[begin:], castagnoli))
}

// DecodeRecord decodes what AppendRecord wrote. The digests share memory with b.
func DecodeRecord(b []byte) (Record, error) {
	switch {
	case len(b) < 5 || len(b) > MaxRecord:
		return Record{}, ErrCorrupt
	case b[0] != recordFormat:
		return Record{}, ErrFormat
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(body):]) {
		return Record{}, ErrCorrupt
	}
	r := reader{Reader: numbers.Reader{Rest: body[1:]}}
	d := Record{Updated: r.Varint()}
	since := func() int64 { return d.Updated - r.Varint() }
	d.Began, d.Decided, d.Awake = since(), since(), since()
	for _, n := range []*int32{&d.Desired, &d.Total, &d.Unplaced, &d.Missing} {
		*n = r.Int32()
	}
	if n := r.Count(MaxMembers); n > 0 {
		d.Members = make([]MemberRecord, n)
	}
	for i := range d.Members {
		m := &d.Members[i]
		m.Key = r.Fixed()
		has := r.Uvarint()
		r.Bad = r.Bad || has >= memberBits
		m.HasShare, m.Gone, m.Obeys = has&hasShareBit != 0, has&goneBit != 0, has&obeysBit != 0
		m.Off, m.Emptied = has&offBit != 0, has&emptiedBit != 0
		m.Back = r.Byte()
		m.Share = r.Int32()
		m.Answered = int32(int64(m.Share) + r.Varint())
		m.Seen = since()
		if has&toldBit != 0 {
			m.Told = since()
			m.Digest = r.Bytes(r.Count(MaxRecord))
			if len(m.Digest) < 9 {
				return Record{}, ErrCorrupt
			}
			m.Version = binary.LittleEndian.Uint64(m.Digest[1:])
		}
		if has&pendingBit != 0 {
			m.PendingSince = since()
		}
		if has&capacityBit != 0 {
			m.CapacityUntil = since()
			m.Capacity = r.Int32()
		}
		if has&shortBit != 0 {
			m.ShortSince = since()
		}
		if has&stuckBit != 0 {
			m.Stuck = r.Int32()
		}
		if has&missedBit != 0 {
			m.MissedSince = since()
			m.Had = r.Int32()
		}
		if has&restBit != 0 {
			m.RestUntil = since()
			m.Rest = r.Int32()
		}
	}
	if r.Bad {
		return Record{}, ErrCorrupt
	}
	if len(r.Rest) > 0 {
		history, err := encoding.DecodeHistory(r.Rest)
		if err != nil {
			return Record{}, err
		}
		d.History = &history
	}
	return d, nil
}

// withoutFuture returns the record with all instants after the given one moved to it: a wrong clock made them.
// History is left as it is; the engine knows such records, too.
func (r *Record) withoutFuture(at int64) Record {
	next := *r
	for _, instant := range []*int64{&next.Updated, &next.Began, &next.Decided, &next.Awake} {
		*instant = min(*instant, at)
	}
	next.Members = append([]MemberRecord(nil), r.Members...)
	for i := range next.Members {
		m := &next.Members[i]
		if m.Seen > m.Told { // it is blind, and stays so
			m.Told = min(m.Told, at-1)
		}
		for _, instant := range []*int64{&m.Seen, &m.Told, &m.PendingSince, &m.ShortSince, &m.MissedSince} {
			*instant = min(*instant, at)
		}
		m.CapacityUntil = min(m.CapacityUntil, at+int64(capacityFor))
		m.RestUntil = min(m.RestUntil, at+int64(capacityFor))
	}
	return next
}

// own copies what Step changes. Its members are those of the spec, in that order.
func (r *Record) own(spec *Spec) Record {
	next := *r
	next.Members = make([]MemberRecord, len(spec.Members))
	for i := range next.Members {
		key := keyOf(spec.Members[i].Name)
		if m := r.Member(i, key); m != nil {
			next.Members[i] = *m
		}
		next.Members[i].Key = key
	}
	return next
}

// Member is the record of the member with a key, which most probably is at an index; nil: there is none.
func (r *Record) Member(at int, key uint64) *MemberRecord {
	if at < len(r.Members) && r.Members[at].Key == key {
		return &r.Members[at]
	}
	for i := range r.Members {
		if r.Members[i].Key == key {
			return &r.Members[i]
		}
	}
	return nil
}
