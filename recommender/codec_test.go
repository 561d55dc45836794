package recommender

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"hash/crc32"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEncodingKeepsEverything(t *testing.T) {
	random := newRandom(10)
	for range 3000 {
		h := random.history()
		prefix := []byte("before")
		encoded := h.AppendBinary(prefix)
		if !bytes.HasPrefix(encoded, prefix) {
			t.Fatal("it does not append")
		}
		got, err := DecodeHistory(encoded[len(prefix):])
		if err != nil || !reflect.DeepEqual(got, h) {
			t.Fatalf("%v\n got %+v\nwant %+v", err, got, h)
		}
		if again := got.AppendBinary(nil); !bytes.Equal(again, encoded[len(prefix):]) {
			t.Fatalf("encoded again:\n got %x\nwant %x", again, encoded[len(prefix):])
		}
	}
	zero, err := DecodeHistory((&History{}).AppendBinary(nil))
	if err != nil || !reflect.DeepEqual(zero, History{}) {
		t.Errorf("the zero history: %v, %+v", err, zero)
	}
}

// What is decided next must not depend on whether the history was read back in between.
func TestAsStoredIsWhatIsReadBack(t *testing.T) {
	random := newRandom(14)
	check := func(h *History) {
		t.Helper()
		want, err := DecodeHistory(h.AppendBinary(nil))
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.AsStored()
		for _, x := range []*History{&got, &want} { // none is as good as an empty one
			x.Recommendations = append([]TimedRecommendation{}, x.Recommendations...)
			x.ScaleUps, x.ScaleDowns = append([]ScaleEvent{}, x.ScaleUps...), append([]ScaleEvent{}, x.ScaleDowns...)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n got %+v\nwant %+v", err, got, want)
		}
	}
	for i := range 3000 {
		h := random.history()
		if i%2 == 0 && len(h.Status.Conditions) > 0 {
			h.Status.Conditions[0].Message = strings.Repeat("é", MaxStoredText)
			h.Last.Reason = h.Status.Conditions[0].Message
			h.Updated = time.Now() // which has a monotonic reading, and a place
			h.Status.LastScaleTime = h.Updated.Add(-time.Minute)
		}
		check(&h)
	}
	// As histories come about.
	for range 20 {
		in := workload(cpuUtilization(60), 10, 500, each(10, 300))
		in.Spec.Behavior = defaultBehavior()
		in.Options.HistoryLimit = random.between(8, 40)
		x := &target{in: in}
		for i := range 100 {
			for j := range in.PodMetrics {
				in.PodMetrics[j].Containers[0].Usage[0].Milli = int64(random.between(100, 700))
			}
			if d := x.recommend(t, time.Duration(i)*5*time.Second); d.Changes() && i%3 > 0 {
				x.settle(t, d)
			}
			check(&x.history)
		}
	}
}

func TestADecodedHistorySharesNoMemory(t *testing.T) {
	random := newRandom(11)
	h := random.history()
	encoded := h.AppendBinary(nil)
	got, _ := DecodeHistory(encoded)
	clear(encoded)
	equal(t, "the history", got, h)
}

func TestEveryDamageIsAnError(t *testing.T) {
	random := newRandom(12)
	for range 12 {
		h := random.history()
		encoded := h.AppendBinary(nil)
		for cut := range encoded {
			if _, err := DecodeHistory(encoded[:cut]); !errors.Is(err, ErrHistoryCorrupt) {
				t.Fatalf("cut at %d of %d: %v", cut, len(encoded), err)
			}
		}
		for bit := range 8 * len(encoded) {
			encoded[bit/8] ^= 1 << (bit % 8)
			want := ErrHistoryCorrupt
			if bit < 8 {
				want = ErrHistoryFormat
			}
			if _, err := DecodeHistory(encoded); !errors.Is(err, want) {
				t.Fatalf("bit %d flipped: %v", bit, err)
			}
			encoded[bit/8] ^= 1 << (bit % 8)
		}
		if _, err := DecodeHistory(append(encoded, 0)); !errors.Is(err, ErrHistoryCorrupt) {
			t.Fatalf("with a byte too many: %v", err)
		}
	}
}

func TestAnotherFormatIsNamed(t *testing.T) {
	encoded := (&History{Seen: true}).AppendBinary(nil)
	encoded[0] = 3
	_, err := DecodeHistory(encoded)
	if !errors.Is(err, ErrHistoryFormat) || errors.Is(err, ErrHistoryCorrupt) || err.Error() != "unknown history format 3: this version reads formats 1 and 2" {
		t.Error(err)
	}
	if _, err := DecodeHistory([]byte{3}); !errors.Is(err, ErrHistoryFormat) {
		t.Errorf("the format alone: %v", err)
	}
}

// What is damaged before it gets its checksum: no panic, and no large allocation
// for a length that can't be.
func TestFieldsThatDoNotAddUp(t *testing.T) {
	body := func(b ...byte) []byte { return b }
	epoch := withoutChecksum(&History{Updated: time.Unix(0, 0).UTC()}) // 1, 0, 0 seconds, 0 nanoseconds, …
	tooLate := slices.Concat(epoch[:3], binary.AppendUvarint(nil, 1e9), epoch[4:])
	hugeLength := binary.AppendUvarint(nil, 1<<40)
	for name, b := range map[string][]byte{
		"nothing after the format":     body(1),
		"a number without end":         body(1, 0x80),
		"a number too large":           append(body(1), bytes.Repeat([]byte{0xff}, 11)...),
		"a second of 1e9 nanoseconds":  tooLate,
		"a list longer than the bytes": append(body(1, 0, 0, 0), hugeLength...),
		"a byte left over":             append(withoutChecksum(&History{}), 0),
		"a wrong outcome":              append(append(withoutChecksum(&History{})[:len(withoutChecksum(&History{}))-2], 5), 0),
		"all zeros":                    append(body(1), make([]byte, 9)...),
		"format 2 without a limit":     append(body(2, 0, 0, 0, 0), withoutChecksum(&History{})[4:]...),
	} {
		if _, err := DecodeHistory(withChecksum(b)); !errors.Is(err, ErrHistoryCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	allocated := testing.AllocsPerRun(10, func() { _, _ = DecodeHistory(withChecksum(append(body(1, 0, 0, 0), hugeLength...))) })
	if allocated > 20 {
		t.Errorf("a wrong length makes %v allocations", allocated)
	}
}

func withoutChecksum(h *History) []byte {
	encoded := h.AppendBinary(nil)
	return encoded[:len(encoded)-4]
}

func withChecksum(body []byte) []byte {
	return binary.LittleEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

func TestAUsualHistoryIsSmall(t *testing.T) {
	in := workload(cpuUtilization(60), 10, 500, each(10, 300))
	in.Spec.Behavior = defaultBehavior()
	x := &target{in: in}
	random := newRandom(13)
	for i := range 20 {
		for j := range in.PodMetrics {
			in.PodMetrics[j].Containers[0].Usage[0].Milli = int64(random.between(250, 350))
		}
		d := x.recommend(t, time.Duration(i)*15*time.Second)
		if d.Changes() {
			x.settle(t, d)
		}
	}
	size := len(x.history.AppendBinary(nil))
	t.Logf("%d recommendations of one cpu metric take %d bytes", len(x.history.Recommendations), size)
	if size >= 500 {
		t.Errorf("%d bytes, want less than 500", size)
	}
}

var update = flag.Bool("update", false, "rewrite the files in testdata")

// A history as the first version wrote it must be read for ever. Once released,
// a difference here needs a new format, not a rewritten file.
func TestFormat1StaysReadable(t *testing.T) {
	const file = "testdata/history-format-1.hex"
	h := historyOfFormat1()
	if *update {
		if err := os.WriteFile(file, []byte(hex.EncodeToString(h.AppendBinary(nil))+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeHistory(encoded)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the history", got, h)
	equal(t, "its encoding", h.AppendBinary(nil), encoded)
}

// historyOfFormat1 has a value in every field and every word of the vocabularies.
func historyOfFormat1() History {
	at := t0.UnixNano()
	status := Status{
		ObservedGeneration: ptr(int64(3)), LastScaleTime: t0.Add(-time.Hour), CurrentReplicas: 5, DesiredReplicas: 8,
		CurrentMetrics: []MetricStatus{
			{Type: ResourceMetric, Resource: "cpu", Current: MetricValue{AverageValue: 450, HasAverageValue: true, AverageUtilization: 90, HasAverageUtilization: true}},
			{Type: ContainerResourceMetric, Resource: "memory", Container: "app", Current: MetricValue{AverageValue: mebi, HasAverageValue: true, Binary: true}},
			{Type: PodsMetric, Metric: MetricIdentifier{Name: "pps"}},
			{Type: ObjectMetric, Metric: MetricIdentifier{Name: "rps"}, DescribedObject: ObjectReference{"Service", "front", "v1"}, Current: MetricValue{Value: -7, HasValue: true}},
			{Type: ExternalMetric, Metric: MetricIdentifier{Name: "queue", Selector: &LabelSelector{
				MatchLabels: []Label{{"a", "b"}}, MatchExpressions: []LabelRequirement{{"k", "In", []string{"x", "y"}}},
			}}},
			{},
		},
		Conditions: []Condition{{"Other", "Maybe", "Because", "so", t0}},
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
		status.Conditions = append(status.Conditions, Condition{kinds[i%4], states[i%3], text[0], text[1], t0.Add(time.Duration(i))})
	}
	return History{
		Seen: true, Initialized: true, Updated: t0, Since: at - 3600e9,
		Recommendations: []TimedRecommendation{{5, at - 30e9}, {8, at}, {6, at - 15e9}},
		ScaleUps:        []ScaleEvent{{Change: 3, Outdated: false, At: at}, {Change: 1, Outdated: true, At: at - 60e9}},
		ScaleDowns:      []ScaleEvent{{Change: 2, At: at - 5}},
		Status:          status,
		Pending: &Pending{
			ID: ID{1}, At: at, From: 5, To: 8, PreviousDesired: 4, RecordsEvent: true, LongestPeriod: 60, Zero: ZeroTrue,
			Reason: "pods metric pps above target", RequestID: "request", Error: "an error",
		},
		Settled: []Settled{{ID{2}, Applied}, {ID{3}, Failed}, {ID{4}, Dropped}},
		Target:  ObjectReference{"Deployment", "web", "apps/v1"},
		Last:    LastDecision{ID{1}, "request", at, 5, 8, "reason", "error", Undecided},
		Answers: []Answer{{
			RequestID: "request", ID: ID{1}, At: at, From: 5, To: 8, Reason: "reason", Error: "error", Status: Status{DesiredReplicas: 8},
			Events: []Event{{EventWarning, "FailedGetPodsMetric", "x"}, {EventNormal, "SuccessfulRescale", "y"}, {"Other", "", ""}}, Explanation: []byte("because"),
		}},
	}
}

func FuzzDecodeHistory(f *testing.F) {
	random := newRandom(15)
	f.Add(withoutChecksum(&History{}))
	for range 20 {
		h := random.history()
		h.Cluster = random.Uint32()
		f.Add(withoutChecksum(&h))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = DecodeHistory(body)
		h, err := DecodeHistory(withChecksum(body))
		if err != nil {
			if !errors.Is(err, ErrHistoryCorrupt) && !errors.Is(err, ErrHistoryFormat) {
				t.Fatal(err)
			}
			return
		}
		again, err := DecodeHistory(h.AppendBinary(nil))
		if err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("%v\n got %+v\nwant %+v", err, again, h)
		}
	})
}

// The shortest elements of lists must not look longer than they are: many conditions
// that changed at one time, with nothing left of their messages.
func TestTheShortestConditionsComeBack(t *testing.T) {
	t.Parallel()
	h := History{Seen: true, Updated: t0}
	for range 200 {
		h.Status.Conditions = append(h.Status.Conditions, Condition{AbleToScale, ConditionTrue, "ReadyForNewScale", "recommended size matches current size", t0})
	}
	back, err := DecodeHistory(h.AppendBinary(nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Status.Conditions) != len(h.Status.Conditions) {
		t.Errorf("%d conditions come back of %d", len(back.Status.Conditions), len(h.Status.Conditions))
	}
}
