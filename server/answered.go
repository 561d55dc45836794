package server

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/telemetry"
	"github.com/setpoint-dev/setpoint/server/tracing"
)

// maxTracedItems is how many requests of one batch have spans of their own.
const maxTracedItems = 64

// streamedSpan names the span of one message of a stream.
const streamedSpan = "setpoint.v1.RecommendationService/StreamRecommend message"

// answered counts, logs and traces what a job has come to, once that is certain.
func (t *targets) answered(ctx context.Context, j *job) {
	counts := t.metrics.decisions
	switch {
	case j.err != nil:
		counts.Refused(apierror.CodeOf(j.err))
	case j.response != nil:
		counts.Answered(telemetry.Replayed)
	case j.dryRun:
		counts.Answered(telemetry.DryRun)
	default:
		counts.Recorded(&j.decision)
		if t.metrics.targets != nil {
			t.metrics.targets.Decided(j.key, j.decision.Current, j.decision.Desired)
		}
		t.logDecision(ctx, j)
	}
	if j.span != nil {
		j.endTrace()
	}
}

// answeredAll is answered for a batch.
func (t *targets) answeredAll(ctx context.Context, jobs []job) {
	failed := 0
	for i := range jobs {
		t.answered(ctx, &jobs[i])
		if jobs[i].err != nil {
			failed++
		}
	}
	if c := calls.Of(ctx); c != nil {
		c.Items, c.Failed = len(jobs), failed
	}
}

// logDecision logs a decision that was recorded: one that changes the count for whoever
// wants to know later who changed it and why, any other for those who look for errors.
func (t *targets) logDecision(ctx context.Context, j *job) {
	d := &j.decision
	level, message := zap.DebugLevel, "recommended"
	if d.Changes() {
		level, message = zap.InfoLevel, "scaled"
	}
	line := t.log.Check(level, message)
	if line == nil {
		return
	}
	line.Write(t.decisionFields(ctx, j)...)
}

func (t *targets) decisionFields(ctx context.Context, j *job) []zapcore.Field {
	d := &j.decision
	profile := &recommender.V136
	if j.input.Options.Profile != nil {
		profile = j.input.Options.Profile
	}
	fields := append(make([]zapcore.Field, 0, 20),
		zap.String("target", j.target), zap.Int32("from", d.Current), zap.Int32("to", d.Desired),
		zap.String("action", conversion.Action(d.Current, d.Desired)),
		zap.String("reason", apierror.ClipMarked(d.Reason)), zap.Stringer("recommendation", d.ID),
		zap.String("requestId", calls.Of(ctx).ID()), zap.String("identity", j.caller.Name()),
		zap.String("profile", profile.Name()), zap.Bool("dryRun", false),
		zap.Int("attempts", j.attempts), zap.Duration("duration", t.options.Clock().Sub(j.started)))
	if d.Error != "" {
		fields = append(fields, zap.String("error", apierror.ClipMarked(d.Error)))
	}
	if j.requestID != "" {
		fields = append(fields, zap.String("bodyRequestId", apierror.ClipMarked(j.requestID)))
	}
	if trace := t.options.Tracing.ID(ctx); trace != "" {
		fields = append(fields, zap.String("trace", trace))
	}
	return fields
}

// trace lets the call's span tell of the job.
func (t *targets) trace(ctx context.Context, j *job) { j.span = t.options.Tracing.Recording(ctx) }

// traceAll gives the first jobs of a batch spans of their own.
func (t *targets) traceAll(ctx context.Context, jobs []job) {
	if t.options.Tracing.Recording(ctx) == nil {
		return
	}
	for i := range jobs[:min(len(jobs), maxTracedItems)] {
		_, jobs[i].span = t.options.Tracing.Child(ctx, "decide")
		jobs[i].ownSpan = true
	}
}

// traceMessage gives a message of a stream a trace of its own.
func (t *targets) traceMessage(ctx context.Context, j *job) context.Context {
	if t.options.Tracing == nil {
		return ctx
	}
	ctx, j.span = t.options.Tracing.Message(ctx, streamedSpan)
	j.ownSpan = j.span != nil
	return ctx
}

// endTrace tells the job's span what it has come to.
func (j *job) endTrace() {
	answer := tracing.Answer{
		Target: j.target, RecommendationID: j.decision.ID.String(),
		Attempts: j.attempts, DryRun: j.dryRun, Replayed: j.response != nil,
	}
	answer.Describe(j.span)
	if j.decided {
		tracing.Steps(j.span, &j.decision, j.steps)
	}
	if j.ownSpan {
		tracing.Finish(j.span, j.err)
	}
	j.span, j.steps = nil, nil
}

// abandonTrace ends the trace of a job that panicked; it does nothing for any other.
func (j *job) abandonTrace() {
	if j.span != nil {
		tracing.Finish(j.span, errPanicked)
	}
}

// errPanicked is what a trace tells of it.
var errPanicked = errors.New("internal error")

// evaluate decides. A job whose span tells of the steps has them explained, without its
// answer being any different.
func (j *job) evaluate(history *recommender.History) (next recommender.History) {
	if j.span == nil {
		j.decision, next = recommender.Recommend(j.now, j.input, history)
		return next
	}
	asked := j.input.Explain
	j.input.Explain = true
	j.decision, next = recommender.Recommend(j.now, j.input, history)
	j.input.Explain = asked
	j.steps = j.decision.Explanation
	if !asked {
		j.decision.Explanation = nil
	}
	return next
}

// conflicted notes that another caller has changed the target meanwhile.
func (t *targets) conflicted(j *job) {
	t.metrics.conflicts.Inc()
	if j.span != nil {
		tracing.Conflict(j.span, j.attempts)
	}
}

// streamMethod is the name of the stream that recommends.
const streamMethod = setpointv1.RecommendationService_StreamRecommend_FullMethodName

// messageAnswered is answered for a request of a stream that came at start.
func (t *targets) messageAnswered(ctx context.Context, j *job, start time.Time) {
	took := time.Since(start)
	t.answered(ctx, j)
	t.metrics.calls.Message(took)
	if t.observer != nil {
		t.observer.Message(ctx, streamMethod, j.target, j.err, took)
	}
}
