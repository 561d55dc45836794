package fleet

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
)

// digest is any digest of a spec.
func (r random) digest(metrics int) Digest {
	number := func() int64 {
		return oneOf(r, 0, 1, int64(r.IntN(1000)), r.Int64(), -r.Int64(), math.MaxInt64, math.MinInt64)
	}
	pods := func() int32 { return int32(oneOf(r, 0, r.IntN(10), r.IntN(1000), MostPods)) }
	group := func() recommender.GroupSums {
		if r.chance(30) {
			return recommender.GroupSums{}
		}
		g := recommender.GroupSums{Pods: pods(), Requests: number(), Filled: number()}
		if r.chance(50) {
			g.Filled = g.Requests
		}
		return g
	}
	d := Digest{
		Version: r.Uint64(), Scale: recommender.Scale{SpecReplicas: int32(number()), StatusReplicas: int32(number())},
		Pods: pods(), Ready: pods(), Placed: pods(), Unplaced: pods(), Metrics: make([]MetricDigest, metrics),
	}
	for i := range d.Metrics {
		m := &d.Metrics[i]
		if r.chance(30) {
			m.Total = Total{Series: int32(r.between(1, 50)), Sum: number(), Low: min(0, number()), High: max(0, number()), Beyond: max(0, number()) * int64(r.IntN(2))}
			continue
		}
		m.Sums = recommender.MetricSums{
			Ready: group(), Missing: group(), Unready: group(), Ignored: pods(), Unlisted: pods(), Sampled: r.chance(90),
			UsageWraps: r.chance(5), RequestsWrap: r.chance(5),
		}
		m.Sums.Ready.Usage, m.Sums.UnlistedUsage, m.Sums.Unready.Filled = number(), number(), 0
	}
	return d
}

func TestDigestsKeepTheirNumbers(t *testing.T) {
	r := newRandom(11)
	for range 20_000 {
		d := r.digest(r.IntN(6))
		b := AppendDigest(nil, &d)
		if most := 60 + 100*len(d.Metrics); len(b) > most {
			t.Fatalf("%d bytes, want at most %d: %+v", len(b), most, d)
		}
		got, err := DecodeDigest(b)
		if err != nil || !reflect.DeepEqual(got, d) {
			t.Fatalf("%v:\n got %+v\nwant %+v", err, got, d)
		}
		// Nothing that is cut is a digest.
		if _, err := DecodeDigest(b[:r.IntN(len(b))]); err == nil {
			t.Fatalf("a part of %x decodes", b)
		}
	}
}

func TestDigestTextsAreBounded(t *testing.T) {
	d := newRandom(12).digest(MaxMetrics)
	for i := range d.Metrics {
		d.Metrics[i] = MetricDigest{Error: strings.Repeat("ä", 200), Sums: recommender.MetricSums{NoRequest: "no request"}}
	}
	b := AppendDigest(nil, &d)
	if most := MaxTexts + 16*len(d.Metrics); len(b) > most {
		t.Errorf("%d bytes, want at most %d", len(b), most)
	}
	got, err := DecodeDigest(b)
	fatal.If(t, err)
	if text := got.Metrics[0].Error; !strings.HasSuffix(text, "ä"+cutOff) || len(text) > MaxTexts {
		t.Errorf("%q", text)
	}
	if m := got.Metrics[MaxMetrics-1]; m.Error == "" || m.Sums.NoRequest == "" {
		t.Errorf("an error is lost: %+v", m)
	}
}

func TestNewerFormatsAreTold(t *testing.T) {
	if _, err := DecodeDigest([]byte{2, 0}); err != ErrFormat {
		t.Errorf("digest: %v, want %v", err, ErrFormat)
	}
	if _, err := DecodeRecord(make([]byte, 9)); err != ErrFormat {
		t.Errorf("record: %v, want %v", err, ErrFormat)
	}
	b := AppendRecord(nil, &Record{})
	b[len(b)-1]++
	if _, err := DecodeRecord(b); err != ErrCorrupt {
		t.Errorf("record: %v, want %v", err, ErrCorrupt)
	}
}

// largest is a fleet after a hundred periods, the record and the last digests.
func largest(t testing.TB, members, metrics int) (*Spec, Record, []Digest) {
	t.Helper()
	r := newRandom(13)
	s := r.spec(members)
	s.Engine.MinReplicas, s.Engine.MaxReplicas, s.Options.Profile = 1, 2000, nil
	s.Engine.Metrics = []recommender.MetricSpec{utilization(60), resourceAverage("memory", 300*mebi), podsAverage(200_000), external(true, 30_000)}[:metrics]
	s.Engine.Behavior = &recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: recommender.DefaultScaleDown()}
	s.Scopes = nil
	var record Record
	digests := make([]Digest, members)
	now := t0
	for range 100 {
		now = now.Add(s.Period)
		for i := range digests {
			in := r.input(s, now, 10)
			for k := range in.Readings { // as a rule
				in.Readings[k].Error, in.Readings[k].SelectorError = "", ""
			}
			for k := range in.Pods {
				in.Pods[k].Containers[0].Name = "app"
			}
			var err error
			digests[i], err = NewDigest(now, in, s.Members[i].Name, s.Version)
			fatal.If(t, err)
			next, _, err := Step(now, s, &record, &Call{Member: s.Members[i].Name, Digest: digests[i], ID: recommender.ID{byte(i), byte(now.Unix())}})
			fatal.If(t, err)
			record = next
		}
	}
	return s, record, digests
}

func TestRecordsAreSmall(t *testing.T) {
	_, record, _ := largest(t, MaxMembers, 4)
	b := AppendRecord(nil, &record)
	t.Logf("%d bytes for %d members × 4 metrics, %d of them history", len(b), MaxMembers, len(encoding.AppendHistory(nil, record.History)))
	if len(b) > 30_000 {
		t.Errorf("%d bytes, want at most 30,000", len(b))
	}
	// And where every number is as long as it can be.
	worst := record
	worst.Members = slices.Clone(worst.Members)
	for i := range worst.Members {
		d := Digest{Version: 1, Scale: recommender.Scale{SpecReplicas: math.MaxInt32, StatusReplicas: math.MaxInt32}, Pods: MostPods, Ready: MostPods, Placed: MostPods, Unplaced: MostPods}
		group := recommender.GroupSums{Pods: MostPods, Requests: math.MinInt64, Filled: 0}
		for range 4 {
			m := MetricDigest{Sums: recommender.MetricSums{Ready: group, Missing: group, Unready: group, Ignored: MostPods, Unlisted: MostPods, UnlistedUsage: math.MinInt64}}
			m.Sums.Ready.Usage = math.MinInt64
			d.Metrics = append(d.Metrics, m)
		}
		worst.Members[i].Digest = AppendDigest(nil, &d)
	}
	b = AppendRecord(nil, &worst)
	t.Logf("%d bytes where every number is the longest", len(b))
	if len(b) > 34_000 {
		t.Errorf("%d bytes, want at most 34,000", len(b))
	}
}

func FuzzDigest(f *testing.F) {
	r := newRandom(14)
	for range 20 {
		d := r.digest(r.IntN(5))
		f.Add(AppendDigest(nil, &d))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := DecodeDigest(b)
		if err != nil {
			return
		}
		again, err := DecodeDigest(AppendDigest(nil, &d))
		if err != nil || !reflect.DeepEqual(again, d) {
			t.Fatalf("%v:\n got %+v\nwant %+v", err, again, d)
		}
		// What decodes can be decided with.
		s := newRandom(15).spec(2)
		s.Version, s.Engine.Metrics = d.Version, s.Engine.Metrics[:min(len(s.Engine.Metrics), len(d.Metrics))]
		s.Scopes = nil
		d.Metrics = d.Metrics[:len(s.Engine.Metrics)]
		record := Record{}
		for i := range s.Members {
			next, _, err := Step(t0, s, &record, &Call{Member: s.Members[i].Name, Digest: d, ID: recommender.ID{1}})
			fatal.If(t, err)
			record = next
		}
	})
}

func FuzzRecord(f *testing.F) {
	_, record, _ := largest(f, 3, 2)
	f.Add(AppendRecord(nil, &record)[1:])
	f.Fuzz(func(t *testing.T, body []byte) {
		record, err := DecodeRecord(seal(body))
		if err != nil {
			return
		}
		b := AppendRecord(nil, &record)
		again, err := DecodeRecord(b)
		if err != nil || !bytes.Equal(AppendRecord(nil, &again), b) {
			t.Fatalf("%v: %+v", err, again)
		}
	})
}
