package decisionlog

import (
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// A value of the feed is a format byte, a byte of flags, and an entry of the log.
const (
	fedFormat  = 1
	gapFormat  = 2 // an entry in place of what could not be written: watchers missed something
	fedChanges = 1 // flag: the decision changes the count
)

// feed returns the decision as a value of the feed.
func (l *Entry) feed() []byte {
	flags := byte(0)
	if l.changes {
		flags |= fedChanges
	}
	decision := l.fed
	if decision == nil {
		decision = l.decision
	}
	return append([]byte{fedFormat, flags}, l.value(decision)...)
}

// Fed is a decision of the feed.
type Fed struct {
	// Changes reports whether the decision changes the count.
	Changes bool

	entry []byte
}

// ReadFed reads a value of the feed; false if its format is unknown.
func ReadFed(value []byte) (f Fed, ok bool) {
	if len(value) < 2 || value[0] != fedFormat {
		return f, false
	}
	return Fed{Changes: value[1]&fedChanges != 0, entry: value[2:]}, true
}

// Size is the length of the encoded decision, in bytes.
func (f *Fed) Size() int { return len(f.entry) }

// Decision decodes it; nil if it is invalid.
func (f *Fed) Decision() *setpointv1.Decision { return Read(f.entry) }
