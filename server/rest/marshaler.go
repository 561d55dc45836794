package rest

import (
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/setpoint-dev/setpoint/server/restjson"
	"github.com/setpoint-dev/setpoint/server/transcode"
)

// marshaler is the gateway's JSON. It writes usual answers by their tables: the same bytes in a fraction of the time,
// which long lists need most.
type marshaler struct {
	restjson.Marshaler
	tables sync.Map // *transcode.Message by the message's full name
}

// Marshal implements runtime.Marshaler.
func (m *marshaler) Marshal(v any) ([]byte, error) {
	if text, ok := m.usual(v); ok {
		return text, nil
	}
	return m.Marshaler.Marshal(v)
}

// usual writes an answer or a part of a stream, which the gateway wraps, if it has nothing unusual.
func (m *marshaler) usual(v any) (text []byte, ok bool) {
	switch v := v.(type) {
	case proto.Message:
		return m.message(nil, v)
	case map[string]any:
		part, ok := v["result"].(proto.Message)
		if !ok || len(v) != 1 {
			return nil, false
		}
		text, ok = m.message([]byte(`{"result":`), part)
		return append(text, '}'), ok
	}
	return nil, false
}

// message appends a message, if it has nothing unusual.
func (m *marshaler) message(text []byte, answer proto.Message) (_ []byte, ok bool) {
	buffer := buffers.Get().(*[]byte)
	defer giveBack(buffer)
	wire, err := proto.MarshalOptions{}.MarshalAppend((*buffer)[:0], answer)
	*buffer = wire
	if err != nil {
		return nil, false
	}
	return m.tablesOf(answer.ProtoReflect().Descriptor()).AppendJSON(slices.Grow(text, 3*len(wire)), wire)
}

func (m *marshaler) tablesOf(md protoreflect.MessageDescriptor) *transcode.Message {
	if known, ok := m.tables.Load(md.FullName()); ok {
		return known.(*transcode.Message)
	}
	made, _ := m.tables.LoadOrStore(md.FullName(), transcode.Of(md))
	return made.(*transcode.Message)
}
