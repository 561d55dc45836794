package encoded

import (
	"google.golang.org/grpc/mem"

	"github.com/setpoint-dev/setpoint/server/gate"
	"github.com/setpoint-dev/setpoint/server/unfinished"
)

// Message is a message that stays encoded on its way between gRPC and a handler,
// which reads it the short way where it can (see package wire).
type Message struct {
	Data   []byte
	buffer mem.Buffer // of data, where it is gRPC's
	lent   *[]byte    // of the pool, where data was begun in it
	// unsent counts an answer until it is sent; nil: nothing does. counted says that it does
	// so already.
	unsent  *unfinished.Answers
	counted bool
	// Pass is a request's place among those that are worked on, see decision.Targets.ReadEncoded.
	Pass gate.Pass
}

// EncodedLen is the length of the message, in bytes.
func (m *Message) EncodedLen() int {
	if m == nil {
		return 0
	}
	return len(m.Data)
}

// NewAnswer returns an empty message to append an answer to. Its memory is used again
// when the answer has been sent.
func NewAnswer() *Message {
	lent := mem.DefaultBufferPool().Get(usualAnswer)
	return &Message{Data: (*lent)[:0], lent: lent}
}

// usualAnswer is what most answers fit into, in bytes.
const usualAnswer = 1 << 10

// sent returns the data as gRPC sends it, and the memory with it.
func (m *Message) sent() mem.Buffer {
	lent, counted := m.lent, m.counted
	m.lent, m.counted = nil, false
	switch {
	case lent == nil:
		return countedBuffer(&m.Data, nil, m.unsent, counted)
	case cap(m.Data) != cap(*lent): // it has outgrown the pool's
		mem.DefaultBufferPool().Put(lent)
		return countedBuffer(&m.Data, nil, m.unsent, counted)
	}
	*lent = m.Data
	return countedBuffer(lent, mem.DefaultBufferPool(), m.unsent, counted)
}

// Count counts a complete answer from now on, before gRPC gets it.
func (m *Message) Count(answers *unfinished.Answers) {
	if cap(m.Data) >= leastCounted {
		m.unsent, m.counted = answers, true
		answers.Begin(len(m.Data))
	}
}

// Take moves a request that was read to this message; the other one is then empty.
func (m *Message) Take(other *Message) {
	m.Data, m.buffer = other.Data, other.buffer
	other.Data, other.buffer = nil, nil
}

// Free gives pooled memory back. The data must not be used afterwards.
func (m *Message) Free() {
	m.Pass.Leave()
	if m.counted {
		m.unsent.End(len(m.Data))
		m.counted = false
	}
	if m.buffer != nil {
		m.buffer.Free()
		m.buffer, m.Data = nil, nil
	}
	if m.lent != nil {
		mem.DefaultBufferPool().Put(m.lent)
		m.lent, m.Data = nil, nil
	}
}
