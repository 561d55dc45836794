package server_test

import (
	"bytes"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// grammar makes encoded messages of the contract out of bytes: each decides which field
// comes next, what it holds, and how often it is repeated, in powers of two.
type grammar struct {
	choices []byte
	// room is how many bytes may still be made.
	room int
}

func (g *grammar) next() int {
	if len(g.choices) == 0 {
		return 0
	}
	c := g.choices[0]
	g.choices = g.choices[1:]
	return int(c)
}

// words are what texts are made of; where a text is repeated # becomes its number.
var words = []string{
	"", "a", "#", "cpu", "memory", "app", "queue-depth", "p#", "web-1", "Pod", "v1", "apps/v1", "Resource", "ContainerResource", "Pods", "Object",
	"External", "AverageValue", "Value", "Utilization", "1", "#m", "1e99", "-1Ei", "0.000000000000000000001", "In", "NotIn", "Exists", "DoesNotExist",
	"True", "False", "Running", "Failed", "Max", "Percent", "a=#,b=#", "metrics.k8s.io", "external.metrics.k8s.io", web, "\xff", "é",
}

// message makes a message.
func (g *grammar) message(md protoreflect.MessageDescriptor, depth int) []byte {
	var out []byte
	for range 1 + g.next()%8 {
		if len(g.choices) == 0 || depth > 8 {
			break
		}
		fd := md.Fields().Get(g.next() % md.Fields().Len())
		one := g.field(fd, depth)
		times := 1
		if fd.IsList() || fd.IsMap() || g.next()%16 == 0 {
			times = 1 << (g.next() % 18)
		}
		for i := range times {
			if g.room -= len(one); g.room < 0 {
				return out
			}
			if bytes.IndexByte(one, '#') < 0 {
				out = append(out, one...)
				continue
			}
			// Digits of the same number of bytes keep all lengths right.
			digit := strconv.AppendInt(nil, int64(i), 36)
			for _, c := range one {
				if c == '#' {
					c = digit[len(digit)-1]
					digit = append(digit[len(digit)-1:], digit[:len(digit)-1]...)
				}
				out = append(out, c)
			}
		}
	}
	return out
}

// field makes a field.
func (g *grammar) field(fd protoreflect.FieldDescriptor, depth int) []byte {
	number := fd.Number()
	switch {
	case fd.Message() != nil:
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), g.message(fd.Message(), depth+1))
	case fd.Kind() == protoreflect.StringKind:
		text := words[g.next()%len(words)]
		if more := g.next(); more > 250 {
			text = string(bytes.Repeat([]byte("x"), 1<<(more-240)))
		}
		return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), text)
	case fd.Kind() == protoreflect.DoubleKind:
		return protowire.AppendFixed64(protowire.AppendTag(nil, number, protowire.Fixed64Type), uint64(g.next())<<56)
	}
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), uint64(g.next()))
}

// fuzzedRoom bounds what is made of one input, bytes: enough for every list to be too
// long, and few enough for many tries.
const fuzzedRoom = 1 << 20

// FuzzCost sends whole messages, made by the grammar of the contract, to a server of
// this process, over gRPC alone, in a batch and on a stream, and over REST, and holds
// memory and processor time to what their bytes allow.
func FuzzCost(f *testing.F) {
	skipUnderRace(f)
	for _, a := range attacks(f) {
		if len(a.data) < fuzzedRoom {
			f.Add(byte(255), a.data)
		}
	}
	f.Add(byte(0), []byte("\x02\x09\x00\x11\x00\x11"))
	for field := range byte(16) {
		// By the ways in turn: fuzzing tries the others.
		f.Add(field%4, []byte{3, field, 1, field, 16, 0, 17, field, 2, 3, 15, 16, 2, 1, 15})
		f.Add((field+2)%4+4, []byte{2, field, 0, 17, 8, 0, 17})
	}
	s := start(f)
	request := (&setpointv1.RecommendRequest{}).ProtoReflect().Descriptor()
	base := encoded(f, queue(web, 3, 50))
	f.Fuzz(func(t *testing.T, way byte, choices []byte) {
		data := choices
		if way != 255 {
			g := &grammar{choices: choices, room: fuzzedRoom}
			data = g.message(request, 0)
			if way&4 == 0 { // mostly one that would be accepted without it
				data = append(append([]byte(nil), base...), data...)
			}
		}
		switch way % 4 {
		case 0:
			checkCost(t, len(data), func() bool {
				_, err := s.sendRaw(t.Context(), unaryMethod, data)
				return err == nil
			})
		case 1:
			batch := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), data)
			batch = bytes.Repeat(batch, min(1000, 1+fuzzedRoom/len(batch)))
			checkCost(t, len(batch), func() bool {
				answer, err := s.sendRaw(t.Context(), batchedMethod, batch)
				resp := &setpointv1.BatchRecommendResponse{}
				return err == nil && proto.Unmarshal(answer, resp) == nil && !slices.ContainsFunc(resp.GetResults(), failedResult)
			})
		case 2:
			message := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "1")
			message = protowire.AppendBytes(protowire.AppendTag(message, 2, protowire.BytesType), data)
			checkCost(t, len(message), func() bool {
				answer, err := s.streamRaw(t.Context(), message)
				resp := &setpointv1.StreamRecommendResponse{}
				return err == nil && proto.Unmarshal(answer, resp) == nil && resp.GetError() == nil
			})
		case 3:
			m := &setpointv1.RecommendRequest{}
			if proto.Unmarshal(data, m) != nil {
				return
			}
			body, err := protojson.Marshal(m)
			if err != nil || len(body) > 16<<20 {
				return
			}
			checkCost(t, len(body), func() bool { return s.postRaw(t, recommendPath(web), body) == 200 })
		}
	})
}

func failedResult(r *setpointv1.BatchRecommendResult) bool { return r.GetError() != nil }
