package transcode

// no is the position returned for unsupported input.
const no = -1

// cursor steps through a JSON text. Its methods take the position where something
// begins, and return where it ends.
type cursor struct{ text []byte }

// at returns the byte at i, 0 at the end.
func (c *cursor) at(i int) byte {
	if i < len(c.text) {
		return c.text[i]
	}
	return 0
}

// space steps over white space.
func (c *cursor) space(i int) int {
	for i < len(c.text) && c.text[i] <= ' ' {
		switch c.text[i] {
		case ' ', '\n', '\t', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// colon steps over the colon after a name, and white space around it.
func (c *cursor) colon(i int) int {
	if i = c.space(i); c.at(i) != ':' {
		return no
	}
	return c.space(i + 1)
}

// open steps over an opening bracket. last is true if the closing one follows, which it
// steps over, too.
func (c *cursor) open(i int, open, end byte) (after int, last bool) {
	if c.at(i) != open {
		return no, true
	}
	if i = c.space(i + 1); c.at(i) == end {
		return i + 1, true
	}
	return i, false
}

// more steps over what follows an element: a comma, or the closing bracket after the
// last one.
func (c *cursor) more(i int, end byte) (after int, last bool) {
	switch i = c.space(i); c.at(i) {
	case ',':
		return c.space(i + 1), false
	case end:
		return i + 1, true
	}
	return no, true
}

// literal steps over a word. Other methods check what follows it.
func (c *cursor) literal(i int, word string) int {
	if end := i + len(word); end <= len(c.text) && string(c.text[i:end]) == word {
		return end
	}
	return no
}

// member returns the field named at i, most likely the one with that index, and the
// position of the value.
func (c *cursor) member(m *Message, likely, i int) (*field, int) {
	if c.at(i) != '"' {
		return nil, no
	}
	i++
	var f *field
	if likely < len(m.fields) {
		f = &m.fields[likely]
	}
	if f == nil || c.literal(i, f.quoted) == no {
		if f = m.named(c.text[i:]); f == nil {
			return nil, no
		}
	}
	return f, c.colon(i + len(f.quoted))
}
