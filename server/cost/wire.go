package cost

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Wire checks an encoded message and spends the memory that decoding it takes. It
// returns nil if no list is too long and the memory suffices, and also for an invalid
// message: decoding reports that.
func (m *Message) Wire(data []byte, limits Limits, budget *Budget) *Excess {
	w := walker{limits: limits, budget: budget}
	if !w.spend(m.size) {
		return w.excess
	}
	w.wire(m, data)
	return w.excess
}

// walker walks over a message. It stops at an excess.
type walker struct {
	limits Limits
	// anyLength reports whether lists may have any length.
	anyLength bool
	budget    *Budget
	excess    *Excess
}

// spend spends memory. False: the budget is too small.
func (w *walker) spend(bytes int) bool {
	if !w.budget.Memory(bytes) {
		w.excess = &Excess{Kind: Memory}
		return false
	}
	return true
}

// counters are the lengths of a message's lists so far.
type counters [maxLists]int

// add counts one more element. False: one too many.
func (w *walker) add(f *field, n *counters) bool {
	if f.shape == single {
		return w.spend(f.each)
	}
	n[f.count]++
	count := n[f.count]
	if most, setting := w.limits.of(f); most > 0 && !w.anyLength && count > most {
		w.excess = &Excess{Kind: Length, Limit: setting, Most: most}
		return false
	}
	switch {
	case f.shape == list:
		return w.spend(f.each)
	case count == 1:
		return w.spend(f.each + mapSize)
	case count > smallMap:
		return w.spend(f.each + entrySize)
	}
	return w.spend(f.each)
}

// wire walks over the fields of a message. False: stop.
func (w *walker) wire(m *Message, b []byte) bool {
	var n counters
	for len(b) > 0 {
		tag, size := protowire.ConsumeVarint(b)
		if size < 0 {
			return false
		}
		number, kind := protowire.DecodeTag(tag)
		var f *field
		if number > 0 && int(number) < len(m.fields) {
			f = m.fields[number]
		}
		length := protowire.ConsumeFieldValue(number, kind, b[size:])
		if length < 0 {
			return false
		}
		value := b[size : size+length]
		b = b[size+length:]
		switch {
		case f == nil || tag != f.tag:
			// Unknown fields are kept encoded.
			if !w.spend(3 * (size + length)) {
				return false
			}
			continue
		case !w.add(f, &n):
			w.excess.at(f, n[f.count]-1)
			return false
		case kind != protowire.BytesType:
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		if !w.value(f, value) {
			if w.excess != nil {
				w.excess.at(f, n[f.count]-1)
			}
			return false
		}
	}
	return true
}

// value walks over a length-delimited value.
func (w *walker) value(f *field, b []byte) bool {
	switch {
	case f.shape == mapped && f.message == nil:
		return w.spend(len(b) + textSize) // short texts share memory
	case f.message != nil && f.shape != mapped:
		before := w.anyLength
		w.anyLength = before || f.clipped
		ok := w.wire(f.message, b)
		w.anyLength = before
		return ok
	}
	return w.spend(len(b))
}
