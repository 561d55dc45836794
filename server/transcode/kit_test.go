package transcode_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/restjson"
	"github.com/setpoint-dev/setpoint/server/transcode"
)

// subject is a message with its tables.
type subject struct {
	kind   protoreflect.MessageType
	tables *transcode.Message
}

func newSubject(kind protoreflect.MessageType) subject {
	return subject{kind, transcode.Of(kind.Descriptor())}
}

func subjectOf(m proto.Message) subject { return newSubject(m.ProtoReflect().Type()) }

func (s subject) new() proto.Message { return s.kind.New().Interface() }

// roots are the messages that calls are made and answered with.
var roots = []subject{
	subjectOf(&setpointv1.RecommendRequest{}),
	subjectOf(&setpointv1.RecommendResponse{}),
	subjectOf(&setpointv1.BatchRecommendRequest{}),
	subjectOf(&setpointv1.BatchRecommendResponse{}),
	subjectOf(&setpointv1.ReportScaleRequest{}),
	subjectOf(&setpointv1.ReportScaleResponse{}),
}

// everyMessage has all messages of the API.
var everyMessage = func() (all []subject) {
	for _, file := range []protoreflect.FileDescriptor{
		setpointv1.File_setpoint_v1_autoscaling_proto,
		setpointv1.File_setpoint_v1_explanation_proto,
		setpointv1.File_setpoint_v1_observation_proto,
		setpointv1.File_setpoint_v1_recommendation_service_proto,
		setpointv1.File_setpoint_v1_simulation_service_proto,
		setpointv1.File_setpoint_v1_operations_service_proto,
		setpointv1.File_setpoint_v1_override_service_proto,
		setpointv1.File_setpoint_v1_fleet_service_proto,
		setpointv1.File_setpoint_v1_target_service_proto,
	} {
		for i := range file.Messages().Len() {
			kind, err := protoregistry.GlobalTypes.FindMessageByName(file.Messages().Get(i).FullName())
			if err != nil {
				panic(err)
			}
			if hasBytes(kind.Descriptor()) {
				continue // left to the slow path, which alone knows base64
			}
			all = append(all, newSubject(kind))
		}
	}
	return all
}()

func hasBytes(message protoreflect.MessageDescriptor) bool {
	for i := range message.Fields().Len() {
		if message.Fields().Get(i).Kind() == protoreflect.BytesKind {
			return true
		}
	}
	return false
}

var before = []byte("what was there before")

// toWire encodes a text. If it is taken, the slow path must take it, too, and read
// the same.
func (s subject) toWire(t *testing.T, text []byte) bool {
	t.Helper()
	given := slices.Clone(text)
	out, ok := s.tables.AppendWire(slices.Clone(before), text)
	if !bytes.Equal(text, given) {
		t.Fatalf("the text was written to: %s", given)
	}
	if !bytes.HasPrefix(out, before) {
		t.Fatalf("what was there before was written to: %q", out)
	}
	if !ok {
		if len(out) != len(before) {
			t.Fatalf("%q is left of %s, which is not taken", out[len(before):], text)
		}
		return false
	}
	want, got := s.new(), s.new()
	if err := restjson.Unmarshal(text, want); err != nil {
		t.Fatalf("the fast path takes it, the slow path says %v: %s", err, text)
	}
	if err := proto.Unmarshal(out[len(before):], got); err != nil {
		t.Fatalf("%x is no message: %v\nof %s", out[len(before):], err, text)
	}
	if !proto.Equal(got, want) {
		t.Fatalf("got  %v\nwant %v\nof %s", got, want, text)
	}
	if len(got.ProtoReflect().GetUnknown()) > 0 {
		t.Fatalf("got unknown fields of %s", text)
	}
	return true
}

// toJSON writes an encoded message. If it is taken, the slow path must take it, too,
// and write the same.
func (s subject) toJSON(t *testing.T, wire []byte) bool {
	t.Helper()
	given := slices.Clone(wire)
	out, ok := s.tables.AppendJSON(slices.Clone(before), wire)
	if !bytes.Equal(wire, given) {
		t.Fatalf("the message was written to: %x", given)
	}
	if !bytes.HasPrefix(out, before) {
		t.Fatalf("what was there before was written to: %q", out)
	}
	if !ok {
		if len(out) != len(before) {
			t.Fatalf("%q is left of %x, which is not taken", out[len(before):], wire)
		}
		return false
	}
	m := s.new()
	if err := proto.Unmarshal(wire, m); err != nil {
		t.Fatalf("taken, although it is no message: %v\n%x", err, wire)
	}
	want, err := new(restjson.Marshaler).Marshal(m)
	if err != nil {
		t.Fatalf("the fast path takes it, the slow path says %v: %v", err, m)
	}
	if got := out[len(before):]; !bytes.Equal(got, want) {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	return true
}

// encode marshals a message, its maps in no order.
func encode(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	data, err := proto.Marshal(m)
	fatal.If(tb, err)
	return data
}

// encodeInOrder marshals a message, its maps in order.
func encodeInOrder(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	fatal.If(tb, err)
	return data
}

// write writes a message on the slow path.
func write(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	text, err := new(restjson.Marshaler).Marshal(m)
	fatal.If(tb, err)
	return text
}

// newRandom returns a source that is the same each time.
func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 88)) }

func oneOf[T any](r *rand.Rand, values []T) T { return values[r.IntN(len(values))] }

// chance is true in so many of a hundred cases.
func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }
