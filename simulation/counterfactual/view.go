package counterfactual

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// fullAt is the share of its limit above which a pod counts as full.
const fullAt = 0.95

// view is the observation of one step, and values derived from it. Its slices are
// reused.
type view struct {
	// counted are the indices of the recorded pods that count as replicas, serving and
	// oldest first; samples has for each pod the index of its sample, -1: none.
	counted, samples []int
	byName           map[string]int
	// served is how much of the sample's window each pod was ready, 0 to 1.
	served []float64
	// ready are the pods of this world that are ready, recordedReady the recorded ones, and cpu is
	// what all recorded pods used, in milli-cores.
	ready, recordedReady int32
	cpu                  float64
	saturated            bool

	pods       []recommender.Pod
	parts      []float64
	podMetrics []recommender.PodMetrics
	readings   []recommender.Readings
}

// isReplica reports whether a recorded pod counts as a replica.
func isReplica(p *recommender.Pod) bool {
	return !p.Deleting && (p.Phase == recommender.PhaseRunning || p.Phase == recommender.PhasePending)
}

// measure evaluates the recorded pods.
func (v *view) measure(s *Step) {
	in := s.Input
	if v.byName == nil {
		v.byName = make(map[string]int)
	}
	clear(v.byName)
	v.samples, v.served, v.counted = v.samples[:0], v.served[:0], v.counted[:0]
	for i := range in.Pods {
		v.byName[in.Pods[i].Name] = i
		v.samples, v.served = append(v.samples, -1), append(v.served, 0)
	}
	for i := range in.PodMetrics {
		if pod, ok := v.byName[in.PodMetrics[i].Pod]; ok {
			v.samples[pod] = i
		}
	}
	v.ready, v.cpu = 0, 0
	full, sampled := 0, 0
	for i := range in.Pods {
		p := &in.Pods[i]
		at, window := s.Time, plainSampled
		if k := v.samples[i]; k >= 0 {
			at, window = in.PodMetrics[k].Timestamp, in.PodMetrics[k].Window
			used := milliOf(&in.PodMetrics[k], cpu)
			if v.cpu += used; s.CPULimit > 0 && p.Ready == recommender.ReadyTrue {
				sampled++
				if used >= fullAt*float64(s.CPULimit) {
					full++
				}
			}
		}
		if p.Ready == recommender.ReadyTrue {
			v.served[i] = part(at, window, p.ReadyTransition)
		}
		if isReplica(p) {
			v.counted = append(v.counted, i)
			if p.Ready == recommender.ReadyTrue {
				v.ready++
			}
		}
	}
	v.recordedReady, v.saturated = v.ready, sampled > 0 && 2*full >= sampled
}

const cpu = "cpu"

// milliOf is what a sample's containers used of a resource.
func milliOf(m *recommender.PodMetrics, resource string) float64 {
	sum := 0.0
	for i := range m.Containers {
		for _, u := range m.Containers[i].Usage {
			if u.Resource == resource {
				sum += float64(u.Milli)
			}
		}
	}
	return sum
}

// part returns the fraction of the window ending at an instant in which something runs that
// began then.
func part(end time.Time, window time.Duration, since time.Time) float64 {
	d := end.Sub(since)
	switch {
	case d >= window:
		return 1
	case d <= 0:
		return 0
	}
	return float64(d) / float64(window)
}

// short reports whether the load exceeds what the ready pods can serve. If recorded pods were
// full, the load may have been higher: so many pods or fewer would have been full, too.
func (v *view) short(limit int64) bool {
	return limit > 0 && (v.cpu > float64(v.ready)*float64(limit) || v.saturated && v.ready <= v.recordedReady)
}

// model builds the input of this world's pods from the recorded one. It reports whether the
// load of the instant was measured.
func (v *view) model(l *Loop, s *Step, in *recommender.Input) bool {
	recorded := s.Input
	slices.SortStableFunc(v.counted, func(a, b int) int {
		p, q := &recorded.Pods[a], &recorded.Pods[b]
		return cmp.Or(cmp.Compare(rank(p), rank(q)), p.StartTime.Compare(q.StartTime))
	})
	if len(v.counted) > 0 {
		p := recorded.Pods[v.counted[0]]
		l.template = &p
	}
	v.pods, v.parts, v.podMetrics = v.pods[:0], v.parts[:0], v.podMetrics[:0]
	kept := v.counted[:min(l.shared, len(v.counted))]
	for _, i := range kept {
		v.pods = append(v.pods, recorded.Pods[i])
	}
	if l.template != nil {
		for i := range l.own {
			v.pods = append(v.pods, l.own[i].pod(l, s.Time))
		}
	}
	v.ready = 0
	for i := range v.pods {
		if v.pods[i].Ready == recommender.ReadyTrue {
			v.ready++
		}
	}
	in.Scale.SpecReplicas, in.Scale.StatusReplicas = l.replicas, int32(len(v.pods))
	in.Pods, in.Sums = v.pods, nil
	known := v.shareResources(l, s, in, kept)
	return v.shareReadings(s, in, kept) && known
}

// rank sorts serving pods first.
func rank(p *recommender.Pod) int {
	if p.Ready == recommender.ReadyTrue {
		return 0
	}
	return 1
}

// pod returns a replica of this world as the API would show it.
func (r *replica) pod(l *Loop, now time.Time) recommender.Pod {
	p := *l.template
	p.Name, p.Deleting, p.StartTime, p.ReadyTransition = r.name, false, time.Time{}, time.Time{}
	p.Phase, p.Ready = recommender.PhasePending, recommender.ReadyFalse
	if start := r.born.Add(l.starts.Running); !start.After(now) {
		p.Phase, p.StartTime, p.ReadyTransition = recommender.PhaseRunning, start.Truncate(time.Second), start.Truncate(time.Second)
	}
	if ready := r.born.Add(l.starts.Ready); !ready.After(now) {
		p.Ready, p.ReadyTransition = recommender.ReadyTrue, ready.Truncate(time.Second)
	}
	return p
}

// shareResources distributes the recorded usage among this world's pods.
func (v *view) shareResources(l *Loop, s *Step, in *recommender.Input, kept []int) (known bool) {
	recorded := s.Input
	var like *recommender.PodMetrics
	total, weight := 0.0, 0.0 // CPU alone decides whether any pod serves
	for i := range recorded.Pods {
		if k := v.samples[i]; k >= 0 {
			if total += v.served[i]; like == nil || recorded.PodMetrics[k].Timestamp.After(like.Timestamp) {
				like = &recorded.PodMetrics[k]
			}
		}
	}
	in.PodMetrics = v.podMetrics
	if like == nil {
		return !readsResources(&in.Spec)
	}
	// The samples lack what ready pods without a sample serve.
	all := total
	for i := range recorded.Pods {
		if v.samples[i] < 0 && isReplica(&recorded.Pods[i]) && recorded.Pods[i].Ready == recommender.ReadyTrue {
			all += part(like.Timestamp, like.Window, recorded.Pods[i].ReadyTransition)
		}
	}
	if total == 0 {
		return false
	}
	// This world's pods, weighted by the part of the window in which they serve.
	for _, i := range kept {
		v.parts = append(v.parts, v.served[i])
		weight += v.served[i]
	}
	for i := range l.own {
		p := 0.0
		if l.template != nil {
			p = part(like.Timestamp, like.Window, l.own[i].born.Add(l.starts.Ready))
			v.parts = append(v.parts, p)
		}
		weight += p
	}
	load := v.loadOf(recorded, all/total, l.options.Idle)
	for i := range v.pods {
		m := recommender.PodMetrics{Pod: v.pods[i].Name, Timestamp: like.Timestamp, Window: like.Window}
		if i < len(kept) {
			k := v.samples[kept[i]]
			if k < 0 {
				continue
			}
			m.Timestamp, m.Window = recorded.PodMetrics[k].Timestamp, recorded.PodMetrics[k].Window
		} else if l.own[i-len(kept)].born.Add(l.starts.Sampled).After(s.Time) {
			continue
		}
		share := 0.0
		if weight > 0 {
			share = v.parts[i] / weight
		}
		m.Containers = load.containers(share, l.options.Idle, s.CPULimit)
		v.podMetrics = append(v.podMetrics, m)
	}
	in.PodMetrics = v.podMetrics
	return true
}

// readsResources reports whether a spec has metrics of resources.
func readsResources(spec *recommender.Spec) bool {
	return slices.ContainsFunc(spec.Metrics, func(m recommender.MetricSpec) bool {
		return m.Type == recommender.ResourceMetric || m.Type == recommender.ContainerResourceMetric
	})
}

// containerLoad returns what all pods use of the resources of one container, without idle
// usage.
type containerLoad struct {
	name      string
	resources []resourceLoad
}

type resourceLoad struct {
	name  string
	milli float64
}

type load []containerLoad

// loadOf adds up the recorded samples, and scales the sum up by the missing ones.
func (v *view) loadOf(in *recommender.Input, factor float64, idle []recommender.ResourceUsage) load {
	var out load
	for _, k := range v.samples {
		if k < 0 {
			continue
		}
		for c := range in.PodMetrics[k].Containers {
			from := &in.PodMetrics[k].Containers[c]
			i := slices.IndexFunc(out, func(l containerLoad) bool { return l.name == from.Name })
			if i < 0 {
				i = len(out)
				out = append(out, containerLoad{name: from.Name})
			}
			for _, u := range from.Usage {
				rest := max(0, float64(u.Milli)-idleOf(idle, u.Resource, c))
				r := slices.IndexFunc(out[i].resources, func(l resourceLoad) bool { return l.name == u.Resource })
				if r < 0 {
					out[i].resources = append(out[i].resources, resourceLoad{u.Resource, rest})
					continue
				}
				out[i].resources[r].milli += rest
			}
		}
	}
	for i := range out {
		for r := range out[i].resources {
			out[i].resources[r].milli = float64(out[i].resources[r].milli * factor)
		}
	}
	return out
}

// idleOf returns what a pod's container uses without load: all idle usage belongs to
// the first one.
func idleOf(idle []recommender.ResourceUsage, resource string, container int) float64 {
	if container > 0 {
		return 0
	}
	for _, u := range idle {
		if u.Resource == resource {
			return float64(u.Milli)
		}
	}
	return 0
}

// containers returns one pod's share of the load, at most its limit of CPU.
func (l load) containers(share float64, idle []recommender.ResourceUsage, limit int64) []recommender.ContainerMetrics {
	out := make([]recommender.ContainerMetrics, len(l))
	left := math.Inf(1)
	if limit > 0 {
		left = float64(limit)
	}
	for i := range l {
		out[i].Name = l[i].name
		for _, r := range l[i].resources {
			used := float64(r.milli*share) + idleOf(idle, r.name, i)
			if r.name == cpu {
				used = min(used, left)
				left -= used
			}
			out[i].Usage = append(out[i].Usage, recommender.ResourceUsage{Resource: r.name, Milli: whole(used)})
		}
	}
	return out
}

// whole rounds a usage up to whole milli-units, as upstream reads quantities.
func whole(milli float64) int64 {
	return int64(min(max(math.Ceil(milli-1e-6), 0), 1<<53))
}

// shareReadings distributes the values of Pods metrics among this world's pods. Readings of
// other types are used as recorded.
func (v *view) shareReadings(s *Step, in *recommender.Input, kept []int) (known bool) {
	recorded := s.Input
	known = true
	v.readings = append(v.readings[:0], recorded.Readings...)
	for m := range v.readings {
		if m >= len(in.Spec.Metrics) || in.Spec.Metrics[m].Type != recommender.PodsMetric {
			if v.readings[m].Error != "" {
				known = false
			}
			continue
		}
		r := &v.readings[m]
		sum, measured := 0.0, 0
		for _, value := range r.Values {
			if i, ok := v.byName[value.Pod]; ok && recorded.Pods[i].Ready == recommender.ReadyTrue {
				sum += float64(value.Milli)
				measured++
			}
		}
		ready := 0
		for _, i := range v.counted {
			if recorded.Pods[i].Ready == recommender.ReadyTrue {
				ready++
			}
		}
		values := make([]recommender.Value, 0, len(v.pods))
		if r.Values = values; measured == 0 {
			known = false
			continue
		}
		each := 0.0
		if v.ready > 0 {
			each = float64(sum*max(1, float64(ready)/float64(measured))) / float64(v.ready)
		}
		for i := range v.pods {
			value := recommender.Value{Pod: v.pods[i].Name}
			if v.pods[i].Ready == recommender.ReadyTrue {
				value.Milli = whole(each)
			} else if i >= len(kept) {
				continue // it has not served yet
			}
			values = append(values, value)
		}
		r.Values = values
	}
	in.Readings = v.readings
	return known
}
