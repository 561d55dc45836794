package transcode_test

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// Texts with a byte replaced, removed or inserted: accepted ones mean the same on the
// slow path.
func TestMutatedTexts(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	requests := subjectOf(&setpointv1.RecommendRequest{})
	text := write(t, metricsRequest())
	others := []byte("\x00\t\n \"\\{}[],:-+.0159eEntuZTaf\x7f\x80\xc3\xff")
	taken := 0
	r := newRandom(5)
	for i := range text {
		mutants := [][]byte{text[:i], slices.Delete(slices.Clone(text), i, i+1)}
		replaced := slices.Clone(text)
		replaced[i] = oneOf(r, others)
		mutants = append(mutants, replaced, slices.Insert(slices.Clone(text), i, oneOf(r, others)))
		for _, mutant := range mutants {
			if requests.toWire(t, mutant) {
				taken++
			}
		}
	}
	if taken < len(text)/2 {
		t.Errorf("%d were taken, of a text of %d bytes", taken, len(text))
	}
}

// Parts of texts are moved to where others are: members are there twice, values of
// one kind where another belongs.
func TestSplicedTexts(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	requests := subjectOf(&setpointv1.RecommendRequest{})
	text := write(t, metricsRequest())
	var joints, commas []int
	for i, b := range text {
		if bytes.IndexByte([]byte(`{}[],:`), b) >= 0 {
			joints = append(joints, i)
		}
		if b == ',' {
			commas = append(commas, i)
		}
	}
	r := newRandom(6)
	taken := 0
	for i := range 6_000 {
		places := joints
		if i%2 == 0 {
			places = commas
		}
		// A piece of up to four such parts, in the place of none to two.
		first := r.IntN(len(places) - 4)
		from, to := places[first], places[first+r.IntN(5)]
		first = r.IntN(len(places) - 4)
		at, end := places[first], places[first+r.IntN(3)]
		if requests.toWire(t, slices.Concat(text[:at], text[from:to], text[end:])) {
			taken++
		}
	}
	if taken < 300 {
		t.Errorf("%d were taken", taken)
	}
}

// The same of encoded messages.
func TestMutatedMessages(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	responses, requests := subjectOf(&setpointv1.RecommendResponse{}), subjectOf(&setpointv1.RecommendRequest{})
	explained := podsRequest(2)
	explained.Explain = true
	for _, u := range []usual{{subject: responses, wire: answer(t, explained)}, {subject: requests, wire: encode(t, metricsRequest())}} {
		r := newRandom(7)
		taken := 0
		for i := range u.wire {
			other := byte(r.IntN(256))
			if chance(r, 50) {
				other = u.wire[i] ^ 1<<r.IntN(8)
			}
			replaced := slices.Clone(u.wire)
			replaced[i] = other
			for _, mutant := range [][]byte{u.wire[:i], slices.Delete(slices.Clone(u.wire), i, i+1), replaced} {
				if u.toJSON(t, mutant) {
					taken++
				}
			}
		}
		if taken < len(u.wire)/4 {
			t.Errorf("%d were taken, of %d bytes", taken, len(u.wire))
		}
	}
}

// Whole numbers in JSON, on both sides of the last one that no other rounds to.
func TestWholeNumbers(t *testing.T) {
	points := subjectOf(&setpointv1.LoadPoint{})
	for _, text := range []string{
		"0", "-0", "1", "-1", "30", "30.0", "30.5", "30e1", "30E-1", "9007199254740991", "9007199254740992", "9007199254740993", "9007199254740995",
		"-9007199254740993", "9223372036854775807", "9223372036854775808", "1e308",
	} {
		if !points.toWire(t, []byte(`{"value":`+text+`}`)) {
			t.Errorf("%s is not taken", text)
		}
	}
	for _, text := range []string{"01", "30.", "30e", "30x", "3 0", "+3"} {
		if points.toWire(t, []byte(`{"value":`+text+`}`)) {
			t.Errorf("%s is taken", text)
		}
	}
}

// Numbers of all sizes and of all forms.
func TestNumbers(t *testing.T) {
	points := subjectOf(&setpointv1.LoadPoint{})
	r := newRandom(8)
	for i := range 20_000 {
		n := math.Float64frombits(r.Uint64())
		if i%2 == 0 {
			n = math.Round(r.NormFloat64()*1e6) / math.Pow10(r.IntN(20))
		}
		if !points.toJSON(t, encode(t, &setpointv1.LoadPoint{Value: n})) {
			t.Errorf("%v is not taken", n)
		}
		if math.IsNaN(n) || math.IsInf(n, 0) {
			continue
		}
		text := strconv.AppendFloat([]byte(`{"value":`), n, "efg"[r.IntN(3)], r.IntN(20)-1, 64)
		text = append(text, '}')
		if !points.toWire(t, text) {
			t.Errorf("%s is not taken", text)
		}
	}
}
