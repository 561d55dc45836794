package encoded

import (
	"google.golang.org/grpc/mem"

	"github.com/setpoint-dev/setpoint/server/gate"
	"github.com/setpoint-dev/setpoint/server/unfinished"
)

// Message is a message that stays encoded between gRPC and a handler, which uses the
// fast path where it can (see package wire).
type Message struct {
	Data   []byte
	buffer mem.Buffer // of data, if gRPC owns it
	lent   *[]byte    // the pooled slice that data started in
	// unsent counts a response until it is sent; nil: not counted. counted reports that
	// counting has begun.
	unsent  *unfinished.Answers
	counted bool
	// Pass is the request's pass of the gate, see requests.Reader.
	Pass gate.Pass
}

// EncodedLen is the length of the message, in bytes.
func (m *Message) EncodedLen() int {
	if m == nil {
		return 0
	}
	return len(m.Data)
}

// NewAnswer returns an empty message to append a response to. Its memory is reused
// after the response was sent.
func NewAnswer() *Message { return NewAnswerOf(usualAnswer) }

// largestPooled is the largest size of the pool before one of a megabyte, which the pool would clear
// for every response.
const largestPooled = 32 << 10

// NewAnswerOf is NewAnswer for a response of about that size in bytes. Above 32 KiB its memory
// is not reused.
func NewAnswerOf(bytes int) *Message {
	if bytes > largestPooled {
		return &Message{Data: make([]byte, 0, bytes)}
	}
	lent := mem.DefaultBufferPool().Get(max(usualAnswer, bytes))
	return &Message{Data: (*lent)[:0], lent: lent}
}

// usualAnswer is the size of most responses, in bytes.
const usualAnswer = 1 << 10

// sent returns the data in gRPC's form, and gives up the memory.
func (m *Message) sent() mem.Buffer {
	lent, counted := m.lent, m.counted
	m.lent, m.counted = nil, false
	switch {
	case lent == nil:
		return countedBuffer(&m.Data, nil, m.unsent, counted)
	case cap(m.Data) != cap(*lent): // it has outgrown the pooled slice
		mem.DefaultBufferPool().Put(lent)
		return countedBuffer(&m.Data, nil, m.unsent, counted)
	}
	*lent = m.Data
	return countedBuffer(lent, mem.DefaultBufferPool(), m.unsent, counted)
}

// Count counts a complete response from now on, before gRPC gets it.
func (m *Message) Count(answers *unfinished.Answers) {
	if cap(m.Data) >= leastCounted {
		m.unsent, m.counted = answers, true
		answers.Begin(len(m.Data))
	}
}

// Take moves the data and its memory to this message; the other one is then empty, and may be freed.
func (m *Message) Take(other *Message) {
	m.Data, m.buffer, m.lent, m.unsent, m.counted = other.Data, other.buffer, other.lent, other.unsent, other.counted
	other.Data, other.buffer, other.lent, other.unsent, other.counted = nil, nil, nil, nil, false
}

// Free returns pooled memory. The data must not be used afterwards.
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
