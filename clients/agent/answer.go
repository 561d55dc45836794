package agent

import (
	"fmt"
	"regexp"
	"time"

	"go.uber.org/zap"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/quantity"
)

// check holds an answer against its question, before anything is made of it. What
// passes is remembered for the next one.
func (r *round) check(e *evaluation) error {
	if err := setpoint.CheckAnswer(r.asked(e), e.Answer); err != nil {
		return err
	}
	if err := checkReadings(e.Answer.GetStatus()); err != nil {
		return err
	}
	r.trusted(theQuestion)
	r.st.taken = &setpointv1.RecommendResponse{
		RecommendationId: e.Answer.GetRecommendationId(), EvaluationTime: e.Answer.GetEvaluationTime(),
		Status: &setpointv1.HorizontalPodAutoscalerStatus{DesiredReplicas: e.Answer.GetStatus().GetDesiredReplicas()},
	}
	return nil
}

func (r *round) asked(e *evaluation) setpoint.Asked {
	return setpoint.Asked{Request: e.Request, Now: time.Now(), Previous: r.st.taken, Unrecorded: r.o.Shadow}
}

// checkReport is check for the answer to a report. The answer that was reported on is
// its own predecessor by now.
func (r *round) checkReport(e *evaluation, req *setpointv1.ReportScaleRequest, response *setpointv1.ReportScaleResponse) error {
	if err := setpoint.CheckReport(r.asked(e), e.Answer, req, response); err != nil {
		return err
	}
	if err := checkReadings(response.GetStatus()); err != nil {
		return err
	}
	r.trusted(theReport)
	return nil
}

// checkReadings returns an AnswerError if a value in a status is no quantity.
func checkReadings(status *setpointv1.HorizontalPodAutoscalerStatus) error {
	for i, m := range status.GetCurrentMetrics() {
		for _, value := range values(m) {
			for _, text := range []*string{value.Value, value.AverageValue} {
				if text == nil {
					continue
				}
				if _, err := quantity.Parse(*text); err != nil {
					return &setpoint.AnswerError{Field: "status", Problem: fmt.Sprintf("currentMetrics[%d]: %.64q is not a quantity: %v", i, *text, err)}
				}
			}
		}
	}
	return nil
}

// values are the readings of a metric: one, unless the answer is wrong.
func values(m *setpointv1.MetricStatus) (all []*setpointv1.MetricValueStatus) {
	for _, v := range []*setpointv1.MetricValueStatus{
		m.GetObject().GetCurrent(), m.GetPods().GetCurrent(), m.GetResource().GetCurrent(),
		m.GetContainerResource().GetCurrent(), m.GetExternal().GetCurrent(),
	} {
		if v != nil {
			all = append(all, v)
		}
	}
	return all
}

// question is what an answer is to.
type question int

// Questions whose answers are distrusted each by itself: that one is right says nothing of
// the other.
const (
	theQuestion question = iota
	theReport
	questions // how many there are
)

// distrust is what an event has told of answers that can't be ones to what was asked. The
// zero value is trust.
type distrust struct {
	field string
	at    time.Time
}

// trusted ends the distrust of answers of a kind.
func (r *round) trusted(to question) { r.st.distrusted[to] = distrust{} }

// distrust is a round whose answer can't be one to its question. The count and the
// status stay; hold, event, metric and log tell. The service did answer, so it is not
// away; and the next round asks anew.
func (r *round) distrust(err *setpoint.AnswerError) Outcome {
	r.tellDistrust(theQuestion, err)
	return r.hold(Hold{Outcome: OutcomeDistrusted, Reason: ReasonAnswerRefused, Message: distrustMessage(err)})
}

// tellDistrust has an event when answers begin not to be followed, and another one before
// such an answer was right again only if other fields are wrong, at most one a minute.
func (r *round) tellDistrust(to question, err *setpoint.AnswerError) {
	field := fieldLabel(err.Field)
	r.metrics.answersRefused.WithLabelValues(field).Inc()
	if told := r.st.distrusted[to]; !told.at.IsZero() && (told.field == field || time.Since(told.at) < minTellInterval) {
		return
	}
	r.st.distrusted[to] = distrust{field, time.Now()}
	r.log.Error("the recommender's answer can't be one to what was asked and is not followed; does something between it and this agent change what it says?",
		zap.String("field", err.Field), zap.String("problem", err.Problem))
	r.telling.event(warning, ReasonAnswerRefused, distrustMessage(err))
}

func distrustMessage(err *setpoint.AnswerError) string {
	return Shorten(fmt.Sprintf("the recommender's answer is not followed, as it can't be one to what was asked: %v", err))
}

// index is what follows the name of a list in a path.
var index = regexp.MustCompile(`\[.*`)

// fieldLabel is a field as a label has it: of lists the name, none is "answer".
func fieldLabel(field string) string {
	if field == "" {
		return "answer"
	}
	return index.ReplaceAllString(field, "")
}
