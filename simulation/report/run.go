package report

import (
	"time"

	"github.com/setpoint-dev/setpoint/simulation"
)

// Run is the result of one autoscaler.
type Run struct {
	// Name is the spec's, as the user gave it.
	Name   string
	Result *simulation.Result
	// Plot is the run's picture, nil unless one is wanted.
	Plot *Plot
}

// Report is the results of all autoscalers in one scenario.
type Report struct {
	// Name is the scenario's, as the user gave it.
	Name     string
	Scenario *simulation.Scenario
	Runs     []Run
	// Recorded is the count that there really was, nil: not known. Pictures have it.
	Recorded *Plot
	// Inputs are what pages show that was simulated, nil: nothing.
	Inputs []Input
}

// Input is a scenario, or a spec with its options and stages, as YAML.
type Input struct{ Name, Text string }

// steps is how many evaluations a run has.
func (r *Report) steps() int { return r.Runs[0].Result.Steps }

// Columns is how many columns a picture has.
const Columns = 900

// line is one quantity over time, by columns: first and last, least and most.
type line struct{ first, least, most, last [Columns]float64 }

func (l *line) add(column int, fresh bool, v float64) {
	if fresh {
		l.first[column], l.least[column], l.most[column] = v, v, v
	}
	l.least[column], l.most[column], l.last[column] = min(l.least[column], v), max(l.most[column], v), v
}

// Plot gathers what a picture shows, in space that does not grow with the run.
type Plot struct {
	duration time.Duration
	seen     [Columns]bool

	load, capacity, queued           line
	replicas, ready, needed, desired line
	unlimited                        bool
	// members are the replicas asked for in each member of a fleet.
	members []line
	// short are the columns with more load than capacity.
	short [Columns]bool
}

// NewPlot returns an empty one for a run of that length.
func NewPlot(duration time.Duration) *Plot { return &Plot{duration: duration} }

// Count takes a recorded count into the picture.
func (p *Plot) Count(at time.Duration, count float64) {
	column, fresh := p.column(at)
	p.replicas.add(column, fresh, count)
}

// column is that of an instant, and whether it has nothing yet.
func (p *Plot) column(at time.Duration) (column int, fresh bool) {
	column = min(max(int(float64(at)/float64(p.duration)*Columns), 0), Columns-1)
	fresh = !p.seen[column]
	p.seen[column] = true
	return column, fresh
}

// Add takes a step into the picture.
func (p *Plot) Add(s *simulation.Step) {
	column, fresh := p.column(s.At)
	p.load.add(column, fresh, s.Load)
	p.short[column] = p.short[column] || s.Load > s.Capacity
	if s.Capacity > 1e15 {
		p.unlimited = true
	}
	p.capacity.add(column, fresh, min(s.Capacity, 1e15))
	p.queued.add(column, fresh, s.Queued)
	p.replicas.add(column, fresh, float64(s.Replicas))
	p.ready.add(column, fresh, float64(s.Ready))
	p.needed.add(column, fresh, float64(s.Needed))
	p.desired.add(column, fresh, float64(s.Decision.Desired))
	if len(p.members) < len(s.Members) && len(s.Members) <= mostMembers {
		p.members = make([]line, len(s.Members))
	}
	for i := range p.members {
		p.members[i].add(column, fresh, float64(s.Members[i].Replicas))
	}
}
