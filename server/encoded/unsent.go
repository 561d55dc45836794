package encoded

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/setpoint-dev/setpoint/server/unfinished"
)

// leastCounted is the size of the smallest response that is counted until it is sent, in
// bytes: gRPC does not pool the buffers of smaller ones, so their sending cannot be observed.
const leastCounted = 1<<10 + 1

// unsentAnswers counts the responses of a connection until gRPC frees their memory, after
// sending or dropping them. It is a buffer pool because gRPC frees memory by calling its
// pool.
type unsentAnswers struct {
	mem.BufferPool // owner of the memory; nil: none
	answers        *unfinished.Answers
}

// Put implements mem.BufferPool.
func (u *unsentAnswers) Put(b *[]byte) {
	u.answers.End(len(*b))
	if u.BufferPool != nil {
		u.BufferPool.Put(b)
	}
}

// Counted returns a response that is counted until it is sent.
func Counted(conn *unfinished.Conn, answer any) any {
	if m, ok := answer.(*Message); ok {
		if m != nil && cap(m.Data) >= leastCounted && !m.counted {
			m.unsent = conn.Answers()
		}
		return answer
	}
	return &countedAnswer{answer, conn.Answers()}
}

// countedBuffer is data that, if answers is not nil, is counted until it is freed to the
// pool. It may have been counted before.
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

// countedAnswer is a response that is not encoded yet.
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
