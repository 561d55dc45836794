package agent

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
)

// check holds an answer against its question, before anything is made of it. What
// passes is remembered for the next one.
func (r *round) check(e *evaluation) error {
	if err := setpoint.CheckAnswer(r.asked(e), e.answer); err != nil {
		return err
	}
	if _, err := kubernetes.StatusFromProto(e.answer.GetStatus()); err != nil {
		return &setpoint.AnswerError{Field: "status", Problem: err.Error()}
	}
	r.st.distrusted = false
	r.st.taken = &setpointv1.RecommendResponse{
		RecommendationId: e.answer.GetRecommendationId(), EvaluationTime: e.answer.GetEvaluationTime(),
		Status: &setpointv1.HorizontalPodAutoscalerStatus{DesiredReplicas: e.answer.GetStatus().GetDesiredReplicas()},
	}
	return nil
}

func (r *round) asked(e *evaluation) setpoint.Asked {
	return setpoint.Asked{Request: e.request, Now: time.Now(), Previous: r.st.taken, Unrecorded: r.o.shadow}
}

// checkReport is check for the answer to a report. The answer that was reported on is
// its own predecessor by now.
func (r *round) checkReport(e *evaluation, req *setpointv1.ReportScaleRequest, response *setpointv1.ReportScaleResponse) error {
	if err := setpoint.CheckReport(r.asked(e), e.answer, req, response); err != nil {
		return err
	}
	if _, err := kubernetes.StatusFromProto(response.GetStatus()); err != nil {
		return &setpoint.AnswerError{Field: "status", Problem: err.Error()}
	}
	return nil
}

// distrust is a round whose answer can't be one to its question. The count and the
// status stay; condition, event, metric and log tell. The service did answer, so it is
// not away; and the next round asks anew.
func (r *round) distrust(ctx context.Context, err *setpoint.AnswerError) string {
	r.tellDistrust(err)
	return r.hold(ctx, outcomeDistrusted, ReasonAnswerRefused, distrustMessage(err), time.Now())
}

func (r *round) tellDistrust(err *setpoint.AnswerError) {
	r.metrics.answersRefused.WithLabelValues(fieldLabel(err.Field)).Inc()
	if r.st.distrusted {
		return
	}
	r.st.distrusted = true
	r.log.Error("the recommender's answer can't be one to what was asked and is not followed; does something between it and this agent change what it says?",
		zap.String("field", err.Field), zap.String("problem", err.Problem))
	r.events.Event(r.o.stored, corev1.EventTypeWarning, ReasonAnswerRefused, distrustMessage(err))
}

func distrustMessage(err *setpoint.AnswerError) string {
	return shorten(fmt.Sprintf("the recommender's answer is not followed, as it can't be one to what was asked: %v", err))
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
