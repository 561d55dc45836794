package simulation

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

// fleetRun is one run of a fleet: a world for each member, which pass the same instants together.
type fleetRun struct {
	rule    FleetRule
	members []*member
	// whole has the sums of all members, and their load. own reports whether some of it belongs to one.
	whole *world
	own   bool
	// global reports whether there are metrics of which all read the whole.
	global bool
	// nextRound is the next evaluation of the whole, decided the decision since the one before, last the last
	// one; nil: there is none.
	nextRound     time.Duration
	decided, last *recommender.Decision
	// shares are those at the last round.
	shares  []int32
	result  *Result
	observe func(*Step) error
	// spec and record are of Setpoint's rules, federated of Karmada's.
	spec      *fleet.Spec
	record    fleet.Record
	federated federated
	ids       uint64
	// work and pods are those of all, but for what the limited member has added since.
	work    int64
	pods    int
	limited *member
	// mostWork and mostKept limit the run.
	mostWork, mostKept int64
	workBefore         int64
	podsBefore         int
}

// member is a cluster of a fleet.
type member struct {
	*world
	name string
	of   *FleetMember
	// call is on its way, until arrives; nil: none is.
	call    *fleet.Call
	arrives time.Duration
	// alone is its own autoscaler; nil: it has none.
	alone *noting
}

// noting keeps the last decision of an engine.
type noting struct {
	Engine
	last *recommender.Decision
}

// Recommend implements Engine.
func (n *noting) Recommend(now time.Time, in *recommender.Input) (recommender.Decision, error) {
	d, err := n.Engine.Recommend(now, in)
	n.last = &d
	return d, err
}

// told is the engine of a cluster that is told its count.
type told struct{ Engine }

// Settle implements Engine.
func (told) Settle(recommender.ID, recommender.Outcome, string) error { return nil }

// RunFleet runs a scenario with a fleet by one rule. Observe, which may be nil, sees an evaluation of the
// whole fleet each period; the members call in between, each at its own instant. The context ends the run.
func RunFleet(ctx context.Context, s *Scenario, a *Autoscaler, rule FleetRule, observe func(*Step) error) (*Result, error) {
	return runFleet(ctx, s, a, rule, Limits{Actions: true}, observe)
}

func runFleet(ctx context.Context, s *Scenario, a *Autoscaler, rule FleetRule, limits Limits, observe func(*Step) error) (*Result, error) {
	if err := CheckFleet(s, a); err != nil {
		return nil, err
	}
	f, err := newFleetRun(ctx, s, a, rule, limits)
	if err != nil {
		return nil, err
	}
	f.observe = observe
	for _, m := range f.members {
		if err := m.certainlyTooMuch(); err != nil {
			return nil, err
		}
	}
	for {
		if err := f.settle(); err != nil {
			return nil, err
		}
		if f.whole.now >= s.Duration {
			break
		}
		next := s.Duration
		f.balance()
		for _, m := range f.members {
			if next = min(next, m.next(), f.nextRound); m.call != nil {
				next = min(next, m.arrives)
			}
		}
		f.advance(next)
	}
	f.finish()
	return f.result, nil
}

func newFleetRun(ctx context.Context, s *Scenario, a *Autoscaler, rule FleetRule, limits Limits) (*fleetRun, error) {
	f := &fleetRun{rule: rule, result: &Result{}, spec: s.Fleet.spec(s, a, rule), nextRound: s.Loop.Offset, federated: newFederated(s, a)}
	around := engineIn(s, a).(*production)
	if plan := around.plan; plan != nil { // as in the service: freshness is of the members' readings
		decides := *plan
		decides.Freshness = nil
		around.plan = &decides
	}
	f.spec.Decide = func(now time.Time, in *recommender.Input, least []int32, history *recommender.History) (recommender.Decision, recommender.History) {
		return around.kept.Recommend(stages.Around{Plan: around.plan, Overrides: stages.InForce(around.overrides, now), Least: least}, now, in, history)
	}
	all := *s
	loads := []*Trace{s.Load}
	f.shares = s.Fleet.replicas(s, a)
	total := 0.0
	for _, n := range f.shares {
		total += float64(n)
	}
	count := time.Duration(len(s.Fleet.Members))
	for i := range s.Fleet.Members {
		of := &s.Fleet.Members[i]
		part := 1 / float64(count)
		if total > 0 {
			part = float64(f.shares[i]) / total
		}
		if of.Own != nil {
			loads, f.own = append(loads, of.Own), true
		}
		m := &member{name: of.Name, of: of}
		var engine Engine = told{}
		own := s.Fleet.autoscaler(i, a)
		if rule == Independent {
			m.alone = &noting{Engine: EngineOf(own)}
			engine = m.alone
		}
		m.world = newWorldOf(s.of(i), own, engine, part, of.Own, f.shares[i])
		m.limit(ctx, limits)
		m.keepsActions = false // those of the whole are kept
		f.mostWork, f.mostKept = m.mostWork, m.mostKept
		m.mostWork /= int64(count)
		f.members = append(f.members, m)
	}
	f.readWhole(s.Fleet)
	f.whole = &world{scenario: &all, autoscaler: a, syncPeriod: defaulted(s.Loop.SyncPeriod), needs: needsOf(s, a), part: 1}
	f.whole.limit(ctx, limits)
	if f.own {
		points := int64(0)
		for _, load := range loads {
			points += int64(len(load.points))
		}
		f.whole.work = points * int64(len(loads)) / pointsOfALook // each load is looked up at the points of all
	}
	if err := f.tooMuch(); err != nil {
		return nil, err
	}
	var err error
	all.Load, err = Sum(loads...)
	return f, err
}

// readWhole makes each member read the whole of the global metrics, which is measured where all call.
func (f *fleetRun) readWhole(fleet *Fleet) {
	all := make([]*world, len(f.members))
	for i, m := range f.members {
		all[i] = m.world
	}
	for _, m := range f.members {
		n := int64(0)
		for i := range m.metrics {
			if fleet.global(m.metrics[i].spec) {
				m.metrics[i].worlds, n = all, n+1
			}
		}
		if f.global = n > 0; !f.global {
			return
		}
		m.metricsAtAStep += n * looksToMeasure * int64(len(all))
		if m.logsPods {
			m.keptOfAPod += 2 * int64(m.logLength*len(all))
		}
		m.logLength *= 1 + len(all)
	}
}

// replicas are the initial numbers: those of the members, or parts of the scenario's number.
func (f *Fleet) replicas(s *Scenario, a *Autoscaler) []int32 {
	shares := fleet.Split(f.seats(), s.replicas(a), 0).Of
	for i := range f.Members {
		if n := f.Members[i].Replicas; n != nil {
			shares[i] = *n
		}
	}
	return shares
}

// seats are those of members that have no replicas yet.
func (f *Fleet) seats() []fleet.Seat {
	seats := make([]fleet.Seat, len(f.Members))
	for i := range f.Members {
		m := &f.Members[i]
		seats[i] = fleet.Seat{Weight: m.Weight, Floor: m.Min, Cap: m.Max}
		if m.Max < 0 {
			seats[i].Cap = MaxPods
		}
		if m.Drained {
			seats[i].Weight, seats[i].Floor = 0, 0
		}
	}
	return seats
}

// of is the scenario of a member. The members take turns in calling and draw their own random numbers.
func (s *Scenario) of(i int) *Scenario {
	m := &s.Fleet.Members[i]
	own := *s
	own.Fleet, own.Events = nil, nil
	own.Seed = draw(s.Seed, memberStream, uint64(i))
	own.Loop.Offset += time.Duration(i) * defaulted(s.Loop.SyncPeriod) / time.Duration(len(s.Fleet.Members))
	if m.Startup != nil {
		own.Workload.Startup = *m.Startup
	}
	if m.Slots != nil {
		own.Workload.Slots = *m.Slots
	}
	for _, e := range s.Events {
		if e.Member == "" || e.Member == m.Name {
			own.Events = append(own.Events, e)
		}
	}
	return &own
}

// autoscaler is that of one cluster alone: its minimum is the member's part of the fleet's, at least 1, and its
// maximum the member's, or the fleet's. Its pods have the member's name.
func (f *Fleet) autoscaler(i int, a *Autoscaler) *Autoscaler {
	own, m := *a, &f.Members[i]
	own.Spec.ScaleTargetRef.Name = m.Name
	own.Spec.MinReplicas = max(1, m.Min, fleet.Split(f.seats(), a.Spec.MinReplicas, 0).Of[i])
	if m.Max >= 0 {
		own.Spec.MaxReplicas = min(own.Spec.MaxReplicas, m.Max)
	}
	own.Spec.MaxReplicas = max(own.Spec.MaxReplicas, own.Spec.MinReplicas)
	return &own
}

// settle does everything due at this instant.
func (f *fleetRun) settle() error {
	f.work, f.pods, _ = f.spent()
	for _, m := range f.members {
		f.limit(m)
		if err := m.settle(); err != nil {
			return err
		}
	}
	for _, m := range f.members {
		f.limit(m)
		if m.call != nil && m.arrives <= m.now {
			call := m.call
			if m.call = nil; !m.unheard() {
				if err := f.hear(m, call); err != nil {
					return err
				}
			}
		}
		if m.nextSync <= m.now && m.now < f.whole.scenario.Duration {
			m.nextSync += m.syncPeriod
			if err := f.sync(m); err != nil {
				return err
			}
		}
	}
	if f.nextRound <= f.whole.now && f.whole.now < f.whole.scenario.Duration {
		f.nextRound += f.whole.syncPeriod
		if err := f.round(); err != nil {
			return err
		}
	}
	return f.tooMuch()
}

// unheard reports whether nothing from the cluster arrives.
func (m *member) unheard() bool { return m.down.is(m.now) || m.silent.is(m.now) }

// sync is the member's turn: it calls, or decides alone. While it still does what it was told, it waits.
func (f *fleetRun) sync(m *member) error {
	if f.global {
		for _, other := range f.members {
			other.note()
		}
	}
	switch {
	case m.pending != nil || m.call != nil || m.down.is(m.now) || f.rule == Karmada:
		return nil
	case f.rule == Independent:
		return m.evaluate(&Result{}, nil)
	case m.unheard():
		return nil
	}
	in, now := m.seen(), m.scenario.Start.Add(m.now)
	if plan := f.whole.autoscaler.Stages; plan != nil {
		fresh := plan.Fresh(now, in)
		in = &fresh
	}
	digest, err := fleet.NewDigest(now, in, m.name, f.spec.Version)
	if digest.Min, digest.Max = f.spec.OwnMin(m.name, m.of.OwnMin), m.of.OwnMax; m.of.OwnMax == 0 {
		digest.Max = -1
	}
	f.ids++
	call := &fleet.Call{
		Member: m.name, Digest: digest, Blind: err != nil, Explain: true,
		Off: in.Scale.SpecReplicas == 0 && m.of.OwnMin > 0, Zeroed: f.spec.Engine.MinReplicas == 0,
	}
	binary.BigEndian.PutUint64(call.ID[8:], f.ids)
	if late := m.callsLate.now(m.now); late > 0 {
		m.call, m.arrives = call, m.now+late
		return nil
	}
	return f.hear(m, call)
}

// seen is what the member shows at this instant, which is paid for.
func (m *member) seen() *recommender.Input {
	m.looked(m.looksAtAStep)
	m.work += m.metricsAtAStep + looksOfAStep
	return m.observe()
}

// hear takes a member's call, and does what the answer says.
func (f *fleetRun) hear(m *member, call *fleet.Call) error {
	f.whole.work += int64(len(f.members))
	next, answer, err := fleet.Step(m.scenario.Start.Add(m.now), f.spec, &f.record, call)
	if err != nil {
		return fmt.Errorf("at %s, %s: %w", m.now, m.name, err)
	}
	f.record = next
	if answer.Decision != nil {
		f.whole.work += int64(len(f.members) * len(f.spec.Engine.Metrics) * looksToMeasure)
		f.decide(answer.Decision)
	}
	if answer.Holds || answer.Off {
		return nil
	}
	share := call.Digest.Within(answer.Share)
	if !m.of.Drained {
		share = max(share, m.of.OwnMin)
	}
	return m.tell(share)
}

// tell asks the cluster for a count, if it is another one.
func (m *member) tell(count int32) error {
	if count == m.replicas || m.pending != nil {
		return nil
	}
	return m.ask(recommender.ID{}, count)
}

// decide takes a decision for the whole.
func (f *fleetRun) decide(d *recommender.Decision) {
	f.whole.remembered(d)
	f.decided, f.last = d, d
}

// round evaluates the whole.
func (f *fleetRun) round() error {
	w := f.whole
	if f.rule == Karmada {
		if err := f.federate(); err != nil {
			return err
		}
	}
	shares := make([]int32, len(f.members))
	total, before, gained, lost := int32(0), int32(0), int32(0), int32(0)
	for i, m := range f.members {
		shares[i] = f.shareOf(i, m)
		total, before = total+shares[i], before+f.shares[i]
		gained, lost = gained+max(0, shares[i]-f.shares[i]), lost+max(0, f.shares[i]-shares[i])
	}
	f.shares = shares
	w.figures.wrote(w.now, before, total)
	w.figures.moved += int(min(gained, lost))
	if f.rule == Independent {
		f.loudest(before, total)
	}
	f.sums()
	step := Step{
		At: w.now, Time: w.scenario.Start.Add(w.now), Load: w.loadAt(w.now), Capacity: w.capacity,
		Queued: w.service.queued, Served: w.service.served, Lost: w.service.lost, Late: w.service.late,
		Replicas: total, Ready: int32(w.ready), Running: int32(w.runningPods),
		Proposal: -1, Cause: CauseOther, Decision: f.last,
	}
	step.Needed = needed(w.needs, &w.autoscaler.Spec, step.Load, false)
	switch {
	case f.last == nil:
		step.Decision = &recommender.Decision{Current: total, Desired: total}
	case f.rule != Independent:
		step.Proposal = proposalOf(f.last)
	}
	if f.last != nil {
		step.Cause = causeOf(f.last)
	}
	if d := f.decided; d != nil {
		w.figures.decided(w, d, step.Cause)
	}
	if before != total && w.keepsActions {
		action := Action{At: w.now, From: before, To: total, Load: step.Load, Reason: "a member was lost, has returned, or has not what it was told", Cause: CauseMembers}
		if f.decided != nil && f.decided.Changes() {
			action.Reason, action.Cause = ReasonOf(f.decided), step.Cause
		}
		f.result.Actions = append(f.result.Actions, action)
	}
	f.decided = nil
	f.result.Steps++
	if f.observe == nil {
		return nil
	}
	for i, m := range f.members {
		step.Members = append(step.Members, MemberStep{Name: m.name, Share: shares[i], Replicas: m.asked(), Ready: int32(m.ready)})
	}
	return f.observe(&step)
}

// shareOf is the count that a member is to have.
func (f *fleetRun) shareOf(i int, m *member) int32 {
	switch {
	case f.rule == Independent:
		return m.asked()
	case f.rule == Karmada:
		return f.federated.shares[i]
	case i < len(f.record.Members) && f.record.Members[i].HasShare:
		return f.record.Members[i].Share
	}
	return m.replicas
}

// loudest makes the decision with the highest usage stand for all, where each cluster decides alone.
func (f *fleetRun) loudest(before, after int32) {
	var loudest *recommender.Decision
	most := -1.0
	for _, m := range f.members {
		if m.alone.last == nil {
			continue
		}
		usage := 0.0
		if e := m.alone.last.Explanation; e != nil {
			for i := range e.Metrics {
				usage = max(usage, e.Metrics[i].UsageRatio)
			}
		}
		if usage > most {
			loudest, most = m.alone.last, usage
		}
		m.alone.last = nil
	}
	if loudest != nil {
		d := *loudest
		d.Current, d.Desired = before, after
		f.decided, f.last = &d, &d
	}
}

// balance spreads the load by the pods that serve; where none does, it arrives at all clusters that are there.
func (f *fleetRun) balance() {
	serving, there := 0, 0
	for _, m := range f.members {
		if serving += len(m.serving); !m.down.is(m.now) {
			there++
		}
	}
	for _, m := range f.members {
		switch {
		case serving > 0:
			m.part = float64(len(m.serving)) / float64(serving)
		case there == 0:
			m.part = 1 / float64(len(f.members))
		case m.down.is(m.now):
			m.part = 0
		default:
			m.part = 1 / float64(there)
		}
	}
}

// sums adds up the members.
func (f *fleetRun) sums() {
	w := f.whole
	w.replicas, w.ready, w.runningPods, w.capacity, w.service = 0, 0, 0, 0, service{}
	for _, m := range f.members {
		w.replicas += m.asked()
		w.ready += m.ready
		w.runningPods += m.runningPods
		w.capacity += m.capacity
		w.service.add(&m.service)
	}
}

func (s *service) add(t *service) {
	s.offered += t.offered
	s.served += t.served
	s.lost += t.lost
	s.queued += t.queued
	s.inFlight += t.inFlight
	s.late += t.late
}

// advance lets time pass for all.
func (f *fleetRun) advance(to time.Duration) {
	w := f.whole
	if to <= w.now {
		return
	}
	w.work += int64(len(f.members))
	f.sums()
	from, before, length := w.loadAt(w.now), w.loadBefore(to), to-w.now
	short := w.figures.short
	w.figures.pass(w, from, before, length)
	for _, m := range f.members {
		// With load of its own a cluster may be short alone. What rounding does is no shortage.
		if f.own && half(m.loadAt(m.now)+m.loadBefore(to)) > m.capacity+mul(m.capacity, 1e-9) {
			w.figures.short = short + length
		}
		m.advance(to)
	}
	w.now = to
}

// limit gives a member what the others leave.
func (f *fleetRun) limit(m *member) {
	if of := f.limited; of != nil {
		f.work, f.pods = f.work+of.work-f.workBefore, f.pods+len(of.pods)-f.podsBefore
	}
	f.limited, f.workBefore, f.podsBefore = m, m.work, len(m.pods)
	m.mostWork, m.mostPods = m.work+f.mostWork-f.work, len(m.pods)+MaxPods-f.pods
}

// spent is what all members have taken: of time, of pods, and of memory.
func (f *fleetRun) spent() (work int64, pods int, kept int64) {
	f.limited = nil
	work = f.whole.work
	for _, m := range f.members {
		work, pods, kept = work+m.work, pods+len(m.pods), kept+int64(len(m.pods))*m.keptOfAPod
	}
	return work, pods, kept
}

// tooMuch returns an error when the run has exceeded its limits, or was ended.
func (f *fleetRun) tooMuch() error {
	if ctx := f.whole.ctx; ctx.Err() != nil {
		return fmt.Errorf("at %s: %w", f.whole.now, context.Cause(ctx))
	}
	work, pods, kept := f.spent()
	if work > f.mostWork || pods > MaxPods || kept > f.mostKept {
		return fmt.Errorf("%w: at %s its %d members have evaluated pods and metrics %d times, have %d pods and store up to %d numbers for them, the maxima are %d, %d and %d; shorten it, lengthen loop.syncPeriod, or lower maxReplicas or the number of members",
			ErrTooMuch, f.whole.now, len(f.members), work, pods, kept, f.mostWork, MaxPods, f.mostKept)
	}
	return nil
}

// finish computes the figures.
func (f *fleetRun) finish() {
	f.sums()
	w := f.whole
	for _, m := range f.members {
		w.figures.failedWrites += m.figures.failedWrites
	}
	out := w.figures.result(w)
	out.Moved = w.figures.moved
	for _, m := range f.members {
		out.Members = append(out.Members, MemberFigures{m.name, m.figures.result(m.world)})
	}
	f.result.Figures = out
	f.result.Work, _, _ = f.spent()
}
