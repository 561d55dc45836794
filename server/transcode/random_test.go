package transcode_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

// What random messages are made of: values at which something changes.
var (
	texts = []string{
		"", "a", "cpu", "500m", "0.5", "-1e3", "memory", "web-7d9c5b8f6d-x2x7v", "eight by", "seven b", "sixteen bytes ok",
		"é", "naïve", "日本語", "\U0001f600", "\u2028", "\ufffd", "<a href=\"x\">&amp;</a>", `C:\x`, `"`, `\`, "\x00", "\x01\x1f",
		"\b\f\n\r\t", "\x7f", "1234567\"", "12345678\\", "abcdefg\x19", "abcdefgé", strings.Repeat("x", 127), strings.Repeat("y", 128),
		strings.Repeat("z", 20_000), "NaN", "null",
	}
	wholes  = []int64{0, 1, -1, 2, 127, 128, 300, math.MaxInt32, math.MinInt32, 1_767_225_600, 1 << 53, -1 << 60}
	doubles = []float64{
		0, math.Copysign(0, -1), 1, -1, 0.5, 30, 1.0 / 3, 0.1, 1e-6, 9.99e-7, -1e-7, 1e-10, 123456.789, 1e15, 999999999999999, 1e20, 1e21, 1e22,
		-2.5e-300, math.MaxFloat64, math.SmallestNonzeroFloat64, math.NaN(), math.Inf(1), math.Inf(-1), 1 << 53, 1<<53 + 2, 5e-324,
	}
	instants = []int64{0, 1, -1, 1_767_225_600, 1_709_164_800, 951_782_400, -62135596800, 253402300799, -2208988800, 86399, 86400, -86400, -86401}
	spans    = []int64{0, 1, -1, 300, 3600, 315576000000, -315576000000}
	parts    = []int64{0, 0, 1, 500_000_000, 1_000_000, 1_000, 999_999_999, 120_000_000, 10}
	wrong    = []int64{-62135596801, 253402300800, 315576000001, 1_000_000_000, -1, math.MinInt64, math.MaxInt64}
)

// fill fills a message at random, with some invalid values if broken is set.
func fill(r *rand.Rand, m protoreflect.Message, depth int, broken bool) {
	switch m.Descriptor().FullName() {
	case "google.protobuf.Timestamp":
		setTime(r, m, oneOf(r, instants), oneOf(r, parts), broken)
		return
	case "google.protobuf.Duration":
		seconds, nanos := oneOf(r, spans), oneOf(r, parts)
		if seconds < 0 || seconds == 0 && chance(r, 50) {
			nanos = -nanos
		}
		setTime(r, m, seconds, nanos, broken)
		return
	case "google.protobuf.Any":
		return
	}
	share := oneOf(r, []int{20, 60, 95})
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); chance(r, share) && (depth < 12 || fd.Message() == nil) {
			fillField(r, m, fd, depth, broken)
		}
	}
}

func setTime(r *rand.Rand, m protoreflect.Message, seconds, nanos int64, broken bool) {
	if broken && chance(r, 3) {
		seconds = oneOf(r, wrong)
	}
	if broken && chance(r, 3) {
		nanos = int64(int32(oneOf(r, wrong)))
	}
	fields := m.Descriptor().Fields()
	m.Set(fields.ByNumber(1), protoreflect.ValueOfInt64(seconds))
	m.Set(fields.ByNumber(2), protoreflect.ValueOfInt32(int32(nanos)))
}

func fillField(r *rand.Rand, m protoreflect.Message, fd protoreflect.FieldDescriptor, depth int, broken bool) {
	switch {
	case fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Any":
	case fd.IsMap():
		for range r.IntN(5) {
			value := m.Mutable(fd).Map().NewValue()
			if fd.MapValue().Message() == nil {
				value = scalar(r, fd.MapValue())
			} else {
				fill(r, value.Message(), depth+1, broken)
			}
			m.Mutable(fd).Map().Set(scalar(r, fd.MapKey()).MapKey(), value)
		}
	case fd.IsList():
		for range 1 + r.IntN(3) {
			if fd.Message() == nil {
				m.Mutable(fd).List().Append(scalar(r, fd))
			} else {
				fill(r, m.Mutable(fd).List().AppendMutable().Message(), depth+1, broken)
			}
		}
	case fd.Message() != nil:
		fill(r, m.Mutable(fd).Message(), depth+1, broken)
	default:
		m.Set(fd, scalar(r, fd))
	}
}

func scalar(r *rand.Rand, fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(oneOf(r, texts))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(oneOf(r, texts)))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(chance(r, 50))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(oneOf(r, wholes)))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(oneOf(r, wholes)))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(oneOf(r, wholes)))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(oneOf(r, wholes))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(oneOf(r, doubles))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(oneOf(r, doubles)))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(3)))
	}
	panic("no values of " + fd.Kind().String())
}

var numberInQuotes = regexp.MustCompile(`:"(-?[0-9.e+-]+)"`)

// spellings are texts with the same meaning: without default values, on several lines,
// ordered by name, with numbers instead of texts.
func spellings(t *testing.T, m proto.Message, text []byte) [][]byte {
	t.Helper()
	lines, err := protojson.MarshalOptions{Multiline: true}.Marshal(m)
	fatal.If(t, err)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var members map[string]any
	fatal.If(t, decoder.Decode(&members))
	sorted, err := json.Marshal(members)
	fatal.If(t, err)
	return [][]byte{lines, sorted, numberInQuotes.ReplaceAll(text, []byte(`: $1 `))}
}

// Whatever the slow path writes both paths take, unless the slow path itself
// refuses what it wrote. It is encoded to the same bytes as elsewhere, by which
// others may know it again.
func TestRandomMessages(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	for _, s := range everyMessage {
		t.Run(string(s.kind.Descriptor().Name()), func(t *testing.T) {
			t.Parallel()
			r := newRandom(1)
			other, taken := 0, 0
			for range 40 {
				m := s.new()
				fill(r, m.ProtoReflect(), 0, false)
				text := write(t, m)
				if !s.toWire(t, text) && restjson.Unmarshal(text, s.new()) == nil { // no empty policies
					t.Fatalf("not taken: %.2000s", text)
				}
				if wire, ok := s.tables.AppendWire(nil, text); ok && !bytes.Equal(wire, encodeInOrder(t, m)) {
					t.Fatalf("got %x, not as others encode it: %.2000s", wire, text)
				}
				if wire := encode(t, m); !s.toJSON(t, wire) {
					t.Fatalf("not taken: %.2000x", wire)
				}
				for _, spelled := range spellings(t, m, text) {
					other++
					if s.toWire(t, spelled) {
						taken++
					}
				}
			}
			if taken < other/2 {
				t.Errorf("%d of %d other spellings were taken", taken, other)
			}
		})
	}
}

// Messages with what JSON can't say are not taken.
func TestRandomMessagesThatAreBroken(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	for _, s := range everyMessage {
		r := newRandom(2)
		for range 50 {
			m := s.new()
			fill(r, m.ProtoReflect(), 0, true)
			s.toJSON(t, encode(t, m))
		}
	}
}
