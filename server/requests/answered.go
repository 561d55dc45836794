package requests

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
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
func (r *Reader) Answered(ctx context.Context, j *Job) {
	counts := r.Metrics.Decisions
	switch {
	case j.Err != nil:
		counts.Refused(apierror.CodeOf(j.Err))
	case j.Earlier != nil && j.Fleet != nil && !j.DryRun:
		counts.Answered(telemetry.Shared)
	case j.Earlier != nil && j.Fleet == nil:
		counts.Answered(telemetry.Replayed)
	case j.DryRun:
		counts.Answered(telemetry.DryRun)
	default:
		counts.Recorded(&j.Decision)
		if r.targets != nil {
			r.targets.Decided(j.Key, &j.Decision, j.Interval, j.Turns, j.Shadows)
		}
		r.logDecision(ctx, j)
	}
	if j.Span != nil {
		j.endTrace()
	}
}

// mostUsual is the length of a long response without an explanation, in bytes.
const mostUsual = 2 << 10

// AnswerAll is Answered for a batch, and returns the encoded BatchRecommendResponse. It releases each job
// while its memory is in the processor's cache.
func (r *Reader) AnswerAll(ctx context.Context, jobs []Job) []byte {
	var answer []byte
	for i := range jobs {
		j := &jobs[i]
		r.Answered(ctx, j)
		if answer = j.Result(answer); i == 0 {
			// The responses of one batch have similar sizes, but the first may be the only one with an explanation.
			answer = slices.Grow(answer, min(len(answer)+64, mostUsual)*(len(jobs)-1))
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
// operators can find out later who changed it and why; otherwise at level debug, as is the same change again that
// nobody made: shadows ask for it at each period.
func (r *Reader) logDecision(ctx context.Context, j *Job) {
	d := &j.Decision
	level, message := zap.DebugLevel, "recommended"
	if d.Changes() && !j.Repeats() {
		level, message = zap.InfoLevel, "scaled"
	}
	line := r.log.Check(level, message)
	if line == nil {
		return
	}
	line.Write(r.decisionFields(ctx, j)...)
}

func (r *Reader) decisionFields(ctx context.Context, j *Job) []zapcore.Field {
	d := &j.Decision
	fields := append(make([]zapcore.Field, 0, 20),
		zap.String("target", j.Target), zap.Int32("from", d.Current), zap.Int32("to", d.Desired),
		zap.String("action", conversion.Action(d.Current, d.Desired)),
		zap.String("reason", apierror.ClipMarked(d.Reason)), zap.Stringer("recommendation", d.ID),
		zap.String("requestId", calls.Of(ctx).ID()), zap.String("identity", j.caller.Name()),
		zap.String("profile", j.Input.Options.Profile.Name()), zap.Bool("dryRun", false),
		zap.Int("attempts", j.Attempts), zap.Duration("duration", r.clock().Sub(j.started)))
	if d.Error != "" {
		fields = append(fields, zap.String("error", apierror.ClipMarked(d.Error)))
	}
	if j.RequestID != "" {
		fields = append(fields, zap.String("bodyRequestId", apierror.ClipMarked(j.RequestID)))
	}
	if trace := r.tracing.ID(ctx); trace != "" {
		fields = append(fields, zap.String("trace", trace))
	}
	return fields
}

// Trace adds the job to the call's span.
func (r *Reader) Trace(ctx context.Context, j *Job) { j.Span = r.tracing.Recording(ctx) }

// TraceAll gives the first jobs of a batch their own spans.
func (r *Reader) TraceAll(ctx context.Context, jobs []Job) {
	if r.tracing.Recording(ctx) == nil {
		return
	}
	for i := range jobs[:min(len(jobs), maxTracedItems)] {
		_, jobs[i].Span = r.tracing.Child(ctx, "decide")
		jobs[i].ownSpan = true
	}
}

// TraceMessage gives a message of a stream its own trace.
func (r *Reader) TraceMessage(ctx context.Context, j *Job) context.Context {
	if r.tracing == nil {
		return ctx
	}
	ctx, j.Span = r.tracing.Message(ctx, streamedSpan)
	j.ownSpan = j.Span != nil
	return ctx
}

// endTrace adds the job's outcome to its span.
func (j *Job) endTrace() {
	answer := tracing.Answer{
		Target: j.Target, RecommendationID: j.Decision.ID.String(),
		Attempts: j.Attempts, DryRun: j.DryRun, Replayed: j.Earlier != nil,
	}
	answer.Describe(j.Span)
	if j.Decided {
		tracing.Steps(j.Span, &j.Decision, j.Steps)
	}
	if j.ownSpan {
		tracing.Finish(j.Span, j.Err)
	}
	j.Span, j.Steps = nil, nil
}

// AbandonTrace ends the trace of a job that panicked; it does nothing for other jobs.
func (j *Job) AbandonTrace() {
	if j.Span != nil {
		tracing.Finish(j.Span, errPanicked)
	}
}

// errPanicked is the error on its span.
var errPanicked = errors.New("internal error")

// MessageAnswered is Answered for a request of a stream that arrived at start.
func (r *Reader) MessageAnswered(ctx context.Context, j *Job, start time.Time) {
	took := time.Since(start)
	r.Answered(ctx, j)
	r.Metrics.Calls.Message(took)
	if r.Observer != nil {
		r.Observer.Message(ctx, setpointv1.RecommendationService_StreamRecommend_FullMethodName, j.Target, j.Err, took)
	}
}
