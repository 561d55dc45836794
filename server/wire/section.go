package wire

// fewParts is the number of parts up to which memory is reserved without counting the
// rest, which takes a pass over the message.
const fewParts = 64

// section is a run of fields of one kind in a request: its pods, or their samples. It
// predicts how much memory they take, so that the slabs of a large request do not grow
// step by step.
type section struct {
	tag byte
	// from is where it begins, and to where it ends; 0: unknown yet.
	from, to int
	// fields is how many there are.
	fields int
	// repeated reports whether there was such a section before.
	repeated bool
}

// enter records that a field of that kind begins there, after that many others.
func (s *section) enter(tag byte, at, before int) {
	if s.tag != tag {
		*s = section{tag: tag, from: at, repeated: before > 0}
	}
}

// findEnd finds the section's end.
func (s *section) findEnd(b []byte) {
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

// parts predicts how many parts the section's fields have in total, if the rest of it
// is like what was read so far, with n parts; 0: unknown. It does not exceed what fits
// into the message.
func (s *section) parts(b []byte, n, at int) int {
	if s.repeated {
		return 0
	}
	s.findEnd(b)
	all := int64(n) * int64(s.to-s.from) / int64(at-s.from)
	return int(all + all/64) // the fields have different lengths
}
