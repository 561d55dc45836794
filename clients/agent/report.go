package agent

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/printable"
)

// maxMessage bounds the error in a report, in bytes, as the service does.
const maxMessage = 8192

// report reports the outcome of a change to the service. If that fails, the report is sent
// before the object's next request; the next request has the right count in any case.
func (r *reconcile) report(ctx context.Context, e *evaluation) {
	req := &setpointv1.ReportScaleRequest{
		Target: e.Request.GetTarget(), RecommendationId: e.Answer.GetRecommendationId(), Outcome: "APPLIED",
	}
	if e.ApplyError != nil {
		// It comes back in a condition, where CheckReport takes no control characters.
		req.Outcome, req.Message = "FAILED", cut(printable.Lines(e.ApplyError.Error()), maxMessage)
	}
	var err error
	if e.Report, err = r.send(ctx, req); err != nil {
		r.once.say(r.log, zapcore.WarnLevel, "outcome not reported to the recommender, retrying before the next recommendation", causeOf(err.Error()), zap.Error(err))
		r.st.unreported = req
		return
	}
	var wrong *setpoint.AnswerError
	if !errors.As(r.checkReport(e, req, e.Report), &wrong) {
		return
	}
	e.Report = nil
	if wrong.AnotherCaller {
		// Nothing is wrong with the answer: the status is that of the decision.
		r.rival.Store(time.Now().UnixNano())
		r.once.say(r.log, zapcore.WarnLevel, "another caller asked about this target since the decision; of two callers each undoes the other's changes, so a target should have one", "",
			zap.String("field", wrong.Field), zap.String("problem", wrong.Problem))
		return
	}
	e.distrusted = wrong
	r.tellDistrust(theReport, wrong)
}

// reportAgain sends the report that did not reach the service, and emits the resulting events.
func (r *reconcile) reportAgain(ctx context.Context) error {
	req := r.st.unreported
	if req == nil {
		return nil
	}
	answer, err := r.send(ctx, req)
	if err != nil && !refused(err) {
		return err
	}
	r.st.unreported = nil // a repeat would be refused as well
	if err != nil {
		return nil
	}
	if distrusted, ok := errors.AsType[*setpoint.AnswerError](setpoint.CheckReport(setpoint.Asked{}, nil, req, answer)); ok {
		r.tellDistrust(theReport, distrusted)
		return nil
	}
	r.clearDistrust(theReport)
	r.telling.Events = append(r.telling.Events, answer.GetEvents()...)
	return nil
}

func (r *reconcile) send(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.RequestTimeout)
	defer cancel()
	defer r.metrics.took(partReport, time.Now())
	return r.recommender.ReportScale(ctx, req)
}
