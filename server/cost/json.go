package cost

import (
	"bytes"
	"encoding/json"
	"slices"
)

// JSON is Wire for a message's JSON, but checks only the memory: the lengths of lists
// are checked when the message is encoded. It returns nil also for invalid JSON, or that
// of another message: decoding reports that.
func (m *Message) JSON(text []byte, budget *Budget) *Excess {
	w := walker{budget: budget, anyLength: true}
	if !w.spend(m.size) {
		return w.excess
	}
	j := jsonWalker{walker: &w, text: text}
	j.space()
	j.message(m, 0)
	return w.excess
}

// maxDepth is how deeply JSON is checked: decoding refuses deeper nesting.
const maxDepth = 100

// maxName is longer than the name of any field, escaped.
const maxName = 1024

// jsonWalker walks over a text. Its methods return false to stop: at an excess, or at
// invalid JSON.
type jsonWalker struct {
	*walker
	text []byte
	i    int
}

func (j *jsonWalker) peek() byte {
	if j.i < len(j.text) {
		return j.text[j.i]
	}
	return 0
}

func (j *jsonWalker) space() {
	for j.i < len(j.text) {
		switch j.text[j.i] {
		case ' ', '\t', '\r', '\n':
			j.i++
		default:
			return
		}
	}
}

// message walks over a value that should be a message.
func (j *jsonWalker) message(m *Message, depth int) bool {
	if j.peek() != '{' {
		return j.skip()
	}
	var n counters
	return depth < maxDepth && j.members(func(name []byte) bool {
		f := m.named[string(name)]
		if f == nil && len(name) < maxName && bytes.IndexByte(name, '\\') >= 0 {
			// An escaped name is still the field's.
			f = m.named[unescaped(name)]
		}
		if f == nil {
			return j.skip()
		}
		if j.field(f, &n, depth+1) {
			return true
		}
		if j.excess != nil && (f.shape == single || len(j.excess.steps) == 0) {
			j.excess.at(f, n[f.count]-1)
		}
		return false
	})
}

// field walks over the value of a field.
func (j *jsonWalker) field(f *field, n *counters, depth int) bool {
	element := func() bool {
		if j.add(f, n) && j.value(f, depth) {
			return true
		}
		if j.excess != nil && f.shape != single {
			j.excess.at(f, n[f.count]-1)
		}
		return false
	}
	switch {
	case f.shape == list && j.peek() == '[':
		return j.elements(element)
	case f.shape == mapped && j.peek() == '{':
		return j.members(func(key []byte) bool { return j.spend(len(key)+2*textSize) && element() })
	case f.shape != single:
		return j.skip()
	}
	return element()
}

func (j *jsonWalker) value(f *field, depth int) bool {
	if f.message != nil {
		return j.message(f.message, depth)
	}
	begin := j.i
	return j.skip() && (!f.isText || j.spend(j.i-begin))
}

// unescaped returns an unescaped name, "" for an invalid one.
func unescaped(name []byte) string {
	var text string
	if json.Unmarshal(slices.Concat([]byte{'"'}, name, []byte{'"'}), &text) != nil {
		return ""
	}
	return text
}

// members walks over an object, with its names as written.
func (j *jsonWalker) members(visit func(name []byte) bool) bool {
	return j.list('}', func() bool {
		if j.peek() != '"' {
			return false
		}
		begin := j.i + 1
		if !j.skipText() {
			return false
		}
		name := j.text[begin : j.i-1]
		if j.space(); j.peek() != ':' {
			return false
		}
		j.i++
		j.space()
		return visit(name)
	})
}

func (j *jsonWalker) elements(visit func() bool) bool { return j.list(']', visit) }

// list walks over the contents of brackets.
func (j *jsonWalker) list(end byte, visit func() bool) bool {
	j.i++
	if j.space(); j.peek() == end {
		j.i++
		return true
	}
	for {
		if !visit() {
			return false
		}
		j.space()
		switch j.peek() {
		case ',':
			j.i++
			j.space()
		case end:
			j.i++
			return true
		default:
			return false
		}
	}
}

// skip steps over a value.
func (j *jsonWalker) skip() bool {
	depth := 0
	for {
		switch j.peek() {
		case 0:
			return false
		case '"':
			if !j.skipText() {
				return false
			}
		case '{', '[':
			depth++
			j.i++
		case '}', ']':
			if depth == 0 {
				return false
			}
			depth--
			j.i++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return false
			}
			j.i++
		default:
			j.skipWord()
		}
		if depth == 0 {
			return true
		}
	}
}

// skipWord steps over a number or a word.
func (j *jsonWalker) skipWord() {
	for j.i++; j.i < len(j.text); j.i++ {
		switch j.text[j.i] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\r', '\n':
			return
		}
	}
}

// skipText steps over a text.
func (j *jsonWalker) skipText() bool {
	for j.i++; j.i < len(j.text); j.i++ {
		switch j.text[j.i] {
		case '\\':
			j.i++
		case '"':
			j.i++
			return true
		}
	}
	return false
}
