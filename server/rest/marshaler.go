package rest

import (
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
	if answer, ok := v.(proto.Message); ok {
		if text, ok := m.usual(answer); ok {
			return text, nil
		}
	}
	return m.Marshaler.Marshal(v)
}

// usual writes an answer, if it has nothing unusual.
func (m *marshaler) usual(answer proto.Message) (text []byte, ok bool) {
	buffer := buffers.Get().(*[]byte)
	defer giveBack(buffer)
	wire, err := proto.MarshalOptions{}.MarshalAppend((*buffer)[:0], answer)
	*buffer = wire
	if err != nil {
		return nil, false
	}
	return m.tablesOf(answer.ProtoReflect().Descriptor()).AppendJSON(make([]byte, 0, 3*len(wire)), wire)
}

func (m *marshaler) tablesOf(md protoreflect.MessageDescriptor) *transcode.Message {
	if known, ok := m.tables.Load(md.FullName()); ok {
		return known.(*transcode.Message)
	}
	made, _ := m.tables.LoadOrStore(md.FullName(), transcode.Of(md))
	return made.(*transcode.Message)
}
