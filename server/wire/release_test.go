package wire_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// What a decision and its history hold stays what it was when the request's memory is
// used again, and deciding changes nothing that later requests share.
func TestDecisionsOutliveTheirRequests(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	r := maker{newRandom(31)}
	type kept struct {
		decision recommender.Decision
		history  recommender.History
		encoded  []byte
		target   string
	}
	encoding := func(k *kept) []byte {
		b, ok := wire.AppendResponse(nil, &k.decision, "")
		if !ok {
			t.Fatalf("not encoded: %+v", k.decision)
		}
		return encoding.AppendHistory(append(b, k.target...), &k.history)
	}
	var all []*kept
	var history *recommender.History
	for i := range 1500 {
		data := encode(t, r.request())
		request, ok := decoder.Decode(data, nil)
		if !ok {
			continue
		}
		k := &kept{target: request.Target + request.RequestID + request.Name.Cluster + request.Name.Target}
		request.Input.ID = recommender.ID{1, byte(i)}
		request.Seed()
		k.decision, k.history = recommender.Recommend(t0.Add(time.Duration(i)*time.Second), &request.Input, history)
		// Behind the backs of decision and history.
		in := &request.Input
		clear(in.Pods)
		clear(in.PodMetrics)
		for j := range in.Readings {
			clear(in.Readings[j].Values)
		}
		clear(in.Readings)
		request.Release()
		for j := range data {
			data[j] = 0xff
		}
		k.encoded = encoding(k)
		all = append(all, k)
		if history = &k.history; i%5 == 0 {
			history = nil
		}
	}
	for i, k := range all {
		if !bytes.Equal(encoding(k), k.encoded) {
			t.Fatalf("decision %d has changed: %+v", i, k.decision)
		}
	}
	again := maker{newRandom(31)}
	for range 500 {
		new(soundness).check(t, decoder, encode(t, again.request()), defaults)
	}
}

// A request that is used again has nothing of the one before.
func TestReleasedRequestsAreEmpty(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	whole, small := full(), podsRequest(0, true)
	whole.Explain, small.RequestId, small.Spec.ScaleTargetRef = false, "", nil
	for range 20 {
		request, ok := decoder.Decode(encode(t, whole), nil)
		if !ok {
			t.Fatal("not taken")
		}
		request.Release()
		if request, ok = decoder.Decode(encode(t, small), nil); !ok {
			t.Fatal("not taken")
		}
		if request.DryRun || request.RestartAfterPause || request.HasEvaluationTime || request.RequestID != "" || !request.EvaluationTime.IsZero() || request.Input.PreviousStatus != nil ||
			!reflect.DeepEqual(request.Input.SelectorProblem, (*recommender.SelectorProblem)(nil)) || request.Input.ScaleError != nil || len(request.Input.Pods) > 0 {
			t.Fatalf("%+v", request)
		}
		request.Release()
	}
}

// Requests are read without allocating by the pod, the sample or the value.
func TestDecodingAllocatesNothingPerPod(t *testing.T) {
	decoder := wire.NewDecoder(defaults)
	for _, pods := range []int{10, 1000} {
		for _, small := range []bool{true, false} {
			data := encode(t, podsRequest(pods, small))
			allocs := testing.AllocsPerRun(50, func() {
				request, ok := decoder.Decode(data, nil)
				if !ok {
					t.Fatal("not taken")
				}
				request.Release()
			})
			// The names of the request and those of the pods. More where a collection empties
			// the pool, as the race detector does.
			if allocs > 30 {
				t.Errorf("%d pods: %v allocations", pods, allocs)
			}
		}
	}
}

// Large requests are read as others are, whatever their parts are like and in which order
// they come, and so are those that use their memory again.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	decoder := wire.NewDecoder(defaults)
	container := func(i int) []byte {
		return bytesField(7, textField(1, string(rune('a'+i%26))), bytesField(2, textField(1, "cpu"), textField(2, strconv.Itoa(1+i))))
	}
	sample := func(i int) []byte {
		return bytesField(4, textField(1, string(rune('a'+i%26))), bytesField(2, textField(1, "cpu"), textField(2, strconv.Itoa(1+i))))
	}
	parts := func(pod, each int, part func(int) []byte) (all []byte) {
		for i := range each {
			all = append(all, part(pod+i)...)
		}
		return all
	}
	for _, tt := range []struct {
		what string
		// containers and samples are how many a pod has, by its number.
		containers, samples func(pod int) int
		// run is how many pods come in a row before as many of their samples.
		run int
	}{
		{"alike", func(int) int { return 1 }, func(int) int { return 2 }, 500},
		{"none", func(int) int { return 0 }, func(int) int { return 0 }, 500},
		{"the first many", func(pod int) int { return max(0, 300-pod*100) }, func(pod int) int { return max(0, 300-pod*100) }, 500},
		{"the last many", func(pod int) int { return max(0, pod-450) }, func(pod int) int { return max(0, pod-450) }, 500},
		{"in turns", func(pod int) int { return 1 + pod%3 }, func(pod int) int { return 1 + pod%3 }, 1},
		{"in several runs", func(pod int) int { return 1 + pod%3 }, func(pod int) int { return 1 + pod%3 }, 100},
	} {
		data := encode(t, podsRequest(0, true))
		for first := 0; first < 500; first += tt.run {
			for pod := first; pod < first+tt.run; pod++ {
				data = message(data, bytesField(6, textField(1, fmt.Sprintf("p%04d", pod)), parts(pod, tt.containers(pod), container)))
			}
			for pod := first; pod < first+tt.run; pod++ {
				data = message(data, bytesField(7, textField(1, fmt.Sprintf("p%04d", pod)), parts(pod, tt.samples(pod), sample)))
			}
		}
		for range 3 {
			if !new(soundness).check(t, decoder, data, defaults) {
				t.Errorf("%s: not taken", tt.what)
			}
		}
		if new(soundness).check(t, decoder, data[:len(data)-1], defaults) {
			t.Errorf("%s: taken although it is cut off", tt.what)
		}
	}
}
