package codec

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// The tail is what versions add to a record for each other. It takes no bytes where there is
// nothing, and a version skips fields that it does not know.

func hasTail(h *recommender.History, f *Frame) bool {
	return f.Interval != 0 || f.LastChange != 0 || len(f.Turns) > 0 || f.Spec.Hash != 0 ||
		len(f.Stages) > 0 || len(f.Shadows) > 0 || f.Adjusted != nil || h.Pending != nil && h.Pending.Outside || slices.ContainsFunc(f.Answers, isAdjusted)
}

func isAdjusted(a Answer) bool { return a.Adjusted != nil }

func (e *encoder) tail(h *recommender.History, f *Frame) {
	var room [binary.MaxVarintLen64 * MaxTurns]byte
	if f.Interval != 0 || f.LastChange != 0 {
		// The direction as 1 up, 2 down, 0 unknown.
		e.field(paceTag, binary.AppendUvarint(room[:0], uint64(f.Interval)<<2|uint64(f.LastChange+3)%3))
	}
	if len(f.Turns) > 0 {
		b, before := room[:0], milliseconds(e.base)
		for _, at := range f.Turns[:min(len(f.Turns), MaxTurns)] {
			b = binary.AppendVarint(b, before-at)
			before = at
		}
		e.field(turnsTag, b)
	}
	if f.Spec.Hash != 0 {
		e.field(specTag, e.spec(room[:0], &f.Spec))
	}
	if len(f.Stages) > 0 {
		e.field(stagesTag, f.Stages)
	}
	if f.Adjusted != nil {
		e.field(adjustedTag, e.adjusted(f.Adjusted))
	}
	if h.Pending != nil && h.Pending.Outside {
		e.field(outsideTag, nil)
	}
	if slices.ContainsFunc(f.Answers, isAdjusted) {
		in := encoder{}
		for i := range f.Answers {
			if a := f.Answers[i].Adjusted; a != nil {
				in.field(uint64(i), e.adjusted(a))
			}
		}
		e.field(answersTag, in.b)
	}
	if len(f.Shadows) > 0 {
		e.field(shadowsTag, f.Shadows)
	}
	if f.Paused {
		e.field(pausedTag, nil)
	}
	if f.Spec.Text != "" || f.Spec.TooLong {
		e.uint(textTag)
		e.uint(uint64(len(f.Spec.Text)))
		e.b = append(e.b, f.Spec.Text...)
	}
}

// adjusted encodes what stages made of a decision: the plain count, and each adjustment, those of overrides that begin
// or end first.
func (e *encoder) adjusted(a *recommender.Adjusted) []byte {
	in := encoder{base: e.base}
	in.int(int64(a.Plain))
	all := a.Adjustments
	if len(a.Overrides) > 0 {
		all = slices.Concat(a.Overrides, all)
	}
	for i := range all[:min(len(all), recommender.MaxAdjustments)] {
		one := &all[i]
		in.uint(uint64(one.Stage))
		in.int(int64(one.Before))
		in.int(int64(one.After))
		in.string(one.Rule)
		in.string(one.Metric)
		in.string(one.Message)
		until := int64(0)
		if !one.Until.IsZero() {
			until = one.Until.UnixMilli()
		}
		in.int(until)
	}
	return in.b
}

func (d *decoder) adjusted() *recommender.Adjusted {
	a := &recommender.Adjusted{Plain: int32(d.int())}
	for len(d.b) > 0 && !d.failed && len(a.Adjustments)+len(a.Overrides) < recommender.MaxAdjustments {
		one := recommender.Adjustment{Stage: recommender.Stage(d.uint()), Before: int32(d.int()), After: int32(d.int()), Rule: d.string(), Metric: d.string(), Message: d.string()}
		if until := d.int(); until != 0 {
			one.Until = time.UnixMilli(until).UTC()
		}
		if one.Stage == recommender.StageOverride && (one.Rule == recommender.OverrideBegins || one.Rule == recommender.OverrideEnds) {
			a.Overrides = append(a.Overrides, one)
			continue
		}
		a.Adjustments = append(a.Adjustments, one)
	}
	return a
}

// Bits of what is known of a spec, beside its hash.
const (
	sinceBit = 1 << iota
	keptBit  // of earlier versions, which stored the text elsewhere: when they did, in minutes
)

func (e *encoder) spec(b []byte, s *SpecUse) []byte {
	b = binary.BigEndian.AppendUint64(b, s.Hash)
	if s.Since == 0 {
		return b
	}
	return binary.AppendVarint(append(b, sinceBit), milliseconds(e.base)-s.Since)
}

// field appends a field of the tail.
func (e *encoder) field(tag uint64, value []byte) {
	e.uint(tag)
	e.uint(uint64(len(value)))
	e.b = append(e.b, value...)
}

func (d *decoder) tail(h *recommender.History, f *Frame, parts *historyParts) {
	if len(d.b) == 0 {
		d.fail() // the bit says that there is one
	}
	for last := uint64(0); len(d.b) > 0; {
		tag := d.uint()
		if tag <= last { // in their order, each once
			d.fail()
			return
		}
		last = tag
		field := decoder{b: d.take(d.uint()), base: d.base, failed: d.failed}
		switch tag {
		case paceTag:
			field.pace(f)
		case turnsTag:
			f.Turns = field.turns(parts.turns[:0])
		case specTag:
			field.spec(&f.Spec)
		case stagesTag:
			field.failed = field.failed || len(field.b) == 0
			f.Stages, field.b = slices.Clone(field.b), nil
		case adjustedTag:
			f.Adjusted = field.adjusted()
		case outsideTag:
			if h.Pending == nil {
				d.fail()
				return
			}
			h.Pending.Outside = true
		case answersTag:
			field.failed = field.failed || len(field.b) == 0
			for len(field.b) > 0 && !field.failed {
				i := field.index(len(f.Answers))
				one := decoder{b: field.take(field.uint()), base: d.base}
				if field.failed {
					break
				}
				f.Answers[i].Adjusted = one.adjusted()
				field.failed = one.failed || len(one.b) > 0
			}
		case shadowsTag:
			field.failed = field.failed || len(field.b) == 0
			f.Shadows, field.b = slices.Clone(field.b), nil
		case pausedTag:
			field.failed = field.failed || f.Interval == 0
			f.Paused = true
		case textTag:
			// In the buffer of the record's texts, for each decision reads it.
			field.failed = field.failed || f.Spec.Hash == 0
			f.Spec.Text, f.Spec.TooLong, field.b = d.text(field.b), len(field.b) == 0, nil
		case indexTag:
			if d.numbers == nil {
				continue
			}
			h.Packed, field.b = d.long.open().Open(d.numbers, d.base, d.count, field.b), nil
		default:
			continue
		}
		if field.failed || len(field.b) > 0 {
			d.fail()
		}
	}
}

func (d *decoder) pace(f *Frame) {
	v := d.uint()
	if f.Interval, f.LastChange = int64(v>>2), int8([...]int{0, 1, -1, 2}[v&3]); v == 0 || f.LastChange > 1 {
		d.fail()
	}
}

func (d *decoder) spec(s *SpecUse) {
	hash := d.take(8)
	if d.failed {
		return
	}
	if s.Hash = binary.BigEndian.Uint64(hash); s.Hash == 0 {
		d.fail()
		return
	}
	if len(d.b) == 0 {
		return
	}
	known := d.uint()
	if known&sinceBit != 0 {
		s.Since = milliseconds(d.base) - d.int()
	}
	if known&keptBit != 0 {
		d.int()
	}
	if known == 0 || known > sinceBit|keptBit {
		d.fail()
	}
}

// turns takes all of them into the room.
func (d *decoder) turns(room []int64) []int64 {
	before := milliseconds(d.base)
	for len(d.b) > 0 && len(room) < MaxTurns {
		before -= d.int()
		room = append(room, before)
	}
	if len(room) == 0 {
		d.fail()
	}
	return room
}

// milliseconds converts nanoseconds since the Unix epoch, rounded down.
func milliseconds(nanos int64) int64 { return time.Unix(0, nanos).UnixMilli() }
