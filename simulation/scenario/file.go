package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/schedule"
)

// Limits of files.
const (
	// MaxScenarioBytes limits a scenario: as YAML it takes some fifty times as much memory.
	MaxScenarioBytes = 1 << 20
	// MaxLoadBytes limits the files of recorded load, all together; a file that several parts
	// name counts for each, because it is read for each.
	MaxLoadBytes = 64 << 20
	// MaxParts limits the parts of a load, which are added point by point.
	MaxParts = 50
)

// Open returns the content of a file that a scenario names, at most MaxLoadBytes.
type Open func(name string) ([]byte, error)

// DefaultStart is the default start of a simulation, a Monday's midnight; in another time zone it is that zone's.
var DefaultStart = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// defaultDuration is how long a load without an end is simulated.
const defaultDuration = 24 * time.Hour

// reader collects the contents of a file.
type reader struct {
	ctx context.Context
	// eventsAt are the places of the scenario's events.
	eventsAt []document.Value
	scenario simulation.Scenario
	open     Open
	seed     *uint64
	zone     *time.Location
	started  bool
	parts    []*part
	// fileBytes is how many bytes of recorded load were read, filePoints how many points
	// they had.
	fileBytes, filePoints int
	noise                 struct {
		variation float64
		every     time.Duration
	}
	requests, limits []recommender.ResourceUsage
	// readings are the metrics that recorded parts have the readings of, averaged the usages that say themselves how they
	// are measured.
	readings []string
	averaged []int
	// own are parts of load that belong to one member of a fleet each, beside parts.
	own []*part
	// points is how many points all traces have together.
	points int
}

// Read reads a scenario in YAML. The seed, if it is not nil, replaces the scenario's. The error
// lists all problems, with their lines. simulation.Check checks whether a scenario suits an
// autoscaler. The end of the context ends the reading of recorded load, with the context's error.
func Read(ctx context.Context, name string, data []byte, seed *uint64, open Open) (*simulation.Scenario, error) {
	r := newReader(ctx, seed, open)
	if err := r.read(name, data); err != nil {
		return nil, err
	}
	return &r.scenario, nil
}

func newReader(ctx context.Context, seed *uint64, open Open) *reader {
	r := &reader{ctx: ctx, open: open, zone: time.UTC, seed: seed}
	r.scenario.Start, r.scenario.Seed = DefaultStart, 1
	return r
}

func (r *reader) read(name string, data []byte) error {
	err := document.Read(name, data, r.root)
	if ended := r.ctx.Err(); ended != nil {
		return fmt.Errorf("%s: %w", name, ended)
	}
	return err
}

func (r *reader) root(v document.Value) {
	var parts, at, clusters document.Value
	right := v.Map(
		document.Required("load", func(v document.Value) { parts = v }),
		document.Required("workload", r.workload),
		document.Optional("start", func(v document.Value) {
			if t, ok := v.Time(); ok {
				r.scenario.Start, r.started = t, true
			}
		}),
		document.Optional("timezone", r.timezone),
		document.Optional("duration", positive(&r.scenario.Duration, simulation.MaxDuration)),
		document.Optional("seed", func(v document.Value) {
			if n, ok := v.Int(0, 1<<53); ok {
				r.scenario.Seed = uint64(n)
			}
		}),
		document.Optional("price", number(&r.scenario.Price, 1e6)),
		document.Optional("noise", func(v document.Value) {
			at = v
			r.noise.every = time.Minute
			v.Map(
				document.Required("variation", number(&r.noise.variation, 1)),
				document.Optional("every", duration(&r.noise.every, 24*time.Hour)),
			)
		}),
		document.Optional("loop", r.loop),
		document.Optional("events", r.events),
		document.Optional("fleet", func(v document.Value) { clusters = v }),
	)
	if !right {
		return
	}
	if r.seed != nil {
		r.scenario.Seed = *r.seed
	}
	r.scenario.Start = r.scenario.Start.In(r.zone)
	if !r.started {
		year, month, day := DefaultStart.Date()
		r.scenario.Start = time.Date(year, month, day, 0, 0, 0, 0, r.zone)
	}
	parts.List(r.part)
	own := r.fleet(clusters)
	for i := range r.scenario.Workload.Usage {
		u := &r.scenario.Workload.Usage[i]
		u.Recorded = slices.Contains(r.readings, u.Metric) && !slices.Contains(r.averaged, i)
	}
	r.makeLoad(parts, at)
	for i := range own {
		m := &r.scenario.Fleet.Members[own[i].member]
		m.Own = r.ownNoise(m.Name, own[i].at, r.trace(own[i].at, own[i].parts))
	}
	r.sortFleet()
	for i, e := range r.scenario.Events {
		// An event after the end must be a mistake.
		if whole := r.scenario.Duration; whole > 0 && e.At >= whole {
			r.eventsAt[i].Refuse("at %s: must be before the end, %s", e.At, whole)
		}
	}
}

func (r *reader) timezone(v document.Value) {
	name, ok := v.Text()
	if !ok {
		return
	}
	// As those of schedules: others, such as Local, would depend on the machine.
	zone, err := schedule.Zone(name)
	if err != nil {
		v.Refuse("%v", err)
		return
	}
	r.zone = zone
}

func (r *reader) workload(v document.Value) {
	w := &r.scenario.Workload
	var latest, p95 time.Duration
	named := false
	v.Map(
		document.Required("usage", func(v document.Value) { v.List(r.usage) }),
		document.Optional("replicas", func(v document.Value) {
			if n, ok := v.Int(0, simulation.MaxPods); ok {
				replicas := int32(n)
				w.Replicas = &replicas
			}
		}),
		document.Optional("requests", amounts(&r.requests)),
		document.Optional("limits", amounts(&r.limits)),
		document.Optional("containers", func(v document.Value) {
			named = true
			v.List(r.container)
			if len(w.Containers) > 20 {
				v.Refuse("must be at most 20")
			}
		}),
		document.Optional("capacity", load(&w.Capacity)),
		document.Optional("startup", duration(&w.Startup.From, 24*time.Hour)),
		document.Optional("startupMax", positive(&latest, 24*time.Hour)),
		document.Optional("startupP95", positive(&p95, 24*time.Hour)),
		document.Optional("warmup", duration(&w.Warmup, 24*time.Hour)),
		document.Optional("schedulingDelay", duration(&w.SchedulingDelay, 24*time.Hour)),
		document.Optional("slots", whole(&w.Slots, simulation.MaxPods)),
		document.Optional("nodeDelay", duration(&w.NodeDelay, 24*time.Hour)),
		document.Optional("drain", duration(&w.Drain, 24*time.Hour)),
		document.Optional("grace", duration(&w.Grace, 24*time.Hour)),
		document.Optional("imbalance", number(&w.Imbalance, 1)),
		document.Optional("queue", func(v document.Value) {
			v.Map(
				document.Required("size", number(&w.Queue.Size, simulation.MaxLoad)),
				document.Optional("timeout", positive(&w.Queue.Timeout, 24*time.Hour)),
			)
		}),
		document.Optional("retries", func(v document.Value) {
			w.Retries.Factor = 1
			v.Map(
				document.Required("count", whole(&w.Retries.Count, simulation.MaxRetries)),
				document.Required("delay", duration(&w.Retries.Delay, simulation.MaxRetryDelay)),
				document.Optional("factor", number(&w.Retries.Factor, 10)),
			)
		}),
	)
	startup(v, &w.Startup, latest, p95)
	if named && len(r.requests)+len(r.limits) > 0 {
		v.Refuse("has containers, so that requests and limits belong to these")
		return
	}
	if !named {
		w.Containers = []simulation.Container{{Name: "app", Requests: r.requests, Limits: r.limits}}
	}
	for i := range w.Containers {
		c := &w.Containers[i]
		for _, limit := range c.Limits {
			if !slices.ContainsFunc(c.Requests, func(r recommender.ResourceUsage) bool { return r.Resource == limit.Resource }) {
				c.Requests = append(c.Requests, limit) // the API server's default
			}
		}
	}
}

func (r *reader) container(i int, v document.Value) {
	var c simulation.Container
	v.Map(
		document.Required("name", func(v document.Value) { c.Name, _ = v.Text() }),
		document.Optional("requests", amounts(&c.Requests)),
		document.Optional("limits", amounts(&c.Limits)),
		document.Optional("usage", func(v document.Value) {
			if i == 0 {
				v.Refuse("the first container's usage is that of workload.usage")
				return
			}
			amounts(&c.Usage)(v)
		}),
	)
	r.scenario.Workload.Containers = append(r.scenario.Workload.Containers, c)
}

func (r *reader) usage(_ int, v document.Value) {
	var u simulation.Usage
	averaged := func(read func(document.Value)) func(document.Value) {
		return func(v document.Value) {
			r.averaged = append(r.averaged, len(r.scenario.Workload.Usage))
			read(v)
		}
	}
	v.Map(
		document.Required("metric", func(v document.Value) { u.Metric, _ = v.Text() }),
		document.Required("perLoad", amount(&u.PerLoad)),
		document.Optional("idle", amount(&u.Idle)),
		document.Optional("warmup", amount(&u.Warmup)),
		document.Optional("follows", averaged(word(&u.Follows, []string{"served", "offered", "queueLength", "queueAge"},
			[]simulation.Signal{simulation.Served, simulation.Offered, simulation.QueueLength, simulation.QueueAge}))),
		document.Optional("window", averaged(positive(&u.Window, time.Hour))),
		document.Optional("delay", duration(&u.Delay, time.Hour)),
	)
	for _, other := range r.scenario.Workload.Usage {
		if other.Metric == u.Metric {
			v.Refuse("duplicate metric")
		}
	}
	if len(r.scenario.Workload.Usage) == 100 {
		v.Refuse("must be at most 100")
		return
	}
	r.scenario.Workload.Usage = append(r.scenario.Workload.Usage, u)
}

// startup builds the distribution of start-up times.
func startup(v document.Value, s *simulation.Startup, latest, p95 time.Duration) {
	switch {
	case latest > 0 && p95 > 0:
		v.Refuse("has startupMax and startupP95: the times lie evenly up to the one, or 95 %% of them are below the other")
	case latest > 0 && latest < s.From || p95 > 0 && p95 < s.From:
		v.Refuse("startup is above startupMax or startupP95")
	case p95 > 0 && s.From == 0:
		v.Refuse("startupP95 needs startup, the median")
	case latest > 0:
		s.Kind, s.To = simulation.UniformStartup, latest
	case p95 > 0:
		s.Kind, s.To = simulation.LogNormalStartup, p95
	}
}

func (r *reader) loop(v document.Value) {
	l := &r.scenario.Loop
	v.Map(
		document.Optional("syncPeriod", positive(&l.SyncPeriod, time.Hour)),
		document.Optional("offset", duration(&l.Offset, time.Hour)),
		document.Optional("applyDelay", duration(&l.ApplyDelay, time.Hour)),
		document.Optional("resolution", positive(&l.Resolution, time.Hour)),
		document.Optional("scrapeOffset", duration(&l.ScrapeOffset, time.Hour)),
	)
}

func (r *reader) events(v document.Value) {
	v.List(func(i int, v document.Value) {
		if i < simulation.MaxEvents {
			r.event(v)
		} else if i == simulation.MaxEvents {
			v.Refuse("there are more than %d", simulation.MaxEvents)
		}
	})
}

func (r *reader) event(v document.Value) {
	var e simulation.Event
	kinds := 0
	kind := func(key string, k simulation.EventKind, read func(document.Value)) document.Field {
		return document.Optional(key, func(v document.Value) {
			kinds++
			e.Kind = k
			read(v)
		})
	}
	long := duration(&e.For, simulation.MaxDuration)
	right := v.Map(
		document.Required("at", duration(&e.At, simulation.MaxDuration)),
		document.Optional("for", long),
		document.Optional("metric", func(v document.Value) { e.Metric, _ = v.Text() }),
		document.Optional("member", func(v document.Value) { e.Member, _ = v.Text() }),
		document.Optional("by", duration(&e.By, time.Hour)),
		kind("kill", simulation.KillPods, whole(&e.Pods, simulation.MaxPods)),
		kind("crash", simulation.CrashPods, number(&e.Share, 1)),
		kind("metrics", simulation.MetricsGone, word(&e.Kind, []string{"gone", "frozen", "zero", "late"},
			[]simulation.EventKind{simulation.MetricsGone, simulation.MetricsFrozen, simulation.MetricsZero, simulation.MetricsLate})),
		kind("writes", simulation.WritesFail, word(&e.Kind, []string{"fail", "late"},
			[]simulation.EventKind{simulation.WritesFail, simulation.WritesLate})),
		kind("calls", simulation.CallsGone, word(&e.Kind, []string{"gone", "late"},
			[]simulation.EventKind{simulation.CallsGone, simulation.CallsLate})),
		kind("cluster", simulation.ClusterDown, word(&e.Kind, []string{"down"}, []simulation.EventKind{simulation.ClusterDown})),
		kind("replicas", simulation.SetReplicas, whole(&e.Replicas, simulation.MaxPods)),
		kind("rollout", simulation.Rollout, func(v document.Value) {
			v.Map(
				document.Optional("surge", whole(&e.Surge, simulation.MaxPods)),
				document.Optional("unavailable", whole(&e.Unavailable, simulation.MaxPods)),
			)
		}),
		kind("override", simulation.Override, func(v document.Value) { e.Override = override(v) }),
	)
	if !right {
		return
	}
	lasts := e.Kind == simulation.CrashPods || e.Kind >= simulation.Override || e.Kind == simulation.WritesFail || isTrouble(e.Kind)
	late := e.Kind == simulation.MetricsLate || e.Kind == simulation.CallsLate || e.Kind == simulation.WritesLate
	switch {
	case kinds != 1:
		v.Refuse("must have one of kill, crash, metrics, writes, replicas, rollout, override, calls and cluster")
	case lasts != (e.For > 0):
		v.Refuse("needs \"for\" if it is crash, metrics, writes, override, calls or cluster, and only then")
	case e.Metric != "" && !isTrouble(e.Kind):
		v.Refuse("\"metric\" belongs to metrics")
	case (e.By > 0) != late:
		v.Refuse("needs \"by\" if metrics, calls or writes are late, and only then")
	}
	r.scenario.Events, r.eventsAt = append(r.scenario.Events, e), append(r.eventsAt, v)
}

// override reads what an override does, and why.
func override(v document.Value) *stages.Override {
	o := &stages.Override{Name: "overrides/scenario", Level: stages.OfTarget, Pin: -1, Floor: -1, Ceiling: -1, Author: "the scenario", Reason: "simulated"}
	kinds := 0
	flag := func(key string, to *bool) document.Field {
		return document.Optional(key, func(v document.Value) {
			if is, ok := v.Bool(); ok && is {
				kinds++
				*to = true
			}
		})
	}
	count := func(key string, to *int32) document.Field {
		return document.Optional(key, func(v document.Value) {
			kinds++
			whole(to, simulation.MaxPods)(v)
		})
	}
	right := v.Map(
		flag("hold", &o.Hold), count("pin", &o.Pin), count("floor", &o.Floor), count("ceiling", &o.Ceiling),
		flag("noScaleDown", &o.NoScaleDown), flag("noScaleUp", &o.NoScaleUp),
		document.Optional("reason", func(v document.Value) { o.Reason, _ = v.Text() }),
	)
	switch {
	case !right:
	case kinds == 0:
		v.Refuse("must have at least one of hold, pin, floor, ceiling, noScaleDown and noScaleUp")
	case o.Hold && o.Pin >= 0:
		v.Refuse("can't have both hold and pin")
	case o.Ceiling >= 0 && o.Floor > o.Ceiling:
		v.Refuse("can't have a floor above the ceiling")
	case len(o.Reason) > 256:
		v.Refuse("must have a reason of at most 256 bytes")
	}
	return o
}

func isTrouble(k simulation.EventKind) bool {
	return k == simulation.MetricsGone || k == simulation.MetricsFrozen || k == simulation.MetricsZero || k == simulation.MetricsLate
}
