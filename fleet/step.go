package fleet

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/numbers"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Errors of Step; test for them with errors.Is.
var (
	// ErrNotMember: the spec names no such member.
	ErrNotMember = errors.New("not a member of the fleet")
	// ErrVersion: the digest was made for another version of the spec.
	ErrVersion = errors.New("the digest is of another version of the fleet's spec")
)

// Call is a member's call.
type Call struct {
	// Member is its name, and Digest what it tells; Blind reports that it can tell nothing, see ErrBlind.
	Member string
	Digest Digest
	Blind  bool
	// Off reports whether it has 0 replicas, which its own spec does not allow. Unless the fleet has told it so,
	// somebody set them to 0: to HPA such a workload is switched off.
	Off bool
	// Zeroed reports whether its own status says that its 0 replicas are of an autoscaler, should the fleet not know.
	Zeroed bool
	// ID names the decision, if this call makes one; it must be unique per fleet.
	ID recommender.ID
	// Explain requests the explanation of that decision.
	Explain bool
}

// Answer is what a member learns, and for those who may see the fleet what the call decided.
type Answer struct {
	// Share is how many replicas the member is to have. If Holds, the fleet knows too little: it keeps those
	// that it has. Of one that is blind it is those that are known of it.
	Share int32
	Holds bool
	// State is the member's; Drained reports whether it is to become empty, and Off whether somebody switched
	// it off.
	State        State
	Drained, Off bool
	// Desired is the fleet's count as last decided, at Decided (the zero time: never); Total is the sum of
	// the shares. Unplaced is what no member could take, Missing how many replicas too few would remain
	// without the largest member, if SurviveOne.
	Desired, Total, Unplaced, Missing int32
	Decided                           time.Time
	// Members counts the members by state.
	Members Counts
	// Decision is that of this call; nil: it made none.
	Decision *recommender.Decision
}

// digestBytes is how many bytes a digest has as a rule.
const digestBytes = 192

// Capacity of members whose pods find no place to run.
const (
	// pendingFor is for how long one must find none before the member's share is limited to those that did, and for how long
	// a member must not do what it is told.
	pendingFor = time.Minute
	// capacityFor is for how long it is then limited; later it is tried again.
	capacityFor = 5 * time.Minute
)

// readyWithin is how long moves wait for a member's replicas to become ready: as long as a Deployment waits
// for progress until it has failed.
const readyWithin = 10 * time.Minute

// Step takes a member's call at that instant: it stores what the member tells, decides for the fleet if the
// last decision is a period old, and answers the member's share. If now is before the record's last call,
// that instant is used instead, unless it is so far in the future that a clock was wrong. Step does not change the given record.
func Step(now time.Time, spec *Spec, record *Record, call *Call) (Record, Answer, error) {
	i := spec.member(call.Member)
	switch {
	case i < 0:
		return Record{}, Answer{}, fmt.Errorf("%q: %w", call.Member, ErrNotMember)
	case call.Blind:
	case call.Digest.Version != spec.Version || len(call.Digest.Metrics) != len(spec.Engine.Metrics):
		return Record{}, Answer{}, ErrVersion
	}
	var told []byte
	if !call.Blind {
		told = AppendDigest(make([]byte, 0, digestBytes), &call.Digest)
	}
	if now.UnixNano() < record.Updated-int64(spec.StaleAfter) {
		r := record.withoutFuture(now.UnixNano())
		record = &r
	}
	at := max(now.UnixNano(), record.Updated)
	next := record.own(spec)
	mine := &next.Members[i]
	if next.Began == 0 {
		next.Began = at
	}
	if spec.paused(record, at) {
		next.Awake = at
	}
	next.Updated = at
	mine.hear(spec, &spec.Members[i], call, told, at, next.Decided != 0)
	answer := Answer{Drained: spec.Members[i].Drained()}
	if next.due(spec, at) {
		decision, err := next.decide(spec, call, at)
		if err != nil {
			return Record{}, Answer{}, err
		}
		answer.Decision = decision
	} else if told != nil {
		if err := readable(told, len(spec.Engine.Metrics)); err != nil { // it would stop all later decisions
			return Record{}, Answer{}, err
		}
	}
	answer.Share, answer.Holds, answer.Off = mine.Share, !mine.HasShare || mine.Gone, mine.Off
	switch {
	case call.Blind: // who can't see its replicas does not change them
		if answer.Share = mine.Answered; !mine.Obeys {
			answer.Share = mine.Had
		}
	case mine.Off:
		mine.Answered = 0
	default:
		mine.Answered = spec.most(&spec.Members[i], call.Digest.Within(mine.Share), call.Digest.Min)
	}
	answer.State = spec.stateOf(mine, next.Awake, at)
	answer.Desired, answer.Total, answer.Unplaced, answer.Missing = next.Desired, next.Total, next.Unplaced, next.Missing
	if next.Decided != 0 {
		answer.Decided = time.Unix(0, next.Decided).UTC()
	}
	for k := range spec.Members {
		answer.Members.add(spec.stateOf(&next.Members[k], next.Awake, at), spec.Members[k].Drained())
	}
	return next, answer, nil
}

// Within is what becomes of a share within the bounds of the caller.
func (d *Digest) Within(share int32) int32 {
	if d.Max >= 0 {
		share = min(share, d.Max)
	}
	return max(share, d.Min)
}

// hear takes a call. A member that was lost, or never seen, begins with the replicas that it has; so does one that
// was stale and comes back with others than it was told, and one that somebody else has scaled.
func (m *MemberRecord) hear(spec *Spec, member *Member, call *Call, told []byte, at int64, decided bool) {
	m.Seen = at
	if call.Blind {
		m.Told = min(m.Told, at-1) // before it was seen
		return
	}
	d, least := &call.Digest, call.Digest.Min
	if m.HasShare && !m.Gone { // what it was told counts, also once an override that let it have that is over
		least = max(least, m.Answered)
	}
	has := spec.most(member, d.Scale.SpecReplicas, least)
	begins := m.Off || m.Gone || !m.HasShare || has != m.Answered && at-m.Told > int64(spec.StaleAfter) || m.strayed(spec, member, has)
	if at-m.Told > int64(spec.StaleAfter) { // what was meanwhile is not known
		m.PendingSince, m.ShortSince = 0, 0
	}
	m.Told, m.Version, m.Digest = at, d.Version, told
	m.Emptied = has == 0 && (m.Emptied || member.Drained() || call.Zeroed && !m.HasShare || m.HasShare && !m.Off && m.Answered == 0 && decided)
	if m.Off = call.Off && !m.Emptied; m.Off {
		m.Share, m.Answered = 0, 0
	}
	if (m.Gone || !m.HasShare) && decided {
		m.Back = backAfter
	}
	if m.Gone = false; begins {
		m.Share, m.Answered, m.HasShare = has, has, true
	}
	short := max(0, m.Share-d.Ready)
	m.Stuck = min(m.Stuck, short)
	switch {
	case short == m.Stuck:
		m.ShortSince = 0
	case m.ShortSince == 0:
		m.ShortSince = at
	case at-m.ShortSince >= int64(readyWithin):
		m.ShortSince, m.Stuck = 0, short
	}
	if d.Unplaced == 0 {
		m.PendingSince = 0
	} else if m.PendingSince == 0 {
		m.PendingSince = at
	}
	switch {
	case m.PendingSince != 0 && at-m.PendingSince >= int64(pendingFor):
		m.Capacity, m.CapacityUntil = d.Placed, at+int64(capacityFor)
	case m.CapacityUntil != 0 && at >= m.CapacityUntil:
		m.Capacity, m.CapacityUntil = 0, 0
	case m.CapacityUntil != 0:
		m.Capacity = max(m.Capacity, min(d.Placed, has))
	}
	m.miss(spec, has, at)
}

// strayed reports whether the member has others than at its last call, and they lie not on the way to what it was told then. Nor do
// those of a slow one that the decision since then tells what it had. Somebody else has scaled it, or it has done by now what it was told before.
// As with a HorizontalPodAutoscaler that counts until the next decision, which is the first that knows of it: telling it the
// former share until then would undo what that decision may leave, and a slow one would follow its own past for ever.
func (m *MemberRecord) strayed(spec *Spec, member *Member, has int32) bool {
	var d Digest
	(&reader{Reader: numbers.Reader{Rest: m.Digest}}).head(&d)
	had := spec.most(member, d.Scale.SpecReplicas, d.Min)
	return m.Digest != nil && has != had && (has < min(had, m.Answered) || has > max(had, m.Answered) || had == m.Share && !m.Obeys)
}

// miss notes whether the member has what it was told. One that has not for a minute and a period, and has not changed, is not
// told to until some minutes are over, whatever the cause.
func (m *MemberRecord) miss(spec *Spec, has int32, at int64) {
	if m.RestUntil != 0 && at >= m.RestUntil {
		m.Rest, m.RestUntil = 0, 0
	}
	m.Rest = min(m.Rest, has)
	m.Obeys = has == m.Answered
	switch until := at + int64(capacityFor); {
	case m.Obeys && m.Had != has: // it does it after all
		if m.Rest, m.RestUntil = 0, 0; m.MissedSince != 0 && m.PendingSince == 0 {
			m.Capacity, m.CapacityUntil = 0, 0
		}
		m.MissedSince, m.Had = 0, 0
	case m.Obeys: // it was told to stay
		if at-m.MissedSince >= int64(capacityFor) && m.CapacityUntil == 0 && m.RestUntil == 0 {
			m.MissedSince, m.Had = 0, 0
		}
	case m.MissedSince == 0 || m.Had != has:
		m.MissedSince, m.Had = at, has
	case at-m.MissedSince < spec.patience():
	case has > m.Answered:
		m.Rest, m.RestUntil = has, until
	case m.CapacityUntil == 0:
		m.Capacity, m.CapacityUntil = has, until
	default:
		m.Capacity, m.CapacityUntil = min(m.Capacity, has), until
	}
}

// patience is for how long a member that has not what it was told, and does not change, may still do it.
func (s *Spec) patience() int64 { return max(int64(pendingFor), int64(s.Period)) }

// underway reports whether the member may still do what it learnt, as of its last call.
func (m *MemberRecord) underway(spec *Spec) bool {
	return !m.Obeys && m.MissedSince != 0 && m.Told-m.MissedSince < spec.patience()
}

// most limits replicas of a member to the most that count: what the fleet lets it have, or overrides of it make of that
// if it is more; a drained one may still have any.
func (s *Spec) most(m *Member, replicas, least int32) int32 {
	ceiling := s.Engine.MaxReplicas
	if !m.Drained() {
		ceiling = s.ceiling(m)
	}
	return max(0, min(replicas, max(ceiling, least)))
}

// due reports whether a decision is due: a period after the last one; the first one when all members have
// called, or those that do had time to.
func (r *Record) due(spec *Spec, at int64) bool {
	if r.Decided != 0 {
		return at-r.Decided >= int64(spec.Period)
	}
	for i := range r.Members {
		if r.Members[i].Digest == nil {
			return at-r.Began >= int64(spec.StaleAfter)
		}
	}
	return true
}

// work is memory that decisions reuse. Nothing in it is part of a result.
type work struct {
	parts   []part
	seats   []Seat
	digests []Digest
	metrics []MetricDigest
	// The engine's input, with what it points to.
	in       recommender.Input
	sums     recommender.Sums
	readings []recommender.Readings
	values   []recommender.Value
	doubts   []doubt
	// split shares out.
	split split
}

var workPool = sync.Pool{New: func() any { return new(work) }}

// of returns empty lists for that many members with that many metrics.
func (w *work) of(members, metrics int) ([]part, []Seat, []Digest) {
	w.parts, w.seats, w.digests = zeros(w.parts, members), zeros(w.seats, members), zeros(w.digests, members)
	w.metrics = zeros(w.metrics, members*metrics)
	for i := range w.digests {
		w.digests[i].Metrics = w.metrics[i*metrics : i*metrics : (i+1)*metrics]
	}
	return w.parts, w.seats, w.digests
}

// readable reports whether a digest of so many metrics can be decoded.
func readable(told []byte, metrics int) error {
	w := workPool.Get().(*work)
	defer workPool.Put(w)
	_, _, digests := w.of(1, metrics)
	return digests[0].decode(told)
}

// zeros returns a list of n zero values, in the given one's memory if that suffices.
func zeros[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n)
	}
	list = list[:n]
	clear(list)
	return list
}

// decide decides for the fleet and sets the shares. It returns nil if nobody tells anything.
func (r *Record) decide(spec *Spec, call *Call, at int64) (*recommender.Decision, error) {
	w := workPool.Get().(*work)
	defer workPool.Put(w)
	parts, seats, digests := w.of(len(spec.Members), len(spec.Engine.Metrics))
	telling, undone := false, int64(0)
	for i := range r.Members {
		m := &r.Members[i]
		state := spec.stateOf(m, r.Awake, at)
		telling = telling || state == Fresh || state == Returning
		if err := m.see(spec, i, state, &digests[i], &parts[i], &seats[i], r.Awake, at); err != nil {
			return nil, err
		}
		if !m.Obeys && !m.underway(spec) { // it was counted as done
			undone += int64(m.Share) - int64(parts[i].replicas.SpecReplicas)
		}
	}
	if !telling {
		return nil, nil
	}
	var history recommender.History
	if r.History != nil {
		history = r.History.WithoutFuture(time.Unix(0, at))
	}
	in, doubts := spec.unite(w, parts, call.ID)
	in.Explain, in.ExplainLimit = call.Explain, recommender.ExplainNoPods
	if r.History == nil {
		in.PreviousStatus = r.zeroed(spec)
	}
	if spec.moves() {
		in.Scale.StatusReplicas = in.Scale.SpecReplicas
	}
	if r.bereft(spec, in.Scale.SpecReplicas, at) {
		in.Scale.SpecReplicas = r.Desired
	} else if spec.SurviveOne {
		nominal(in, r.nominalCount(seats, in.Scale.SpecReplicas))
	}
	if in.Scale.SpecReplicas > 0 { // a lower count would never be shared out, and so be decided time and again
		least := w.split.bottom(seats)
		if spec.SurviveOne {
			least = min(least, 1) // what is beyond is there in case a member is lost
		}
		in.Spec.MinReplicas, in.Spec.MaxReplicas = max(in.Spec.MinReplicas, least), max(in.Spec.MaxReplicas, least)
	}
	settlePart(&history, in.Scale.SpecReplicas)
	history.ScaleUps, history.ScaleDowns = without(history.ScaleUps, undone), without(history.ScaleDowns, -undone)
	decision, history := spec.decide(time.Unix(0, at).UTC(), in, doubts, &history)
	r.Decided, r.History = at, &history
	shares := r.share(&w.split, spec, seats, decision.Desired) // they are copied before the memory is used again
	for i := range r.Members {
		m := &r.Members[i]
		if m.Share = shares[i]; m.Back > 0 && !m.Gone && !parts[i].silent {
			if later := seats[i].Last - m.Share; later > 0 {
				m.Share, r.Total = seats[i].Last, sum(r.Total, later)
			}
			m.Back--
		}
	}
	r.spare(spec, seats)
	return &decision, nil
}

// spare gives members back what they would lose to others that must have more, by an override, by their own caller's
// minimum or the fleet's for them, and are not ready yet: as many as maxReplicas allows, and for as long as moves wait.
func (r *Record) spare(spec *Spec, seats []Seat) {
	starting, lost := int64(0), int64(0)
	for i := range seats {
		if s, share := &seats[i], r.Members[i].Share; !s.Frozen {
			starting += int64(max(0, min(share, max(s.Keeps, s.Floor))-s.Ready))
			lost += int64(max(0, s.Last-share))
		}
	}
	spared := min(starting, lost, int64(spec.Engine.MaxReplicas)-int64(r.Total))
	if spared <= 0 {
		return
	}
	r.Total += int32(spared)
	for i := range seats {
		if m := &r.Members[i]; !seats[i].Frozen && seats[i].Last > m.Share {
			loss := int64(seats[i].Last - m.Share)
			back := (loss*spared + lost - 1) / lost // so the last one has what remains
			m.Share, spared, lost = m.Share+int32(back), spared-back, lost-loss
		}
	}
}

// bereft reports whether no replica is left because those that had them are lost: nobody has switched the fleet off, as a
// count of 0 would say, and others call that can do their part. The last count is then shared out among these.
func (r *Record) bereft(spec *Spec, replicas int32, at int64) bool {
	if replicas > 0 || r.Desired == 0 || spec.OnLost != Shift {
		return false
	}
	gone, there := false, false
	for i := range r.Members {
		m := &r.Members[i]
		gone = gone || m.Gone
		state := spec.stateOf(m, r.Awake, at)
		there = there || (state == Fresh || state == Returning) && !m.Off
	}
	return gone && there
}

// see sets what the decision needs of a member that has called, in that state.
func (m *MemberRecord) see(spec *Spec, i int, state State, digest *Digest, p *part, seat *Seat, awake, at int64) error {
	member := &spec.Members[i]
	seat.Frozen = state != Fresh && state != Returning
	switch state {
	case Unseen:
		return nil
	case Lost:
		if m.Gone, m.Back = true, backAfter; spec.OnLost == Shift {
			m.Share = 0
			return nil
		}
	}
	if p.silent, p.at = state == Stale || state == Lost, m.Told; m.Digest == nil {
		return nil
	}
	if err := digest.decode(m.Digest); err != nil {
		return err
	}
	if p.silent && m.Obeys { // it knows of no later share
		m.Share = m.Answered
	}
	p.digest, p.replicas = digest, m.replicas(spec, member, digest, p.silent)
	seat.Last = p.replicas.SpecReplicas
	if !p.silent && m.Obeys {
		digest.without(min(spec.most(member, digest.Scale.SpecReplicas, digest.Min), digest.Pods) - m.Answered)
	}
	if p.silent { // what it showed on its way is not so any more, however long it stays silent
		p.replicas.StatusReplicas = seat.Last
		digest.settle(&spec.Engine, seat.Last)
		m.Share, m.Answered, m.Obeys = seat.Last, seat.Last, true
		if seat.Last == 0 && (state == Lost || at-max(m.Told, awake) > int64(spec.LostAfter)) { // nothing of it stays, and what it read is nobody's to work for
			p.digest = nil
		}
	}
	seat.Waits = m.MissedSince != 0
	seat.Floor, seat.Keeps, seat.Cap, seat.Ready = member.Min, digest.Min, spec.ceiling(member), sum(digest.Ready, m.Stuck)
	if digest.Pods == 0 { // who lists none does not tell which are ready
		seat.Ready = max(seat.Ready, digest.Scale.StatusReplicas)
	}
	if !member.Drained() && !m.Off {
		seat.Weight = member.Weight
	}
	if digest.Max >= 0 {
		seat.Cap = min(seat.Cap, digest.Max)
	}
	seat.Cap = max(seat.Cap, digest.Min)
	if member.Drained() && !m.Off {
		seat.Last = max(seat.Last, digest.Min)
	}
	if at < m.RestUntil { // whatever its bounds are
		seat.Keeps, seat.Cap = max(seat.Keeps, m.Rest), max(seat.Cap, m.Rest)
	}
	if at < m.CapacityUntil {
		seat.Cap = min(seat.Cap, m.Capacity)
	}
	if member.Drained() && !seat.Frozen && digest.Max >= 0 { // what its caller does not let it have is the others' at once
		seat.Last = min(seat.Last, max(digest.Max, seat.Keeps))
	}
	if state == Returning { // it gains nothing by the split, and what it would lose is lost later: by it, not by the others
		seat.Cap, seat.Waits = min(seat.Cap, max(seat.Last, digest.Min)), true
	}
	return nil
}

// replicas returns the replicas of a member that count: its share, if it does what it is told, for it may
// have learnt that only now, or may still do it; else those that it has. Its share begins with as many.
func (m *MemberRecord) replicas(spec *Spec, member *Member, d *Digest, silent bool) recommender.Scale {
	asked, observed := spec.most(member, d.Scale.SpecReplicas, d.Min), spec.most(member, d.Scale.StatusReplicas, d.Min)
	if m.HasShare && (m.Obeys || !silent && m.underway(spec)) {
		observed = max(0, observed+m.Share-asked)
		asked = m.Share
	}
	return recommender.Scale{SpecReplicas: asked, StatusReplicas: observed}
}

// zeroed is the status of a fleet without a history that was scaled to 0, not switched off: nil, unless a member tells.
func (r *Record) zeroed(spec *Spec) *recommender.Status {
	for i := range r.Members {
		if r.Members[i].Emptied && !spec.Members[i].Drained() {
			return &recommender.Status{Conditions: []recommender.Condition{{Type: recommender.ScaledToZero, Status: recommender.ConditionTrue, Reason: recommender.ScaledToZero}}}
		}
	}
	return nil
}

// moves reports whether replicas may be on their way between members. One is then gone before another is there, or there
// before another is gone, and a total on target, which proposes those that are observed, would make that the count.
func (s *Spec) moves() bool {
	return s.MaxMoves > 0 || slices.ContainsFunc(s.Members, func(m Member) bool { return m.Drained() })
}

// nominalCount is the count that all replicas stand for if some are there in case a member is lost.
func (r *Record) nominalCount(seats []Seat, all int32) int32 {
	switch {
	case all <= 0:
		return all
	case r.Decided == 0 || r.Total <= 0 || r.Missing >= r.Desired && all != r.Total: // so far none are there for that
		fresh := make([]Seat, len(seats))
		for i := range seats {
			fresh[i] = Seat{Weight: seats[i].Weight, Cap: seats[i].Cap}
		}
		if largest := slices.Max(Split(fresh, all, 0).Of); all > largest {
			return all - largest
		}
		return all // of one member
	case all == r.Total:
		return max(1, min(r.Desired, all))
	}
	// What remains without the largest one is there already. Members that come back bring that: windows and policies take it away.
	largest := int32(0)
	for i := range seats {
		largest = max(largest, seats[i].Last)
	}
	return min(max(scaledCount(all, r.Desired, r.Total), all-largest), all)
}

// settlePart settles a pending change of which only a part was applied as a change of that part.
func settlePart(h *recommender.History, replicas int32) {
	p := h.Pending
	if p == nil || (p.From >= replicas || replicas >= p.To) && (p.From <= replicas || replicas <= p.To) {
		return
	}
	applied := *p
	applied.To, h.Pending = replicas, &applied
}

// without returns events, of which the newest have so many replicas less: that part of them was not done after all.
func without(events []recommender.ScaleEvent, undone int64) []recommender.ScaleEvent {
	if undone <= 0 || len(events) == 0 {
		return events
	}
	events = slices.Clone(events)
	for undone > 0 && len(events) > 0 {
		newest := 0
		for i := range events {
			if events[i].At > events[newest].At {
				newest = i
			}
		}
		part := min(undone, int64(events[newest].Change))
		undone -= part
		if events[newest].Change -= int32(part); events[newest].Change == 0 {
			events = slices.Delete(events, newest, newest+1)
		}
	}
	return events
}

// share shares out the count, in the split's memory.
func (r *Record) share(in *split, spec *Spec, seats []Seat, count int32) []int32 {
	var shares Shares
	var missing int32
	if spec.SurviveOne && count > 0 {
		shares, missing = in.shareSurviving(seats, count, spec.Engine.MaxReplicas, spec.MaxMoves)
	} else {
		shares = in.share(seats, count, spec.MaxMoves)
	}
	r.Desired, r.Total = count, int32(min(shares.Total, math.MaxInt32))
	r.Unplaced, r.Missing = int32(min(shares.Unplaced, math.MaxInt32)), missing
	return shares.Of
}
