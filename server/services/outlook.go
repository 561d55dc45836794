package services

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/waits"
	"github.com/setpoint-dev/setpoint/stages"
)

// tell fills in what the engine makes of the record: why the last decision is what it is, and what
// comes next. Both need the spec that decided, so neither is there without it.
func (s *Targets) tell(ctx context.Context, target *setpointv1.Target, known *record.Record) {
	use := specInUse(target)
	if use == nil {
		return
	}
	spec, options, violations := conversion.Spec(use.GetSpec(), use.GetOptions(), s.requests.Settings.Recommend)
	if len(violations) > 0 {
		return // of another version
	}
	if len(known.Recommendations) > manyRecommendations || len(use.GetStages().GetSchedules()) > manySchedules {
		leave, err := s.enterOutlook(ctx)
		if err != nil {
			return
		}
		defer leave()
	}
	in := &recommender.Input{Namespace: decision.ParseTarget(target.GetName()).Namespace, Spec: spec, Options: options}
	basis := conversion.Basis(s.lastBasis(ctx, target))
	interval := intervalOf(target, options.Profile)
	now := s.targets.Options.Clock()
	next := nextCall(known, now, interval)
	if a := known.Adjusted; a == nil || onlyTell(a.Adjustments) && (a.Plain == known.Last.To || a.Plain == recommender.NoPlain) { // else stages decided, too, and retracing knows none
		target.Explanation = conversion.LastExplanation(&known.History, in, &basis)
	}
	if target.GetNotAskedTime() != nil && now.After(target.GetNotAskedTime().AsTime()) {
		target.Outlook = &setpointv1.Outlook{Problem: "nobody asks any more, or the calls are refused; it is known again with the next decision"}
		return
	}
	if around, unforeseen := s.around(ctx, target, known, use, in); around != nil {
		target.Outlook = conversion.OutlookWithStages(&known.History, in, &basis, next, interval, around, unforeseen)
		return
	}
	target.Outlook = conversion.Outlook(&known.History, in, &basis, next, interval)
}

// onlyTell reports whether stages changed nothing: of a forecast it is told, too, what it would do.
func onlyTell(all []recommender.Adjustment) bool {
	return !slices.ContainsFunc(all, func(a recommender.Adjustment) bool {
		return a.Stage != recommender.StageForecast || a.After >= 0
	})
}

// around returns what is around the next decision, nil if nothing is, nor was around the last one. unforeseen is a
// stage of which it is not known what it does next, 0: none is known.
func (s *Targets) around(ctx context.Context, target *setpointv1.Target, known *record.Record, use *setpointv1.SpecInUse, in *recommender.Input) (a *stages.Around, unforeseen recommender.Stage) {
	a = &stages.Around{}
	own := use.GetStages()
	if proto.Size(own) == 0 {
		own = nil
	}
	a.Plan, _ = conversion.Stages(use.GetSpec(), own, in) // what is wrong with them is of another version
	if of := s.targets.Overrides; of != nil {
		var read bool
		if a.Overrides, read = of.For(ctx, decision.ParseTarget(target.GetName())); !read {
			unforeseen = recommender.StageOverride
		}
	}
	if known.Adjusted != nil {
		for i := range known.Adjusted.Adjustments { // of the last call: whether the next one has it again is not known
			if strings.HasPrefix(known.Adjusted.Adjustments[i].Rule, "proposal/") {
				unforeseen = recommender.StageProposal
			}
		}
	}
	if a.Empty() && known.Adjusted == nil && unforeseen == 0 {
		return nil, 0
	}
	return a, unforeseen
}

// manyRecommendations and manySchedules are from when on only a few outlooks are computed at a time: they
// take up to some milliseconds.
const (
	manyRecommendations = 256
	manySchedules       = 8
	// outlooksAtOnce is how many of these, per processor.
	outlooksAtOnce = 2
)

// enterOutlook waits until a long outlook may be computed. Call leave afterwards. The error is the context's.
func (s *Targets) enterOutlook(ctx context.Context) (leave func(), err error) {
	leave = func() { <-s.outlooks }
	select {
	case s.outlooks <- struct{}{}:
		return leave, nil
	default:
	}
	err = waits.For(ctx, waits.List, func() error {
		select {
		case s.outlooks <- struct{}{}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return leave, err
}

// specInUse returns the spec of the last decision; nil if it is unknown: the stored spec may be
// another one.
func specInUse(target *setpointv1.Target) *setpointv1.SpecInUse {
	use, kept := target.GetSpecInUse(), target.GetTargetSpec()
	if use == nil && kept.GetHash() != "" && kept.GetHash() == target.GetLastDecision().GetSpecHash() {
		return &setpointv1.SpecInUse{Hash: kept.GetHash(), Spec: kept.GetSpec(), Options: kept.GetOptions(), Stages: kept.GetStages()}
	}
	return use
}

// lastBasis returns the basis of the last decision: this instance has it, or the log, of which that is
// the newest entry then; nil: neither has it.
func (s *Targets) lastBasis(ctx context.Context, target *setpointv1.Target) *setpointv1.DecisionBasis {
	last := target.GetLastDecision()
	if id, ok := recommender.ParseID(last.GetRecommendationId()); ok {
		if basis := s.targets.Decisions.Basis(id); basis != nil {
			return basis
		}
	}
	if s.log == nil || last == nil {
		return nil
	}
	// Without the log less is told.
	values, _, err := s.log.ReadLog(ctx, decision.ParseTarget(target.GetName()), "", 1)
	if err != nil || len(values) == 0 {
		return nil
	}
	if d := decisionlog.Read(values[0]); d.GetRecommendationId() == last.GetRecommendationId() {
		return d.GetBasis()
	}
	return nil
}

// intervalOf returns the time between two calls: the usual one, that of the polls of a stored spec, or
// the controller's.
func intervalOf(target *setpointv1.Target, profile *recommender.Profile) time.Duration {
	for _, d := range []time.Duration{target.GetInterval().AsDuration(), target.GetTargetSpec().GetPeriod().AsDuration()} {
		if d > 0 {
			return d
		}
	}
	if profile == nil {
		profile, _ = recommender.ProfileByName(recommender.DefaultProfile)
	}
	return profile.SyncPeriod()
}

// nextCall returns when the next call comes: whole intervals after the last decision, from now on.
func nextCall(known *record.Record, now time.Time, interval time.Duration) time.Time {
	last := time.Unix(0, known.Last.At).UTC()
	late := now.Sub(last)
	if late <= interval {
		return last.Add(interval)
	}
	return last.Add((late + interval - 1) / interval * interval)
}
