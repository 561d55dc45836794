//go:build !js

package lint

import (
	"errors"
	"math"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/simulation"
)

// readFleet is a fleet of the files, or what is wrong with it.
type readFleet struct {
	spec     *fleet.Spec
	problems []error
}

// readFleets reads the fleets of the stored specs, as the service does.
func (l *Linter) readFleets() {
	l.fleets, l.named = make(map[*autoscalingv2.HorizontalPodAutoscaler]*readFleet), make(map[string]*fleet.Spec)
	for i, written := range l.dump.Autoscalers {
		stored := l.loose[written]
		if stored.GetFleet() == nil {
			continue
		}
		a, err := l.specAlone(i, written)
		if err != nil {
			continue // Check tells
		}
		read := &readFleet{}
		of, more := conversion.Fleet(stored.GetName(), stored, &recommender.Input{Namespace: a.Namespace, Spec: a.Spec, Options: a.Options})
		violations := append(validation.StructureAt("fleet", stored.GetFleet()), more...)
		for _, v := range violations {
			read.problems = append(read.problems, errors.New(v.String()))
		}
		if read.problems == nil {
			read.spec = of
			if stored.GetName() != "" {
				l.named[stored.GetName()] = of
			}
		}
		l.fleets[written] = read
	}
}

// memberOf says what an autoscaler is in its fleet, if the files have that; nil: they have not. Manifests don't tell
// their cluster, as requests do, so members of that namespace and name in any cluster may be meant.
func (l *Linter) memberOf(written *autoscalingv2.HorizontalPodAutoscaler, a *simulation.Autoscaler) (*Membership, error) {
	name, err := l.dump.Fleet(written)
	of := l.named[name]
	if err != nil || of == nil {
		return nil, err
	}
	m, known := &Membership{Name: name}, l.loose[written].GetName()
	for i := range of.Members {
		one := &of.Members[i]
		if t, _ := target.Parse(one.Name); t.Namespace != written.Namespace || t.Target != written.Name || known != "" && known != one.Name {
			continue
		}
		most := of.Engine.MaxReplicas
		switch {
		case one.Drained():
			most = math.MaxInt32 // its own minimum does not count
		case one.Max >= 0:
			most = min(most, one.Max)
		}
		m.Members, m.Most = m.Members+1, max(m.Most, most)
	}
	m.Metric, m.Differs = conversion.FleetDifference(of, &a.Spec)
	return m, nil
}
