package wire_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording/recordingtest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/wire"
)

var defaults = recommender.DefaultOptions()

// Requests of every kind are taken, unless their explanation has to say something of
// them.
func TestUsualRequestsAreTaken(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	r := maker{newRandom(1)}
	var seen soundness
	for range 2000 {
		req := r.request()
		data, err := proto.Marshal(req) // maps in any order
		fatal.If(t, err)
		_, in, violations := long(data, defaults)
		if len(violations) > 0 {
			t.Fatalf("not usual: %v\n%s", violations, prototext.Format(req))
		}
		if !seen.check(t, decoder, data, defaults) && len(in.Notes) == 0 {
			t.Fatalf("not taken: %s", prototext.Format(req))
		}
	}
	if seen.left > 100 {
		t.Errorf("too many were left: %+v", seen)
	}
}

// What an adapter for Kubernetes sends is taken.
func TestRecordedRequestsAreTaken(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	for _, name := range []string{"curated", "fuzz", "v1.28", "v1.15"} {
		decoder := wire.NewDecoder(defaults)
		var seen soundness
		for scenario := range recordingtest.Scenarios(t, "../../clients/kubernetes/recording/testdata/"+name+".jsonl.gz") {
			if seen.taken > 2000 {
				break
			}
			player := recording.NewPlayer(scenario)
			for i := range scenario.Steps {
				req, err := player.Request(&scenario.Steps[i], "replay")
				fatal.If(t, err)
				if req == nil {
					continue
				}
				data := encode(t, req)
				_, _, violations := long(data, defaults)
				if taken := seen.check(t, decoder, data, defaults); !taken && len(violations) == 0 {
					t.Errorf("%s: not taken: %s", scenario.Name, prototext.Format(req))
				}
			}
		}
		if seen.taken == 0 {
			t.Errorf("%s: %+v", name, seen)
		}
		t.Logf("%s: %+v", name, seen)
	}
}

// oddTexts are texts at which something changes, some of them malformed.
var oddTexts = []string{
	"", "x", "cpu", "web-00000", "Running", "True", "Pods", "1", "1Zi", "9223372036854775807", "9223372036854775807m", "10P", "1e400", "-1", "0",
	".", "..", "-", "a/b", "a%b", "a/b/c", "apps/v1", "v1", "/", "a/", "/a", "a=b", "a=b,", "app in (a", "\u00e9", "\u0085", "1\u00a0", "\n", "\x00",
	"Deployment", "ReplicationController", "Pod", "Namespace", "shop", "clusters/a/namespaces/b/targets/..",
	strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a", 254), strings.Repeat("1", 1001), strings.Repeat("\u00e9", 200),
	"a." + strings.Repeat("b", 251) + "/c=d", strings.Repeat("b", 254) + "/c=d", "a=" + strings.Repeat("b", 64),
}

// odd changes one field of one of the messages in a request.
func odd(r *rand.Rand, req *setpointv1.RecommendRequest) {
	var messages []protoreflect.Message
	walk(req.ProtoReflect(), "", func(_ string, m protoreflect.Message) { messages = append(messages, m) })
	m := messages[r.IntN(len(messages))]
	fd := m.Descriptor().Fields().Get(r.IntN(m.Descriptor().Fields().Len()))
	switch {
	case chance(r, 15):
		m.Clear(fd)
	case fd.IsMap():
		entries := m.Mutable(fd).Map()
		for range 1 + r.IntN(2)*r.IntN(40) {
			entries.Set(protoreflect.ValueOfString(oddText(r)).MapKey(), protoreflect.ValueOfString(oddText(r)))
		}
	case fd.IsList():
		list := m.Mutable(fd).List()
		switch n := list.Len(); {
		case fd.Message() == nil:
			list.Append(oddValue(r, fd))
		case n > 0 && chance(r, 50):
			one := list.Get(r.IntN(n))
			for range 1 + (r.IntN(10)/9)*1000 {
				list.Append(one)
			}
		default:
			list.Append(list.NewElement())
		}
	case fd.Message() != nil:
		m.Set(fd, m.NewField(fd))
	default:
		m.Set(fd, oddValue(r, fd))
	}
}

func oddText(r *rand.Rand) string { return oneOf(r, oddTexts...) }

func oddValue(r *rand.Rand, fd protoreflect.FieldDescriptor) protoreflect.Value {
	n := oneOf(r, edges...)
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(chance(r, 50))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(oneOf(r, n, -62135596801, -62135596800, 253402300799, 253402300800))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n) / 2)
	}
	return protoreflect.ValueOfString(oddText(r))
}

// Of requests with one or two fields that are not as usual, no more are taken than
// the API takes, and they are read as it reads them.
func TestOddRequestsAreNotTakenForOthers(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	r := maker{newRandom(2)}
	var seen soundness
	for range 4000 {
		req := r.request()
		for range 1 + r.IntN(2) {
			odd(r.Rand, req)
		}
		data, err := proto.Marshal(req)
		if err != nil {
			continue
		}
		seen.check(t, decoder, data, defaults)
	}
	if seen.taken < 500 || seen.refused < 100 {
		t.Errorf("this tries little: %+v", seen)
	}
	t.Logf("%+v", seen)
}

// field is an encoded field.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  []byte // as encoded, without its length
}

func split(data []byte) (fields []field) {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return append(fields, field{value: data})
		}
		m := protowire.ConsumeFieldValue(number, kind, data[n:])
		if m < 0 {
			return append(fields, field{value: data})
		}
		value := data[n : n+m]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		fields = append(fields, field{number, kind, value})
		data = data[n+m:]
	}
	return fields
}

// writeNumber appends a varint, sometimes in more bytes than it takes.
func writeNumber(r *rand.Rand, b []byte, n uint64, oddly bool) []byte {
	b = protowire.AppendVarint(b, n)
	if oddly && chance(r, 10) {
		b[len(b)-1] |= 0x80
		for range r.IntN(3) {
			b = append(b, 0x80)
		}
		b = append(b, 0)
	}
	return b
}

func joined(r *rand.Rand, fields []field, oddly bool) (b []byte) {
	for _, f := range fields {
		if f.number == 0 {
			b = append(b, f.value...)
			continue
		}
		b = writeNumber(r, b, protowire.EncodeTag(f.number, f.kind), oddly)
		if f.kind == protowire.BytesType {
			b = writeNumber(r, b, uint64(len(f.value)), oddly)
		}
		b = append(b, f.value...)
	}
	return b
}

// mangle changes how a message is encoded, mostly somewhere deep in it.
func mangle(r *rand.Rand, data []byte, md protoreflect.MessageDescriptor) []byte {
	fields := split(data)
	if len(fields) == 0 {
		return data
	}
	i := r.IntN(len(fields))
	if md != nil && chance(r, 75) {
		if fd := md.Fields().ByNumber(fields[i].number); fd != nil && fd.Message() != nil {
			fields[i].value = mangle(r, fields[i].value, fd.Message())
			return joined(r, fields, false)
		}
	}
	other := fields[r.IntN(len(fields))]
	switch r.IntN(10) {
	case 0: // once more
		fields = slices.Insert(fields, r.IntN(len(fields)+1), fields[i])
	case 1: // twice, and not the same
		fields = append(fields, field{fields[i].number, fields[i].kind, other.value})
	case 2: // in another order
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	case 3: // not at all
		fields = slices.Delete(fields, i, i+1)
	case 4: // a message in two parts
		parts := split(fields[i].value)
		at := r.IntN(len(parts) + 1)
		fields[i].value = joined(r, parts[:at], false)
		fields = slices.Insert(fields, i+1, field{fields[i].number, fields[i].kind, joined(r, parts[at:], false)})
	case 5: // of another type
		fields[i].kind = protowire.Type(r.IntN(8))
	case 6: // another field
		fields[i].number = protowire.Number(1 + r.IntN(20))
	case 7: // an unknown one
		fields = slices.Insert(fields, i, field{protowire.Number(1 + r.IntN(3000)), protowire.VarintType, []byte{1}})
	case 8: // cut off, or with more behind it
		value := slices.Clone(fields[i].value)
		if len(value) > 0 && chance(r, 50) {
			fields[i].value = value[:r.IntN(len(value))]
		} else {
			fields[i].value = append(value, byte(r.IntN(256)))
		}
	case 9: // numbers longer than they need be
		return joined(r, fields, true)
	}
	return joined(r, fields, false)
}

// However a request is encoded, it is read as the slow path reads it, or left.
func TestUnusualEncodings(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	r := maker{newRandom(3)}
	var seen soundness
	md := (&setpointv1.RecommendRequest{}).ProtoReflect().Descriptor()
	for i := range 5000 {
		req := r.request()
		if i%2 == 0 {
			req = podsRequest(1+r.IntN(3), i%4 == 0)
		}
		data := encode(t, req)
		for range 1 + r.IntN(2) {
			data = mangle(r.Rand, data, md)
		}
		seen.check(t, decoder, data, defaults)
	}
	if seen.taken < 500 || seen.refused < 100 {
		t.Errorf("this tries little: %+v", seen)
	}
	t.Logf("%+v", seen)
}

// Nor does it matter which byte is another one, or where the message ends.
func TestEveryByteCounts(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	r := newRandom(4)
	var seen soundness
	for _, req := range []*setpointv1.RecommendRequest{podsRequest(2, true), podsRequest(1, false), full()} {
		whole := encode(t, req)
		for i := range whole {
			seen.check(t, decoder, slices.Clone(whole[:i]), defaults)
			for _, c := range []byte{whole[i] ^ 1, whole[i] ^ 0x80, byte(r.IntN(256))} {
				data := slices.Clone(whole)
				data[i] = c
				seen.check(t, decoder, data, defaults)
			}
		}
	}
	t.Logf("%+v", seen)
}

// Names may come twice far apart, in any order.
func TestPodsThatAreThereTwiceAreLeft(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	r := newRandom(5)
	for _, pods := range []int{2, 3, 17, 300} {
		for range 30 {
			req := podsRequest(pods, true)
			r.Shuffle(pods, func(i, j int) { req.Pods[i], req.Pods[j] = req.Pods[j], req.Pods[i] })
			if !new(soundness).check(t, decoder, encode(t, req), defaults) {
				t.Fatalf("%d pods in any order are not taken", pods)
			}
			i := r.IntN(pods - 1)
			req.Pods[i].Name = req.GetPods()[i+1+r.IntN(pods-1-i)].GetName()
			if new(soundness).check(t, decoder, encode(t, req), defaults) {
				t.Fatalf("%d pods are taken, although two have the same name", pods)
			}
		}
	}
}

// Options that hold where a request sets none decide what is refused, too.
func TestOptionsOfTheServer(t *testing.T) {
	t.Parallel()
	req := podsRequest(3, true)
	req.Spec.MinReplicas = new(int32(0))
	req.Spec.Metrics = append(req.Spec.Metrics, &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{
		Metric: &setpointv1.MetricIdentifier{Name: "q"}, Target: &setpointv1.MetricTarget{Type: "Value", Value: new("1")},
	}})
	toZero := defaults
	toZero.ScaleToZero, toZero.HistoryLimit = true, 7
	for _, tt := range []struct {
		options recommender.Options
		own     *bool
		taken   bool
	}{
		{defaults, nil, false}, {defaults, new(true), true}, {toZero, nil, true}, {toZero, new(false), false},
	} {
		req.Options = &setpointv1.RecommendOptions{ScaleToZero: tt.own}
		decoder := wire.NewDecoder(tt.options)
		for range 2 {
			if taken := new(soundness).check(t, decoder, encode(t, req), tt.options); taken != tt.taken {
				t.Errorf("scale to zero %t, the request's %v: taken %t", tt.options.ScaleToZero, tt.own, taken)
			}
		}
	}
}

// Bounds and the workload's name are no part of what is remembered of a spec.
func TestBoundsAndNames(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	for _, lower := range []*int32{nil, new(int32(-1)), new(int32(0)), new(int32(1)), new(int32(2)), new(int32(2147483647))} {
		for _, upper := range []int32{-2147483648, -1, 0, 1, 2, 3, 2147483647} {
			for _, ref := range []*setpointv1.CrossVersionObjectReference{
				nil, {}, {Kind: "Deployment", ApiVersion: "apps/v1"}, {Kind: "Deployment", Name: "web", ApiVersion: "apps/v1"},
				{Kind: "Deployment", Name: ".", ApiVersion: "apps/v1"}, {Kind: "Deployment", Name: "..", ApiVersion: "apps/v1"}, {Kind: "Deployment", Name: "...", ApiVersion: "apps/v1"},
				{Kind: "Deployment", Name: "a/b", ApiVersion: "apps/v1"}, {Kind: "Deployment", Name: "a%b", ApiVersion: "apps/v1"},
				{Kind: "Deployment", Name: "web", ApiVersion: "v1"}, {Kind: "a/b", Name: "web", ApiVersion: "apps/v1"}, {Name: "web", ApiVersion: "apps/v1"},
				{Kind: "ReplicationController", Name: "web", ApiVersion: "v1"}, {Kind: "ReplicationController", Name: "web"},
			} {
				req := podsRequest(1, true)
				req.Spec.MinReplicas, req.Spec.MaxReplicas, req.Spec.ScaleTargetRef = lower, upper, ref
				data := encode(t, req)
				_, _, violations := long(data, defaults)
				if taken := new(soundness).check(t, decoder, data, defaults); taken != (len(violations) == 0) {
					t.Errorf("%v is taken: %t; the slow path: %v", req.GetSpec(), taken, violations)
				}
			}
		}
	}
}

// A metrics API may give any window, and samples of no pod: both paths take them, as the
// controller does.
func TestOddSamplesAreTaken(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	taken := func(t *testing.T, change func(*setpointv1.PodMetrics)) recommender.PodMetrics {
		t.Helper()
		req := podsRequest(1, true)
		change(req.PodMetrics[0])
		data := encode(t, req)
		_, in, violations := long(data, defaults)
		if len(violations) > 0 {
			t.Fatalf("the slow path: %v", violations)
		}
		if !new(soundness).check(t, decoder, data, defaults) { // which compares what they read
			t.Error("the fast path does not take it")
		}
		return in.PodMetrics[0]
	}
	for seconds, want := range map[float64]time.Duration{
		-30: -30 * time.Second, -0.5: -500 * time.Millisecond, 315576001: 315576001 * time.Second,
		9223372036: 9223372036 * time.Second, -9223372036: -9223372036 * time.Second,
		// The longest that Kubernetes knows is no floating point number.
		time.Duration(math.MaxInt64).Seconds(): math.MaxInt64, time.Duration(math.MinInt64).Seconds(): math.MinInt64,
		9.3e9: math.MaxInt64, -9.3e9: math.MinInt64, math.MaxFloat64: math.MaxInt64, -math.MaxFloat64: math.MinInt64,
	} {
		if got := taken(t, func(m *setpointv1.PodMetrics) { m.WindowSeconds = seconds }).Window; got != want {
			t.Errorf("%v s are %v, want %v", seconds, got, want)
		}
	}
	if got := taken(t, func(m *setpointv1.PodMetrics) { m.Pod = "" }).Pod; got != "" {
		t.Errorf("no pod is %q", got)
	}
}

// Instants that are no instants are left, the evaluation time's too.
func TestInstants(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	for _, tt := range []struct {
		at    *timestamppb.Timestamp
		valid bool
	}{
		{&timestamppb.Timestamp{}, true}, {&timestamppb.Timestamp{Seconds: -62135596800}, true}, {&timestamppb.Timestamp{Seconds: 253402300799, Nanos: 999999999}, true},
		{&timestamppb.Timestamp{Seconds: -62135596801}, false}, {&timestamppb.Timestamp{Seconds: 253402300800}, false},
		{&timestamppb.Timestamp{Nanos: -1}, false}, {&timestamppb.Timestamp{Nanos: 1000000000}, false},
	} {
		req := full()
		paths := 0
		walk(req.ProtoReflect(), "", func(path string, m protoreflect.Message) {
			if _, ok := m.Interface().(*timestamppb.Timestamp); !ok {
				return
			}
			paths++
			changed := full()
			walk(changed.ProtoReflect(), "", func(other string, m protoreflect.Message) {
				if other == path {
					proto.Reset(m.Interface())
					proto.Merge(m.Interface(), tt.at)
				}
			})
			if taken := new(soundness).check(t, decoder, encode(t, changed), defaults); taken != tt.valid {
				t.Errorf("%s %v is taken: %t", path, tt.at, taken)
			}
		})
		if paths != 8 {
			t.Errorf("%d timestamps", paths)
		}
	}
}

// One decoder serves many callers.
func TestDecoderIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	var running sync.WaitGroup
	for worker := range 4 {
		running.Go(func() {
			r := maker{newRandom(uint64(worker % 2))}
			for range 300 {
				new(soundness).check(t, decoder, encode(t, r.request()), defaults)
			}
		})
	}
	running.Wait()
}

// However the field is encoded, what is seen before a request is read is what is read.
func TestExplainsIsWhatIsRead(t *testing.T) {
	for name, data := range map[string]string{
		"nothing": "", "yes": "\x78\x01", "no": "\x78\x00", "a long tag": "\xf8\x00\x01", "a longer one": "\xf8\x80\x80\x00\x01", "after a text": "\x6a\x01a\x78\x01",
		"within a text": "\x6a\x02\x78\x01", "a long number": "\x78\x81\x80\x00",
	} {
		req := &setpointv1.RecommendRequest{}
		if err := proto.Unmarshal([]byte(data), req); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := wire.Explains([]byte(data)); got != req.GetExplain() {
			t.Errorf("%s: %t, and the request says %t", name, got, req.GetExplain())
		}
	}
}
