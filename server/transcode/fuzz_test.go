package transcode_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

// FuzzAppendWire reads whatever bytes are as a text. What is taken the slow path
// takes, too, and reads the same.
func FuzzAppendWire(f *testing.F) {
	for _, u := range usualRequests(f) {
		if len(u.text) < 20_000 {
			f.Add(u.text)
		}
	}
	for _, text := range []string{
		`{"spec":{"behavior":{"scaleUp":{"policies":[],"tolerance":0.1}}}}`,
		`{"pods":[{"overhead":{"cpu":1,"a b":2,"cpu":3}},null],"evaluationTime":"2026-01-01T00:00:00.5+02:00"}`,
		`{"customMetrics":[{"value":-1.50E+3,"windowSeconds":1e-7,"metric":{"selector":{"matchLabels":{"\u00e9":"\n"}}}}]}`,
		`{"options":{"downscaleStabilization":"-0.5s","scaleToZero":false},"requestId":"\ud83d\ude00"}`,
		`{"previousStatus":{"observedGeneration":"-12","currentReplicas":-0}}`, ` { } `, `{"desiredReplicas":1}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, s := range roots {
			s.toWire(t, text)
		}
	})
}

// FuzzAppendJSON reads whatever bytes are as an encoded message. What is taken the
// slow path takes, too, and writes the same.
func FuzzAppendJSON(f *testing.F) {
	for _, u := range append(usualAnswers(f), usualRequests(f)...) {
		if len(u.wire) > 0 && len(u.wire) < 20_000 {
			f.Add(u.wire)
		}
	}
	r := newRandom(9)
	for _, s := range roots {
		m := s.new()
		fill(r, m.ProtoReflect(), 8, false)
		if data := encode(f, m); proto.Size(m) < 5_000 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		for _, s := range roots {
			s.toJSON(t, wire)
		}
	})
}
