package counterfactual

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Starts is how long pods take from the decision that created them.
type Starts struct {
	// Running, Ready and Sampled are the times until they start, are ready, and have a sample of
	// resource metrics. Each is the median of Pods; without any, pods are ready at once and have
	// a sample after 30 s, as with metrics-server.
	Running, Ready, Sampled time.Duration
	// Pods is how many pods were observed to start and become ready.
	Pods int
}

// plainSampled is when metrics-server has a pod's second scrape.
const plainSampled = 30 * time.Second

// Meter measures how the pods of a recording start. The zero value is ready.
type Meter struct {
	pods map[string]*coming
	last time.Time
	// apart is how long before the last step the one before it was.
	apart                   time.Duration
	running, ready, sampled []time.Duration
}

// mostApart is how far two steps may be apart, if those before were not as far, so that it is known when the pods
// between them were created.
const mostApart = time.Minute

// coming is an observed pod.
type coming struct {
	made           time.Time
	ready, sampled bool
	seen           bool
}

// Add processes the input of the next step; nil: there was no autoscaler. Sums have no pod of which it is known
// when it started.
func (m *Meter) Add(now time.Time, in *recommender.Input) {
	if in != nil && in.Sums != nil {
		return
	}
	first := m.pods == nil
	if first || in == nil {
		m.pods = make(map[string]*coming)
		if in == nil {
			m.pods = nil
			return
		}
	}
	gap := false
	if !m.last.IsZero() {
		apart := now.Sub(m.last)
		gap, m.apart = apart > max(mostApart, 2*m.apart), apart
	}
	for i := range in.Pods {
		p := &in.Pods[i]
		c := m.pods[p.Name]
		if c == nil {
			// The creation time of pods that existed at the first step, or after a gap, is unknown.
			c = &coming{made: m.last, ready: first || gap, sampled: first || gap}
			m.pods[p.Name] = c
		}
		c.seen = true
		if !c.ready && p.Ready == recommender.ReadyTrue {
			c.ready = true
			m.ready = append(m.ready, max(0, p.ReadyTransition.Sub(c.made)))
			m.running = append(m.running, max(0, p.StartTime.Sub(c.made)))
		}
	}
	for i := range in.PodMetrics {
		if c := m.pods[in.PodMetrics[i].Pod]; c != nil && !c.sampled {
			c.sampled = true
			m.sampled = append(m.sampled, max(0, now.Sub(c.made)))
		}
	}
	for name, c := range m.pods {
		if !c.seen {
			delete(m.pods, name)
		}
		c.seen = false
	}
	m.last = now
}

// Starts returns the measured times.
func (m *Meter) Starts() Starts {
	out := Starts{Running: median(m.running), Ready: median(m.ready), Sampled: plainSampled, Pods: len(m.ready)}
	if len(m.sampled) > 0 {
		out.Sampled = median(m.sampled)
	}
	return out
}

func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[len(d)/2]
}
