package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// Limits of a previous status that is kept for Seed: its bytes, and the messages in it.
// A usual one has some 800 bytes and ten messages.
const (
	maxSeed         = 32 << 10
	maxSeedMessages = 1024
	// seedMessage is the approximate memory of a decoded message of a status, bytes.
	seedMessage = 128
)

// keepSeed keeps an encoded previous status for Seed. Only a target without history
// needs it, which is not known yet, so it is not decoded now. keepSeed only checks that
// the slow path could decode it, which is the only reason for which that refuses a
// previous status.
func (r *Request) keepSeed(from, to int) bool {
	messages := 0
	if to-from > maxSeed || !seedShape.matches(r.b, from, to, &messages) || messages > maxSeedMessages ||
		!r.budget.Memory(to-from+messages*seedMessage) {
		return false
	}
	r.scratch.seed = append(r.scratch.seed[:0], r.b[from:to]...)
	return true
}

// Seed decodes the previous status of the request, if it has one, into the Input. A
// decision for a target without history needs it; any other ignores it (see
// recommender.Input.PreviousStatus). It is idempotent.
func (r *Request) Seed() { r.seed() }

// seed is Seed. It returns false if an explanation would have a note on the status.
func (r *Request) seed() bool {
	if r.found.previousStatus.to == 0 || r.Input.PreviousStatus != nil {
		return true
	}
	status := &setpointv1.HorizontalPodAutoscalerStatus{}
	if proto.Unmarshal(r.scratch.seed, status) != nil {
		return false // keepSeed admits no such status
	}
	seed, noted := conversion.PreviousStatus(status)
	r.Input.PreviousStatus = seed
	return !noted
}

// shape is the set of a message's fields and their types.
type shape struct {
	// fields by number. Higher numbers are unusual.
	fields [16]struct {
		// tag is the field's, noTag: there is no such field.
		tag byte
		// text reports whether the value must be UTF-8.
		text    bool
		message *shape
	}
}

const noTag = 0xff

// seedShape is that of a previous status.
var seedShape = shapeOf((&setpointv1.HorizontalPodAutoscalerStatus{}).ProtoReflect().Descriptor(), map[protoreflect.FullName]*shape{})

// shapeOf returns the shape of a message; known are the shapes already computed.
func shapeOf(md protoreflect.MessageDescriptor, known map[protoreflect.FullName]*shape) *shape {
	if s := known[md.FullName()]; s != nil {
		return s
	}
	s := &shape{}
	known[md.FullName()] = s
	for i := range s.fields {
		f := &s.fields[i]
		f.tag = noTag
		fd := md.Fields().ByNumber(protowire.Number(i))
		if fd == nil {
			continue
		}
		wire := byte(isBytes)
		switch fd.Kind() {
		case protoreflect.StringKind:
			f.text = true
		case protoreflect.MessageKind:
			f.message = shapeOf(fd.Message(), known)
		case protoreflect.Int32Kind, protoreflect.Int64Kind:
			wire = isVarint
		default:
			continue
		}
		if wire == isVarint && fd.IsList() {
			continue // it may be packed
		}
		f.tag = byte(i<<3) | wire
	}
	return s
}

// matches reports whether proto.Unmarshal would accept the bytes as such a message, and
// counts the messages in it. It is also false for valid but unusual bytes: unknown
// fields and other types.
func (s *shape) matches(b []byte, from, to int, messages *int) bool {
	for i := from; i < to; {
		tag, at, end := next(b, i, to)
		if end == 0 {
			return false
		}
		f := &s.fields[tag>>3]
		if f.tag != tag || f.text && !isText(b[at:end]) {
			return false
		}
		if f.message != nil {
			if *messages++; *messages > maxSeedMessages || !f.message.matches(b, at, end, messages) {
				return false
			}
		}
		i = end
	}
	return true
}
