package cost

import (
	"strconv"
	"strings"
)

// Kind is what there is too much of.
type Kind uint8

const (
	// Length means that a list has too many elements.
	Length Kind = iota
	// Memory means that the message would take too much when it is decoded.
	Memory
)

// Excess says what there is too much of in a message.
type Excess struct {
	Kind Kind
	// Limit is the name of the setting that bounds a list; empty: none does, its rule
	// in the .proto files does. Most is the bound.
	Limit string
	Most  int

	// steps are those of the path, the last one first.
	steps []string
}

// Path is where the excess is, in JSON names: pods[3].containers. Of memory it is what
// was looked at when there was no more.
func (e *Excess) Path() string {
	var b strings.Builder
	for i := len(e.steps) - 1; i >= 0; i-- {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(e.steps[i])
	}
	return b.String()
}

// at adds the step before those that are known. The list that is too long stands
// without an index.
func (e *Excess) at(f *field, index int) {
	step := f.name
	if f.shape == list && (len(e.steps) > 0 || e.Kind == Memory) {
		step += "[" + strconv.Itoa(index) + "]"
	}
	e.steps = append(e.steps, step)
}
