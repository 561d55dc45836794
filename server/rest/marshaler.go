package rest

import (
	"bytes"
	"errors"
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
	if part, ok := partOf(v); ok {
		whole, err := decoded(part)
		if err != nil {
			return nil, err
		}
		v = map[string]any{"result": whole}
	}
	return m.Marshaler.Marshal(v)
}

// leaveEncoded has a message be an encoded one of its type, as fields that it does not know: written by the tables it
// needs not be decoded, which is a third of what a decision costs for each watcher.
func leaveEncoded(message proto.Message, data []byte) {
	message.ProtoReflect().SetUnknown(bytes.Clone(data))
}

// decoded returns a message that may be left encoded as what it is.
func decoded(message proto.Message) (proto.Message, error) {
	data, err := proto.Marshal(message)
	whole := message.ProtoReflect().New().Interface()
	return whole, errors.Join(err, proto.Unmarshal(data, whole))
}

// partOf returns a part of a stream, which the gateway wraps.
func partOf(v any) (part proto.Message, ok bool) {
	wrapped, _ := v.(map[string]any)
	part, ok = wrapped["result"].(proto.Message)
	return part, ok && len(wrapped) == 1
}

// usual writes an answer or a part of a stream, if it has nothing unusual.
func (m *marshaler) usual(v any) (text []byte, ok bool) {
	if answer, is := v.(proto.Message); is {
		return m.message(nil, answer)
	}
	part, ok := partOf(v)
	if !ok {
		return nil, false
	}
	text, ok = m.message([]byte(`{"result":`), part)
	return append(text, '}'), ok
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
