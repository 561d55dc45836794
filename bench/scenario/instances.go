package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/bench/client"
	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/process"
	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/bench/request"
)

// Instances is the name of the scenario whose figures package capacity reads.
const Instances = "instances"

var instances = Scenario{
	Name: Instances, Title: "Several instances on a Redis Cluster",
	Note: "One, two and four instances, each number on a Redis Cluster of three masters of its own, beside one instance on one Redis. Each instance has as many callers as the only one, with batches of 500 or single calls of ten pods, and keeps its targets. *One busy at a time*: the instances' callers take turns of half a second, so that the instances do not compete for this machine's processors, as they would not on machines of their own. *Any instance*: every call goes to the next of four instances, so that others have changed what an instance remembers. All share this machine's processors: compare processor times a decision, not rates. Thin batches of 12 have four decisions a master and round trip. Then all are idle for a minute, whose commands and processor times are counted.",
	play: (*stage).instances,
}

const (
	// ClusterMasters is how many masters each cluster has, and mostInstances the most
	// instances on it.
	ClusterMasters, mostInstances = 3, 4
	thinRequests, thinCallers     = ThinTogether * ClusterMasters, 8
	// singleCallers are an instance's, few enough that four instances on one machine do not
	// refuse calls.
	singleCallers = 8
)

// idle is how long commands are counted without calls, after a pause of settling in which what
// calls left to be done in the background is done. Tests shorten them.
var idle, settling = time.Minute, 20 * time.Second

// group is a number of instances on a Redis or a Cluster.
type group struct {
	name     string
	masters  []*process.Redis
	services []*process.Service
	client   *client.Client // a connection to each
	set      *request.Set
	resident float64 // of an empty instance, in bytes
}

// newGroup starts that many instances on a Cluster of that many masters; 0: on one Redis.
func (s *stage) newGroup(name string, instances, masters int) (*group, error) {
	g := &group{name: name}
	var url string
	if masters == 0 {
		one, err := s.redis()
		if err != nil {
			return nil, err
		}
		g.masters, url = []*process.Redis{one}, one.URL()
	} else {
		c, err := s.cluster(masters, false)
		if err != nil {
			return nil, err
		}
		g.masters, url = c.Masters, c.URL()
	}
	var addresses []string
	for range instances {
		service, err := s.serviceOn(url)
		if err != nil {
			return nil, err
		}
		g.services, addresses = append(g.services, service), append(addresses, service.GRPC)
	}
	var err error
	if g.client, err = client.DialAll(addresses); err != nil {
		return nil, err
	}
	s.onEnd(g.client.Close)
	g.resident = process.Resident(g.services[0].PID())
	return g, nil
}

// The parts of a group's sides, with numbers.
const servicePart, redisPart = "service", "Redis"

func (g *group) parts() map[string]int {
	parts := map[string]int{}
	for i, service := range g.services {
		parts[fmt.Sprint(servicePart, " ", i+1)] = service.PID()
	}
	for i, master := range g.masters {
		parts[fmt.Sprint(redisPart, " ", i+1)] = master.PID()
	}
	return parts
}

// micros are the processor times of a decision in the parts of that kind.
func microsOf(r *run, kind string) (all []float64) {
	for part, micros := range r.micros {
		if strings.HasPrefix(part, kind) {
			all = append(all, micros)
		}
	}
	return all
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// uneven is how much the greatest of the values is above their mean, in percent.
func uneven(values []float64) float64 {
	return 100 * (slices.Max(values)*float64(len(values))/sum(values) - 1)
}

// Positions of groups: of the one that others are compared with, and of the one whose calls go
// to any instance.
const oneInstance, anyInstance = 1, 4

// oneAtATime is the same load, of which each slice drives one instance.
func (g *group) oneAtATime(name string, callers, requests int) side {
	s := g.side(name, g.client, callers, requests)
	all := callers * len(g.services)
	call := g.client.Unary(g.set, all)
	if requests > 0 {
		call = g.client.Batch(g.set, all, requests)
	}
	slice := 0
	s.drive = func(ctx context.Context, d time.Duration) *load.Result {
		instance := slice % len(g.services)
		slice++
		return load.Closed(ctx, callers, d, func(ctx context.Context, caller int) error {
			return call(ctx, caller*len(g.services)+instance) // whose connection is that instance's
		})
	}
	return s
}

// side is a load on the group: batches of that many requests, or single calls for 0.
func (g *group) side(name string, c *client.Client, callers, requests int) side {
	callers *= len(g.services)
	s := side{name: name, recommendations: max(1, requests), parts: g.parts()}
	if requests == 0 {
		s.drive = closed(callers, c.Unary(g.set, callers))
	} else {
		s.drive = closed(callers, c.Batch(g.set, callers, requests))
	}
	return s
}

func (s *stage) instances() ([]report.Figure, error) {
	set, err := request.NewSet(0, s.Targets, usualPods, false)
	if err != nil {
		return nil, err
	}
	var groups []*group
	for i, of := range []struct{ instances, masters int }{{1, 0}, {1, ClusterMasters}, {2, ClusterMasters}, {mostInstances, ClusterMasters}, {mostInstances, ClusterMasters}} {
		g, err := s.newGroup(Groups[i], of.instances, of.masters)
		if err != nil {
			return nil, err
		}
		if i == anyInstance {
			g.client = g.client.Spread()
		}
		groups = append(groups, g)
	}
	sizes, err := s.fillGroups(groups, set)
	if err != nil {
		return nil, err
	}
	figures := sizes
	batch := min(batchRequests, s.Targets/(batchCallers*mostInstances))
	for _, kind := range []struct {
		name              string
		callers, requests int
	}{{Batches, batchCallers, batch}, {Single, min(singleCallers, s.Callers), 0}} {
		measured, err := s.loads(groups, kind.name, kind.callers, kind.requests)
		if err != nil {
			return nil, err
		}
		figures = append(figures, measured...)
	}
	idling, err := s.idleGroups(groups[:anyInstance])
	if err != nil {
		return nil, err
	}
	size, err := s.targetBytes(groups[0])
	return append(append(figures, idling...), size), err
}

// targetBytes is the memory that further targets take, whose record has its full length: what
// Redis has whatever their number is does not count.
func (s *stage) targetBytes(g *group) (report.Figure, error) {
	f := report.Figure{Name: TargetBytes, Unit: "B"}
	more := min(s.Stored, 2*s.Targets)
	set, err := request.NewSet(s.Targets, more, storedPods, false)
	if err != nil {
		return f, err
	}
	before, err := g.masters[0].UsedMemory(s.ctx)
	if err != nil {
		return f, err
	}
	if err := s.fill(g.client, set, s.Rounds); err != nil {
		return f, err
	}
	after, err := g.masters[0].UsedMemory(s.ctx)
	f.Runs = []float64{(after - before) / float64(more)}
	return f, err
}

// fillGroups gives each group's targets histories, and returns what these take.
func (s *stage) fillGroups(groups []*group, set *request.Set) (figures []report.Figure, err error) {
	for i, g := range groups {
		g.set = set.Anew()
		answer, err := s.warm(g.client, g.set)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			figures = append(figures,
				report.Figure{Name: RequestBytes, Unit: "B", Runs: []float64{float64(len(g.set.Part(0, 1).Append(nil)))}},
				report.Figure{Name: AnswerBytes, Unit: "B", Runs: []float64{float64(len(answer))}},
				report.Figure{Name: InstanceBytes, Unit: "MiB", Runs: []float64{g.resident / (1 << 20)}})
			continue
		}
		var keys []float64
		for _, m := range g.masters {
			n, err := m.Client.DBSize(s.ctx).Result()
			if err != nil {
				return nil, err
			}
			keys = append(keys, float64(n))
		}
		figures = append(figures, report.Figure{Name: g.name + FullestKeys, Unit: "%", Runs: []float64{uneven(keys)}})
	}
	return figures, nil
}

// Names of figures that package capacity reads; formats have the kind of calls and the group.
const (
	RequestBytes  = "a request, encoded"
	AnswerBytes   = "an answer, encoded"
	TargetBytes   = "Redis memory a further target"
	InstanceBytes = "an instance without targets, resident"
	BatchRequests = "requests of a batch"
	SentBytes     = "batches, one Redis: bytes to Redis a decision"
	ReceivedBytes = "batches, one Redis: bytes from Redis a decision"
	ServiceMicros = "%s, %s: service's processor time a decision"
	RedisMicros   = "%s, %s: Redis' processor time a decision"
	IdleCommands  = "idle, %s: commands a minute and instance"

	// OfOne follows a processor time's name where it is beside that of one instance, and
	// FullestKeys a group's.
	OfOne       = ", of that of one instance"
	FullestKeys = ": keys of the fullest master, beyond the mean"

	// Batches, Thin and Single are kinds of calls.
	Batches = "batches"
	Thin    = "batches of 12"
	Single  = "single calls"
	// OneOnThree is a group.
	OneOnThree = "1 instance"
	// ThinTogether is how many requests of a thin batch a master has.
	ThinTogether = 4
)

// Groups are the names of those that are compared, and of loads on them, in the report's order.
var Groups = []string{
	"1 instance, one Redis", OneOnThree, "2 instances", "4 instances", "4 instances, any instance",
	"2 instances, one busy at a time", "4 instances, one busy at a time",
}

// flat is the most that a decision may cost with several instances, of what it costs with one.
const flat = 105

// loads puts that load on each group in turns, and thin batches besides batches.
func (s *stage) loads(groups []*group, kind string, callers, requests int) ([]report.Figure, error) {
	var sides []side
	for _, g := range groups {
		sides = append(sides, g.side(g.name, g.client, callers, requests))
	}
	for _, g := range groups[oneInstance+1 : anyInstance] {
		sides = append(sides, g.oneAtATime(g.name+", one busy at a time", callers, requests))
	}
	full := len(sides)
	if requests > 0 {
		for i := range groups { // each instance gets to know its targets
			sides[i].drive(s.ctx, s.Duration)
		}
		sides = append(sides, groups[oneInstance].side(Thin, groups[oneInstance].client, thinCallers, thinRequests))
	}
	in, out, err := groups[0].masters[0].Network(s.ctx)
	if err != nil {
		return nil, err
	}
	runs, err := s.compare(sides, s.longSlice())
	if err != nil {
		return nil, err
	}
	var figures []report.Figure
	if requests > 0 {
		inNow, outNow, err := groups[0].masters[0].Network(s.ctx)
		if err != nil {
			return nil, err
		}
		done := 0
		for _, r := range runs[0] {
			done += r.Done * requests
		}
		figures = append(figures, report.Figure{Name: BatchRequests, Runs: []float64{float64(requests)}}, report.Figure{Name: SentBytes, Unit: "B", Runs: []float64{(inNow - in) / float64(done)}},
			report.Figure{Name: ReceivedBytes, Unit: "B", Runs: []float64{(outNow - out) / float64(done)}})
	}
	one := runs[oneInstance]
	for i := range sides {
		of := kind
		name := sides[i].name
		if name == Thin {
			of, name = Thin, groups[oneInstance].name
		}
		figures = append(figures, rates(of+", "+name, runs[i], nil))
		for _, part := range []struct{ kind, format string }{{servicePart, ServiceMicros}, {redisPart, RedisMicros}} {
			cost := func(r *run) float64 { return sum(microsOf(r, part.kind)) }
			figures = append(figures, figure(fmt.Sprintf(part.format, of, name), "µs", runs[i], nil, cost))
			if i > oneInstance && i < full {
				beside := report.Figure{Name: fmt.Sprintf(part.format, of, name) + OfOne, Unit: "%"}
				if i > anyInstance {
					beside.Goal = report.AtMost(flat)
				}
				for n := range runs[i] {
					beside.Runs = append(beside.Runs, 100*cost(&runs[i][n])/cost(&one[n]))
				}
				figures = append(figures, beside)
			}
		}
		if i >= oneInstance && i < full {
			figures = append(figures, figure(of+", "+name+": processor time of the busiest master, beyond the mean", "%", runs[i], nil,
				func(r *run) float64 { return uneven(microsOf(r, redisPart)) }))
		}
	}
	return figures, nil
}

// idleGroups counts what all groups do in the same minute without calls. Scripts' commands
// count as well.
func (s *stage) idleGroups(groups []*group) (figures []report.Figure, err error) {
	pause := func(d time.Duration) error {
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	type state struct {
		commands       map[string]float64
		service, redis time.Duration
	}
	look := func() (states []state, err error) {
		for _, g := range groups {
			now := state{commands: map[string]float64{}}
			for _, m := range g.masters {
				commands, err := m.Commands(s.ctx)
				if err != nil {
					return nil, err
				}
				for name, calls := range commands {
					now.commands[name] += calls
				}
				now.redis += process.CPU(m.PID())
			}
			for _, service := range g.services {
				now.service += process.CPU(service.PID())
			}
			states = append(states, now)
		}
		return states, nil
	}
	if err := pause(settling); err != nil {
		return nil, err
	}
	before, err := look()
	if err == nil {
		err = pause(idle)
	}
	if err != nil {
		return nil, err
	}
	after, err := look()
	if err != nil {
		return nil, err
	}
	minutes := idle.Minutes()
	var kinds []string // whatever any group sends
	for i := range groups {
		for name := range after[i].commands {
			if !slices.Contains(ownCommands, name) {
				kinds = append(kinds, name)
			}
		}
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	for i, g := range groups {
		each := float64(len(g.services)) * minutes
		calls := map[string]float64{}
		for _, name := range kinds {
			if n := (after[i].commands[name] - before[i].commands[name]) / each; n > 0 {
				calls[name] = n
			}
		}
		figures = append(figures, report.Figure{Name: fmt.Sprintf(IdleCommands, g.name), Runs: []float64{sum(slices.Collect(maps.Values(calls)))}})
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			figures = append(figures, report.Figure{Name: fmt.Sprintf(IdleCommands, g.name) + ": " + strings.ToUpper(strings.ReplaceAll(name, "|", " ")), Runs: []float64{calls[name]}})
		}
		figures = append(figures,
			report.Figure{Name: "idle, " + g.name + ": processor time a minute of an instance", Unit: "ms", Runs: []float64{millis(after[i].service-before[i].service) / each}},
			report.Figure{Name: "idle, " + g.name + ": processor time a minute of all of Redis", Unit: "ms", Runs: []float64{millis(after[i].redis-before[i].redis) / minutes}})
	}
	if len(figures) == 0 {
		return nil, errors.New("nothing was counted")
	}
	return figures, nil
}

// ownCommands are those by which this program counts.
var ownCommands = []string{"info", "dbsize"}
