package overrides

import (
	"bytes"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

// known are the overrides of a cluster, as decisions look for them. It does not change. It has them as they are stored, and
// only those that a decision needs are decoded: a list that no cache has room for is read again by the next decision there, which
// must not cost many times what a decision costs; and what a cache keeps costs the garbage collector nothing.
type known struct {
	// list has the overrides, one at each place, by name.
	list []byte
	at   []piece
	// version is the record's, "": there is none.
	version store.Version
	// ends is when the first of them expires, zero: there are none.
	ends time.Time
	// deleted are those that were deleted lately.
	deleted []*storedv1.DeletedOverride
}

// piece is a piece of a list.
type piece struct{ from, to uint32 }

var noOverrides = &known{}

// read reads a record: those that have not expired by then.
func read(cluster string, record store.Record, now time.Time) (*known, error) {
	k := &known{list: record.Value, version: record.Version}
	if err := k.read(now); err != nil {
		return nil, &UnreadableError{cluster, err}
	}
	return k, nil
}

func (k *known) read(now time.Time) error {
	var last []byte
	sorted := true
	for rest := k.list; len(rest) > 0; {
		var number protowire.Number
		var value []byte
		if number, _, value, rest = fieldOf(rest); number == 0 {
			return errWire
		}
		switch {
		case number == 1 && value != nil:
			var one encoded
			if err := one.read(value); err != nil {
				return err
			}
			_, _, ok := target.ParseOverride(string(one.name))
			if !ok || !now.Before(one.expires) {
				continue // of a later version, or it has expired
			}
			sorted = sorted && bytes.Compare(last, one.name) <= 0
			last = one.name
			to := len(k.list) - len(rest)
			k.keep(piece{uint32(to - len(value)), uint32(to)}, one.expires) //nolint:gosec // a record is no longer
		case number == 3 && value != nil:
			d := new(storedv1.DeletedOverride)
			if err := proto.Unmarshal(value, d); err != nil {
				return err
			}
			if lately(now)(d) {
				k.deleted = append(k.deleted, d)
			}
		}
	}
	if !sorted {
		slices.SortStableFunc(k.at, func(a, b piece) int { return bytes.Compare(k.name(a), k.name(b)) })
	}
	return nil
}

func (k *known) keep(p piece, expires time.Time) {
	k.at = append(k.at, p)
	if k.ends.IsZero() || expires.Before(k.ends) {
		k.ends = expires
	}
}

// encoded returns the override at a place, which was read before.
func (k *known) encoded(p piece) (one encoded) {
	_ = one.read(k.list[p.from:p.to])
	return one
}

// memory is about what all of them take, in bytes.
func (k *known) memory() int { return len(k.list) + 8*len(k.at) }

// name returns the name of the override at a place.
func (k *known) name(p piece) []byte {
	if number, _, value, _ := fieldOf(k.list[p.from:p.to]); number == 1 && value != nil { // as it is first, usually
		return value
	}
	return k.encoded(p).name
}

// find returns where the first override is whose name is not before that one.
func (k *known) find(name []byte) int {
	i, _ := slices.BinarySearchFunc(k.at, name, func(p piece, name []byte) int { return bytes.Compare(k.name(p), name) })
	return i
}

// of returns those for a target.
func (k *known) of(key store.Key) (all []stages.Override) {
	if len(k.at) == 0 {
		return nil
	}
	var room [256]byte
	prefix := append(append(room[:0], "clusters/"...), key.Cluster...)
	for level := stages.OfCluster; ; level++ {
		length := len(prefix)
		prefix = append(prefix, "/overrides/"...)
		for _, p := range k.at[k.find(prefix):] {
			if !bytes.HasPrefix(k.name(p), prefix) {
				break
			}
			one := k.encoded(p)
			all = append(all, one.override(level))
		}
		switch prefix = prefix[:length]; level {
		case stages.OfCluster:
			prefix = append(append(prefix, "/namespaces/"...), key.Namespace...)
		case stages.OfNamespace:
			prefix = append(append(prefix, "/targets/"...), key.Target...)
		default:
			return all
		}
	}
}

// without returns those that have not expired by then.
func (k *known) without(now time.Time) *known {
	if k.ends.IsZero() || now.Before(k.ends) {
		return k
	}
	next := &known{list: k.list, version: k.version, deleted: k.deleted}
	for _, p := range k.at {
		if one := k.encoded(p); now.Before(one.expires) {
			next.keep(p, one.expires)
		}
	}
	if len(next.at) == 0 {
		next.list = nil
	}
	return next
}

// each calls do for all of them.
func (k *known) each(do func(*stages.Override)) {
	for _, p := range k.at {
		one := k.encoded(p)
		place, _, _ := target.ParseOverride(string(one.name))
		override := one.override(levelOf(place))
		do(&override)
	}
}

// names returns the names of those that have not expired by then.
func (k *known) names(now time.Time) (names []string) {
	for _, p := range k.at {
		if one := k.encoded(p); now.Before(one.expires) {
			names = append(names, string(one.name))
		}
	}
	return names
}

// has reports whether there is one of that name.
func (k *known) has(name string) bool {
	i := k.find([]byte(name))
	return i < len(k.at) && string(k.name(k.at[i])) == name
}

// lostIn returns the names of those that have not expired by then and that a later list lacks although nobody has deleted
// them: a failover of the store went back to an earlier list, or its data are gone.
func (k *known) lostIn(next *known, now time.Time) (lost []string) {
	if next.version != "" && next.forgets() {
		return nil // one of them may have been deleted
	}
	deleted := map[string]bool{}
	for _, d := range next.deleted {
		deleted[d.GetName()] = true
	}
	return slices.DeleteFunc(k.names(now), func(name string) bool { return deleted[name] || next.has(name) })
}

// backIn returns the names of those that were deleted and that a later list has again: a failover of the store, or a backup,
// went back to before the deletion.
func (k *known) backIn(next *known) (back []string) {
	for _, d := range k.deleted {
		for _, p := range next.at[next.find([]byte(d.GetName())):] {
			if string(next.name(p)) != d.GetName() {
				break
			}
			if next.encoded(p).created.UnixMilli() == d.GetCreateTime().AsTime().UnixMilli() {
				back = append(back, d.GetName())
			}
		}
	}
	return back
}

// deletedAs returns the deletion of the override of a name that was created at an instant, nil for none that is known.
func (k *known) deletedAs(name string, created time.Time) *storedv1.DeletedOverride {
	for _, d := range k.deleted {
		if d.GetName() == name && d.GetCreateTime().AsTime().UnixMilli() == created.UnixMilli() {
			return d
		}
	}
	return nil
}

// forgets reports whether the record may have left out who deleted an override, because there were too many.
func (k *known) forgets() bool {
	bytes := 0
	for _, d := range k.deleted {
		bytes += deletionBytes(d)
	}
	return bytes > mostDeletedBytes-mostDeletion
}

func levelOf(place target.Place) stages.Level {
	switch {
	case place.Namespace == "":
		return stages.OfCluster
	case place.Target == "":
		return stages.OfNamespace
	}
	return stages.OfTarget
}

// encoded is an override whose texts are those of its message.
type encoded struct {
	name, reason, author         []byte
	hold, noScaleDown, noScaleUp bool
	pin, floor, ceiling          int32
	start, expires, created      time.Time
}

// override returns it as decisions have it.
func (e *encoded) override(level stages.Level) stages.Override {
	return stages.Override{
		Name: string(e.name), Level: level, Hold: e.hold, Pin: e.pin, Floor: e.floor, Ceiling: e.ceiling, NoScaleDown: e.noScaleDown, NoScaleUp: e.noScaleUp,
		Reason: string(e.reason), Author: string(e.author), Start: e.start, Expires: e.expires, Created: e.created,
	}
}

var (
	epoch   = time.Unix(0, 0).UTC()
	errWire = errors.New("it is no message")
)

// read reads the message of an override.
func (e *encoded) read(message []byte) error {
	*e = encoded{pin: -1, floor: -1, ceiling: -1, start: epoch, expires: epoch, created: epoch}
	for len(message) > 0 {
		var number protowire.Number
		var varint uint64
		var value []byte
		switch number, varint, value, message = fieldOf(message); {
		case number == 0:
			return errWire
		case value == nil:
			e.number(number, varint)
		default:
			if err := e.text(number, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *encoded) number(field protowire.Number, v uint64) {
	switch field {
	case 2:
		e.hold = v != 0
	case 3:
		e.pin = int32(v) //nolint:gosec // as protobuf reads it
	case 4:
		e.floor = int32(v) //nolint:gosec // as protobuf reads it
	case 5:
		e.ceiling = int32(v) //nolint:gosec // as protobuf reads it
	case 6:
		e.noScaleDown = v != 0
	case 7:
		e.noScaleUp = v != 0
	}
}

func (e *encoded) text(field protowire.Number, value []byte) (err error) {
	switch field {
	case 1:
		e.name = value
	case 10:
		e.reason = value
	case 11:
		e.author = value
	case 8:
		e.start, err = instantIn(value)
		return err
	case 9:
		e.expires, err = instantIn(value)
		return err
	case 12:
		e.created, err = instantIn(value)
		return err
	default:
		return nil
	}
	if !utf8.Valid(value) {
		return errors.New("a text is not UTF-8")
	}
	return nil
}

// instantIn reads a Timestamp.
func instantIn(message []byte) (time.Time, error) {
	var seconds, nanos int64
	for len(message) > 0 {
		var number protowire.Number
		var varint uint64
		var value []byte
		switch number, varint, value, message = fieldOf(message); {
		case number == 0:
			return time.Time{}, errWire
		case value != nil:
		case number == 1:
			seconds = int64(varint) //nolint:gosec // as protobuf reads it
		case number == 2:
			nanos = int64(int32(varint)) //nolint:gosec // as protobuf reads it
		}
	}
	return time.Unix(seconds, nanos).UTC(), nil
}

// noField is the number of a field of a kind that none of ours has.
const noField = protowire.MaxValidNumber

// fieldOf reads the first field of a message: value is that of a length-delimited one, and nil of a varint. number is 0 if it is
// invalid.
// It is no loop over protofields.Of, with which a list took half as long again, and three times as many calls of others failed
// while one caller made the cache read lists all the time.
func fieldOf(message []byte) (number protowire.Number, varint uint64, value, rest []byte) {
	number, kind, n := protowire.ConsumeTag(message)
	if n < 0 {
		return 0, 0, nil, nil
	}
	message = message[n:]
	switch kind {
	case protowire.VarintType:
		varint, n = protowire.ConsumeVarint(message)
	case protowire.BytesType:
		value, n = protowire.ConsumeBytes(message)
	default:
		n = protowire.ConsumeFieldValue(number, kind, message)
		number = noField
	}
	if n < 0 {
		return 0, 0, nil, nil
	}
	return number, varint, value, message[n:]
}
