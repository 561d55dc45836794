package decision

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/gate"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/wire"
	"github.com/setpoint-dev/setpoint/store"
)

// Job is one request in progress.
type Job struct {
	// targets makes the decision.
	targets   *Targets
	Target    string
	key       store.Key
	requestID string
	dryRun    bool
	// polled reports whether the request is that of a poll: see NewPolledJob.
	polled bool
	// timed reports whether the request sets the instant of the decision, anyTime whether it
	// may.
	timed, anyTime bool
	input          *recommender.Input
	// encoded is the request that contains input, if it was read on the fast path.
	encoded *wire.Request
	caller  *access.Caller
	now     time.Time
	// budget limits the cost of reading and deciding, shared with the other requests of
	// a batch; own is the budget of a single request.
	budget    *cost.Budget
	own       cost.Budget
	attempts  int
	decision  recommender.Decision
	started   time.Time
	concluded []decisionlog.Entry
	// guessed reports whether the decision is based on a cached record.
	guessed bool
	// doubtful reports whether it is unknown if the decision was recorded.
	doubtful bool
	// history is the target's, shared with the target's other jobs in a batch; nil without
	// other jobs.
	history *decoded
	// placed is the length of a new target's first history, while it is being stored;
	// else 0.
	placed int
	// span records the outcome, nil: the job is not traced. ownSpan reports that it
	// belongs to this job alone. steps is the span for the decision's steps, if there
	// is one.
	span    trace.Span
	ownSpan bool
	steps   *recommender.Explanation
	// room is set while the job is decided.
	room *room

	// One of them is set when the job is done: the response is the decision, an earlier
	// answer, or an error.
	decided  bool
	response *setpointv1.RecommendResponse
	Err      error
}

// room is memory for deciding one job after the other: those of a batch, or those that use the same
// Job.
type room struct {
	history  encoding.Room
	decision recommender.Room
	// value is the encoded history to store; engines copy it.
	value []byte
}

// mostRoomForValue limits the values that a room keeps, in bytes.
const mostRoomForValue = 4 << 10

func (j *Job) done() bool { return j.decided || j.response != nil || j.Err != nil }

// answerID is the key of the job's remembered answer; empty: none. If the operator has set
// options for the caller, the key is the caller's own: other answers were made with other
// options, and must not let it get around its own.
func (j *Job) answerID() string {
	switch {
	case j.dryRun || j.requestID == "":
		return ""
	case j.polled || !j.caller.Configured():
		return j.requestID
	}
	sum := sha256.Sum256([]byte(j.caller.Name()))
	return j.requestID + " " + hex.EncodeToString(sum[:8])
}

// next implements change.
func (j *Job) next(record store.Record, guessed bool, room []byte) []byte {
	j.guessed = guessed
	if room != nil {
		return j.targets.decide(j, record, room)
	}
	value := j.targets.decide(j, record, j.room.value)
	if cap(value) <= mostRoomForValue && cap(value) > len(j.room.value) {
		j.room.value = value[:cap(value)]
	}
	return value
}

// ended implements change.
func (j *Job) ended() bool { return j.done() }

// undoGuess implements change. A job that ends without a swap is not confirmed by one.
func (j *Job) undoGuess() bool {
	if !j.guessed {
		return false
	}
	j.decided, j.response, j.Err, j.guessed = false, nil, nil, false
	return true
}

// swapped implements change.
func (j *Job) swapped(result store.SwapResult, _ []byte) {
	t := j.targets
	j.guessed = false
	t.unplaced(j, result.Swapped)
	if result.Swapped {
		j.history.stored(result.Record.Version)
		t.recorded(j)
		return
	}
	t.conflicted(j)
	if j.attempts >= t.Options.MaxAttempts {
		j.Err = apierror.Contended(j.Target, j.attempts)
	}
}

// fail implements change. The value being swapped may be stored; a retry with the same
// request id finds out.
func (j *Job) fail(ctx context.Context, err error, swapping bool) {
	j.doubtful = j.doubtful || swapping
	j.targets.withoutStore(ctx, j, err)
}

// Release frees the memory of the job's request, once its response is encoded.
func (j *Job) Release() {
	if j.encoded != nil {
		j.encoded.Release()
		j.encoded, j.input = nil, nil
	}
}

// empty keeps only the memory.
func (r *room) empty() {
	r.history = encoding.Room{}
	r.decision.Clear()
}

// lent pools jobs.
var lent = sync.Pool{New: func() any { return &Job{room: new(room)} }}

// LendJob returns an empty job from the pool. GiveBack returns it.
func LendJob() *Job { return lent.Get().(*Job) }

// GiveBack is Release for a job from the pool. Nothing of it may be used afterwards.
func (j *Job) GiveBack() {
	room := j.room
	j.empty()
	room.empty()
	j.room = room
	lent.Put(j)
}

// empty releases the job, and keeps only the memory for its log entries.
func (j *Job) empty() {
	j.Release()
	concluded := j.concluded[:cap(j.concluded)]
	clear(concluded)
	*j = Job{} // not a literal with concluded, which would be made elsewhere and copied
	j.concluded = concluded[:0]
}

// NewJob validates a request. If it is invalid, the job is already done.
func (t *Targets) NewJob(ctx context.Context, req *setpointv1.RecommendRequest) *Job {
	j := &Job{started: t.Options.Clock(), caller: access.CallerOf(ctx)}
	t.read(ctx, j, req)
	return j
}

// NewPolledJob is NewJob for the request of a poll. Its cost is limited by its size, like that of an
// encoded one. The decision is for all who poll, so the caps of the caller do not apply to it, and
// the others' answer by the same request id is the caller's.
func (t *Targets) NewPolledJob(ctx context.Context, req *setpointv1.RecommendRequest) *Job {
	j := &Job{started: t.Options.Clock(), caller: access.CallerOf(ctx), polled: true}
	j.own.Reset(proto.Size(req))
	j.budget = &j.own
	t.read(ctx, j, req)
	return j
}

// read reads a request on the slow path, which reports all errors.
func (t *Targets) read(ctx context.Context, j *Job, req *setpointv1.RecommendRequest) {
	j.now, j.Target, j.requestID, j.dryRun = j.started, req.GetTarget(), req.GetRequestId(), req.GetDryRun()
	if t.tooMuch(j, len(req.GetPods()), len(req.GetSpec().GetMetrics())) {
		return
	}
	options := t.Options
	var notes []string
	if j.caller.Configured() {
		options, notes = j.configure(req, options)
	}
	j.anyTime = options.AllowEvaluationTime
	if j.input, j.Err = readRequest(ctx, req, options, j.budget); j.Err != nil {
		return
	}
	if t.tooExpensive(j) {
		return
	}
	j.key = ParseTarget(req.GetTarget())
	if j.Err = j.caller.Check(policy.Recommend, j.key); j.Err != nil {
		return
	}
	j.input.Notes = append(j.input.Notes, notes...)
	j.input.ID = newID(j.now)
	if req.GetEvaluationTime() != nil {
		j.now, j.timed = req.GetEvaluationTime().AsTime(), true
	}
}

// tooExpensive refuses requests that would take too long to decide, and sets how many pods an
// explanation may list.
func (t *Targets) tooExpensive(j *Job) bool {
	in := j.input
	if !j.budget.Cells(conversion.Cells(in)) {
		j.Err = apierror.TooManyEvaluations()
		return true
	}
	if in.Explain {
		in.ExplainLimit = recommender.ExplainNoPods
		if granted := j.budget.Pods(len(in.Pods) * len(in.Spec.Metrics)); granted > 0 {
			in.ExplainLimit = granted
		}
	}
	return false
}

func (t *Targets) tooMuch(j *Job, pods, metrics int) bool {
	switch {
	case pods > t.Options.MaxPods:
		j.Err = apierror.OverLimit("maxPods", t.Options.MaxPods, "the request has more pods than this server takes in one request")
	case metrics > t.Options.MaxMetrics:
		j.Err = apierror.OverLimit("maxMetrics", t.Options.MaxMetrics, "the spec has more metrics than this server takes")
	}
	return j.Err != nil
}

// ReadEncoded reads a single encoded request. It waits for memory, which the pass holds until the
// response is encoded.
func (t *Targets) ReadEncoded(ctx context.Context, c *access.Caller, j *Job, data []byte, ticket *limit.Ticket, pass *gate.Pass) {
	j.caller = c
	if !pass.Entered() {
		j.Err = t.Enter(ctx, ticket, c.Name(), pass, IsLarge(data))
	}
	if j.started = t.Options.Clock(); j.Err != nil {
		return
	}
	j.own.Reset(len(data))
	j.budget = &j.own
	if j.Err = apierror.OfContext(ctx); j.Err == nil {
		t.readWithin(ctx, j, data)
	}
	if !pass.Read(int64(j.own.Made()+j.made())) && j.Err == nil {
		j.Err = t.Refuse(limit.LargeRequests)
	}
}

// lookEvery is after how many requests of a batch the call's context is looked at again, which
// reads the clock.
const lookEvery = 16

// ReadBatch reads the encoded requests of a batch. They share a budget and a pass.
func (t *Targets) ReadBatch(ctx context.Context, jobs []Job, requests [][]byte, size int, ticket *limit.Ticket, pass *gate.Pass) error {
	c, budget, bytes := access.CallerOf(ctx), cost.BudgetOf(size), 0
	if !pass.Entered() {
		if err := t.Enter(ctx, ticket, c.Name(), pass, size > mostSmall || slices.ContainsFunc(requests, IsLarge)); err != nil {
			return err
		}
	}
	var gone error
	for i := range jobs {
		j := &jobs[i]
		j.started, j.caller, j.budget = t.Options.Clock(), c, budget
		if i%lookEvery == 0 {
			gone = apierror.OfContext(ctx)
		}
		if j.Err = gone; gone == nil {
			t.readWithin(ctx, j, requests[i])
		}
		bytes += j.made()
	}
	if pass.Read(int64(budget.Made() + bytes)) {
		return nil
	}
	for i := range jobs {
		jobs[i].Release()
	}
	return t.Refuse(limit.LargeRequests)
}

// readWithin reads an encoded request: on the fast path, which handles usual requests, or
// else on the slow path. The job's budget limits the cost.
func (t *Targets) readWithin(ctx context.Context, j *Job, data []byte) {
	before := *j.budget
	var r *wire.Request
	ok, slow := false, t.Metrics.Slow.policy
	if !j.caller.Configured() { // otherwise it depends on the target
		r, ok = t.decoder.Decode(data, j.budget)
		slow = t.Metrics.Slow.unusual
	}
	if ok && r.HasEvaluationTime && (!t.Options.AllowEvaluationTime || !fits(r.EvaluationTime)) {
		r.Release()
		ok, slow = false, t.Metrics.Slow.evaluationTime
	}
	if !ok {
		slow.Inc()
		*j.budget = before // the slow path starts again
		req := &setpointv1.RecommendRequest{}
		if j.Err = encoded.Unmarshal(data, t.Options.CostLimits(), j.budget, req); j.Err != nil {
			return
		}
		t.read(ctx, j, req)
		return
	}
	j.now, j.Target, j.requestID, j.dryRun = j.started, r.Target, r.RequestID, r.DryRun
	j.encoded, j.input, j.anyTime = r, &r.Input, t.Options.AllowEvaluationTime
	if t.tooMuch(j, len(r.Input.Pods), len(r.Input.Spec.Metrics)) {
		return
	}
	j.key = store.Key(r.Name)
	if j.Err = j.caller.Check(policy.Recommend, j.key); j.Err != nil {
		return
	}
	if t.tooExpensive(j) {
		return
	}
	j.input.ID = newID(j.now)
	if r.HasEvaluationTime {
		j.now, j.timed = r.EvaluationTime, true
	}
}

// Answer returns the job's outcome as a message.
func (j *Job) Answer() (*setpointv1.RecommendResponse, error) {
	if j.decided {
		return conversion.Response(&j.decision), nil
	}
	return j.response, j.Err
}

// Encode appends the job's encoded response, if it has one.
func (j *Job) Encode(b []byte) ([]byte, error) {
	if j.decided {
		if out, ok := wire.AppendResponse(b, &j.decision); ok {
			return out, nil
		}
	}
	response, err := j.Answer()
	if err != nil {
		return b, err
	}
	return Marshal(b, response)
}

// Result appends the job's outcome as an element of an encoded BatchRecommendResponse.
func (j *Job) Result(b []byte) []byte {
	if j.decided {
		if out, ok := wire.AppendBatchDecision(b, &j.decision); ok {
			return out
		}
	}
	response, failed := j.outcome()
	if failed != nil {
		return wire.AppendBatchError(b, failed)
	}
	return wire.AppendBatchResponse(b, response)
}

// Streamed appends the job's outcome as an encoded StreamRecommendResponse.
func (j *Job) Streamed(b []byte, id string) []byte {
	if j.decided {
		if out, ok := wire.AppendStreamDecision(b, id, &j.decision); ok {
			return out
		}
	}
	response, failed := j.outcome()
	if failed != nil {
		return wire.AppendStreamError(b, id, failed)
	}
	return wire.AppendStreamResponse(b, id, response)
}

// outcome is the job's outcome on the slow path: an encoded response or an encoded
// status.
func (j *Job) outcome() (response, failed []byte) {
	response, err := j.Encode(nil)
	if err == nil {
		return response, nil
	}
	failed, err = proto.Marshal(status.Convert(err).Proto())
	if err != nil {
		failed, _ = proto.Marshal(status.New(codes.Internal, "internal error").Proto())
	}
	return nil, failed
}

// Marshal appends a message's encoding. If that fails, because a text is not UTF-8, the
// server is at fault.
func Marshal(b []byte, m proto.Message) ([]byte, error) {
	out, err := proto.MarshalOptions{}.MarshalAppend(b, m)
	if err != nil {
		return b, status.Error(codes.Internal, "internal error")
	}
	return out, nil
}
