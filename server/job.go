package server

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/server/wire"
	"github.com/setpoint-dev/setpoint/store"
)

// job is one request on its way to an answer.
type job struct {
	target    string
	key       store.Key
	requestID string
	dryRun    bool
	// timed says that the request chose the instant to decide for.
	timed bool
	input *recommender.Input
	// encoded is what input is part of, where the request was read the short way.
	encoded   *wire.Request
	caller    *caller
	now       time.Time
	attempts  int
	decision  recommender.Decision
	started   time.Time
	concluded []logged
	// guessed says that the decision is on a record that is only remembered.
	guessed bool
	// span is told what the job comes to, nil: nobody traces it. ownSpan says that it
	// is of this job alone. steps are the decision's, where there is a span.
	span    trace.Span
	ownSpan bool
	steps   *recommender.Explanation

	// One of them is set when the job is done: the decision is the answer, or the
	// answer was given before, or there is none.
	decided  bool
	response *setpointv1.RecommendResponse
	err      error
}

func (j *job) done() bool { return j.decided || j.response != nil || j.err != nil }

// doubt takes back what was decided on a record that is only remembered and ended
// without a swap to confirm it. It reports whether there was such.
func (j *job) doubt() bool {
	if !j.guessed {
		return false
	}
	j.decided, j.response, j.err, j.guessed = false, nil, nil, false
	return true
}

// release gives back what the job holds, once its answer is made.
func (j *job) release() {
	if j.encoded != nil {
		j.encoded.Release()
		j.encoded, j.input = nil, nil
	}
}

// newJob validates a request. A job that is done was refused.
func (t *targets) newJob(ctx context.Context, req *setpointv1.RecommendRequest) *job {
	j := &job{started: t.options.Clock(), caller: callerOf(ctx)}
	t.read(j, req)
	return j
}

// read reads a request the long way, with the words for all that is wrong with it.
func (t *targets) read(j *job, req *setpointv1.RecommendRequest) {
	j.now, j.target, j.requestID, j.dryRun = j.started, req.GetTarget(), req.GetRequestId(), req.GetDryRun()
	if t.tooMuch(j, len(req.GetPods()), len(req.GetSpec().GetMetrics())) {
		return
	}
	options := t.options
	var notes []string
	if j.caller.configured() {
		options, notes = j.configure(req, options)
	}
	if j.input, j.err = readRequest(req, options); j.err != nil {
		return
	}
	j.key = parseTarget(req.GetTarget())
	if j.err = j.caller.check(policy.Recommend, j.key); j.err != nil {
		return
	}
	j.input.Notes = append(j.input.Notes, notes...)
	j.input.ID = newID(j.now)
	if req.GetEvaluationTime() != nil {
		j.now, j.timed = req.GetEvaluationTime().AsTime(), true
	}
}

func (t *targets) tooMuch(j *job, pods, metrics int) bool {
	switch {
	case pods > t.options.MaxPods:
		j.err = overLimit("maxPods", t.options.MaxPods, "the request has more pods than this server takes in one request")
	case metrics > t.options.MaxMetrics:
		j.err = overLimit("maxMetrics", t.options.MaxMetrics, "the spec has more metrics than this server takes")
	}
	return j.err != nil
}

// readEncoded reads an encoded request: the short way, which takes what is usual, or
// else the long way.
func (t *targets) readEncoded(ctx context.Context, j *job, data []byte) {
	j.started, j.caller = t.options.Clock(), callerOf(ctx)
	var r *wire.Request
	ok := false
	if !j.caller.configured() { // else the target decides how to read
		r, ok = t.decoder.Decode(data)
	}
	if ok && r.HasEvaluationTime && (!t.options.AllowEvaluationTime || !fits(r.EvaluationTime)) {
		r.Release()
		ok = false
	}
	if !ok {
		req := &setpointv1.RecommendRequest{}
		if err := proto.Unmarshal(data, req); err != nil {
			j.err = undecodable()
			return
		}
		t.read(j, req)
		return
	}
	j.now, j.target, j.requestID, j.dryRun = j.started, r.Target, r.RequestID, r.DryRun
	j.encoded, j.input = r, &r.Input
	if t.tooMuch(j, len(r.Input.Pods), len(r.Input.Spec.Metrics)) {
		return
	}
	j.key = store.Key{Cluster: r.Cluster, Namespace: r.Namespace, Target: r.Name}
	if j.err = j.caller.check(policy.Recommend, j.key); j.err != nil {
		return
	}
	j.input.ID = newID(j.now)
	if r.HasEvaluationTime {
		j.now, j.timed = r.EvaluationTime, true
	}
}

// undecodable is what is answered to bytes that are no message.
func undecodable() error {
	return invalid([]validation.Violation{{Description: "the message is not a valid protobuf encoding of its type"}})
}

// answer is the job's outcome as a message.
func (j *job) answer() (*setpointv1.RecommendResponse, error) {
	if j.decided {
		return conversion.Response(&j.decision), nil
	}
	return j.response, j.err
}

// encode appends the encoded answer of a job that has one.
func (j *job) encode(b []byte) ([]byte, error) {
	if j.decided {
		if out, ok := wire.AppendResponse(b, &j.decision); ok {
			return out, nil
		}
	}
	response, err := j.answer()
	if err != nil {
		return b, err
	}
	return marshal(b, response)
}

// result appends the job's outcome to an encoded BatchRecommendResponse.
func (j *job) result(b []byte) []byte {
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

// streamed appends the job's outcome as an encoded StreamRecommendResponse.
func (j *job) streamed(b []byte, id string) []byte {
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

// outcome is the job's outcome the long way: an encoded answer or an encoded status.
func (j *job) outcome() (response, failed []byte) {
	response, err := j.encode(nil)
	if err == nil {
		return response, nil
	}
	failed, err = proto.Marshal(status.Convert(err).Proto())
	if err != nil {
		failed, _ = proto.Marshal(status.New(codes.Internal, "internal error").Proto())
	}
	return nil, failed
}

// marshal appends a message's encoding. What can't be encoded, a text that is not
// UTF-8, is the server's fault.
func marshal(b []byte, m proto.Message) ([]byte, error) {
	out, err := proto.MarshalOptions{}.MarshalAppend(b, m)
	if err != nil {
		return b, status.Error(codes.Internal, "internal error")
	}
	return out, nil
}
