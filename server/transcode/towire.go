package transcode

// AppendWire appends the encoded message of a JSON text. ok is false for unsupported
// texts: the slow path then parses them, or words the refusal. dst is then returned
// unchanged, except for bytes beyond its length, which json must not share.
func (m *Message) AppendWire(dst, json []byte) (out []byte, ok bool) {
	e := encoder{cursor: cursor{json}, out: dst}
	i := e.content(m, e.space(0), 0)
	if i == no || e.space(i) != len(json) {
		return dst, false
	}
	return e.out, true
}

// encoder encodes a text. Its methods take the position where a value begins, and
// return where it ends, or no.
type encoder struct {
	cursor
	out []byte
}

// content encodes the value of a message, without tag and length.
func (e *encoder) content(m *Message, i, depth int) int {
	if m.form == object {
		return e.object(m, i, depth)
	}
	content, end := e.plainString(i)
	if end == no {
		return no
	}
	var seconds int64
	var nanos int32
	ok := false
	switch m.form {
	case timestamp:
		seconds, nanos, ok = parseTimestamp(content)
	case duration:
		seconds, nanos, ok = parseDuration(content)
	}
	if !ok {
		return no
	}
	e.varint(secondsTag, uint64(seconds), true)
	e.varint(nanosTag, uint64(nanos), true)
	return end
}

// object encodes the members of a message.
func (e *encoder) object(m *Message, i, depth int) int {
	if depth == maxDepth {
		return no
	}
	var seen uint64
	likely := 0
	i, last := e.open(i, '{', '}')
	for !last {
		f, value := e.member(m, likely, i)
		if value == no || seen&f.excludes != 0 {
			return no
		}
		seen |= 1 << f.index
		likely = f.index + 1
		if i = e.field(f, value, depth+1); i == no {
			return no
		}
		i, last = e.more(i, '}')
	}
	return i
}

func (e *encoder) field(f *field, i, depth int) int {
	switch f.shape {
	case list:
		return e.list(f, i, depth)
	case packed:
		return e.packed(f, i, depth)
	case mapped:
		return e.entries(f, i, depth)
	}
	return e.value(f, i, depth)
}

// list encodes the elements of a list.
func (e *encoder) list(f *field, i, depth int) int {
	if depth == maxDepth {
		return no
	}
	i, last := e.open(i, '[', ']')
	if last && !f.mayBeEmpty {
		return no
	}
	for !last {
		if i = e.value(f, i, depth+1); i == no {
			return no
		}
		i, last = e.more(i, ']')
	}
	return i
}

// packed encodes a list of numbers as one value; nothing for an empty list.
func (e *encoder) packed(f *field, i, depth int) int {
	if depth == maxDepth {
		return no
	}
	i, last := e.open(i, '[', ']')
	if last && !f.mayBeEmpty {
		return no
	}
	if last {
		return i
	}
	length := e.begin(f.tag)
	for !last {
		n, end := e.integer(i)
		if end == no || f.kind == int32Kind && n != int64(int32(n)) {
			return no
		}
		e.uvarint(uint64(n))
		i, last = e.more(end, ']')
	}
	e.end(length)
	return i
}
