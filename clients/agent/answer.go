package agent

import (
	"fmt"
	"regexp"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/printable"
)

// check validates an answer against its request before it is used. It remembers a valid
// answer for the next check.
func (r *reconcile) check(e *evaluation) error {
	if err := setpoint.CheckAnswer(r.asked(e), e.Answer); err != nil {
		if name := unprintable(e.Request.GetSpec()); name != "" {
			return &HoldError{Hold{Reason: ReasonInvalidObject, Message: fmt.Sprintf("the name %.200q in the spec's metrics has control characters, which no answer may have: rename it", name)}}
		}
		return err
	}
	r.clearDistrust(theQuestion)
	r.st.taken = &setpointv1.RecommendResponse{
		RecommendationId: e.Answer.GetRecommendationId(), EvaluationTime: e.Answer.GetEvaluationTime(),
		Status: &setpointv1.HorizontalPodAutoscalerStatus{DesiredReplicas: e.Answer.GetStatus().GetDesiredReplicas()},
	}
	return nil
}

// unprintable is a name in the metrics of a spec that has control characters: the API server takes them, and conditions have
// the name as it is. Empty: none has any.
func unprintable(spec *setpointv1.HorizontalPodAutoscalerSpec) string {
	for _, m := range spec.GetMetrics() {
		name, _ := goal(m)
		for _, n := range []string{name, m.GetObject().GetDescribedObject().GetName(), m.GetObject().GetDescribedObject().GetKind()} {
			if printable.Lines(n) != n {
				return n
			}
		}
	}
	return ""
}

func (r *reconcile) asked(e *evaluation) setpoint.Asked {
	return setpoint.Asked{Request: e.Request, Now: time.Now(), Previous: r.st.taken, Unrecorded: r.o.Shadow}
}

// checkReport is check for the answer to a report. By now the reported answer is also the
// previous one.
func (r *reconcile) checkReport(e *evaluation, req *setpointv1.ReportScaleRequest, response *setpointv1.ReportScaleResponse) error {
	if err := setpoint.CheckReport(r.asked(e), e.Answer, req, response); err != nil {
		return err
	}
	r.clearDistrust(theReport)
	return nil
}

// question is the kind of request that an answer belongs to.
type question int

// The kinds of requests. Their answers are distrusted separately: a valid answer to one says
// nothing about the other.
const (
	theQuestion question = iota
	theReport
	questions // the number of kinds
)

// distrust is the state of the event about invalid answers. The zero value means trust.
type distrust struct {
	field string
	at    time.Time
}

// clearDistrust ends the distrust of answers of a kind.
func (r *reconcile) clearDistrust(to question) { r.st.distrusted[to] = distrust{} }

// rejectAnswer ends a reconcile whose answer is invalid. The count and the status stay; hold,
// event, metric and log report it. The service did answer, so it is not away; the next
// reconcile asks again.
func (r *reconcile) rejectAnswer(err *setpoint.AnswerError) Outcome {
	r.tellDistrust(theQuestion, err)
	return r.hold(Hold{Outcome: OutcomeDistrusted, Reason: ReasonAnswerRefused, Message: distrustMessage(err)})
}

// tellDistrust emits an event when answers become invalid. Until a valid answer arrives it
// emits another one only if other fields are wrong, at most one a minute.
func (r *reconcile) tellDistrust(to question, err *setpoint.AnswerError) {
	field := fieldLabel(err.Field)
	r.metrics.answersRefused.WithLabelValues(field).Inc()
	if told := r.st.distrusted[to]; !told.at.IsZero() && (told.field == field || time.Since(told.at) < minTellInterval) {
		return
	}
	r.st.distrusted[to] = distrust{field, time.Now()}
	r.once.say(r.log, zapcore.ErrorLevel, "the recommender's answer does not match the request and is ignored; does something between it and this agent change its answers?", field,
		zap.String("field", err.Field), zap.String("problem", err.Problem))
	r.telling.event(warning, ReasonAnswerRefused, distrustMessage(err))
}

func distrustMessage(err *setpoint.AnswerError) string {
	return Shorten(fmt.Sprintf("the recommender's answer does not match the request and is ignored: %v", err))
}

// index matches the index after the name of a list in a path.
var index = regexp.MustCompile(`\[.*`)

// fieldLabel returns the label of a field: the name without indexes; "answer" for none.
func fieldLabel(field string) string {
	if field == "" {
		return "answer"
	}
	return index.ReplaceAllString(field, "")
}
