package simulation

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Check returns all problems of a scenario and its autoscaler, joined. See CheckFleet for scenarios with a fleet.
func Check(s *Scenario, a *Autoscaler) error {
	c := &checker{}
	c.refuse(s.Fleet != nil, "fleet: only setpoint simulate, the page and SimulationService run scenarios with a fleet")
	return c.check(s, a)
}

func (c *checker) check(s *Scenario, a *Autoscaler) error {
	c.scenario(s)
	c.workload(&s.Workload)
	c.events(s)
	c.autoscaler(s, a)
	return errors.Join(c.problems...)
}

type checker struct{ problems []error }

func (c *checker) refuse(bad bool, format string, args ...any) {
	if bad {
		c.problems = append(c.problems, fmt.Errorf(format, args...))
	}
}

// duration checks the bounds of a duration.
func (c *checker) duration(what string, d, least, most time.Duration) {
	c.refuse(d < least || d > most, "%s: is %s, must be between %s and %s", what, d, least, most)
}

func (c *checker) amount(what string, v float64) {
	c.refuse(math.IsNaN(v) || v < 0 || v > MaxLoad*1000, "%s: is %g, must be between 0 and %g", what, v, MaxLoad*1000)
}

func (c *checker) scenario(s *Scenario) {
	c.refuse(s.Load == nil || len(s.Load.points) == 0, "load: is missing")
	c.duration("duration", s.Duration, time.Second, MaxDuration)
	l := &s.Loop
	sync := defaulted(l.SyncPeriod)
	c.duration("loop.syncPeriod", sync, time.Second, time.Hour)
	c.duration("loop.resolution", defaulted(l.Resolution), time.Second, time.Hour)
	c.duration("loop.offset", l.Offset, 0, time.Hour)
	c.duration("loop.scrapeOffset", l.ScrapeOffset, 0, defaulted(l.Resolution)-1)
	c.duration("loop.applyDelay", l.ApplyDelay, 0, sync-1)
	if sync >= time.Second {
		c.refuse(s.Duration/sync > MaxSteps, "%s in steps of %s: are %d evaluations, more than %d", s.Duration, sync, s.Duration/sync, MaxSteps)
	}
	c.refuse(s.Start.Year() < 1970 || s.Start.Year() > 2200, "start: must be between the years 1970 and 2200")
	c.amount("price", s.Price)
}

func (c *checker) workload(w *Workload) {
	if w.Replicas != nil {
		c.refuse(*w.Replicas < 0 || *w.Replicas > MaxPods, "workload.replicas: is %d, must be between 0 and %d", *w.Replicas, MaxPods)
	}
	for _, d := range []struct {
		what string
		d    time.Duration
	}{
		{"schedulingDelay", w.SchedulingDelay}, {"nodeDelay", w.NodeDelay}, {"drain", w.Drain}, {"grace", w.Grace},
		{"warmup", w.Warmup}, {"startup", w.Startup.From}, {"queue.timeout", w.Queue.Timeout},
	} {
		c.duration("workload."+d.what, d.d, 0, 24*time.Hour)
	}
	switch w.Startup.Kind {
	case FixedStartup:
	case LogNormalStartup:
		c.refuse(w.Startup.From <= 0, "workload.startup: the median must be above 0s")
		fallthrough
	default:
		c.duration("workload.startup", w.Startup.To, w.Startup.From, 24*time.Hour)
	}
	c.refuse(w.Slots < 0, "workload.slots: is %d, must be at least 0", w.Slots)
	c.amount("workload.capacity", w.Capacity)
	c.refuse(!(w.Imbalance >= 0 && w.Imbalance <= 1), "workload.imbalance: is %g, must be between 0 and 1", w.Imbalance)
	c.amount("workload.queue.size", w.Queue.Size)
	if r := &w.Retries; r.Count != 0 {
		c.refuse(r.Count < 0 || r.Count > MaxRetries, "workload.retries.count: is %d, must be between 0 and %d", r.Count, MaxRetries)
		c.refuse(!(r.Factor >= 1 && r.Factor <= 10), "workload.retries.factor: is %g, must be between 1 and 10", r.Factor)
		c.duration("workload.retries.delay", r.Delay, time.Second, MaxRetryDelay)
		if r.Count > 0 && r.Count <= MaxRetries {
			c.duration("workload.retries: the last delay", r.longest(), 0, MaxRetryDelay)
		}
	}
	for i := range w.Usage {
		u := &w.Usage[i]
		at := "workload.usage." + u.Metric
		c.amount(at+".perLoad", u.PerLoad)
		c.amount(at+".idle", u.Idle)
		c.amount(at+".warmup", u.Warmup)
		c.duration(at+".window", u.window(), time.Second, time.Hour)
		c.duration(at+".delay", u.Delay, 0, time.Hour)
	}
}

func (c *checker) events(s *Scenario) {
	events := s.Events
	c.refuse(len(events) > MaxEvents, "events: are %d, more than %d", len(events), MaxEvents)
	overrides := 0
	for i := range events {
		e := &events[i]
		if e.Kind == Override {
			overrides++
			c.refuse(e.Override == nil, "events[%d].override: is missing", i)
		}
		at := fmt.Sprintf("events[%d]", i)
		c.refuse(e.Metric != "" && s.Workload.usageOf(e.Metric) == nil, "%s.metric: workload.usage has no %s", at, e.Metric)
		c.refuse(e.Kind > WritesLate, "%s: unknown kind %d", at, e.Kind)
		if s.Fleet == nil {
			c.refuse(e.Member != "" || e.Kind > Override, "%s: is for members, and there is no fleet", at)
		}
		c.duration(at+".at", e.At, 0, MaxDuration)
		c.duration(at+".for", e.For, 0, MaxDuration)
		c.duration(at+".by", e.By, 0, time.Hour)
		c.refuse(e.Kind == MetricsFrozen && e.For > time.Hour, "%s.for: metrics freeze for at most 1h0m0s", at)
		c.refuse(!(e.Share >= 0 && e.Share <= 1), "%s.share: is %g, must be between 0 and 1", at, e.Share)
		c.refuse(e.Pods < 0, "%s.pods: is %d, must be at least 0", at, e.Pods)
		c.refuse(e.Replicas < 0 || e.Replicas > MaxPods, "%s.replicas: is %d, must be between 0 and %d", at, e.Replicas, MaxPods)
		c.refuse(min(e.Surge, e.Unavailable) < 0 || max(e.Surge, e.Unavailable) > MaxPods, "%s: surge and unavailable must be between 0 and %d", at, MaxPods)
	}
	c.refuse(overrides > MaxOverrides, "events: have %d overrides, more than %d", overrides, MaxOverrides)
}

func (c *checker) autoscaler(s *Scenario, a *Autoscaler) {
	c.refuse(a.Spec.MinReplicas < 0 || a.Spec.MinReplicas > a.Spec.MaxReplicas, "spec: minReplicas %d, maxReplicas %d", a.Spec.MinReplicas, a.Spec.MaxReplicas)
	c.refuse(a.Spec.MinReplicas > MaxPods, "spec.minReplicas: is %d, more than the %d pods of a simulation", a.Spec.MinReplicas, MaxPods)
	c.refuse(len(a.Spec.Metrics) == 0, "spec.metrics: there are none")
	for i := range a.Spec.Metrics {
		m := &a.Spec.Metrics[i]
		switch m.Type {
		case recommender.ResourceMetric, recommender.ContainerResourceMetric, recommender.PodsMetric, recommender.ObjectMetric, recommender.ExternalMetric:
		default:
			c.refuse(true, "spec.metrics[%d]: the type %q can't be simulated", i, m.Type)
			continue
		}
		u := s.Workload.usageOf(MetricName(m))
		if u == nil {
			c.refuse(true, "workload.usage: has no %s, which spec.metrics[%d] needs", MetricName(m), i)
			continue
		}
		total := m.Type == recommender.ObjectMetric || m.Type == recommender.ExternalMetric
		c.refuse(!total && u.Follows != Served, "workload.usage.%s: what pods use follows what they serve; only Object and External metrics follow something else", u.Metric)
		c.refuse(total && u.Warmup > 0, "workload.usage.%s: a metric that is not of pods has no warm-up", u.Metric)
	}
}
