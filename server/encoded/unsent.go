package encoded

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/setpoint-dev/setpoint/server/unfinished"
)

// leastCounted is the size of the smallest answer that is counted until it is sent, in bytes.
// gRPC does not tell of smaller ones when they were.
const leastCounted = 1<<10 + 1

// unsentAnswers counts the answers of a connection until gRPC frees their memory: they were
// sent then, or given up. It is a pool because gRPC calls pools then.
type unsentAnswers struct {
	mem.BufferPool // where memory goes; nil: nowhere
	answers        *unfinished.Answers
}

// Put implements mem.BufferPool.
func (u *unsentAnswers) Put(b *[]byte) {
	u.answers.End(len(*b))
	if u.BufferPool != nil {
		u.BufferPool.Put(b)
	}
}

// Counted returns an answer that is counted until it is sent.
func Counted(conn *unfinished.Conn, answer any) any {
	if m, ok := answer.(*Message); ok {
		if m != nil && cap(m.Data) >= leastCounted && !m.counted {
			m.unsent = conn.Answers()
		}
		return answer
	}
	return &countedAnswer{answer, conn.Answers()}
}

// countedBuffer is data that is counted until it is freed, if answers is not nil, and goes to
// the pool then. It may have been counted before.
func countedBuffer(data *[]byte, pool mem.BufferPool, answers *unfinished.Answers, counted bool) mem.Buffer {
	if answers != nil && cap(*data) >= leastCounted {
		if !counted {
			answers.Begin(len(*data))
		}
		pool = &unsentAnswers{pool, answers}
	}
	if pool == nil {
		return mem.SliceBuffer(*data)
	}
	return mem.NewBuffer(data, pool)
}

// countedAnswer is an answer that is not encoded yet.
type countedAnswer struct {
	answer  any
	answers *unfinished.Answers
}

func (a *countedAnswer) marshal(codec encoding.CodecV2) (mem.BufferSlice, error) {
	data, err := codec.Marshal(a.answer)
	if err != nil || data.Len() < leastCounted {
		return data, err
	}
	whole := data.Materialize()
	data.Free()
	return mem.BufferSlice{countedBuffer(&whole, nil, a.answers, false)}, nil
}
