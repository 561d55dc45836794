package fleets

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

// decided is a decision of the fleet.
type decided struct {
	decision recommender.Decision
	history  recommender.History
	staged   []byte
}

// notFound is the error for a fleet that does not exist, and for one that does not name the target: who is not a
// member of a fleet does not learn that it exists.
func (c *call) notFound() error {
	return apierror.New(codes.FailedPrecondition, setpointv1.ErrorReason_ERROR_REASON_FLEET_NOT_FOUND,
		"there is no fleet "+apierror.Clip(c.job.Fleet.Name)+" with the member "+apierror.Clip(c.job.Target)+": store its spec with SetTargetSpec, with this target among fleet.members",
		"fleet", c.job.Fleet.Name, "target", c.job.Target)
}

// ofLoad maps an error of reading the fleet.
func (c *call) ofLoad(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errNoFleet):
		return c.notFound()
	case errors.Is(err, store.ErrUnreadable):
		return c.unreadable(err)
	}
	return c.ofStore(ctx, err)
}

// ofStore maps an error of the store. A member's call has no requestId to repeat: no answer of a fleet is remembered.
func (c *call) ofStore(ctx context.Context, err error) error {
	mapped := apierror.OfStore(ctx, c.job.Target, err)
	if status.Code(mapped) != codes.Unavailable {
		return mapped
	}
	return apierror.New(codes.Unavailable, setpointv1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE,
		apierror.StoreAway(err)+"; without it a fleet decides nothing: hold the count and call again")
}

// unreadable is the error for a spec or a record that this instance can't use. The cause is for the log.
func (c *call) unreadable(cause error) error {
	c.options.Log.Error("fleet unreadable", zap.String("fleet", c.key.String()), zap.Error(cause))
	return apierror.New(codes.Internal, setpointv1.ErrorReason_ERROR_REASON_HISTORY_UNREADABLE,
		"the stored fleet "+apierror.Clip(c.job.Fleet.Name)+" can't be read: a newer version wrote it, or it is damaged; upgrade this instance, or delete the fleet's spec and store it again", "target", c.job.Target)
}

// step takes the call, and decides for the fleet if that is due.
func (c *call) step(ctx context.Context, k *known) (*state, fleet.Answer, error) {
	j := c.job
	if !k.spec.members[j.Target] || k.taken[j.Target] {
		return nil, fleet.Answer{}, c.notFound()
	}
	if k.spec.problem != nil {
		return nil, fleet.Answer{}, c.unreadable(k.spec.problem)
	}
	if metric, what := conversion.FleetDifference(&k.spec.fleet, &j.Input.Spec); metric != "" {
		return nil, fleet.Answer{}, apierror.New(codes.FailedPrecondition, setpointv1.ErrorReason_ERROR_REASON_FLEET_DIFFERS,
			apierror.Clip("the request's metrics are not those of its fleet: "+metric+": "+what+"; send the metrics of the fleet's spec, in its order"),
			"fleet", j.Fleet.Name, "metric", metric)
	}
	if err := c.tell(k.spec); err != nil {
		return nil, fleet.Answer{}, err
	}
	before := &k.state.fleet
	if j.Timed && j.Now.UnixNano() < before.Updated {
		return nil, fleet.Answer{}, apierror.EvaluationTimePast(j.Target, j.Now, time.Unix(0, before.Updated).UTC())
	}
	record, answer, d, err := c.on(ctx, k, before)
	if err != nil {
		return nil, answer, err
	}
	c.decided = d
	answer.Holds = answer.Holds || answer.Decided.IsZero() // until it has decided a share is only what the member has
	next := &state{spec: k.spec.version, fleet: record, decisions: k.state.decisions, tail: k.state.tail}
	if next.clusters, err = c.clusters(k, &record); err != nil {
		return nil, answer, err
	}
	if c.decided != nil {
		c.record(k, next)
	}
	if c.explanation = nil; j.Input.Explain && j.Fleet.Reads {
		if err := c.explain(ctx, k, next); err != nil {
			return nil, answer, err
		}
	}
	return next, answer, nil
}

// explain explains the decision of the call; if it made none, because the last one is not a period old, the one that the
// fleet would make now, of which nothing is kept.
func (c *call) explain(ctx context.Context, k *known, next *state) error {
	if c.decided != nil {
		c.explanation = c.decided.decision.Explanation
		return nil
	}
	if next.fleet.Decided == 0 {
		return nil
	}
	due := k.state.fleet // the call is taken once
	due.Decided = next.fleet.Updated - int64(k.spec.fleet.Period)
	_, _, d, err := c.on(ctx, k, &due)
	if d != nil {
		c.explanation = d.decision.Explanation
	}
	return err
}

// on is the call on a record of the fleet, and what was decided; nil: nothing.
func (c *call) on(ctx context.Context, k *known, record *fleet.Record) (next fleet.Record, answer fleet.Answer, d *decided, err error) {
	j, of := c.job, k.spec.fleet
	var failed error
	of.Decide = func(now time.Time, in *recommender.Input, least []int32, history *recommender.History) (recommender.Decision, recommender.History) {
		d = &decided{}
		failed = c.decide(ctx, k, d, now, in, least, history)
		return d.decision, d.history
	}
	next, answer, err = fleet.Step(j.Now, &of, record, &fleet.Call{
		Member: j.Target, Digest: c.digest, Blind: c.blind, Off: off(j.Input), Zeroed: c.zeroed(), ID: j.Input.ID, Explain: j.Input.Explain && j.Fleet.Reads,
	})
	switch {
	case failed != nil:
		return next, answer, nil, failed
	case err != nil:
		if _, wrong := fleet.DecodeDigest(fleet.AppendDigest(nil, &c.digest)); wrong != nil && !c.blind {
			return next, answer, nil, apierror.InvalidField("pods", "Invalid value: their counts are beyond what a fleet adds up")
		}
		return next, answer, nil, c.unreadable(err)
	}
	return next, answer, d, nil
}

// clusters are those of the members after the call. Of two clusters with one name only the first one is a member, until
// it is lost.
func (c *call) clusters(k *known, after *fleet.Record) ([]cluster, error) {
	at := slices.IndexFunc(k.spec.fleet.Members, func(m fleet.Member) bool { return m.Name == c.job.Target })
	mine := cluster{after.Members[at].Key, c.job.Owner.Cluster}
	before := slices.IndexFunc(k.state.clusters, func(one cluster) bool { return one.member == mine.member })
	switch {
	case mine.hash == 0, before >= 0 && k.state.clusters[before] == mine:
		return k.state.clusters, nil
	case before >= 0:
		if !c.isGone(k, at) {
			return nil, apierror.New(codes.FailedPrecondition, setpointv1.ErrorReason_ERROR_REASON_OTHER_CLUSTER,
				apierror.Clip(c.job.Target)+" belongs to another cluster with the same cluster name (its clusterUid differs); give one of the two another cluster name, or, if the other cluster is gone, wait until it is lost to the fleet, "+k.spec.fleet.LostAfter.String()+" after its last call",
				"target", c.job.Target)
		}
	}
	next := slices.DeleteFunc(slices.Clone(k.state.clusters), func(one cluster) bool { // those of other specs, too
		return one.member == mine.member || !slices.ContainsFunc(after.Members, func(m fleet.MemberRecord) bool { return m.Key == one.member })
	})
	return append(next, mine), nil
}

// isGone reports whether the cluster of the member at an index is gone: it is lost, or the fleet knows nothing of it any more,
// because the member was taken out of it meanwhile. Silence counts while others call; where nobody does that is not refused, as
// when all clusters are rebuilt, it counts while the service refuses the member's new one.
func (c *call) isGone(k *known, at int) bool {
	states, members := k.spec.fleet.States(&k.state.fleet, c.job.Now)
	switch states[at] {
	case fleet.Lost, fleet.Unseen:
		return true
	}
	refused, _ := c.refused.Get(c.job.Key)
	after := k.spec.fleet.LostAfter
	return !refused.since.IsZero() && refused.at.Sub(refused.since) >= after && c.job.Now.Sub(refused.at) <= after/2 && c.job.Now.UnixNano()-members[at].Seen > int64(after)
}

// off reports whether a member has no replicas although its own spec wants some: to the controller it is switched off.
func off(in *recommender.Input) bool { return in.Scale.SpecReplicas == 0 && in.Spec.MinReplicas > 0 }

// zeroed reports whether the member's status says that it was scaled to 0.
func (c *call) zeroed() bool {
	if c.job.Seeder != nil {
		c.job.Seeder.Seed()
	}
	p := c.job.Input.PreviousStatus
	return p != nil && slices.ContainsFunc(p.Conditions, func(was recommender.Condition) bool {
		return was.Type == recommender.ScaledToZero && was.Status == recommender.ConditionTrue
	})
}

// tell makes the digest of what the member tells, under a spec.
func (c *call) tell(s *spec) error {
	if c.told == s {
		return nil
	}
	j := c.job
	in := *j.Input
	in.Spec, in.Options = s.fleet.Engine, s.fleet.Options
	if s.fresh != nil {
		in = s.fresh.Fresh(j.Now, &in)
	}
	digest, err := fleet.NewDigest(j.Now, &in, j.Target, s.fleet.Version)
	switch {
	case errors.Is(err, fleet.ErrBlind):
		c.blind = true
	case err != nil:
		return apierror.OverLimit("maxPods", fleet.MostPods, "the member of a fleet has too many pods: "+err.Error())
	}
	if !c.blind {
		digest.Min, digest.Max = c.bounds(&s.fleet)
	}
	c.digest, c.told = digest, s
	return nil
}

// decide decides for the fleet, with its stages and the overrides in force for it. least is what metrics propose at least
// that are known in part only.
func (c *call) decide(ctx context.Context, k *known, d *decided, now time.Time, in *recommender.Input, least []int32, history *recommender.History) error {
	if c.job.RestartAfterPause {
		k.state.decisions.RestartAfterPause(history, now, in)
	}
	inForce, at, err := c.targets.InForce(ctx, c.key, c.job.Now, c.job.Timed)
	if err != nil {
		return c.ofStore(ctx, err)
	}
	known := k.state.decisions.WithoutFuture(now)
	around := stages.Around{Plan: k.spec.plan, Overrides: inForce, OverridesAt: at, Least: least}
	if around.Alone(in, history, known.Stages, known.Adjusted != nil) {
		d.decision, d.history = recommender.Recommend(now, in, history)
		return nil
	}
	known.Pending = history.Pending // of which a part may have been applied
	around.Turns, around.Deleted = known.TurnsAt(in.Scale.SpecReplicas), c.targets.Deleted(c.key)
	d.decision, d.history, d.staged = around.RecommendIn(nil, now, in, history, known.Stages)
	return nil
}

// tailGrows is by how many bytes a decision lengthens the record of decisions, as a rule.
const tailGrows = 64

// record adds the decision to the record of decisions.
func (c *call) record(k *known, next *state) {
	d := c.decided
	known := k.state.decisions.WithoutFuture(d.decision.At)
	after := known.Next(d.history, record.Owner{})
	after.Stages, after.Adjusted = d.staged, d.decision.Adjusted
	if use := (record.SpecUse{Hash: k.spec.hash, Since: d.decision.At.UnixMilli()}); after.Spec.Hash != use.Hash {
		after.Spec = use
	}
	next.decisions, next.tail = after, record.Append(make([]byte, 0, len(k.state.tail)+tailGrows), &after)
	next.fleet.History = &after.History
}
