package wire_test

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// message joins encoded fields.
func message(fields ...[]byte) []byte { return slices.Concat(fields...) }

func bytesField(number protowire.Number, value ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), message(value...))
}

func textField(number protowire.Number, text string) []byte { return bytesField(number, []byte(text)) }

func numberField(number protowire.Number, varint ...byte) []byte {
	return append(protowire.AppendTag(nil, number, protowire.VarintType), varint...)
}

// numbers are encoded numbers, also longer than they need be, too large, and cut off.
var numbers = [][]byte{
	{0}, {1}, {0x7f}, {0x80, 1}, {0x81, 0}, {0xff, 0x80, 0}, {0x80}, {0xff, 0xff, 0xff, 0xff, 7},
	{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
	{0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}, {0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2},
	{0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f}, {0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0},
	{0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}, {0x81, 0x80, 0x80, 0x80, 0x10}, {0x81, 0x80, 0x80, 0x80, 0x80, 0x01},
}

// Numbers are read as they are, however they are written, or left.
func TestNumbers(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	base := podsRequest(1, true)
	base.Scale = nil
	for _, n := range numbers {
		pod := func(fields ...[]byte) []byte { return bytesField(6, textField(1, "other"), message(fields...)) }
		for name, more := range map[string][]byte{
			"replicas":   bytesField(3, numberField(1, n...)),
			"status":     bytesField(3, numberField(2, n...)),
			"seconds":    message(bytesField(3), pod(bytesField(3, numberField(1, n...)))),
			"nanos":      message(bytesField(3), pod(bytesField(3, numberField(2, n...)))),
			"deleting":   message(bytesField(3), pod(numberField(4, n...))),
			"dryRun":     message(bytesField(3), numberField(14, n...)),
			"explain":    message(bytesField(3), numberField(15, n...)),
			"generation": message(bytesField(3), bytesField(16, numberField(1, n...))),
			"desired":    message(bytesField(3), bytesField(16, numberField(4, n...))),
			"length":     append([]byte{3<<3 | 2}, n...),
		} {
			data := message(encode(t, base), more)
			if taken := new(soundness).check(t, decoder, data, defaults); taken && n[len(n)-1] >= 0x80 {
				t.Errorf("%s %x is taken", name, n)
			}
		}
	}
}

// Lengths end where their message does.
func TestLengths(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	base := encode(t, podsRequest(1, true))
	window := binary.LittleEndian.AppendUint64([]byte{3<<3 | 1}, math.Float64bits(30))
	usage := func(value string, length ...byte) []byte {
		entry := message(textField(1, "cpu"), []byte{2<<3 | 2}, length, []byte(value))
		return message(base, bytesField(7, textField(1, "x"), bytesField(4, bytesField(2, entry))))
	}
	for _, tt := range []struct {
		what  string
		data  []byte
		taken bool
	}{
		{"a window at the end", message(base, bytesField(7, textField(1, "x"), window)), true},
		{"a window that is cut off", message(base, bytesField(7, textField(1, "x"), window[:8])), false},
		{"a window that is cut off before more", message(base, bytesField(7, textField(1, "x"), window[:8]), bytesField(7, textField(1, "y"))), false},
		{"a short quantity", usage("1", 1), true},
		{"a quantity with a long length", usage("1", 0x81, 0), false},
		{"a quantity with a length that is too long", usage("1", 2), false},
		{"a quantity with a length that is too short", usage("11", 1), false},
		{"a long quantity", usage(strings.Repeat("0", 200)+"1", 0xc9, 1), false},
		{"a quantity that begins in its length", usage("1"+strings.Repeat("0", 199), 0xc8), false},
		{"an empty pod", message(base, bytesField(6)), false},
		{"a length of five bytes", message(base, []byte{6<<3 | 2, 0x83, 0x80, 0x80, 0x80, 0, 1<<3 | 2, 1, 'x'}), false},
		{"a length of four bytes", message(base, []byte{6<<3 | 2, 0x83, 0x80, 0x80, 0, 1<<3 | 2, 1, 'x'}), true},
		{"a group", message(base, []byte{6<<3 | 3, 6<<3 | 4}), false},
		{"field 0", message(base, []byte{2, 1, 'x'}), false},
		{"a tag of two bytes", message(base, []byte{6<<3 | 2 | 0x80, 0, 3, 1<<3 | 2, 1, 'x'}), false},
		{"an unknown field of two bytes", message(base, textField(31, "x")), false},
		{"the uid of a target", message(base, textField(17, "x")), true},
		{"the uid of a target twice", message(base, textField(17, "x"), textField(17, "x")), false},
		{"the uid of a target that is no text", message(base, textField(17, "\xff")), false},
		{"the uid of a target that is too long", message(base, textField(17, strings.Repeat("u", 129))), false},
		{"the tag of a uid that is a number", message(base, numberField(17, 1)), false},
		{"the tag of a previous status that is no message", message(base, numberField(16, 1)), false},
		{"field 144", message(base, bytesField(144)), false},
	} {
		if taken := new(soundness).check(t, decoder, tt.data, defaults); taken != tt.taken {
			t.Errorf("%s: taken %t", tt.what, taken)
		}
	}
}

// Pods share containers that are encoded alike, and no others.
func TestContainersThatAreAlike(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	container := func(name, cpu string) []byte {
		return bytesField(7, textField(1, name), bytesField(2, textField(1, "cpu"), textField(2, cpu)))
	}
	init := func(name string) []byte { return bytesField(8, textField(1, name)) }
	a, b, deleting, overhead := container("a", "1"), container("b", "2"), numberField(4, 1), bytesField(9, textField(1, "cpu"), textField(2, "1"))
	x, y, empty := init("x"), init("y"), bytesField(7)
	for _, tt := range []struct {
		what  string
		pods  [][]byte
		taken bool
	}{
		{"alike", [][]byte{message(a, b), message(a, b), message(a, b)}, true},
		{"more", [][]byte{a, message(a, b), message(a, b, a)}, true},
		{"fewer", [][]byte{message(a, b), a, nil, b}, true},
		{"in another order", [][]byte{message(a, b), message(b, a), message(a, b)}, true},
		{"initial ones", [][]byte{message(a, x, y), message(a, x), message(a, x, y), message(a, y), message(x, y, x)}, true},
		{"empty ones", [][]byte{empty, message(empty, empty), message(empty, empty), empty, message(a, empty)}, true},
		{"scattered", [][]byte{message(a, deleting, b), message(a, deleting, b), message(a, b)}, true},
		{"scattered over overhead", [][]byte{message(a, overhead, b), message(a, overhead, b), message(a, overhead, b)}, true},
		{"scattered later", [][]byte{message(a, b), message(a, b, deleting, a)}, false},
		{"the first, then others", [][]byte{a, message(a, deleting, b)}, false},
		{"initial ones scattered", [][]byte{message(x, deleting, y), message(x, deleting, y), message(x, y)}, true},
		{"after initial ones", [][]byte{message(x, a), message(x, a), message(a, x)}, true},
	} {
		data := encode(t, podsRequest(0, true))
		for i, pod := range tt.pods {
			data = message(data, bytesField(6, textField(1, string(rune('a'+i))), pod))
		}
		if taken := new(soundness).check(t, decoder, data, defaults); taken != tt.taken {
			t.Errorf("%s: taken %t", tt.what, taken)
		}
	}
}

// Where a reading belongs depends on all of its identity, and where its pods come
// from on nothing else.
func TestReadingsThatAreAlike(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	qps, other := &setpointv1.MetricIdentifier{Name: "qps"}, &setpointv1.MetricIdentifier{Name: "other"}
	average := &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("1")}
	pods := &setpointv1.MetricSpec{Type: "Pods", Pods: &setpointv1.PodsMetricSource{Metric: qps, Target: average}}
	podsOther := &setpointv1.MetricSpec{Type: "Pods", Pods: &setpointv1.PodsMetricSource{Metric: other, Target: average}}
	object := func(kind, name, version string) *setpointv1.CrossVersionObjectReference {
		return &setpointv1.CrossVersionObjectReference{Kind: kind, Name: name, ApiVersion: version}
	}
	objectMetric := func(o *setpointv1.CrossVersionObjectReference) *setpointv1.MetricSpec {
		return &setpointv1.MetricSpec{Type: "Object", Object: &setpointv1.ObjectMetricSource{Metric: qps, DescribedObject: o, Target: average}}
	}
	specs := [][]*setpointv1.MetricSpec{
		{pods}, {pods, podsOther}, {pods, pods}, {podsOther},
		{objectMetric(object("Pod", "a", "x/v1")), pods}, {objectMetric(object("Pod", "a", "v1")), pods},
		{objectMetric(object("Namespace", "shop", "v1"))}, {objectMetric(object("Namespace", "kept", "v1"))}, {objectMetric(object("Namespace", "shop", "x/v1"))},
		{objectMetric(object("Service", "a", "v1")), objectMetric(object("Service", "b", "v1"))},
	}
	values := []*setpointv1.CustomMetric{}
	for _, metric := range []*setpointv1.MetricIdentifier{qps, other, {Name: "qps", Selector: &setpointv1.LabelSelector{}}} {
		for _, o := range []*setpointv1.CrossVersionObjectReference{
			object("Pod", "a", "v1"), object("Pod", "b", "v1"), object("Pod", "b", "x/v1"), object("Pod", "a", "x/v1"), object("Pod", "", ""), object("pod", "a", "v1"),
			object("Namespace", "shop", "v1"), object("Namespace", "kept", "v1"), object("Namespace", "n", "v1"), object("Namespace", "shop", "x/v1"),
			object("Service", "a", "v1"), object("Service", "b", ""),
		} {
			values = append(values, &setpointv1.CustomMetric{Metric: metric, DescribedObject: o, Value: "1"})
		}
	}
	r := newRandom(51)
	for _, spec := range specs {
		for _, target := range []string{"clusters/c/namespaces/shop/targets/t", "clusters/c/namespaces/n/targets/t", "clusters/c/namespaces/other/targets/t"} {
			for range 20 {
				req := podsRequest(2, true)
				req.Target, req.Spec.Metrics = target, spec
				for range 10 {
					req.CustomMetrics = append(req.CustomMetrics, oneOf(r, values...))
				}
				if !new(soundness).check(t, decoder, encode(t, req), defaults) {
					t.Fatalf("not taken: %v", req)
				}
			}
		}
	}
}

// A metric error may be of the namespace's own object.
func TestErrorsOfNamespaces(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	for _, namespace := range []string{"shop", "n", "other"} {
		for _, name := range []string{"shop", "n", "kept"} {
			req := podsRequest(1, true)
			req.Target = "clusters/c/namespaces/" + namespace + "/targets/t"
			described := &setpointv1.CrossVersionObjectReference{Kind: "Namespace", Name: "kept", ApiVersion: "v1"}
			req.Spec.Metrics = []*setpointv1.MetricSpec{{Type: "Object", Object: &setpointv1.ObjectMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "qps"}, DescribedObject: described,
				Target: &setpointv1.MetricTarget{Type: "Value", Value: new("1")},
			}}}
			req.MetricErrors = []*setpointv1.MetricError{{Metric: "qps", Message: "away", DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Namespace", Name: name, ApiVersion: "v1"}}}
			data := encode(t, req)
			_, _, violations := long(data, defaults)
			if taken := new(soundness).check(t, decoder, data, defaults); taken != (len(violations) == 0) {
				t.Errorf("of %s in %s: taken %t, the slow path: %v", name, namespace, taken, violations)
			}
		}
	}
}

// A selector that is taken for one that parses does, and the usual ones are.
func TestSelectors(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	r := newRandom(52)
	texts := []string{"", "app", "a.b/app", "A", "in", "notin", "_", "-", "a-", "a_b", "a.b", ".a", "=", ",", "!", " ", "(", ")", "é", "web", "a.-b/c", "a_b/c", "A.b/c", "a/b/c", "/c", "a/",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253) + "/b", strings.Repeat("a", 254) + "/b", "a." + strings.Repeat("b", 251) + "/c"}
	for range 1500 {
		selector := ""
		for i := range 1 + r.IntN(3) {
			if i > 0 {
				selector += oneOf(r, ",", ",", ",", ",,")
			}
			selector += oneOf(r, texts...) + oneOf(r, "=", "=", "=", "==", "", "!=") + oneOf(r, texts...)
		}
		req := podsRequest(0, true)
		req.Scale.Selector = selector
		if !new(soundness).check(t, decoder, encode(t, req), defaults) {
			t.Fatalf("%q is not taken", selector)
		}
	}
	for _, n := range []int{4096, 4097, 8100, 65536, 65537} {
		req := podsRequest(0, true)
		req.Scale.Selector = strings.Repeat("a=b,", n/4) + "a=b,a"[:n%4]
		req.Scale.Selector = strings.TrimSuffix(req.GetScale().GetSelector(), ",")
		new(soundness).check(t, decoder, encode(t, req), defaults)
	}
}

// Statuses are read with all that is in them.
func TestPreviousStatuses(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	r := maker{newRandom(53)}
	var seen soundness
	for i := range 3000 {
		status := r.status()
		if i%3 > 0 {
			wrapped := &setpointv1.RecommendRequest{PreviousStatus: status}
			odd(r.Rand, wrapped)
			if status = wrapped.GetPreviousStatus(); status == nil {
				continue
			}
		}
		data, err := proto.Marshal(status)
		if err != nil {
			continue
		}
		if i%5 == 0 {
			data = mangle(r.Rand, data, status.ProtoReflect().Descriptor())
		}
		data = message(encode(t, podsRequest(1, true)), bytesField(16, data))
		_, _, violations := long(data, defaults)
		if !seen.check(t, decoder, data, defaults) && len(violations) == 0 && i%15 > 0 && i%3 == 0 {
			t.Fatalf("not taken: %v", status)
		}
	}
	if seen.taken < 500 || seen.refused < 5 {
		t.Errorf("this tries little: %+v", seen)
	}
}

// A status names the one source that its type does; what else is in it need not even
// be readable.
func TestSourcesOfStatuses(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	base := encode(t, podsRequest(1, true))
	current := bytesField(2, textField(2, "1"))
	broken := textField(1, "\xff")
	types := []string{"", "Object", "Pods", "Resource", "ContainerResource", "External", "Other"}
	fields := []protowire.Number{0, 2, 3, 4, 5, 6}
	for _, of := range types {
		for _, number := range fields {
			for what, source := range map[string][]byte{
				"usual": message(textField(1, "x"), current), "broken": broken, "empty": nil, "twice": message(current, bytesField(2, textField(1, "2"))),
				"third": message(current, textField(3, "x")), "metric": bytesField(1, textField(1, "qps")), "memory": textField(1, "memory"),
			} {
				metric := textField(1, of)
				if of == "" {
					metric = nil
				}
				if number > 0 {
					metric = message(metric, bytesField(number, source))
				}
				for _, other := range []protowire.Number{number, 2 + number%5} {
					// One more before it.
					for _, more := range [][]byte{broken, current} {
						new(soundness).check(t, decoder, message(base, bytesField(16, bytesField(5, bytesField(max(2, other), more), metric))), defaults)
					}
				}
				taken := new(soundness).check(t, decoder, message(base, bytesField(16, bytesField(5, metric))), defaults)
				if usual := number > 0 && int(number) == slices.Index(types, of)+1 && what == "usual" && number > 3 && number < 6; usual && !taken {
					t.Errorf("%s, field %d, %s: not taken", of, number, what)
				}
			}
		}
	}
}
