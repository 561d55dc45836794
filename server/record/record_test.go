package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/historytest"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

var t0 = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// randomRecord returns a random record, including ones that no sequence of decisions produces.
func randomRecord(random *rand.Rand) Record {
	r := Record{History: historytest.Random(random)}
	text := func() string { return []string{"", "x", "ä€\x00", "request"}[random.IntN(4)] }
	if random.IntN(2) == 0 {
		r.Incarnation, r.Cluster = random.Uint64(), random.Uint32()
	}
	r.LastRequest = text()
	if r.Pending != nil {
		r.PendingRequest = text()
	}
	for range random.IntN(3) {
		other := historytest.Random(random)
		a := Answer{
			RequestID: text(), ID: other.Last.ID, At: other.Last.At, From: other.Last.From, To: other.Last.To, Reason: text(), Error: text(),
			Status: other.Status, Explanation: [][]byte{nil, []byte("x\x00")}[random.IntN(2)],
		}
		for range random.IntN(3) {
			a.Events = append(a.Events, recommender.Event{Type: []string{recommender.EventNormal, recommender.EventWarning, "Other", ""}[random.IntN(4)], Reason: text(), Message: text()})
		}
		r.Answers = append(r.Answers, a)
	}
	if random.IntN(2) == 0 {
		r.Interval, r.LastChange = 1+random.Int64N(1<<40), int8(random.IntN(3)-1)
		r.Paused = random.IntN(2) == 0
	}
	if random.IntN(2) == 0 {
		for range 1 + random.IntN(codec.MaxTurns) {
			r.Turns = append(r.Turns, random.Int64N(1<<43))
		}
	}
	if random.IntN(2) == 0 {
		r.Spec = SpecUse{Hash: 1 + random.Uint64N(1<<63), Since: random.Int64N(1 << 43), Text: text()}
		r.Spec.TooLong = r.Spec.Text == "" && random.IntN(2) == 0
	}
	if random.IntN(2) == 0 {
		r.Stages = []byte{byte(random.IntN(256)), 0}
	}
	r.Adjusted = randomAdjusted(random)
	for i := range r.Answers {
		r.Answers[i].Adjusted = randomAdjusted(random)
	}
	if r.Pending != nil {
		r.Pending.Outside = random.IntN(2) == 0
	}
	return r
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// decode decodes what must be a record.
func decode(t testing.TB, b []byte) Record {
	t.Helper()
	r, err := Decode(b)
	fatal.If(t, err)
	return r
}

func TestEncodingKeepsEverything(t *testing.T) {
	random := newRandom(10)
	for range 3000 {
		h := randomRecord(random)
		prefix := []byte("before")
		encoded := Append(prefix, &h)
		if !bytes.HasPrefix(encoded, prefix) {
			t.Fatal("it does not append")
		}
		got, err := Decode(encoded[len(prefix):])
		if err != nil || !reflect.DeepEqual(got, h) {
			t.Fatalf("%v\n got %+v\nwant %+v", err, got, h)
		}
		if again := Append(nil, &got); !bytes.Equal(again, encoded[len(prefix):]) {
			t.Fatalf("encoded again:\n got %x\nwant %x", again, encoded[len(prefix):])
		}
	}
	zero, err := Decode(Append(nil, &Record{}))
	if err != nil || !reflect.DeepEqual(zero, Record{}) {
		t.Errorf("the zero history: %v, %+v", err, zero)
	}
}

// What is decided next must not depend on whether the history was read back in between.
func TestAsStoredIsWhatIsReadBack(t *testing.T) {
	random := newRandom(14)
	check := func(h *Record) {
		t.Helper()
		want := decode(t, Append(nil, h))
		got, err := AsStored(h)
		for _, x := range []*Record{&got, &want} { // none is as good as an empty one
			x.Recommendations = append([]recommender.TimedRecommendation{}, x.Recommendations...)
			x.ScaleUps, x.ScaleDowns = append([]recommender.ScaleEvent{}, x.ScaleUps...), append([]recommender.ScaleEvent{}, x.ScaleDowns...)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n got %+v\nwant %+v", err, got, want)
		}
	}
	for i := range 3000 {
		h := randomRecord(random)
		if i%2 == 0 && len(h.Status.Conditions) > 0 {
			h.Status.Conditions[0].Message = strings.Repeat("é", codec.MaxText)
			h.Last.Reason = h.Status.Conditions[0].Message
			h.Updated = time.Now() // which has a monotonic reading, and a place
			h.Status.LastScaleTime = h.Updated.Add(-time.Minute)
		}
		check(&h)
	}
	// As histories come about.
	for range 20 {
		lived(t, random, life{
			steps: 100, period: 5 * time.Second, usage: [2]int{100, 700}, limit: 8 + random.IntN(33), settled: func(step int) bool { return step%3 > 0 },
		}, func(h *recommender.History) { check(&Record{History: *h}) })
	}
}

func TestADecodedHistorySharesNoMemory(t *testing.T) {
	random := newRandom(11)
	h := randomRecord(random)
	encoded := Append(nil, &h)
	got, _ := Decode(encoded)
	clear(encoded)
	equal(t, "the history", got, h)
}

func TestEveryDamageIsAnError(t *testing.T) {
	random := newRandom(12)
	for range 12 {
		h := randomRecord(random)
		encoded := Append(nil, &h)
		for cut := range encoded {
			if _, err := Decode(encoded[:cut]); !errors.Is(err, codec.ErrCorrupt) {
				t.Fatalf("cut at %d of %d: %v", cut, len(encoded), err)
			}
		}
		for bit := range 8 * len(encoded) {
			encoded[bit/8] ^= 1 << (bit % 8)
			want := codec.ErrCorrupt
			if bit < 8 {
				want = codec.ErrFormat
			}
			if _, err := Decode(encoded); !errors.Is(err, want) {
				t.Fatalf("bit %d flipped: %v", bit, err)
			}
			encoded[bit/8] ^= 1 << (bit % 8)
		}
		if _, err := Decode(append(encoded, 0)); !errors.Is(err, codec.ErrCorrupt) {
			t.Fatalf("with a byte too many: %v", err)
		}
	}
}

func TestAnotherFormatIsNamed(t *testing.T) {
	encoded := Append(nil, &Record{History: recommender.History{Seen: true}})
	encoded[0] = 3
	_, err := Decode(encoded)
	if !errors.Is(err, codec.ErrFormat) || errors.Is(err, codec.ErrCorrupt) || err.Error() != "unknown history format 3: this version reads formats 1 and 2" {
		t.Error(err)
	}
	if _, err := Decode([]byte{3}); !errors.Is(err, codec.ErrFormat) {
		t.Errorf("the format alone: %v", err)
	}
}

// What is damaged before it gets its checksum: no panic, and no large allocation
// for a length that can't be.
func TestFieldsThatDoNotAddUp(t *testing.T) {
	body := func(b ...byte) []byte { return b }
	epoch := withoutChecksum(&Record{History: recommender.History{Updated: time.Unix(0, 0).UTC()}}) // 1, 0, 0 seconds, 0 nanoseconds, …
	tooLate := slices.Concat(epoch[:3], binary.AppendUvarint(nil, 1e9), epoch[4:])
	hugeLength := binary.AppendUvarint(nil, 1<<40)
	for name, b := range map[string][]byte{
		"nothing after the format":     body(1),
		"a number without end":         body(1, 0x80),
		"a number too large":           append(body(1), bytes.Repeat([]byte{0xff}, 11)...),
		"a second of 1e9 nanoseconds":  tooLate,
		"a list longer than the bytes": append(body(1, 0, 0, 0), hugeLength...),
		"a byte left over":             append(withoutChecksum(&Record{}), 0),
		"a wrong outcome":              append(append(withoutChecksum(&Record{})[:len(withoutChecksum(&Record{}))-2], 5), 0),
		"all zeros":                    append(body(1), make([]byte, 9)...),
		"format 2 without a limit":     append(body(2, 0, 0, 0, 0), withoutChecksum(&Record{})[4:]...),
	} {
		if _, err := Decode(withChecksum(b)); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	allocated := testing.AllocsPerRun(10, func() { _, _ = Decode(withChecksum(append(body(1, 0, 0, 0), hugeLength...))) })
	if allocated > 20 {
		t.Errorf("a wrong length makes %v allocations", allocated)
	}
}

// A tail of a later version: what it adds is skipped, and what is known is read.
func TestUnknownFieldsOfTheTailAreSkipped(t *testing.T) {
	h := Record{History: recommender.History{Seen: true, Updated: t0}}
	h.Interval, h.Turns = 15_000, []int64{t0.UnixMilli(), t0.UnixMilli() - 61_001}
	later := append(withoutChecksum(&h), 99, 3, 'x', 'y', 'z')
	got := decode(t, withChecksum(later))
	equal(t, "the record", got, h)
	for name, tail := range map[string][]byte{
		"none":                  {},
		"without its length":    {1},
		"a length without end":  {1, 5, 0},
		"a field of no meaning": {1, 1, 0},
		"a wrong direction":     {1, 1, 7},
		"more than a field has": {1, 2, 5, 0},
		"no turns":              {2, 0},
		"too many turns":        append([]byte{2, codec.MaxTurns + 1}, make([]byte, codec.MaxTurns+1)...),
		"a field twice":         {1, 1, 4, 1, 1, 4},
		"fields out of order":   {2, 1, 0, 1, 1, 4},
	} {
		body := withoutChecksum(&Record{})
		bits := binary.AppendUvarint(nil, 1<<9)
		if _, err := Decode(withChecksum(slices.Concat(body[:1], bits, body[2:], tail))); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func withoutChecksum(h *Record) []byte {
	encoded := Append(nil, h)
	return encoded[:len(encoded)-4]
}

func withChecksum(body []byte) []byte {
	return binary.LittleEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

func TestAUsualHistoryIsSmall(t *testing.T) {
	random := newRandom(13)
	history := lived(t, random, life{steps: 20, period: 15 * time.Second, usage: [2]int{250, 350}, settled: func(int) bool { return true }}, nil)
	size := len(Append(nil, &Record{History: history}))
	t.Logf("%d recommendations of one cpu metric take %d bytes", len(history.Recommendations), size)
	if size >= 500 || len(history.Recommendations) < 2 {
		t.Errorf("%d bytes, want less than 500", size)
	}
}

// life is what a target goes through.
type life struct {
	steps  int
	period time.Duration
	// usage is the least and the most of each of ten pods, thousandths of a core of 0.5.
	usage [2]int
	// limit is Options.HistoryLimit.
	limit int
	// settled says which changes are reported as applied.
	settled func(step int) bool
}

// lived returns what a life leaves behind. check gets the history after each step.
func lived(t *testing.T, random *rand.Rand, l life, check func(*recommender.History)) (history recommender.History) {
	t.Helper()
	in := &recommender.Input{
		Namespace: "shop", Options: recommender.DefaultOptions(),
		Spec: recommender.Spec{
			ScaleTargetRef: recommender.ObjectReference{Kind: "Deployment", Name: "web"}, MinReplicas: 1, MaxReplicas: 100,
			Metrics: []recommender.MetricSpec{{Type: recommender.ResourceMetric, Resource: "cpu", Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: new(int32(60))}}},
		},
	}
	in.Options.HistoryLimit = l.limit
	replicas := int32(10)
	for i := range l.steps {
		at := t0.Add(time.Duration(i) * l.period)
		in.ID = recommender.ID{1, byte(i)}
		in.Scale, in.Pods, in.PodMetrics = recommender.Scale{SpecReplicas: replicas, StatusReplicas: replicas}, nil, nil
		for pod := range 10 {
			name := fmt.Sprint("web-", pod)
			in.Pods = append(in.Pods, recommender.Pod{
				Name: name, Phase: recommender.PhaseRunning, StartTime: t0.Add(-time.Hour), Ready: recommender.ReadyTrue, ReadyTransition: t0.Add(-time.Hour),
				Containers: []recommender.Container{{Name: "app", Requests: []recommender.ResourceRequest{{Resource: "cpu", Quantity: quantity.FromMilli(500)}}}},
			})
			usage := int64(l.usage[0] + random.IntN(l.usage[1]-l.usage[0]+1))
			in.PodMetrics = append(in.PodMetrics, recommender.PodMetrics{
				Pod: name, Timestamp: at, Window: l.period,
				Containers: []recommender.ContainerMetrics{{Name: "app", Usage: []recommender.ResourceUsage{{Resource: "cpu", Milli: usage}}}},
			})
		}
		var d recommender.Decision
		if d, history = recommender.Recommend(at, in, &history); d.Changes() && l.settled(i) {
			var err error
			_, history, err = recommender.Settle(history, "shop", d.ID, recommender.Applied, "")
			fatal.If(t, err)
			replicas = d.Desired
		}
		if check != nil {
			check(&history)
		}
	}
	return history
}

var update = flag.Bool("update", false, "rewrite the files in testdata")

// Histories as the first versions wrote them must be read for ever. Once released,
// a difference here needs a new format, not a rewritten file.
func TestFormat1StaysReadable(t *testing.T) {
	staysReadable(t, "testdata/history-format-1.hex", recordOfFormat1())
}

func TestFormat2StaysReadable(t *testing.T) {
	h := recordOfFormat1()
	h.RecommendationsLimited, h.LastingUntil = true, t0.Add(5*time.Minute).UnixNano()
	h.EventsLimited = true
	staysReadable(t, "testdata/history-format-2.hex", h)
}

// A long list has an index, which versions before it skip. What a decision reads is the same.
func TestFormat1WithAnIndexStaysReadable(t *testing.T) {
	h := longRecord(300)
	staysReadable(t, "testdata/history-format-1-indexed.hex", h)
	memory := new(Memory)
	var got Record
	err := memory.DecodePacked(Append(nil, &h), &got)
	if err != nil || got.Packed == nil || len(got.Recommendations) > 0 {
		t.Fatalf("%v, %d recommendations, want them packed", err, len(got.Recommendations))
	}
	equal(t, "written again", memory.Append(nil, &got), Append(nil, &h))
	got.Unpack()
	equal(t, "the record", got, h)
	for n, packed := range map[int]bool{0: false, 255: false, 256: true} {
		h.Recommendations = longRecord(n).Recommendations
		if err := memory.DecodePacked(Append(nil, &h), &got); err != nil || (got.Packed != nil) != packed {
			t.Errorf("%d recommendations: packed: %v, %v", n, got.Packed != nil, err)
		}
	}
	h = longRecord(300)
	h.RecommendationsLimited = true
	if err := memory.DecodePacked(Append(nil, &h), &got); err != nil || got.Packed != nil {
		t.Errorf("beyond the limit: packed: %v, %v", got.Packed != nil, err)
	}
	h.RecommendationsLimited, h.Recommendations[7].At = false, math.MaxInt64
	if err := memory.DecodePacked(Append(nil, &h), &got); err != nil || got.Packed != nil || got.Recommendations[7].At != math.MaxInt64 {
		t.Errorf("at the end of time: packed: %v, %v", got.Packed != nil, err)
	}
}

// longRecord is recordOfFormat1 with that many recommendations.
func longRecord(n int) Record {
	h := recordOfFormat1()
	random := newRandom(16)
	h.Recommendations = nil
	for i := range n {
		h.Recommendations = append(h.Recommendations, recommender.TimedRecommendation{
			Replicas: int32(10 + random.IntN(20)), At: t0.Add(time.Duration(i-n)*time.Second + time.Duration(random.Int64N(5e6))).UnixNano(),
		})
	}
	return h
}

// An index that does not fit makes a record unreadable for a decision, and for nothing else.
func TestAWrongIndexIsCorrupt(t *testing.T) {
	h := longRecord(300)
	body := withoutChecksum(&h)
	for name, change := range map[string]func(b []byte) []byte{
		"a wrong length of the numbers": func(b []byte) []byte { b[len(b)-4]++; return b },
		"a length beyond the record":    func(b []byte) []byte { b[len(b)-1] = 0xff; return b },
	} {
		damaged := withChecksum(change(bytes.Clone(body)))
		if err := new(Memory).DecodePacked(damaged, new(Record)); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := Decode(damaged); err != nil || len(got.Recommendations) != 300 {
			t.Errorf("%s, read as a list: %v", name, err)
		}
	}
	for cut := range body {
		if err := new(Memory).DecodePacked(withChecksum(body[:cut]), new(Record)); !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, codec.ErrFormat) {
			t.Fatalf("cut at %d of %d: %v", cut, len(body), err)
		}
	}
	random, memory := newRandom(17), new(Memory)
	for range 20_000 {
		damaged := bytes.Clone(body)
		for range 1 + random.IntN(3) {
			damaged[random.IntN(len(damaged))] = byte(random.Uint32())
		}
		var got Record
		if err := memory.DecodePacked(withChecksum(damaged), &got); err == nil && got.Packed != nil {
			in := recommender.Input{Options: recommender.DefaultOptions(), Explain: true, Scale: recommender.Scale{SpecReplicas: 3, StatusReplicas: 3}}
			in.Spec = recommender.Spec{MinReplicas: 1, MaxReplicas: 9, Metrics: []recommender.MetricSpec{{Type: recommender.ResourceMetric, Resource: "cpu", Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: new(int32(50))}}}}
			_, got.History = recommender.Recommend(t0, &in, &got.History)
			memory.Append(nil, &got)
		}
	}
}

// staysReadable fails unless the file is read as the history, and the history written as the file.
func staysReadable(t *testing.T, file string, h Record) {
	t.Helper()
	if *update {
		fatal.If(t, os.WriteFile(file, []byte(hex.EncodeToString(Append(nil, &h))+"\n"), 0o644))
	}
	text := testpages.Read(t, file)
	encoded, err := hex.DecodeString(strings.TrimSpace(text))
	fatal.If(t, err)
	got := decode(t, encoded)
	equal(t, "the history", got, h)
	equal(t, "its encoding", Append(nil, &h), encoded)
}

// recordOfFormat1 has a value in every field and every word of the vocabularies.
func recordOfFormat1() Record {
	at := t0.UnixNano()
	status := recommender.Status{
		ObservedGeneration: new(int64(3)), LastScaleTime: t0.Add(-time.Hour), CurrentReplicas: 5, DesiredReplicas: 8,
		CurrentMetrics: []recommender.MetricStatus{
			{Type: recommender.ResourceMetric, Resource: "cpu", Current: recommender.MetricValue{AverageValue: 450, HasAverageValue: true, AverageUtilization: 90, HasAverageUtilization: true}},
			{Type: recommender.ContainerResourceMetric, Resource: "memory", Container: "app", Current: recommender.MetricValue{AverageValue: (1 << 20 * 1000), HasAverageValue: true, Binary: true}},
			{Type: recommender.PodsMetric, Metric: recommender.MetricIdentifier{Name: "pps"}},
			{Type: recommender.ObjectMetric, Metric: recommender.MetricIdentifier{Name: "rps"}, DescribedObject: recommender.ObjectReference{Kind: "Service", Name: "front", APIVersion: "v1"}, Current: recommender.MetricValue{Value: -7, HasValue: true}},
			{Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "queue", Selector: &recommender.LabelSelector{
				MatchLabels: []recommender.Label{{Key: "a", Value: "b"}}, MatchExpressions: []recommender.LabelRequirement{{Key: "k", Operator: "In", Values: []string{"x", "y"}}},
			}}},
			{},
		},
		Conditions: []recommender.Condition{{Type: "Other", Status: "Maybe", Reason: "Because", Message: "so", LastTransitionTime: t0}},
	}
	kinds := []string{"AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"}
	states := []string{"True", "False", "Unknown"}
	for i, text := range [][2]string{
		{"SucceededGetScale", "the HPA controller was able to get the target's current scale"},
		{"FailedGetScale", "the HPA controller was unable to get the target's current scale: x"},
		{"ReadyForNewScale", "recommended size matches current size"},
		{"ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent recommendation"},
		{"ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation"},
		{"SucceededRescale", "the HPA controller was able to update the target scale to 8"},
		{"FailedUpdateScale", "the HPA controller was unable to update the target scale: x"},
		{"ValidMetricFound", "the HPA was able to successfully calculate a replica count from pods metric pps"},
		{"ScalingDisabled", "scaling is disabled since the replica count of the target is zero"},
		{"FailedGetResourceMetric", "the HPA was unable to compute the replica count: x"},
		{"FailedGetContainerResourceMetric", "the HPA was unable to compute the replica count: x"},
		{"FailedGetPodsMetric", "the HPA was unable to compute the replica count: x"},
		{"FailedGetObjectMetric", "the HPA was unable to compute the replica count: x"},
		{"FailedGetExternalMetric", "the HPA was unable to compute the replica count: x"},
		{"DesiredWithinRange", "the desired count is within the acceptable range"},
		{"ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"},
		{"ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"},
		{"TooManyReplicas", "the desired replica count is more than the maximum replica count"},
		{"TooFewReplicas", "the desired replica count is less than the minimum replica count"},
		{"ScaledToZero", "the HPA controller scaled the workload to zero"},
		{"NotScaledToZero", "the HPA controller did not scale the workload to zero"},
	} {
		status.Conditions = append(status.Conditions, recommender.Condition{Type: kinds[i%4], Status: states[i%3], Reason: text[0], Message: text[1], LastTransitionTime: t0.Add(time.Duration(i))})
	}
	history := recommender.History{
		Seen: true, Initialized: true, Updated: t0, Since: at - 3600e9,
		Recommendations: []recommender.TimedRecommendation{{Replicas: 5, At: at - 30e9}, {Replicas: 8, At: at}, {Replicas: 6, At: at - 15e9}},
		ScaleUps:        []recommender.ScaleEvent{{Change: 3, Outdated: false, At: at}, {Change: 1, Outdated: true, At: at - 60e9}},
		ScaleDowns:      []recommender.ScaleEvent{{Change: 2, At: at - 5}},
		Status:          status,
		Pending: &recommender.Pending{
			ID: recommender.ID{1}, At: at, From: 5, To: 8, PreviousDesired: 4, RecordsEvent: true, LongestPeriod: 60, Zero: recommender.ZeroTrue,
			Reason: "pods metric pps above target", Error: "an error",
		},
		Settled: []recommender.Settled{{ID: recommender.ID{2}, Outcome: recommender.Applied}, {ID: recommender.ID{3}, Outcome: recommender.Failed}, {ID: recommender.ID{4}, Outcome: recommender.Dropped}},
		Target:  recommender.ObjectReference{Kind: "Deployment", Name: "web", APIVersion: "apps/v1"},
		Last:    recommender.LastDecision{ID: recommender.ID{1}, At: at, From: 5, To: 8, Reason: "reason", Error: "error", Outcome: recommender.Undecided},
	}
	return Record{History: history, Frame: codec.Frame{
		LastRequest: "request", PendingRequest: "request",
		Answers: []Answer{{
			RequestID: "request", ID: recommender.ID{1}, At: at, From: 5, To: 8, Reason: "reason", Error: "error", Status: recommender.Status{DesiredReplicas: 8},
			Events: []recommender.Event{{Type: recommender.EventWarning, Reason: "FailedGetPodsMetric", Message: "x"}, {Type: recommender.EventNormal, Reason: "SuccessfulRescale", Message: "y"}, {Type: "Other", Reason: "", Message: ""}}, Explanation: []byte("because"),
		}},
	}}
}

func FuzzDecode(f *testing.F) {
	random := newRandom(15)
	f.Add(withoutChecksum(&Record{}))
	for range 20 {
		h := randomRecord(random)
		h.Cluster = random.Uint32()
		f.Add(withoutChecksum(&h))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = Decode(body)
		h, err := Decode(withChecksum(body))
		if err != nil {
			if !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, codec.ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		again, err := Decode(Append(nil, &h))
		if err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("%v\n got %+v\nwant %+v", err, again, h)
		}
	})
}

// The shortest elements of lists must not look longer than they are: many conditions
// that changed at one time, with nothing left of their messages.
func TestTheShortestConditionsComeBack(t *testing.T) {
	t.Parallel()
	h := Record{History: recommender.History{Seen: true, Updated: t0}}
	for range 200 {
		h.Status.Conditions = append(h.Status.Conditions, recommender.Condition{Type: recommender.AbleToScale, Status: recommender.ConditionTrue, Reason: "ReadyForNewScale", Message: "recommended size matches current size", LastTransitionTime: t0})
	}
	back := decode(t, Append(nil, &h))
	if len(back.Status.Conditions) != len(h.Status.Conditions) {
		t.Errorf("%d conditions come back of %d", len(back.Status.Conditions), len(h.Status.Conditions))
	}
}

// Whatever the hash, it comes back, beside all bits of both formats, and takes no room
// where there is none. Versions that do not know it read the rest as before: it lies
// above the bits that they look at.
func TestAHistoryIsKeptWithItsCluster(t *testing.T) {
	t.Parallel()
	random := newRandom(42)
	for _, cluster := range []uint32{0, 1, 0x3ff, 1 << 31, 1<<32 - 1} {
		for range 100 {
			h := randomRecord(random)
			h.Cluster = 0
			without := Append(nil, &h)
			h.Cluster = cluster
			encoded := Append(nil, &h)
			decoded := decode(t, encoded)
			equal(t, "as it is read", decoded, h)
			equal(t, "format", encoded[0], without[0])
			if more := len(encoded) - len(without); more > 5 || cluster == 0 && more != 0 {
				t.Errorf("%x takes %d bytes", cluster, more)
			}
			bits, n := binary.Uvarint(encoded[1:])
			known, m := binary.Uvarint(without[1:])
			equal(t, "the bits of older versions", bits&(1<<10-1), known)
			equal(t, "what follows", encoded[1+n:len(encoded)-4], without[1+m:len(without)-4])
		}
	}
}
