package decision

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

// maxTracedItems is how many requests of one batch get their own spans.
const maxTracedItems = 64

// streamedSpan names the span of one message of a stream.
const streamedSpan = "setpoint.v1.RecommendationService/StreamRecommend message"

// Answered counts, logs and traces the outcome of a job.
func (t *Targets) Answered(ctx context.Context, j *Job) {
	counts := t.Metrics.Decisions
	switch {
	case j.Err != nil:
		counts.Refused(apierror.CodeOf(j.Err))
	case j.response != nil:
		counts.Answered(telemetry.Replayed)
	case j.dryRun:
		counts.Answered(telemetry.DryRun)
	default:
		counts.Recorded(&j.decision)
		if t.Metrics.targets != nil {
			t.Metrics.targets.Decided(j.key, j.decision.Current, j.decision.Desired)
		}
		t.logDecision(ctx, j)
	}
	if j.span != nil {
		j.endTrace()
	}
}

// AnsweredAll is Answered for a batch.
func (t *Targets) AnsweredAll(ctx context.Context, jobs []Job) {
	for i := range jobs {
		t.Answered(ctx, &jobs[i])
	}
	noteItems(ctx, jobs)
}

// AnswerAll is AnsweredAll, and returns the encoded BatchRecommendResponse. It releases each job
// while its memory is in the processor's cache.
func (t *Targets) AnswerAll(ctx context.Context, jobs []Job) []byte {
	var answer []byte
	for i := range jobs {
		j := &jobs[i]
		t.Answered(ctx, j)
		if answer = j.Result(answer); i == 0 {
			// The responses of one batch have similar sizes.
			answer = append(make([]byte, 0, (len(answer)+64)*len(jobs)), answer...)
		}
		j.Release()
	}
	noteItems(ctx, jobs)
	return answer
}

// noteItems has the call's log line say how many of its requests failed.
func noteItems(ctx context.Context, jobs []Job) {
	c := calls.Of(ctx)
	if c == nil {
		return
	}
	c.Items, c.Failed = len(jobs), 0
	for i := range jobs {
		if jobs[i].Err != nil {
			c.Failed++
		}
	}
}

// logDecision logs a recorded decision: at level info if it changes the count, so that
// operators can find out later who changed it and why; otherwise at level debug.
func (t *Targets) logDecision(ctx context.Context, j *Job) {
	d := &j.decision
	level, message := zap.DebugLevel, "recommended"
	if d.Changes() {
		level, message = zap.InfoLevel, "scaled"
	}
	line := t.Log.Check(level, message)
	if line == nil {
		return
	}
	line.Write(t.decisionFields(ctx, j)...)
}

func (t *Targets) decisionFields(ctx context.Context, j *Job) []zapcore.Field {
	d := &j.decision
	profile := &recommender.V136
	if j.input.Options.Profile != nil {
		profile = j.input.Options.Profile
	}
	fields := append(make([]zapcore.Field, 0, 20),
		zap.String("target", j.Target), zap.Int32("from", d.Current), zap.Int32("to", d.Desired),
		zap.String("action", conversion.Action(d.Current, d.Desired)),
		zap.String("reason", apierror.ClipMarked(d.Reason)), zap.Stringer("recommendation", d.ID),
		zap.String("requestId", calls.Of(ctx).ID()), zap.String("identity", j.caller.Name()),
		zap.String("profile", profile.Name()), zap.Bool("dryRun", false),
		zap.Int("attempts", j.attempts), zap.Duration("duration", t.Options.Clock().Sub(j.started)))
	if d.Error != "" {
		fields = append(fields, zap.String("error", apierror.ClipMarked(d.Error)))
	}
	if j.requestID != "" {
		fields = append(fields, zap.String("bodyRequestId", apierror.ClipMarked(j.requestID)))
	}
	if trace := t.Options.Tracing.ID(ctx); trace != "" {
		fields = append(fields, zap.String("trace", trace))
	}
	return fields
}

// Trace adds the job to the call's span.
func (t *Targets) Trace(ctx context.Context, j *Job) { j.span = t.Options.Tracing.Recording(ctx) }

// TraceAll gives the first jobs of a batch their own spans.
func (t *Targets) TraceAll(ctx context.Context, jobs []Job) {
	if t.Options.Tracing.Recording(ctx) == nil {
		return
	}
	for i := range jobs[:min(len(jobs), maxTracedItems)] {
		_, jobs[i].span = t.Options.Tracing.Child(ctx, "decide")
		jobs[i].ownSpan = true
	}
}

// TraceMessage gives a message of a stream its own trace.
func (t *Targets) TraceMessage(ctx context.Context, j *Job) context.Context {
	if t.Options.Tracing == nil {
		return ctx
	}
	ctx, j.span = t.Options.Tracing.Message(ctx, streamedSpan)
	j.ownSpan = j.span != nil
	return ctx
}

// endTrace adds the job's outcome to its span.
func (j *Job) endTrace() {
	answer := tracing.Answer{
		Target: j.Target, RecommendationID: j.decision.ID.String(),
		Attempts: j.attempts, DryRun: j.dryRun, Replayed: j.response != nil,
	}
	answer.Describe(j.span)
	if j.decided {
		tracing.Steps(j.span, &j.decision, j.steps)
	}
	if j.ownSpan {
		tracing.Finish(j.span, j.Err)
	}
	j.span, j.steps = nil, nil
}

// AbandonTrace ends the trace of a job that panicked; it does nothing for other jobs.
func (j *Job) AbandonTrace() {
	if j.span != nil {
		tracing.Finish(j.span, errPanicked)
	}
}

// errPanicked is the error on its span.
var errPanicked = errors.New("internal error")

// evaluate decides. If the job's span records the steps, it requests an explanation,
// which does not change the response.
func (j *Job) evaluate(history *recommender.History) (next recommender.History) {
	if j.encoded != nil && !history.Seen {
		j.encoded.Seed()
	}
	room := &j.room.decision
	if j.history != nil { // which keeps the next history for the target's next job
		room = nil
	}
	if j.span == nil {
		j.decision, next = room.Recommend(j.now, j.input, history)
		return next
	}
	asked := j.input.Explain
	j.input.Explain = true
	j.decision, next = room.Recommend(j.now, j.input, history)
	j.input.Explain = asked
	j.steps = j.decision.Explanation
	if !asked {
		j.decision.Explanation = nil
	}
	return next
}

// conflicted records on the span that another caller has changed the target meanwhile.
func (t *Targets) conflicted(j *Job) {
	t.Metrics.conflicts.Inc()
	if j.span != nil {
		tracing.Conflict(j.span, j.attempts)
	}
}

// StreamMethod is the method of streamed recommendations.
const StreamMethod = setpointv1.RecommendationService_StreamRecommend_FullMethodName

// MessageAnswered is Answered for a request of a stream that arrived at start.
func (t *Targets) MessageAnswered(ctx context.Context, j *Job, start time.Time) {
	took := time.Since(start)
	t.Answered(ctx, j)
	t.Metrics.Calls.Message(took)
	if t.Observer != nil {
		t.Observer.Message(ctx, StreamMethod, j.Target, j.Err, took)
	}
}
