package requests

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/gate"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

// Polled returns the job of a poll. Its cost is limited by its size, like that of an encoded one. The
// decision is for all who poll, so the caps of the caller do not apply to it, and another poller's
// decision is the caller's, too.
func (r *Reader) Polled(ctx context.Context, req *setpointv1.RecommendRequest, poll record.Poll) *Job {
	j := &Job{started: r.clock(), caller: access.CallerOf(ctx)}
	j.Poll = poll
	j.own.Reset(proto.Size(req))
	j.budget = &j.own
	r.read(ctx, j, req)
	return j
}

// Read reads a single encoded request. It waits for memory, which the pass holds until the
// response is encoded.
func (r *Reader) Read(ctx context.Context, c *access.Caller, j *Job, data []byte, ticket *limit.Ticket, pass *gate.Pass) {
	j.caller = c
	if !pass.Entered() {
		j.Err = r.Enter(ctx, ticket, c.Name(), pass, IsLarge(data))
	}
	if j.started = r.clock(); j.Err != nil {
		return
	}
	j.own.Reset(len(data))
	j.budget = &j.own
	if j.Err = apierror.OfContext(ctx); j.Err == nil {
		r.readWithin(ctx, j, data)
	}
	if !pass.Read(int64(j.own.Made()+j.made())) && j.Err == nil {
		j.Err = r.Refuse(limit.LargeRequests)
	}
}

// lookEvery is after how many requests of a batch the call's context is looked at again, which
// reads the clock.
const lookEvery = 16

// ReadBatch reads the encoded requests of a batch. They share a budget and a pass.
func (r *Reader) ReadBatch(ctx context.Context, jobs []Job, requests [][]byte, size int, ticket *limit.Ticket, pass *gate.Pass) error {
	c, budget, bytes := access.CallerOf(ctx), cost.BudgetOf(size), 0
	if !pass.Entered() {
		if err := r.Enter(ctx, ticket, c.Name(), pass, size > mostSmall || slices.ContainsFunc(requests, IsLarge)); err != nil {
			return err
		}
	}
	var gone error
	for i := range jobs {
		j := &jobs[i]
		j.started, j.caller, j.budget = r.clock(), c, budget
		if i%lookEvery == 0 {
			gone = apierror.OfContext(ctx)
		}
		if j.Err = gone; gone == nil {
			r.readWithin(ctx, j, requests[i])
		}
		bytes += j.made()
	}
	if pass.Read(int64(budget.Made() + bytes)) {
		return nil
	}
	for i := range jobs {
		jobs[i].Release()
	}
	return r.Refuse(limit.LargeRequests)
}

// readWithin reads an encoded request: on the fast path, which handles usual requests, or
// else on the slow path. The job's budget limits the cost.
func (r *Reader) readWithin(ctx context.Context, j *Job, data []byte) {
	before, slow := *j.budget, r.Metrics.Slow.policy
	if !j.caller.Configured() { // otherwise it depends on the target
		if slow = r.readUsual(j, data); slow == nil {
			return
		}
	}
	slow.Inc()
	*j.budget = before // the slow path starts again
	req := &setpointv1.RecommendRequest{}
	if j.Err = encoded.Unmarshal(data, r.Settings.CostLimits(), j.budget, req); j.Err == nil {
		r.read(ctx, j, req)
	}
}

// readUsual reads an encoded request on the fast path; otherwise it counts as what is returned.
func (r *Reader) readUsual(j *Job, data []byte) prometheus.Counter {
	usual, ok := r.decoder.Decode(data, j.budget)
	if !ok {
		return r.Metrics.Slow.unusual
	}
	if usual.HasEvaluationTime && (!r.Settings.AllowEvaluationTime || !fits(usual.EvaluationTime)) {
		usual.Release()
		return r.Metrics.Slow.evaluationTime
	}
	j.Now, j.Target, j.RequestID, j.DryRun = j.started, usual.Target, usual.RequestID, usual.DryRun
	j.RestartAfterPause = usual.RestartAfterPause
	j.encoded, j.Input, j.Owner, j.AnyTime, j.Seeder = usual, &usual.Input, usual.Owner, r.Settings.AllowEvaluationTime, usual
	j.Spec, j.SpecHash, j.Defaults = usual, usual.SpecHash, &r.Settings.Recommend
	j.Key = store.Key(usual.Name)
	if r.permit(j, len(j.Input.Pods), len(j.Input.Spec.Metrics)) && j.affordable() {
		j.memberOf(usual.Fleet)
		r.complete(j)
		if usual.HasEvaluationTime {
			j.Now, j.Timed = usual.EvaluationTime, true
		}
	}
	return nil
}

// memberOf makes the target a member of a fleet; of none for "".
func (j *Job) memberOf(fleet string) {
	if fleet != "" {
		key := decision.ParseTarget(fleet)
		j.Fleet = &decision.Membership{Name: fleet, Key: key, Reads: j.caller.Check(policy.Read, key) == nil}
	}
}

// read reads a request on the slow path, which reports all errors.
func (r *Reader) read(ctx context.Context, j *Job, req *setpointv1.RecommendRequest) {
	j.Now, j.Target, j.RequestID, j.DryRun = j.started, req.GetTarget(), req.GetRequestId(), req.GetDryRun()
	j.RestartAfterPause = req.GetRestartAfterPause()
	j.Owner, j.AnyTime = record.OwnerOf(req.GetTargetUid(), req.GetClusterUid()), r.Settings.AllowEvaluationTime
	j.Key = decision.ParseTarget(req.GetTarget()) // none if the name is invalid, which is one of the violations
	if !r.permit(j, len(req.GetPods()), len(req.GetSpec().GetMetrics())) {
		return
	}
	defaults, notes := r.Settings.Recommend, []string(nil)
	j.Defaults = &r.Settings.Recommend
	if j.caller.Configured() {
		defaults, notes = j.configure(req, defaults)
		j.Defaults = new(defaults)
	}
	var around stages.Around
	if j.Input, around, j.Err = readRequest(ctx, req, defaults, j.Now, j.AnyTime, j.budget); j.Err != nil || !j.affordable() {
		return
	}
	if !around.Empty() && !j.budget.Cells(conversion.Cells(j.Input)) { // the plain count takes a second evaluation
		j.Err = apierror.TooManyEvaluations()
		return
	}
	j.Input.Notes = append(j.Input.Notes, notes...)
	j.Around = around
	j.Spec, j.SpecHash = &spec{req.GetSpec(), req.GetOptions(), req.GetStages()}, conversion.HashOfSpec(req.GetSpec(), req.GetOptions(), req.GetStages())
	j.memberOf(req.GetFleet())
	r.complete(j)
	if req.GetEvaluationTime() != nil {
		j.Now, j.Timed = req.GetEvaluationTime().AsTime(), true
	}
}

// spec is the spec of a request that was read on the slow path, as it decides: within the caps of the
// caller.
type spec struct {
	spec    *setpointv1.HorizontalPodAutoscalerSpec
	options *setpointv1.RecommendOptions
	stages  *setpointv1.Stages
}

func (s *spec) SpecInUse() *setpointv1.SpecInUse {
	return conversion.SpecInUse(s.spec, s.options, s.stages)
}

// permit refuses requests that the caller may not make, and those beyond the server's limits.
func (r *Reader) permit(j *Job, pods, metrics int) bool {
	if j.Key != (store.Key{}) {
		j.Err = j.caller.Check(policy.Recommend, j.Key)
	}
	switch {
	case j.Err != nil:
	case pods > r.Settings.MaxPods:
		j.Err = apierror.OverLimit("maxPods", r.Settings.MaxPods, "the request has more pods than this server takes in one request")
	case metrics > r.Settings.MaxMetrics:
		j.Err = apierror.OverLimit("maxMetrics", r.Settings.MaxMetrics, "the spec has more metrics than this server takes")
	}
	return j.Err == nil
}

// affordable refuses requests that would take too long to decide, and sets how many pods an
// explanation may list.
func (j *Job) affordable() bool {
	in := j.Input
	if !j.budget.Cells(conversion.Cells(in)) {
		j.Err = apierror.TooManyEvaluations()
		return false
	}
	if in.Explain {
		in.ExplainLimit = recommender.ExplainNoPods
		if granted := j.budget.Pods(len(in.Pods) * len(in.Spec.Metrics)); granted > 0 {
			in.ExplainLimit = granted
		}
	}
	return true
}

// complete sets the parts of a request that depend on its caller. If the operator has set options for
// the caller, the key of the answer is the caller's own: other answers were made with other options,
// and must not let it get around its own.
func (r *Reader) complete(j *Job) {
	j.Input.ID = newID(j.Now)
	j.Bounds, j.Budget = r.shares.For(j.caller), j.budget
	if j.RequestID == "" {
		return
	}
	if j.AnswerKey = j.RequestID; j.caller.Configured() {
		sum := sha256.Sum256([]byte(j.caller.Name()))
		j.AnswerKey += " " + hex.EncodeToString(sum[:8])
	}
}

// newID returns a unique id of a recommendation: the time, so that ids sort, and 80
// random bits.
func newID(now time.Time) recommender.ID {
	var id recommender.ID
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	random := rand.Uint64()
	for i := range 8 {
		id[6+i] = byte(random >> (8 * i))
	}
	random = rand.Uint64()
	id[14], id[15] = byte(random), byte(random>>8)
	return id
}
