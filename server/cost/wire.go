package cost

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Wire looks over an encoded message and spends the memory that decoding it takes. It
// returns nil if no list is too long and there is enough, and also for what is no
// message: then decoding says so.
func (m *Message) Wire(data []byte, limits Limits, budget *Budget) *Excess {
	w := walker{limits: limits, budget: budget}
	if !w.spend(m.size) {
		return w.excess
	}
	w.wire(m, data)
	return w.excess
}

// walker goes over a message. Once there is an excess it ends.
type walker struct {
	limits Limits
	// anyLength reports whether lists may have any length.
	anyLength bool
	budget    *Budget
	excess    *Excess
}

// spend spends memory. False: there is too little.
func (w *walker) spend(bytes int) bool {
	if !w.budget.Memory(bytes) {
		w.excess = &Excess{Kind: Memory}
		return false
	}
	return true
}

// counters are how many elements the lists of a message have so far.
type counters [maxLists]int

// add counts one more element. False: that is one too many.
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

// wire goes over the fields of a message. False: it is to end.
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
			// What is not known is kept as it is.
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

// value goes over a value that has a length.
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
