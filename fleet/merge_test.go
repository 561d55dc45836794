package fleet

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
)

// union is one input with all pods of the members, named member/pod, and all readings, as one cluster would
// have them. A member that can't read its pods has pods without samples. Of an Object or External metric of
// which a part is missing there are two: with what is known of it, and failed.
func union(s *Spec, members []*recommender.Input) (in *recommender.Input, failed map[int]recommender.Readings) {
	in = &recommender.Input{
		Namespace: s.Namespace, Spec: s.Engine, Options: s.Options,
		Readings: make([]recommender.Readings, len(s.Engine.Metrics)),
	}
	away := ""
	for i, m := range members {
		name := s.Members[i].Name + "/"
		in.Scale.SpecReplicas += m.Scale.SpecReplicas
		in.Scale.StatusReplicas += m.Scale.StatusReplicas
		for _, p := range m.Pods {
			p.Name = name + p.Name
			in.Pods = append(in.Pods, p)
		}
		reads := true
		for k := range m.Readings {
			if t := s.Engine.Metrics[k].Type; (t == recommender.ResourceMetric || t == recommender.ContainerResourceMetric) && m.Readings[k].Error != "" {
				reads = false
				setFirst(&away, m.Readings[k].Error)
			}
		}
		for _, sample := range m.PodMetrics {
			if sample.Pod = name + sample.Pod; reads {
				in.PodMetrics = append(in.PodMetrics, sample)
			}
		}
	}
	failed = map[int]recommender.Readings{}
	for k := range s.Engine.Metrics {
		metric, all := &s.Engine.Metrics[k], &in.Readings[k]
		switch {
		case metric.Type == recommender.PodsMetric:
			problem := ""
			for i, m := range members {
				setFirst(&problem, m.Readings[k].Error)
				setFirst(&all.SelectorError, m.Readings[k].SelectorError)
				for _, v := range m.Readings[k].Values {
					v.Pod = s.Members[i].Name + "/" + v.Pod
					all.Values = append(all.Values, v)
				}
			}
			if len(all.Values) == 0 {
				all.Error = problem
			}
		case !IsTotal(metric):
			if len(in.PodMetrics) == 0 {
				all.Error = away
			}
		default:
			var good, bad []*recommender.Readings
			for _, m := range members {
				if r := &m.Readings[k]; r.Error != "" || r.SelectorError != "" || len(r.Values) == 0 || metric.Type == recommender.ObjectMetric && len(r.Values) != 1 {
					bad = append(bad, r)
				} else {
					good = append(good, r)
				}
			}
			switch {
			case s.scope(k) == Global && len(good) > 0:
				*all = *good[0] // all are as new as each other
				continue
			case len(good) == 0:
				*all = *bad[0]
				if told := slices.IndexFunc(bad, func(r *recommender.Readings) bool { return !strings.Contains(r.Error, "told nothing") }); s.scope(k) == Global && told >= 0 {
					*all = *bad[told]
				}
			}
			for i, r := range good {
				if metric.Type == recommender.ObjectMetric && i > 0 {
					all.Values = []recommender.Value{{Milli: all.Values[0].Milli + r.Values[0].Milli}}
					continue
				}
				all.Values = append(slices.Clip(all.Values), r.Values...)
			}
			malformed := slices.IndexFunc(bad, func(r *recommender.Readings) bool { return r.SelectorError != "" })
			switch {
			case malformed >= 0 && s.scope(k) == PerMember:
				*all = recommender.Readings{SelectorError: bad[malformed].SelectorError}
			case len(bad) > 0 && len(good) > 0:
				failed[k] = *bad[0]
			}
		}
	}
	return in, failed
}

// decideUnion decides with one engine. A metric of which a part is missing fails, unless what is known
// proposes more replicas than there are.
func decideUnion(now time.Time, in *recommender.Input, failed map[int]recommender.Readings, h *recommender.History) (recommender.Decision, recommender.History) {
	d, next := recommender.Recommend(now, in, h)
	if len(failed) == 0 || len(d.Explanation.Metrics) == 0 {
		return d, next
	}
	for k, readings := range failed {
		if m := d.Explanation.Metrics[k]; m.Failure != nil || m.Proposal <= d.Current {
			in.Readings[k] = readings
		}
	}
	return recommender.Recommend(now, in, h)
}

// steps is how many random steps each property takes.
func steps(t *testing.T) int {
	if testing.Short() {
		return 2_000
	}
	t.Helper()
	return 20_000
}

func TestDigestsDecideAsAllPods(t *testing.T) {
	r := newRandom(1)
	paths, partial, silent, done := map[recommender.Path]int{}, 0, 0, 0
	for done < steps(t) {
		s := r.spec(r.between(2, 8))
		var one, many recommender.History
		at := t0
		replicas := make([]int32, len(s.Members))
		for i := range replicas {
			replicas[i] = int32(r.IntN(6))
		}
		for range r.between(5, 30) {
			done++
			inputs, parts := make([]*recommender.Input, len(s.Members)), make([]part, len(s.Members))
			for i := range inputs {
				inputs[i] = r.input(s, at, replicas[i])
				digest, err := NewDigest(at, inputs[i], s.Members[i].Name, s.Version)
				fatal.If(t, err)
				digest, err = DecodeDigest(AppendDigest(nil, &digest))
				fatal.If(t, err)
				parts[i] = part{digest: &digest, at: at.UnixNano(), replicas: digest.Scale}
			}
			if r.chance(20) {
				i := r.IntN(len(parts))
				silent++
				mute(t, s, at, inputs[i], i, &parts[i], len(parts))
			}
			id := recommender.ID{1, byte(done >> 16), byte(done >> 8), byte(done)}
			in, failed := union(s, inputs)
			in.ID, in.Explain = id, true
			if len(failed) > 0 {
				partial++
			}
			want, wantNext := decideUnion(at, in, failed, &one)
			merged, doubts := s.unite(new(work), parts, id)
			merged.Explain = true
			got, gotNext := s.decide(at, merged, doubts, &many)
			forgetPods(&want)
			forgetPods(&got)
			if d := difference("decision", reflect.ValueOf(got), reflect.ValueOf(want)); d != "" {
				t.Fatalf("step %d: %s\n got %+v\nwant %+v", done, d, got.Explanation, want.Explanation)
			}
			if !slices.Equal(encoding.AppendHistory(nil, &gotNext), encoding.AppendHistory(nil, &wantNext)) {
				t.Fatalf("step %d: history %+v\nwant %+v", done, gotNext, wantNext)
			}
			paths[got.Path]++
			if got.Changes() && r.chance(80) {
				shares := Split(seatsOf(s, replicas), got.Desired, 0)
				replicas = shares.Of
				if r.chance(50) {
					_, wantNext, _ = recommender.Settle(wantNext, s.Namespace, id, recommender.Applied, "")
					_, gotNext, _ = recommender.Settle(gotNext, s.Namespace, id, recommender.Applied, "")
				}
			}
			if r.chance(5) {
				replicas[r.IntN(len(replicas))] = int32(r.IntN(20)) // someone else
			}
			one, many = wantNext, gotNext
			at = at.Add(time.Duration(r.Int64N(int64(time.Minute))))
		}
	}
	t.Logf("%d steps, paths %v, %d with a metric of which a part is missing, %d with a silent member", done, paths, partial, silent)
	if silent < done/10 || paths[recommender.PathMetrics] < done/4 || paths[recommender.PathMetricsFailed] < done/40 || partial < done/40 {
		t.Errorf("of %d steps too few are of some kind: %v, %d partial", done, paths, partial)
	}
}

// mute makes a member silent: what it told last are pods that have been ready for long, or never were. In
// the union they have no samples, and what the member reads is unknown.
func mute(t *testing.T, s *Spec, at time.Time, in *recommender.Input, i int, p *part, members int) {
	t.Helper()
	for k := range in.Pods {
		in.Pods[k].StartTime, in.Pods[k].ReadyTransition = at.Add(-time.Hour), at.Add(-time.Hour)
		in.Pods[k].Ready = recommender.ReadyTrue
	}
	digest, err := NewDigest(at, in, s.Members[i].Name, s.Version)
	fatal.If(t, err)
	p.digest, p.silent = &digest, true
	in.PodMetrics = nil
	for k := range in.Readings {
		in.Readings[k] = recommender.Readings{}
		if IsTotal(&s.Engine.Metrics[k]) {
			in.Readings[k].Error = "1 of " + strconv.Itoa(members) + " members have told nothing of late"
		}
	}
}

func seatsOf(s *Spec, last []int32) []Seat {
	seats := make([]Seat, len(s.Members))
	for i := range seats {
		seats[i] = Seat{Weight: s.Members[i].Weight, Floor: s.Members[i].Min, Cap: s.ceiling(&s.Members[i]), Last: last[i], Ready: last[i]}
	}
	return seats
}

// forgetPods removes what digests don't have: the lists of pods.
func forgetPods(d *recommender.Decision) {
	for i := range d.Explanation.Metrics {
		m := &d.Explanation.Metrics[i]
		m.Pods, m.LeftOut = nil, 0
	}
}

func TestNewDigestIsBlind(t *testing.T) {
	for name, in := range map[string]*recommender.Input{
		"scale":    {ScaleError: &recommender.ScaleError{Message: "away"}},
		"selector": {SelectorProblem: &recommender.SelectorProblem{Reason: recommender.SelectorRequired}},
	} {
		if _, err := NewDigest(t0, in, "a", 1); err == nil || !strings.Contains(err.Error(), ErrBlind.Error()) {
			t.Errorf("%s: %v, want %v", name, err, ErrBlind)
		}
	}
}

// Sums of several lists are that of the list of all values, whatever ends they reach between.
func TestTotalsAddUp(t *testing.T) {
	r := newRandom(2)
	for range 50_000 {
		metric := external(r.chance(50), 1000)
		options := recommender.Options{}
		if profile, ok := recommender.ProfileByName(oneOf(r, "v1.36", "v1.28")); ok {
			options.Profile = profile
		}
		var all, united recommender.Readings
		for range r.between(1, 4) {
			var part []recommender.Value
			for range r.between(1, 4) {
				part = append(part, recommender.Value{Milli: oneOf[int64](r, 0, 1, 5, -1, -40, 3000, math.MaxInt64/2, math.MaxInt64-2, math.MaxInt64)})
			}
			total := TotalOf(part)
			all.Values, united.Values = append(all.Values, part...), total.Values(united.Values)
		}
		want, _ := all.Total(&metric, &options)
		if got, _ := united.Total(&metric, &options); got != want {
			t.Fatalf("%d, want %d: %v of %v", got, want, united.Values, all.Values)
		}
	}
}
