package scenario

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/simulation"
)

// ownLoad is load that belongs to one member.
type ownLoad struct {
	member int
	at     document.Value
	parts  []*part
}

// fleet reads the clusters of a fleet, if the file has them, and returns what load belongs to one of them.
func (r *reader) fleet(v document.Value) (own []ownLoad) {
	if v == (document.Value{}) {
		return nil
	}
	f := &simulation.Fleet{}
	v.Map(
		document.Required("members", func(v document.Value) {
			v.List(func(i int, v document.Value) {
				switch {
				case i < fleet.MaxMembers:
					own = append(own, r.member(f, v)...)
				case i == fleet.MaxMembers:
					v.Refuse("there are more than %d", fleet.MaxMembers)
				}
			})
		}),
		document.Optional("staleAfter", positive(&f.StaleAfter, time.Hour)),
		document.Optional("lostAfter", positive(&f.LostAfter, 24*time.Hour)),
		document.Optional("maxMoves", whole(&f.MaxMoves, 1000)),
		document.Optional("scopes", func(v document.Value) {
			v.Entries(func(name string, _, v document.Value) {
				global := false
				if word(&global, []string{"GLOBAL", "PER_MEMBER"}, []bool{true, false})(v); global {
					f.Global = append(f.Global, name)
				}
			})
		}),
		document.Optional("rules", func(v document.Value) {
			v.List(func(_ int, v document.Value) {
				names := simulation.FleetRuleNames()
				values := make([]simulation.FleetRule, len(names))
				for i := range values {
					values[i] = simulation.FleetRule(i)
				}
				rule := simulation.FleetRule(len(names))
				switch word(&rule, names, values)(v); {
				case int(rule) == len(names):
				case slices.Contains(f.Rules, rule):
					v.Refuse("is named twice")
				default:
					f.Rules = append(f.Rules, rule)
				}
			})
		}),
	)
	r.scenario.Fleet = f
	return own
}

func (r *reader) member(f *simulation.Fleet, v document.Value) (own []ownLoad) {
	m := simulation.FleetMember{Weight: 1, Max: -1}
	start := simulation.Startup{}
	var latest, p95 time.Duration
	starts := false
	v.Map(
		document.Required("name", func(v document.Value) { m.Name, _ = v.Text() }),
		document.Optional("weight", whole(&m.Weight, fleet.MaxWeight)),
		document.Optional("minReplicas", whole(&m.Min, simulation.MaxPods)),
		document.Optional("maxReplicas", whole(&m.Max, simulation.MaxPods)),
		document.Optional("drained", func(v document.Value) { m.Drained, _ = v.Bool() }),
		document.Optional("own", func(v document.Value) {
			v.Map(
				document.Optional("minReplicas", whole(&m.OwnMin, simulation.MaxPods)),
				document.Optional("maxReplicas", whole(&m.OwnMax, simulation.MaxPods)),
			)
		}),
		document.Optional("replicas", func(v document.Value) {
			n := int32(0)
			whole(&n, simulation.MaxPods)(v)
			m.Replicas = &n
		}),
		document.Optional("startup", func(v document.Value) { starts = true; duration(&start.From, 24*time.Hour)(v) }),
		document.Optional("startupMax", positive(&latest, 24*time.Hour)),
		document.Optional("startupP95", positive(&p95, 24*time.Hour)),
		document.Optional("slots", func(v document.Value) {
			n := int32(0)
			whole(&n, simulation.MaxPods)(v)
			m.Slots = &n
		}),
		document.Optional("load", func(v document.Value) {
			common := r.parts
			r.parts = nil
			v.List(r.part)
			own = append(own, ownLoad{len(f.Members), v, r.parts})
			r.own, r.parts = append(r.own, r.parts...), common
		}),
	)
	if starts || latest > 0 || p95 > 0 {
		startup(v, &start, latest, p95)
		m.Startup = &start
	}
	f.Members = append(f.Members, m)
	return own
}

// ownNoise adds the noise to load that belongs to one member, which draws apart from the others.
func (r *reader) ownNoise(member string, at document.Value, load *simulation.Trace) *simulation.Trace {
	if load == nil || r.noise.variation == 0 || r.noise.every < time.Second { // which is refused
		return load
	}
	s := &r.scenario
	if r.points += int(s.Duration / r.noise.every); r.points > simulation.MaxPoints {
		at.Refuse("with noise every %s the parts, up to this one, have more than %d points together", r.noise.every, simulation.MaxPoints)
		return nil
	}
	h := fnv.New64a()
	h.Write([]byte(member))
	noisy, err := load.Noise(s.Seed^h.Sum64(), r.noise.variation, r.noise.every, s.Duration)
	if err != nil {
		at.Refuse("%v", err)
	}
	return noisy
}

// sortFleet sorts the members by name, as fleets have them.
func (r *reader) sortFleet() {
	if r.scenario.Fleet != nil {
		slices.SortStableFunc(r.scenario.Fleet.Members, func(a, b simulation.FleetMember) int { return cmp.Compare(a.Name, b.Name) })
	}
}
