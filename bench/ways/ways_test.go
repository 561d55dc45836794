// Package ways_test compares the fast path on the wire with its alternatives: generated
// protobuf messages, those of vtprotobuf with pools, and protojson. All get the same
// request, and must produce the same input of the engine, or the same response.
//
//	make bench-wire
//
// vtprotobuf adds methods to the messages of the API, which are needed here only. They are
// generated into a separate folder, and the compiler overlays them on the API's (-overlay);
// without that, vtprotobuf is left out.
package ways_test

import (
	"fmt"
	"testing"
	"time"

	_ "github.com/planetscale/vtprotobuf/protohelpers" // what is generated needs it
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/bench/request"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/transcode"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// Methods that vtprotobuf adds to the messages.
type (
	generatedRequest interface {
		UnmarshalVT([]byte) error
		UnmarshalVTUnsafe([]byte) error // texts are those of the bytes
		ReturnToVTPool()
	}
	generatedAnswer interface {
		MarshalToSizedBufferVT([]byte) (int, error)
		SizeVT() int
	}
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// BenchmarkRequest reads a request: only its message, and all up to the engine's input, which
// is what the service does.
func BenchmarkRequest(b *testing.B) {
	for _, pods := range []int{10, 1000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			msg := request.For(0, pods, now)
			data, err := proto.Marshal(msg)
			if err != nil {
				b.Fatal(err)
			}
			text, err := protojson.Marshal(msg)
			if err != nil {
				b.Fatal(err)
			}
			benchmarkRequest(b, data, text)
		})
	}
}

func benchmarkRequest(b *testing.B, data, text []byte) {
	options := recommender.DefaultOptions()
	decoder := wire.NewDecoder(options)
	measure(b, "to=input/of=wire/by=short", func() bool { return short(decoder, data) })
	message(b, "of=wire/by=protobuf", options, func() (*setpointv1.RecommendRequest, error) {
		m := &setpointv1.RecommendRequest{}
		return m, proto.Unmarshal(data, m)
	}, nil)
	if _, ok := any(&setpointv1.RecommendRequest{}).(generatedRequest); ok {
		release := func(m *setpointv1.RecommendRequest) { any(m).(generatedRequest).ReturnToVTPool() }
		message(b, "of=wire/by=vtprotobuf-with-pools", options, func() (*setpointv1.RecommendRequest, error) {
			m := fromPool()
			return m, any(m).(generatedRequest).UnmarshalVT(data)
		}, release)
		message(b, "of=wire/by=vtprotobuf-with-pools-unsafe", options, func() (*setpointv1.RecommendRequest, error) {
			m := fromPool()
			return m, any(m).(generatedRequest).UnmarshalVTUnsafe(data)
		}, release)
	} else {
		b.Log("vtprotobuf's code is not there; make bench-wire generates it")
	}
	message(b, "of=json/by=protojson", options, func() (*setpointv1.RecommendRequest, error) {
		m := &setpointv1.RecommendRequest{}
		return m, protojson.Unmarshal(text, m)
	}, nil)
	table := transcode.Of((&setpointv1.RecommendRequest{}).ProtoReflect().Descriptor())
	var encoded []byte
	measure(b, "to=input/of=json/by=short", func() (ok bool) {
		encoded, ok = table.AppendWire(encoded[:0], text)
		return ok && short(decoder, encoded)
	})
}

// message measures a way to read a request by way of a message, which is released after.
func message(b *testing.B, name string, options recommender.Options, read func() (*setpointv1.RecommendRequest, error), release func(*setpointv1.RecommendRequest)) {
	for _, to := range []string{"message", "input"} {
		measure(b, "to="+to+"/"+name, func() bool {
			m, err := read()
			ok := err == nil && (to == "message" || long(m, options))
			if release != nil {
				release(m)
			}
			return ok
		})
	}
}

// short reads a request on the fast path.
func short(decoder *wire.Decoder, data []byte) bool {
	read, ok := decoder.Decode(data, nil)
	if ok {
		read.Release()
	}
	return ok
}

// long checks a message and makes the engine's input of it, as the service does with messages.
func long(m *setpointv1.RecommendRequest, options recommender.Options) bool {
	in, violations := conversion.Input(m, options)
	return in != nil && len(violations) == 0 && len(validation.Structure(m)) == 0 &&
		len(validation.Spec(m.GetSpec(), validation.SpecOptions{ScaleToZero: in.Options.ScaleToZero})) == 0
}

// fromPool returns a message of vtprotobuf's pool. What scripts/bench-wire.sh adds sets it.
var fromPool func() *setpointv1.RecommendRequest

// BenchmarkAnswer writes the answer of a decision.
func BenchmarkAnswer(b *testing.B) {
	in, violations := conversion.Input(request.For(0, 10, now), recommender.DefaultOptions())
	if len(violations) > 0 {
		b.Fatal(violations)
	}
	decision, _ := recommender.Recommend(now, in, nil)
	var out []byte
	table := transcode.Of((&setpointv1.RecommendResponse{}).ProtoReflect().Descriptor())
	measure(b, "to=wire/by=short", func() (ok bool) {
		out, ok = wire.AppendResponse(out[:0], &decision)
		return ok
	})
	measure(b, "to=wire/by=protobuf", func() (ok bool) {
		var err error
		out, err = proto.MarshalOptions{}.MarshalAppend(out[:0], conversion.Response(&decision))
		return err == nil
	})
	if _, ok := any(&setpointv1.RecommendResponse{}).(generatedAnswer); ok {
		measure(b, "to=wire/by=vtprotobuf", func() bool {
			m := any(conversion.Response(&decision)).(generatedAnswer)
			if size := m.SizeVT(); cap(out) < size {
				out = make([]byte, size)
			} else {
				out = out[:size]
			}
			_, err := m.MarshalToSizedBufferVT(out)
			return err == nil
		})
	}
	var text []byte
	measure(b, "to=json/by=short", func() (ok bool) {
		if out, ok = wire.AppendResponse(out[:0], &decision); !ok {
			return false
		}
		text, ok = table.AppendJSON(text[:0], out)
		return ok
	})
	measure(b, "to=json/by=protojson", func() bool {
		var err error
		text, err = protojson.MarshalOptions{}.MarshalAppend(text[:0], conversion.Response(&decision))
		return err == nil
	})
}

// measure also reports the processor time of all threads, which is meaningful even on a busy
// machine.
func measure(b *testing.B, name string, way func() bool) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		began := processor(b)
		for b.Loop() {
			if !way() {
				b.Fatal("not taken")
			}
		}
		b.ReportMetric(float64(processor(b)-began)/float64(b.N), "cpu-ns/op")
	})
}

func processor(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
