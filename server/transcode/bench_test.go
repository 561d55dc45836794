package transcode_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

func BenchmarkRequest(b *testing.B) {
	for _, u := range usualRequests(b) {
		b.Run("way=long/"+u.name, func(b *testing.B) {
			measure(b, u.text, func() bool { return restjson.Unmarshal(u.text, u.new()) == nil })
		})
		b.Run("way=short/"+u.name, func(b *testing.B) {
			var out []byte
			measure(b, u.text, func() (ok bool) {
				out, ok = u.tables.AppendWire(out[:0], u.text)
				return ok
			})
		})
	}
}

func BenchmarkAnswer(b *testing.B) {
	for _, u := range usualAnswers(b) {
		m := u.new()
		fatal.If(b, proto.Unmarshal(u.wire, m))
		text := write(b, m)
		b.Run("way=long/"+u.name, func(b *testing.B) {
			measure(b, text, func() bool {
				_, err := new(restjson.Marshaler).Marshal(m)
				return err == nil
			})
		})
		b.Run("way=short/"+u.name, func(b *testing.B) {
			var out []byte
			measure(b, text, func() (ok bool) {
				out, ok = u.tables.AppendJSON(out[:0], u.wire)
				return ok
			})
		})
	}
}

// measure runs a way, whose speed is that of so much JSON.
func measure(b *testing.B, text []byte, way func() bool) {
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if !way() {
			b.Fatal("not taken")
		}
	}
}
