package cost

import (
	"strconv"
	"strings"
)

// Kind is the resource of which a message needs too much.
type Kind uint8

const (
	// Length means that a list has too many elements.
	Length Kind = iota
	// Memory means that the decoded message would take too much.
	Memory
)

// Excess is what a message has too much of.
type Excess struct {
	Kind Kind
	// Limit is the name of the setting that limits a list; empty if its rule in the
	// .proto files does. Most is the limit.
	Limit string
	Most  int

	// steps of the path, the last one first.
	steps []string
}

// Path is the place of the excess, in JSON names: pods[3].containers. For memory it is
// where the budget ran out.
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

// at prepends a step to the known ones. The list that is too long has no index.
func (e *Excess) at(f *field, index int) {
	step := f.name
	if f.shape == list && (len(e.steps) > 0 || e.Kind == Memory) {
		step += "[" + strconv.Itoa(index) + "]"
	}
	e.steps = append(e.steps, step)
}
