package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis"
)

// soloist is a caller with a mark and a cluster of its own, whose calls do not depend on the time or
// on other callers: what it gets is the same whether it is alone or not.
type soloist struct {
	*stage
	t      *testing.T
	mark   string
	random *rand.Rand
	// now is the evaluation time of the next call, calls counts calls.
	now   time.Time
	calls int
	// targets are the names of its targets, replicas their counts.
	targets  []string
	replicas map[string]int32
	// ids are the recommendations in order; raced are the request ids that were sent twice, so that
	// it is open which call made the decision.
	ids   map[string]string
	raced map[string]bool
	// single has the requests of batches and streams asked one by one: jobs of one call share memory.
	single bool
	// outages has it lose its store, and no call cut off: what the cache has then depends on when such
	// a call ends.
	outages bool
	// hasty has its calls end at any time.
	hasty bool
	// got is what it got, in order.
	got []string
}

// markPattern finds the marks in a text.
var markPattern = regexp.MustCompile(`zq\d\d\dqz`)

// marks are those in a text, each once.
func marks(text string) []string {
	found := markPattern.FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// mayFail are the codes of calls that are wrong, are cut off, lose each race, find no store, or panic.
var mayFail = []codes.Code{
	codes.InvalidArgument, codes.NotFound, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted, codes.Internal,
}

func (c *soloist) failed(what string, err error) {
	c.t.Helper()
	c.note(what, statusText(err))
	if !slices.Contains(mayFail, grpcstatus.Code(err)) {
		c.t.Errorf("%s of %s: %v", what, c.mark, err)
	}
}

// stage is a service on which soloists perform.
type stage struct {
	*servertest.Service
	engine store.Store
	log    store.Log
	logs   *observer.ObservedLogs
	// away has the clusters whose records cannot be reached.
	away sync.Map
}

// newSoloist returns the caller with that number, who always makes the same calls.
func newSoloist(t *testing.T, on *stage, number int) *soloist {
	c := &soloist{
		stage: on, t: t, mark: fmt.Sprintf("zq%03dqz", number), random: rand.New(rand.NewPCG(7, uint64(number))),
		now: servertest.T0, outages: number%2 == 0, replicas: map[string]int32{}, ids: map[string]string{}, raced: map[string]bool{},
	}
	for kind := range 4 {
		// Lengths differ, so that what is left of another name shows.
		name := fmt.Sprintf("clusters/%s/namespaces/%s/targets/%s-%d%s", c.mark, c.mark, c.mark, kind, strings.Repeat("x", number%5))
		c.targets, c.replicas[name] = append(c.targets, name), 3
	}
	return c
}

var recommendationIDs = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// note notes what the caller got, with the number of each recommendation in place of its random id.
func (c *soloist) note(what, text string) {
	c.t.Helper()
	for _, mark := range marks(text) {
		if mark != c.mark {
			c.t.Errorf("%s of %s has %s:\n%s", what, c.mark, mark, text)
		}
	}
	c.got = append(c.got, what+": "+c.numbered(text))
}

// numbered returns a text with the number of each recommendation in place of its random id.
func (c *soloist) numbered(text string) string {
	return recommendationIDs.ReplaceAllStringFunc(text, func(id string) string {
		if c.ids[id] == "" {
			c.ids[id] = fmt.Sprint("#", len(c.ids))
		}
		return c.ids[id]
	})
}

// request is the next request for a target, not always a valid one.
func (c *soloist) request(kind int) *setpointv1.RecommendRequest {
	name := c.targets[kind]
	first := c.calls < len(c.targets)
	c.calls++
	c.now = c.now.Add(time.Second * time.Duration(1+c.random.IntN(9)))
	metric := &setpointv1.MetricIdentifier{Name: c.mark, Selector: &setpointv1.LabelSelector{MatchLabels: map[string]string{c.mark: c.mark + "-label"}}}
	req := servertest.Queue(name, c.replicas[name], 10*c.random.Int32N(40))
	if kind < 2 {
		req.Spec.Metrics[0].External.Metric, req.ExternalMetrics[0].Metric = metric, metric
	} else {
		req = servertest.WebRequest(c.t, servertest.WithTarget(name))
		req.Scale = &setpointv1.Scale{SpecReplicas: c.replicas[name]}
		full, pod, sample := req.GetPods()[0], req.GetPods()[1], req.GetPodMetrics()[1]
		req.Pods, req.PodMetrics = nil, nil
		for i := range []int{0, 0, 3, 200}[kind] + c.random.IntN(5) {
			pod, sample := proto.CloneOf(pod), proto.CloneOf(sample)
			pod.Name = fmt.Sprint(c.mark, "-", i)
			sample.Pod = pod.GetName()
			sample.Containers[0].Usage["cpu"] = fmt.Sprint(c.random.IntN(900), "m")
			c.shape(pod, full, sample)
			req.Pods, req.PodMetrics = append(req.Pods, pod), append(req.PodMetrics, sample)
		}
	}
	req.Spec.ScaleTargetRef = &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: c.mark + "-workload", ApiVersion: "apps/v1"}
	req.EvaluationTime = timestamppb.New(c.now)
	req.Explain = c.random.IntN(2) == 0
	if c.random.IntN(3) > 0 {
		req.RequestId = fmt.Sprint(c.mark, "-", c.calls)
	}
	if first {
		req.PreviousStatus = &setpointv1.HorizontalPodAutoscalerStatus{Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{{
			Type: "ScalingLimited", Status: "True", Reason: "Of" + c.mark, Message: "said " + c.mark + " before",
		}}}
	}
	switch c.random.IntN(12) {
	case 0, 1:
		req.DryRun = true
	case 2: // refused, with a text of the request
		req.Spec.Metrics[0].Type = c.mark
	case 3:
		req.ExternalMetrics, req.PodMetrics = nil, nil
		metric := map[bool]string{true: c.mark, false: "cpu"}[kind < 2]
		req.MetricErrors = []*setpointv1.MetricError{{Metric: metric, Message: c.mark + " cannot be read"}}
	case 4:
		req.Scale, req.ScaleError = nil, &setpointv1.ScaleError{Reason: "UnknownKind", Message: "no matches for " + c.mark}
	case 5: // refused, too, by the way that reports all errors
		req.Spec.Behavior.ScaleDown.Policies = []*setpointv1.HPAScalingPolicy{{Type: c.mark, Value: -1, PeriodSeconds: 15}}
	}
	return req
}

// shape gives a pod fields that others lack, or takes some: what former requests left in their place
// would count.
func (c *soloist) shape(pod, full *setpointv1.Pod, sample *setpointv1.PodMetrics) {
	switch c.random.IntN(9) {
	case 0:
		pod.Deleting = true
	case 1:
		pod.Phase, pod.Ready = "Pending", nil
	case 2:
		pod.StartTime, pod.Ready.Status = nil, "False"
	case 3:
		pod.Overhead = map[string]string{"cpu": "100m"}
	case 4:
		pod.Resources = &setpointv1.ResourceRequirements{Requests: map[string]string{"cpu": "700m"}}
	case 5:
		pod.InitContainers = full.GetInitContainers()
	case 6:
		pod.Containers = append(pod.Containers, &setpointv1.Container{Name: c.mark, Requests: map[string]string{"cpu": "300m", "memory": "1Gi"}})
		sample.Containers = append(sample.Containers, &setpointv1.ContainerMetrics{Name: c.mark, Usage: map[string]string{"cpu": "200m"}})
	}
}

// called is the context of a call, which has an id of the caller's.
func (c *soloist) called(ctx context.Context, prefix string) context.Context {
	if c.hasty && rand.IntN(4) == 0 {
		brief, cancel := context.WithTimeout(ctx, rand.N(2*time.Millisecond))
		c.t.Cleanup(cancel)
		ctx = brief
	}
	return servertest.Named(ctx, fmt.Sprint(prefix, c.mark, "-call-", c.calls))
}

func statusText(err error) string { return prototext.Format(grpcstatus.Convert(err).Proto()) }

// cutOffPrefix begins the ids of calls that may end at any time.
const cutOffPrefix = "cut-off-"

// cutOff makes a call that may end at any time, unless its outcome would matter: the same call
// comes again, and gets the same answer.
func (c *soloist) cutOff(req *setpointv1.RecommendRequest, call func(ctx context.Context) (text string, ok bool)) (text string) {
	if c.hasty || c.outages || req.GetRequestId() == "" && !req.GetDryRun() || c.random.IntN(3) > 0 {
		return ""
	}
	c.raced[req.GetRequestId()] = true
	ctx, cancel := context.WithTimeout(c.t.Context(), rand.N(3*time.Millisecond))
	defer cancel()
	text, ok := call(c.called(ctx, cutOffPrefix))
	for _, mark := range marks(text) {
		if mark != c.mark {
			c.t.Errorf("a call of %s that was cut off got\n%s", c.mark, text)
		}
	}
	if !ok {
		return ""
	}
	return text
}

// again fails the test if a call and the same one before had different answers.
func (c *soloist) again(before, now string) {
	if before != "" && before != now {
		c.t.Errorf("the same call of %s got first\n%s\nthen\n%s", c.mark, before, now)
	}
}

// learn does what the answer says, or says nothing of it.
func (c *soloist) learn(req *setpointv1.RecommendRequest, resp *setpointv1.RecommendResponse) {
	if m := req.GetExternalMetrics(); resp != nil && len(m) > 0 && req.GetScale() != nil {
		entries, _ := strconv.Atoi(m[0].GetValue())
		if got := resp.GetDesiredReplicas(); got != max(1, int32(entries/10)) && got != req.GetScale().GetSpecReplicas() {
			c.t.Errorf("%s got %d replicas for\n%s", c.mark, got, prototext.Format(req))
		}
	}
	if resp.GetRecommendationId() != "" && c.random.IntN(3) > 0 {
		c.replicas[req.GetTarget()] = max(1, resp.GetDesiredReplicas())
	}
}

func (c *soloist) unary() {
	req := c.request(c.random.IntN(len(c.targets)))
	var header metadata.MD
	call := func(ctx context.Context) (*setpointv1.RecommendResponse, error) {
		return c.Recommendations.Recommend(ctx, req, grpc.Header(&header))
	}
	before := c.cutOff(req, func(ctx context.Context) (string, bool) {
		resp, err := call(ctx)
		if err != nil {
			return statusText(err), false
		}
		return prototext.Format(resp), true
	})
	resp, err := call(c.called(c.t.Context(), ""))
	if err != nil {
		c.failed("an error", err)
		return
	}
	c.again(before, prototext.Format(resp))
	c.note(fmt.Sprint("an answer to ", header.Get("x-request-id")), prototext.Format(resp))
	c.learn(req, resp)
	if resp.GetRecommendationId() != "" && c.random.IntN(2) == 0 {
		c.settle(req.GetTarget(), resp.GetRecommendationId())
	}
}

func (c *soloist) settle(target, id string) {
	req := &setpointv1.ReportScaleRequest{Target: target, RecommendationId: id, Outcome: "APPLIED"}
	if c.random.IntN(2) == 0 {
		req.Outcome, req.Message = "FAILED", c.mark+" was refused"
	}
	resp, err := c.Recommendations.ReportScale(c.called(c.t.Context(), "report-"), req)
	if err != nil {
		c.failed("the error of a report", err)
		return
	}
	c.note("a settlement", prototext.Format(resp))
}

// batch asks several times for the same targets.
func (c *soloist) batch(requests ...*setpointv1.RecommendRequest) {
	for len(requests) == 0 || c.random.IntN(6) > 0 && len(requests) < 9 {
		requests = append(requests, c.request(c.random.IntN(3)))
	}
	ctx := c.called(c.t.Context(), "many-")
	var resp *setpointv1.BatchRecommendResponse
	if c.single {
		resp = &setpointv1.BatchRecommendResponse{}
		for _, req := range requests {
			result := &setpointv1.BatchRecommendResult{}
			if one, err := c.Recommendations.Recommend(ctx, req); err != nil {
				result.Result = &setpointv1.BatchRecommendResult_Error{Error: grpcstatus.Convert(err).Proto()}
			} else {
				result.Result = &setpointv1.BatchRecommendResult_Response{Response: one}
			}
			resp.Results = append(resp.Results, result)
		}
	} else {
		var err error
		if resp, err = c.Recommendations.BatchRecommend(ctx, &setpointv1.BatchRecommendRequest{Requests: requests}); err != nil {
			c.failed("the error of a batch", err)
			return
		}
	}
	c.note("a batch", prototext.Format(resp))
	for i, result := range resp.GetResults() {
		c.learn(requests[i], result.GetResponse())
	}
}

// stream asks for each target at once.
func (c *soloist) stream() {
	requests := map[string]*setpointv1.RecommendRequest{}
	for kind := range c.targets {
		requests[fmt.Sprint(c.mark, "-message-", kind)] = c.request(kind)
	}
	var answers map[string]*setpointv1.StreamRecommendResponse
	if c.single {
		answers = c.oneByOne(requests)
	} else {
		answers = c.streamed(requests)
	}
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		c.note("a streamed answer", prototext.Format(answers[id]))
		if requests[id] == nil {
			c.t.Errorf("%s got an answer to %q, which it did not ask", c.mark, id)
			continue
		}
		c.learn(requests[id], answers[id].GetResponse())
	}
}

// oneByOne is what a stream of the requests is to answer, by id.
func (c *soloist) oneByOne(requests map[string]*setpointv1.RecommendRequest) map[string]*setpointv1.StreamRecommendResponse {
	answers := map[string]*setpointv1.StreamRecommendResponse{}
	for id, req := range requests {
		answers[id] = &setpointv1.StreamRecommendResponse{Id: id}
		if one, err := c.Recommendations.Recommend(c.called(c.t.Context(), "many-"), req); err != nil {
			answers[id].Result = &setpointv1.StreamRecommendResponse_Error{Error: grpcstatus.Convert(err).Proto()}
		} else {
			answers[id].Result = &setpointv1.StreamRecommendResponse_Response{Response: one}
		}
	}
	return answers
}

// streamed sends the requests on a stream, and returns the answers by id.
func (c *soloist) streamed(requests map[string]*setpointv1.RecommendRequest) map[string]*setpointv1.StreamRecommendResponse {
	answers := map[string]*setpointv1.StreamRecommendResponse{}
	ctx, cancel := context.WithCancel(c.called(c.t.Context(), "many-"))
	defer cancel()
	stream, err := c.Recommendations.StreamRecommend(ctx)
	for _, id := range slices.Sorted(maps.Keys(requests)) {
		if err == nil {
			err = stream.Send(&setpointv1.StreamRecommendRequest{Id: id, Request: requests[id]})
		}
	}
	if err == nil {
		_ = stream.CloseSend()
	}
	for err == nil {
		var resp *setpointv1.StreamRecommendResponse
		if resp, err = stream.Recv(); err == nil {
			answers[resp.GetId()] = resp
		}
	}
	if !errors.Is(err, io.EOF) && !c.hasty {
		c.t.Errorf("a stream of %s: %v", c.mark, err)
	}
	return answers
}

// rest calls over REST, with or without the gateway.
func (c *soloist) rest() {
	req := c.request(c.random.IntN(len(c.targets)))
	body := proto.CloneOf(req)
	body.Target = ""
	path, gateway := servertest.RecommendPath(req.GetTarget()), c.random.IntN(3) == 0
	var sent proto.Message = body
	if c.random.IntN(4) == 0 {
		path, sent = "/v1/targets:batchRecommend", &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{req}}
	}
	text, err := protojson.Marshal(sent)
	if err != nil {
		c.t.Error(err)
		return
	}
	call := func(ctx context.Context) (string, bool) {
		asked, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+path, bytes.NewReader(text))
		if err != nil {
			return err.Error(), false
		}
		if gateway {
			asked.Header.Set(servertest.OverGateway, "100S")
		}
		md, _ := metadata.FromOutgoingContext(ctx)
		asked.Header.Set("X-Request-Id", md.Get("x-request-id")[0])
		a, err := c.Send(asked)
		if err != nil {
			return err.Error(), false
		}
		return string(a.Raw), a.Code == http.StatusOK
	}
	before := c.cutOff(req, call)
	answer, ok := call(c.called(c.t.Context(), ""))
	c.note("an answer over REST", answer)
	if ok && path != "/v1/targets:batchRecommend" {
		c.again(before, answer)
		resp := &setpointv1.RecommendResponse{}
		if err := protojson.Unmarshal([]byte(answer), resp); err != nil {
			c.t.Errorf("%s got %s: %v", c.mark, answer, err)
		}
		c.learn(req, resp)
	}
}

// withoutStore makes calls while its records are away.
func (c *soloist) withoutStore() {
	c.away.Store(c.mark, true)
	defer c.away.Delete(c.mark)
	for range 2 {
		c.unary()
		c.stream()
	}
	c.batch()
}

// lastID is the request id of the last calls, whose decisions end the watches.
const lastID = "-last"

// perform makes the calls, and returns all that the caller got, all that is stored of it, and all
// that watchers got.
func (c *soloist) perform(calls int) {
	watched := make(chan map[string][]string, 1)
	w := openWatch(c.t, c.Service, &setpointv1.WatchDecisionsRequest{Parent: "clusters/" + c.mark + "/namespaces/-/targets/-", MaxDecisions: c.random.Int32N(50)})
	go func() { watched <- c.watches(w, len(c.targets)) }()
	first := make([]*setpointv1.RecommendRequest, len(c.targets))
	for kind := range c.targets {
		first[kind] = c.request(kind)
	}
	c.batch(first...)
	for call := range calls {
		switch c.random.IntN(10) {
		case 0, 1, 2:
			c.unary()
		case 3, 4:
			c.batch()
		case 5, 6:
			c.stream()
		default:
			c.rest()
		}
		if c.outages && call%12 == 8 {
			c.withoutStore()
		}
	}
	last := make([]*setpointv1.RecommendRequest, len(c.targets))
	for kind, name := range c.targets {
		c.now = c.now.Add(time.Second)
		last[kind] = servertest.With(servertest.Queue(name, c.replicas[name], 10), servertest.WithID(fmt.Sprint(c.mark, lastID)), servertest.EvaluatedAt(c.now), func(r *setpointv1.RecommendRequest) {
			r.Spec.MinReplicas, r.Spec.MaxReplicas = new(c.replicas[name]+1), c.replicas[name]+1
		})
	}
	resp, err := c.Recommendations.BatchRecommend(c.called(c.t.Context(), "last-"), &setpointv1.BatchRecommendRequest{Requests: last})
	if err != nil {
		c.t.Errorf("the last batch of %s: %v", c.mark, err)
	}
	c.note("the last batch", prototext.Format(resp))
	fed := whole(c.t, watched)
	for _, name := range c.targets {
		c.note("the feed", strings.Join(fed[name], "\n"))
		c.stored(name)
	}
}

// stored notes what is stored of a target.
func (c *soloist) stored(name string) {
	ctx := c.t.Context()
	target, err := c.Targets.GetTarget(ctx, &setpointv1.GetTargetRequest{Name: name})
	if err != nil {
		c.t.Errorf("GetTarget: %v", err)
	}
	c.note("a target", prototext.Format(target))
	decisions, err := c.Targets.ListDecisions(ctx, &setpointv1.ListDecisionsRequest{Parent: name, PageSize: 1000})
	if err != nil {
		c.t.Errorf("ListDecisions: %v", err)
	}
	c.note("the log", prototext.Format(decisions))
	record, err := c.engine.Load(ctx, servertest.KeyOf(name))
	if err != nil {
		c.t.Errorf("Load: %v", err)
	}
	c.note("the record", fmt.Sprintf("%q", c.withoutIDs(record.Value)))
	values, _, err := c.log.ReadLog(ctx, servertest.KeyOf(name), "", 1000)
	if err != nil {
		c.t.Errorf("ReadLog: %v", err)
	}
	for _, value := range values {
		c.note("an entry of the log", prototext.Format(decisionlog.Read(value)))
	}
}

// withoutIDs returns an encoded record without its random ids.
func (c *soloist) withoutIDs(value []byte) []byte {
	h, err := record.Decode(value)
	if err != nil {
		c.t.Errorf("%s has the value %q: %v", c.mark, value, err)
		return nil
	}
	number := func(id *recommender.ID) {
		if *id != (recommender.ID{}) {
			text := c.numbered(id.String())
			*id = recommender.ID{}
			copy(id[:], text)
		}
	}
	number(&h.Last.ID)
	if h.Pending != nil {
		number(&h.Pending.ID)
	}
	for i := range h.Settled {
		number(&h.Settled[i].ID)
	}
	for i := range h.Answers {
		number(&h.Answers[i].ID)
	}
	return record.Append(nil, &h)
}

// watches returns what a watcher gets of each target, until it has the last decision of that many.
func (c *stage) watches(stream grpc.ServerStreamingClient[setpointv1.WatchDecisionsResponse], targets int) map[string][]string {
	got := map[string][]string{}
	for targets > 0 {
		resp, err := stream.Recv()
		if err != nil {
			return got
		}
		decisions := resp.GetDecisions()
		if resp.GetDecision() != nil {
			decisions = append(decisions, &setpointv1.WatchedDecision{Target: resp.GetTarget(), Decision: resp.GetDecision()})
		}
		for _, d := range decisions {
			got[d.GetTarget()] = append(got[d.GetTarget()], prototext.Format(d.GetDecision()))
			if strings.HasSuffix(d.GetDecision().GetRequestId(), lastID) {
				targets--
			}
		}
	}
	return got
}

// openWatch opens a watch, and returns when it is there.
func openWatch(t *testing.T, s *servertest.Service, req *setpointv1.WatchDecisionsRequest) grpc.ServerStreamingClient[setpointv1.WatchDecisionsResponse] {
	t.Helper()
	stream, err := s.Targets.WatchDecisions(t.Context(), req)
	if err == nil {
		_, err = stream.Recv()
	}
	fatal.If(t, err)
	return stream
}

// whole waits for what a watcher got, for a while: the last decision may be lost if there is a fault.
func whole(t *testing.T, watched <-chan map[string][]string) map[string][]string {
	t.Helper()
	select {
	case got := <-watched:
		return got
	case <-time.After(time.Minute):
		t.Error("a watcher waits for the last decisions in vain")
		return nil
	}
}

// lines are the caller's lines of the log, sorted, without what depends on time and chance.
func (c *soloist) lines() (all []string) {
	for _, entry := range c.logs.All() {
		fields := entry.ContextMap()
		if entry.Message == "call" && strings.HasPrefix(fmt.Sprint(fields["requestId"]), "many-") {
			continue
		}
		id, asked := fmt.Sprint(fields["requestId"]), fmt.Sprint(fields["bodyRequestId"])
		if !strings.Contains(id, c.mark) || strings.HasPrefix(id, cutOffPrefix) || c.raced[asked] {
			continue
		}
		for _, name := range []string{"duration", "peer", "attempts"} {
			delete(fields, name)
		}
		all = append(all, c.numbered(fmt.Sprint(entry.Message, " ", fields)))
	}
	slices.Sort(all)
	return all
}

// unreached is what a call of the store fails with while the records of a cluster are away.
func (c *stage) unreached(key store.Key) error {
	if _, away := c.away.Load(key.Cluster); away {
		return store.ErrUnavailable
	}
	return nil
}

// open starts a service for soloists, on Redis if there is an engine on one. Swaps are late, and
// lose races with nobody.
func openStage(t *testing.T, engine store.Store) *stage {
	st := &stage{}
	core, logs := observer.New(zap.DebugLevel)
	st.logs = logs
	spurious := servertest.Spuriously(6)
	var swaps atomic.Int64
	load := func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
		if err := st.unreached(key); err != nil {
			return store.Record{}, err
		}
		return load(ctx, key)
	}
	swap := func(ctx context.Context, swap store.Swap, compareAndSwap servertest.SwapFunc) (store.SwapResult, error) {
		if err := st.unreached(swap.Key); err != nil {
			return store.SwapResult{}, err
		}
		if swaps.Add(1)%7 == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(rand.N(time.Millisecond)):
			}
		}
		return spurious(ctx, swap, compareAndSwap)
	}
	st.Service = servertest.Start(t, servertest.HoldingDown, func(su *servertest.Setup) {
		su.Store.OnLoad, su.Store.OnSwap = load, swap
		st.engine, st.log = su.Store, su.Log
		if engine != nil {
			on := &hookedRedis{engine.(*redis.Store), load, swap}
			su.Engine, su.Log, su.Options.MaxClockSkew = on, on, 0 // the service's clock is a test's
			st.engine, st.log = on, on
		}
		su.Options.Log, su.Options.LogCalls = zap.New(core), server.LogAllCalls
		su.Options.LoggedRepeats, su.Options.MaxAttempts = 1<<20, 10_000
		// What is answered without the store depends on the cache: it must drop nothing.
		su.Options.CacheBytes, su.Options.AnswerBytes = 512<<20, 8<<10
	})
	return st
}

// hookedRedis has the hooks of servertest on Redis.
type hookedRedis struct {
	*redis.Store
	load func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error)
	swap func(ctx context.Context, swap store.Swap, compareAndSwap servertest.SwapFunc) (store.SwapResult, error)
}

func (h *hookedRedis) Load(ctx context.Context, key store.Key) (store.Record, error) {
	return h.load(ctx, key, h.Store.Load)
}

func (h *hookedRedis) LoadBatch(ctx context.Context, keys []store.Key) ([]store.Record, error) {
	for _, key := range keys {
		if _, err := h.load(ctx, key, func(context.Context, store.Key) (store.Record, error) { return store.Record{}, nil }); err != nil {
			return nil, err
		}
	}
	return h.Store.LoadBatch(ctx, keys)
}

func (h *hookedRedis) CompareAndSwap(ctx context.Context, swap store.Swap) (store.SwapResult, error) {
	return h.swap(ctx, swap, h.Store.CompareAndSwap)
}

func (h *hookedRedis) CompareAndSwapBatch(ctx context.Context, swaps []store.Swap) ([]store.SwapResult, error) {
	swaps = slices.Clone(swaps)
	for i := range swaps {
		pass := func(_ context.Context, swap store.Swap) (store.SwapResult, error) {
			swaps[i] = swap
			return store.SwapResult{}, nil
		}
		if _, err := h.swap(ctx, swaps[i], pass); err != nil {
			return nil, err
		}
	}
	return h.Store.CompareAndSwapBatch(ctx, swaps)
}

// Calls reuse the memory of those before, of whatever tenant. Many callers at once get, to the byte,
// what each gets when it is alone: answers, errors, records, logs, decisions of a watch, log lines.
func TestManyCallersGetWhatEachGetsAlone(t *testing.T) {
	t.Parallel()
	callers, calls := 16, 20
	if testlength.Full() {
		callers, calls = 32, 150
	}
	alone := make([]*soloist, callers)
	for i := range alone {
		st := openStage(t, nil)
		alone[i] = newSoloist(t, st, i)
		alone[i].single = true
		alone[i].perform(calls)
		if st.StopAndWait(t); t.Failed() {
			return // what was alone before is already in the answers of this one
		}
	}
	for _, tt := range []struct {
		name string
		open func(t *testing.T) store.Store
	}{
		{"memory", func(*testing.T) store.Store { return nil }},
		{"Redis", func(t *testing.T) store.Store { return servertest.OnRedis(t)() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := openStage(t, tt.open(t))
			together := make([]*soloist, callers)
			all := make(chan map[string][]string, 1)
			w := openWatch(t, st.Service, &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything})
			go func() { all <- st.watches(w, callers*len(alone[0].targets)) }()
			var performing sync.WaitGroup
			for i := range together {
				together[i] = newSoloist(t, st, i)
				performing.Go(func() { together[i].perform(calls) })
			}
			performing.Wait()
			fed := whole(t, all)
			st.StopAndWait(t)
			for i, c := range together {
				want := alone[i]
				c.same(c.got, want.got)
				c.same(c.lines(), want.lines())
				for _, name := range c.targets {
					if text := "the feed: " + c.numbered(strings.Join(fed[name], "\n")); !slices.Contains(c.got, text) {
						t.Errorf("the watcher of all got of %s\n%s", name, text)
					}
				}
			}
		})
	}
}

// same fails the test unless the texts of the caller are the same as alone.
func (c *soloist) same(got, alone []string) {
	c.t.Helper()
	n := 0
	for n < min(len(got), len(alone)) && got[n] == alone[n] {
		n++
	}
	if n < max(len(got), len(alone)) { // what follows depends on the first difference
		c.t.Errorf("text %d of %s (%d; alone %d) is\n%s\nalone\n%s", n, c.mark, len(got), len(alone),
			strings.Join(got[n:min(n+1, len(got))], ""), strings.Join(alone[n:min(n+1, len(alone))], ""))
	}
}
