package decision

import (
	"context"
	"errors"

	"go.uber.org/zap"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store"
)

// report is a change: the reported outcome of a recommended scale.
type report struct {
	*Targets
	target   string
	key      store.Key
	id       recommender.ID
	outcome  recommender.Outcome
	request  *setpointv1.ReportScaleRequest
	attempts int
	// settlement is the result of the report, and settled its log entry, with the status
	// at that time.
	settlement recommender.Settlement
	settled    decisionlog.Entry
	after      record.Record
	// decided is the instant of the change's decision; 0: it is not known.
	decided int64
	// done reports whether the settlement is the response.
	done bool
	err  error
}

// Report settles a change.
func (t *Targets) Report(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	r := &report{Targets: t, target: req.GetTarget(), key: ParseTarget(req.GetTarget()), outcome: recommender.Applied, request: req}
	var ok bool
	if r.id, ok = recommender.ParseID(req.GetRecommendationId()); !ok {
		return nil, r.unknown()
	}
	if req.GetOutcome() == "FAILED" {
		r.outcome = recommender.Failed
	}
	var away error
	if t.outage.has(r.key) {
		away = t.outage.writeBack(ctx, r.key)
	}
	if away != nil {
		r.fail(ctx, away, false)
	} else {
		t.change(ctx, r.key, r, store.Record{}, false)
	}
	if r.err != nil {
		return nil, r.err
	}
	return conversion.Settlement(req.GetRecommendationId(), &r.settlement), nil
}

// next implements change.
func (r *report) next(stored store.Record, _ bool, _ []byte) []byte {
	r.attempts++
	if !stored.Exists() {
		r.err = apierror.UnknownTarget(r.target)
		return nil
	}
	before, err := record.Decode(stored.Value)
	if err != nil {
		r.Log.Error("stored history unreadable", zap.String("target", r.target), zap.Error(err))
		r.err = apierror.OfHistory(r.target, err)
		return nil
	}
	settlement, next, err := before.Settle(r.key.Namespace, r.id, r.outcome, r.request.GetMessage())
	if err != nil {
		r.err = r.unknown()
		return nil
	}
	if r.settlement = settlement; !settlement.Changed {
		r.done = true
		return nil
	}
	next = next.WithinLimits(max(r.Options.Clock().UnixNano(), next.Updated.UnixNano()), r.Options.answers())
	r.decidedIn(&before)
	r.settled, r.after = r.Decisions.OfSettled(&before, &next.Status, r.outcome), next
	return record.Append(nil, &next)
}

// decidedIn notes when the change was decided that the record before has.
func (r *report) decidedIn(before *record.Record) {
	if r.decided = 0; before.Pending != nil && before.Pending.ID == r.id {
		r.decided = before.Pending.At
	}
}

// ended implements change.
func (r *report) ended() bool { return r.done || r.err != nil }

// undoGuess implements change: a report is based on the stored record.
func (r *report) undoGuess() bool { return false }

// swapped implements change.
func (r *report) swapped(result store.SwapResult, _ []byte) {
	switch {
	case result.Swapped:
		r.done = true
		r.settledAs(&r.after, r.settled)
		r.Log.Info("scale reported", zap.String("target", r.target), zap.Stringer("recommendation", r.id),
			zap.String("outcome", r.request.GetOutcome()), zap.String("message", apierror.ClipMarked(r.request.GetMessage())))
	case r.attempts >= r.Options.MaxAttempts:
		r.err = apierror.Contended(r.target, r.attempts)
	}
}

// fail implements change: it settles without the store, if that is enabled and
// possible.
func (r *report) fail(ctx context.Context, err error, _ bool) {
	if r.Options.HoldDown && errors.Is(err, store.ErrUnavailable) && apierror.CallerGone(ctx) == nil {
		before, after, settlement, ok := r.outage.settle(r.key, r.id, r.outcome, r.request.GetMessage())
		if ok {
			if settlement.Changed {
				r.decidedIn(&before)
				entry := r.Decisions.OfSettled(&before, &after.Status, r.outcome)
				r.settledAs(&after, r.outage.hold(r.key, []decisionlog.Entry{entry})...)
			}
			r.settlement, r.done = settlement, true
			return
		}
	}
	// It may be settled nevertheless, and then a repeated report finds it so, and logs nothing. Watchers of all tenants learn
	// of that, so callers who leave must not cause it.
	if r.attempts > 0 && apierror.CallerGone(ctx) == nil {
		r.Decisions.Append(r.key, decisionlog.OfMissed())
	}
	r.err = apierror.OfDecisionsStore(ctx, r.target, err)
}

// settledAs logs and counts the change, which the record has.
func (r *report) settledAs(after *record.Record, entries ...decisionlog.Entry) {
	r.Decisions.Append(r.key, entries...)
	if r.decided != 0 {
		r.Recordings.Report(&r.key, r.decided, r.outcome == recommender.Failed, r.request.GetMessage())
	}
	if shown := r.Metrics.Targets; shown != nil && r.outcome == recommender.Failed {
		shown.Failed(r.key, after)
	}
}

func (r *report) unknown() error {
	return apierror.UnknownRecommendation(r.target, r.request.GetRecommendationId())
}
