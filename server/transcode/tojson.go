package transcode

// AppendJSON appends the JSON of an encoded message. ok is false for unsupported
// messages: the slow path then writes them, or finds them invalid. dst is then returned
// unchanged, except for bytes beyond its length, which wire must not share.
func (m *Message) AppendJSON(dst, wire []byte) (out []byte, ok bool) {
	p := printer{wire: wire, out: dst}
	if !p.content(m, 0, len(wire), 0) {
		return dst, false
	}
	return p.out, true
}

// printer writes an encoded message as JSON. Its methods take the positions where
// something begins and where the enclosing part ends, and return where it ends, or no.
type printer struct {
	wire, out []byte
}

// content writes a message that takes up everything from i to end.
func (p *printer) content(m *Message, i, end, depth int) (ok bool) {
	switch m.form {
	case object:
		return p.object(m, i, end, depth)
	case timestamp:
		if seconds, nanos, ok := p.instant(i, end); ok {
			p.out, ok = appendTimestamp(p.out, seconds, nanos)
			return ok
		}
	case duration:
		if seconds, nanos, ok := p.instant(i, end); ok {
			p.out, ok = appendDuration(p.out, seconds, nanos)
			return ok
		}
	}
	return false
}

// object writes the fields of a message, which come in the order of their
// declaration.
func (p *printer) object(m *Message, i, end, depth int) bool {
	if depth == maxDepth {
		return false
	}
	first := len(p.out)
	var seen uint64
	next := 0
	for i < end {
		tag, value := p.uvarint(i, end)
		if value == no {
			return false
		}
		for ; next < len(m.fields) && m.fields[next].tag != tag; next++ {
			p.out = append(p.out, m.fields[next].absent...)
		}
		if next == len(m.fields) || m.fields[next].kind == unusual || seen&m.fields[next].excludes != 0 {
			return false
		}
		f := &m.fields[next]
		next++
		seen |= 1 << f.index
		p.out = append(p.out, f.key...)
		if i = p.field(f, value, end, depth+1); i == no {
			return false
		}
	}
	for ; next < len(m.fields); next++ {
		p.out = append(p.out, m.fields[next].absent...)
	}
	p.enclose(first, '{', '}')
	return true
}

// enclose puts brackets around what was written since first, where each part has a
// comma before it. The opening bracket replaces the first comma.
func (p *printer) enclose(first int, open, end byte) {
	if len(p.out) == first {
		p.out = append(p.out, open, end)
		return
	}
	p.out[first] = open
	p.out = append(p.out, end)
}

func (p *printer) field(f *field, i, end, depth int) int {
	switch f.shape {
	case list:
		return p.list(f, i, end, depth)
	case packed:
		return p.packed(f, i, end)
	case mapped:
		return p.entries(f, i, end, depth)
	}
	return p.value(f, i, end, depth)
}

// list writes the elements of a list, the first of which is at i; all others follow
// their tags.
func (p *printer) list(f *field, i, end, depth int) int {
	first := len(p.out)
	for {
		p.out = append(p.out, ',')
		if i = p.value(f, i, end, depth); i == no {
			return no
		}
		next := p.skipTag(f.tag, i, end)
		if next == no {
			p.enclose(first, '[', ']')
			return i
		}
		i = next
	}
}

// packed writes the numbers of a packed list.
func (p *printer) packed(f *field, i, end int) int {
	from, to := p.span(i, end)
	if to == no {
		return no
	}
	first := len(p.out)
	for from < to {
		p.out = append(p.out, ',')
		if from = p.number(f.kind, from, to); from == no {
			return no
		}
	}
	p.enclose(first, '[', ']')
	return to
}
