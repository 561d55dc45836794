package request

import (
	"bytes"
	"encoding/json"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Numbers of fields on the wire.
const (
	evaluationTimeField = 12 // RecommendRequest.evaluation_time
	batchRequestsField  = 1  // BatchRecommendRequest.requests
	streamIDField       = 1  // StreamRecommendRequest.id
	streamRequestField  = 2  // StreamRecommendRequest.request
	secondsField        = 1  // Timestamp.seconds
)

// Set is a set of targets. Each is called one period after its previous call, by the
// evaluation time of its requests: however fast calls are, its history is that of a
// target with a call every 15 s. Create it by NewSet.
type Set struct {
	// encoded are the requests without evaluation time, and bodies the REST bodies
	// without their opening brace.
	encoded [][]byte
	bodies  [][]byte
	began   int64
	asked   []int32 // times, by target
}

// Part is a part of a set's targets, which are called in turn. Only one caller may use
// it, so that the requests of a target stay in order.
type Part struct {
	*Set
	next, step int
}

// Part returns the i-th of that many equal parts, from 0. Parts of a later division
// continue where earlier ones stopped, which must not be used any more.
func (s *Set) Part(i, of int) *Part { return &Part{s, i % len(s.encoded), of} }

// NewSet encodes the requests of that many targets, from the first, with that many pods;
// with bodies for REST if bodies is set.
func NewSet(first, targets, pods int, bodies bool) (*Set, error) {
	now := time.Now()
	// A day ago, so that no instant is in the future, however many calls there are.
	s := &Set{began: now.Add(-24 * time.Hour).Unix()}
	for i := range targets {
		req := For(first+i, pods, now.Add(-25*time.Hour))
		data, err := proto.Marshal(req)
		if err != nil {
			return nil, err
		}
		s.encoded = append(s.encoded, data)
		if !bodies {
			continue
		}
		req.Target = ""
		text, err := protojson.Marshal(req)
		if err != nil {
			return nil, err
		}
		var body bytes.Buffer
		if err := json.Compact(&body, text); err != nil {
			return nil, err
		}
		s.bodies = append(s.bodies, body.Bytes()[1:])
	}
	s.asked = make([]int32, targets)
	return s, nil
}

// Change makes every n-th target request more replicas, every time, because its caller does
// not apply them.
func (s *Set) Change(n, pods int) error {
	now := time.Now()
	for i := 0; i < len(s.encoded); i += n {
		req := For(i, pods, now.Add(-25*time.Hour))
		for _, m := range req.PodMetrics {
			m.Containers[0].Usage["cpu"] = "450m" // of 500m, with a target of 60 %
		}
		data, err := proto.Marshal(req)
		if err != nil {
			return err
		}
		s.encoded[i] = data
	}
	return nil
}

// Anew returns the same set for another service: no target has been called.
func (s *Set) Anew() *Set {
	return &Set{encoded: s.encoded, bodies: s.bodies, began: s.began, asked: make([]int32, len(s.encoded))}
}

// Targets returns the number of targets.
func (s *Set) Targets() int { return len(s.encoded) }

// turn returns the next target's number and its evaluation time.
func (p *Part) turn() (target int, seconds int64) {
	target = p.next
	if p.next += p.step; p.next >= len(p.encoded) {
		p.next %= p.step
	}
	at := p.began + int64(p.asked[target])*int64(period/time.Second)
	p.asked[target]++
	return target, at
}

// Append appends the next request.
func (p *Part) Append(to []byte) []byte {
	i, at := p.turn()
	return appendTimed(to, p.encoded[i], at)
}

func appendTimed(to, request []byte, at int64) []byte {
	to = append(to, request...)
	to = protowire.AppendTag(to, evaluationTimeField, protowire.BytesType)
	to = protowire.AppendVarint(to, uint64(sizeOfTime(at)))
	to = protowire.AppendTag(to, secondsField, protowire.VarintType)
	return protowire.AppendVarint(to, uint64(at))
}

func sizeOfTime(at int64) int {
	return protowire.SizeTag(secondsField) + protowire.SizeVarint(uint64(at))
}

func sizeOfTimed(request []byte, at int64) int {
	return len(request) + protowire.SizeTag(evaluationTimeField) + protowire.SizeBytes(sizeOfTime(at))
}

// AppendBatch appends a batch of the next requests.
func (p *Part) AppendBatch(to []byte, requests int) []byte {
	for range requests {
		i, at := p.turn()
		to = protowire.AppendTag(to, batchRequestsField, protowire.BytesType)
		to = protowire.AppendVarint(to, uint64(sizeOfTimed(p.encoded[i], at)))
		to = appendTimed(to, p.encoded[i], at)
	}
	return to
}

// AppendStreamed appends the next request as a message of a stream with that id.
func (p *Part) AppendStreamed(to []byte, id string) []byte {
	i, at := p.turn()
	to = protowire.AppendTag(to, streamIDField, protowire.BytesType)
	to = protowire.AppendString(to, id)
	to = protowire.AppendTag(to, streamRequestField, protowire.BytesType)
	to = protowire.AppendVarint(to, uint64(sizeOfTimed(p.encoded[i], at)))
	return appendTimed(to, p.encoded[i], at)
}

// AppendHTTP appends the next request as an HTTP/1.1 request with its body.
func (p *Part) AppendHTTP(to []byte) []byte {
	i, at := p.turn()
	to = append(to, "POST /v1/"...)
	to = append(to, target(p.encoded[i])...)
	to = append(to, ":recommend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "...)
	const opening = `{"evaluationTime":"`
	const afterTime = `",`
	to = appendInt(to, len(opening)+len(time.RFC3339)-len("07:00")+len(afterTime)+len(p.bodies[i]))
	to = append(to, "\r\n\r\n"+opening...)
	to = time.Unix(at, 0).UTC().AppendFormat(to, time.RFC3339)
	to = append(to, afterTime...)
	return append(to, p.bodies[i]...)
}
