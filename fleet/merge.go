package fleet

import (
	"math"
	"math/bits"
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// part is a member as the sum sees it.
type part struct {
	// digest is what it told last; nil: it counts for nothing.
	digest *Digest
	// silent reports whether that is old.
	silent bool
	// at is when it was told, in nanoseconds.
	at int64
	// replicas are those of it that count, asked for and observed.
	replicas recommender.Scale
}

// doubt is a metric of which only a part is known. What is not known is at least 0, so the known part can
// propose more replicas, not fewer.
type doubt struct {
	metric int
	// readings are those of the metric if it fails.
	readings recommender.Readings
}

// unite makes the engine's input of the members, in the fleet's order.
func (s *Spec) unite(w *work, parts []part, id recommender.ID) (in *recommender.Input, doubts []doubt) {
	n := len(s.Engine.Metrics)
	w.values, w.doubts, w.readings = w.values[:0], w.doubts[:0], zeros(w.readings, n)
	w.sums = recommender.Sums{Metrics: zeros(w.sums.Metrics, n)}
	w.in = recommender.Input{
		ID: id, Namespace: s.Namespace, Spec: s.Engine, Options: s.Options,
		Generation: s.Generation, HasGeneration: s.HasGeneration, Sums: &w.sums, Readings: w.readings,
	}
	in = &w.in
	for i := range parts {
		if d := parts[i].digest; d != nil {
			in.Scale.SpecReplicas = sum(in.Scale.SpecReplicas, parts[i].replicas.SpecReplicas)
			in.Scale.StatusReplicas = sum(in.Scale.StatusReplicas, parts[i].replicas.StatusReplicas)
			in.Sums.Pods += int(d.Pods)
			in.Sums.Ready += int(d.Ready)
		}
	}
	for i := range s.Engine.Metrics {
		readings, failed := &in.Readings[i], recommender.Readings{}
		uncertain := false
		switch {
		case !IsTotal(&s.Engine.Metrics[i]):
			failed, uncertain = s.unitePods(parts, i, &in.Sums.Metrics[i], readings)
		case s.scope(i) == Global:
			s.newest(w, parts, i, readings)
		default:
			failed, uncertain = s.uniteTotals(w, parts, i, readings)
		}
		if uncertain {
			w.doubts = append(w.doubts, doubt{i, failed})
		}
	}
	return in, w.doubts
}

// metric returns a member's digest of a metric; nil: there is none, or it was made for another spec.
func (s *Spec) metric(p *part, i int) *MetricDigest {
	if p.digest == nil || p.digest.Version != s.Version || i >= len(p.digest.Metrics) {
		return nil
	}
	return &p.digest.Metrics[i]
}

// unitePods adds up a metric of pods. Members that can't read it have pods without samples, and so have
// silent ones; it fails if all members are like that.
func (s *Spec) unitePods(parts []part, i int, sums *recommender.MetricSums, readings *recommender.Readings) (failed recommender.Readings, uncertain bool) {
	problem := ""
	for k := range parts {
		m := s.metric(&parts[k], i)
		switch {
		case parts[k].digest == nil:
		case m == nil:
			uncertain = true
		case parts[k].silent:
			silent := silence(m.Sums)
			sums.Add(&silent)
		default:
			sums.Add(&m.Sums)
			setFirst(&problem, m.Error)
			setFirst(&readings.SelectorError, m.SelectorError)
		}
	}
	if !sums.Sampled {
		readings.Error = problem
	}
	if uncertain {
		failed.Error = silentText(parts)
	}
	return failed, uncertain && readings.Error == "" && readings.SelectorError == ""
}

// silence returns the sums as if no pod had a sample.
func silence(m recommender.MetricSums) recommender.MetricSums {
	return recommender.MetricSums{Missing: together(m.Missing, m.Ready), Unready: m.Unready, Ignored: m.Ignored, NoRequest: m.NoRequest}
}

// uniteTotals adds up an Object or External metric of which each member reads its own part.
func (s *Spec) uniteTotals(w *work, parts []part, i int, readings *recommender.Readings) (failed recommender.Readings, uncertain bool) {
	spec := &s.Engine.Metrics[i]
	known, begin := false, len(w.values)
	for k := range parts {
		m := s.metric(&parts[k], i)
		switch {
		case parts[k].digest == nil:
			continue
		case m == nil || parts[k].silent:
			if !uncertain {
				failed.Error = silentText(parts)
			}
			uncertain = true
			continue
		case m.problem(spec):
			setFirst(&readings.SelectorError, m.SelectorError)
			if !uncertain {
				failed = recommender.Readings{Error: m.Error, SelectorError: m.SelectorError, Series: int(m.Total.Series)}
			}
			uncertain = true
			continue
		}
		known = true
		if spec.Type == recommender.ObjectMetric && len(readings.Values) > 0 {
			readings.Values[0].Milli += m.Total.Sum
			continue
		}
		w.values = m.Total.Values(w.values)
		readings.Values = w.values[begin:]
		readings.Series += int(m.Total.Series)
	}
	if uncertain && (!known || readings.SelectorError != "") {
		failed.SelectorError = readings.SelectorError
		*readings = failed
		return failed, false
	}
	return failed, uncertain
}

// newest takes the newest value of a metric that all members read alike, of a member that isn't silent.
func (s *Spec) newest(w *work, parts []part, i int, readings *recommender.Readings) {
	spec := &s.Engine.Metrics[i]
	var newest, first *MetricDigest
	at := int64(0)
	for k := range parts {
		m := s.metric(&parts[k], i)
		switch {
		case m == nil || parts[k].silent:
		case m.problem(spec):
			if first == nil {
				first = m
			}
		case newest == nil || parts[k].at > at:
			newest, at = m, parts[k].at
		}
	}
	switch {
	case newest != nil:
		begin := len(w.values)
		w.values = newest.Total.Values(w.values)
		readings.Values = w.values[begin:]
		readings.Series = int(newest.Total.Series)
	case first != nil:
		*readings = recommender.Readings{Error: first.Error, SelectorError: first.SelectorError, Series: int(first.Total.Series)}
	default:
		readings.Error = silentText(parts)
	}
}

// sum adds replicas, which end at the largest number.
func sum(a, b int32) int32 { return int32(min(int64(a)+int64(b), math.MaxInt32)) }

func setFirst(text *string, other string) {
	if *text == "" {
		*text = other
	}
}

// silentText is the error of a metric that silent members have. It names none: members see it.
func silentText(parts []part) string {
	silent := 0
	for i := range parts {
		if parts[i].silent {
			silent++
		}
	}
	return strconv.Itoa(silent) + " of " + strconv.Itoa(len(parts)) + " members have told nothing of late"
}

// decide decides for the sum. A metric that is not wholly known counts only if what is known of it
// proposes more replicas than there are; else it fails.
func (s *Spec) decide(now time.Time, in *recommender.Input, doubts []doubt, history *recommender.History) (recommender.Decision, recommender.History) {
	var least []int32
	if len(doubts) > 0 {
		least = make([]int32, len(in.Readings))
		metrics := make([]int, len(doubts))
		for i, doubt := range doubts {
			metrics[i] = doubt.metric
		}
		recommender.Proposals(now, in, history, metrics, func(i int, proposal int32, failed bool) {
			if !failed {
				least[metrics[i]] = proposal
			}
			if failed || proposal <= in.Scale.SpecReplicas {
				in.Readings[metrics[i]] = doubts[i].readings
			}
		})
	}
	if s.Decide == nil {
		return recommender.Recommend(now, in, history)
	}
	return s.Decide(now, in, least, history)
}

// nominal makes the input that of count replicas in place of more that bear the same load: the others are
// there in case a member is lost, and no decision may depend on them.
func nominal(in *recommender.Input, count int32) {
	all := in.Scale.SpecReplicas
	if count == all || all <= 0 {
		return
	}
	in.Scale.SpecReplicas = count
	in.Scale.StatusReplicas = scaledCount(in.Scale.StatusReplicas, count, all)
	in.Sums.Pods = int(scaledCount(int32(in.Sums.Pods), count, all))
	in.Sums.Ready = int(scaledCount(int32(in.Sums.Ready), count, all))
	for i := range in.Sums.Metrics {
		scaleSums(&in.Sums.Metrics[i], count, all)
	}
}

// settle makes what a silent member told that of the replicas that count of it: others were still coming or going, or not ready
// yet. Fewer would leave less for the other members than their own load needs, which can be nothing; more would hide that
// these need more. What the pods of one that showed none request is not known, nor that of pods of which one requests nothing.
func (d *Digest) settle(spec *recommender.Spec, replicas int32) {
	replicas = min(replicas, MostPods) // of many members they add up
	if d.Pods > 0 || d.Scale.SpecReplicas == 0 {
		d.Pods, d.Ready = replicas, replicas
	}
	for i := range min(len(d.Metrics), len(spec.Metrics)) {
		m := &d.Metrics[i].Sums
		unready := m.Unready
		if target := spec.Metrics[i].Target.AverageUtilization; target != nil {
			unready.Filled = scaled(unready.Requests, max(100, *target), 100)
		}
		*m = silence(*m)
		m.Missing, m.Unready = together(m.Missing, unready), recommender.GroupSums{}
		switch pods := m.Missing.Pods; {
		case pods > 0 && m.NoRequest == "": // as one group: rounded by themselves groups are more
			scaleSums(m, replicas, pods)
		case replicas > 0 && !IsTotal(&spec.Metrics[i]):
			d.Metrics = nil
			return
		default:
			*m = recommender.MetricSums{}
		}
	}
}

// without makes pods that a member was told to end by the answer to its last call pods without samples: they are gone by now, and their load has
// moved, to those that have called since then among others. Of these it would count twice.
func (d *Digest) without(ended int32) {
	for i := range d.Metrics {
		m := &d.Metrics[i].Sums
		pods := m.Ready.Pods
		n := min(ended-m.Missing.Pods-m.Unready.Pods, pods) // those that are not ready end first
		if n <= 0 {
			continue
		}
		gone := recommender.GroupSums{Pods: n, Requests: scaled(m.Ready.Requests, n, pods), Filled: scaled(m.Ready.Filled, n, pods)}
		m.Ready = recommender.GroupSums{Pods: pods - n, Usage: scaled(m.Ready.Usage, pods-n, pods), Requests: m.Ready.Requests - gone.Requests, Filled: m.Ready.Filled - gone.Filled}
		m.Missing = together(m.Missing, gone)
	}
}

// together adds up two groups of pods without samples.
func together(a, b recommender.GroupSums) recommender.GroupSums {
	return recommender.GroupSums{Pods: sum(a.Pods, b.Pods), Requests: a.Requests + b.Requests, Filled: a.Filled + b.Filled}
}

// scaleSums makes the sums of all pods those of count.
func scaleSums(m *recommender.MetricSums, count, all int32) {
	for _, g := range []*recommender.GroupSums{&m.Ready, &m.Missing, &m.Unready} {
		g.Pods = scaledCount(g.Pods, count, all)
		g.Requests = scaled(g.Requests, count, all)
		g.Filled = scaled(g.Filled, count, all)
	}
	m.Ignored = scaledCount(m.Ignored, count, all)
}

// scaledCount returns n × count/all, rounded, and at least 1 of any unless count is 0.
func scaledCount(n, count, all int32) int32 {
	if n <= 0 {
		return n
	}
	return int32(min(max(min(1, int64(count)), (int64(n)*int64(count)+int64(all)/2)/int64(all)), math.MaxInt32))
}

// scaled returns v × count/all, rounded toward 0.
func scaled(v int64, count, all int32) int64 {
	negative := v < 0
	if negative {
		v = -v
	}
	high, low := bits.Mul64(uint64(v), uint64(count))
	if high >= uint64(all) {
		return v // beyond 64 bits: it has wrapped anyway
	}
	quotient, _ := bits.Div64(high, low, uint64(all))
	if negative {
		return -int64(quotient)
	}
	return int64(quotient)
}
