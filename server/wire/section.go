package wire

// fewParts is up to how many parts room is made for without asking how many there will
// be: that takes a look at all of the message.
const fewParts = 64

// section is a run of fields of one kind in a request: its pods, or their samples. It
// tells how much room they will take, so that a large request is not moved about as it
// grows.
type section struct {
	tag byte
	// from is where it begins, and to where it ends; 0: unknown yet.
	from, to int
	// fields is how many there are.
	fields int
	// again reports whether there was such a section before.
	again bool
}

// enter notes that a field of that kind begins there, before which so many were read.
func (s *section) enter(tag byte, at, before int) {
	if s.tag != tag {
		*s = section{tag: tag, from: at, again: before > 0}
	}
}

// look finds the section's end.
func (s *section) look(b []byte) {
	if s.to != 0 {
		return
	}
	s.to = s.from
	for s.to < len(b) {
		tag, _, end := next(b, s.to, len(b))
		if end == 0 || tag != s.tag {
			break
		}
		s.to = end
		s.fields++
	}
}

// parts is how many parts the section's fields will have in all, about, if the rest of
// it is like what was read up to there, with n parts; 0: that is not known. It is no
// more than there is room for in the message.
func (s *section) parts(b []byte, n, at int) int {
	if s.again {
		return 0
	}
	s.look(b)
	all := int64(n) * int64(s.to-s.from) / int64(at-s.from)
	return int(all + all/64) // fields are not all of the same length
}
