package recommender

import (
	"reflect"
	"testing"
	"time"
)

// TestSummedAreTheSums asks for the sums of random decisions: those that are given are SumsAt's, and no decision differs.
// Nor does one on the sums where the pods are listed, too.
func TestSummedAreTheSums(t *testing.T) {
	r := newRandom(33)
	given := 0
	for i := range 3000 {
		in := r.input()
		if !in.Options.profile().AddsUp() {
			continue
		}
		now := time.Unix(1_700_000_000+int64(i), 0)
		var history History
		want, wantNext := Recommend(now, in, &history)
		var sums Sums
		sums.ResetFor(in)
		in.Summed = &sums
		got, next := Recommend(now, in, &history)
		in.Summed = nil
		want.Explanation, got.Explanation = nil, nil // with ratios that are no numbers
		if !reflect.DeepEqual(want, got) || !reflect.DeepEqual(wantNext, next) {
			t.Fatalf("input %d: another decision\n%+v\n%+v", i, got, want)
		}
		all := in.SumsAt(got.At, "")
		if sums.Pods != all.Pods || sums.Ready != all.Ready {
			t.Fatalf("input %d: %d pods, %d ready; want %d and %d", i, sums.Pods, sums.Ready, all.Pods, all.Ready)
		}
		beside, alone := *in, *in
		beside.Sums, alone.Sums, alone.Pods, alone.PodMetrics = &all, &all, nil, nil
		got, _ = Recommend(now, &beside, &history)
		listed := want
		want, _ = Recommend(now, &alone, &history)
		want.Explanation, got.Explanation = nil, nil
		if !reflect.DeepEqual(want, listed) {
			t.Fatalf("input %d: the sums alone decide otherwise than the pods\n%+v\n%+v", i, want, listed)
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("input %d: pods beside their sums count\n%+v\n%+v", i, got, want)
		}
		for k := range sums.Metrics {
			if !sums.Metrics[k].Sampled {
				continue
			}
			if given++; sums.Metrics[k] != all.Metrics[k] {
				t.Fatalf("input %d metric %d:\n%+v\nwant\n%+v", i, k, sums.Metrics[k], all.Metrics[k])
			}
		}
	}
	if given < 500 {
		t.Errorf("only %d metrics gave their sums", given)
	}
}
