package server_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server"
	servercalls "github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/store"
)

// marked is a target whose answers can be checked alone: a mark is part of each name that its
// requests have, and no other target has its count.
type marked struct {
	name, mark string
	// request has neither an id nor the name.
	request *setpointv1.RecommendRequest
	want    int32
	// unexplained reports whether answers have the mark without an explanation, too.
	unexplained bool
}

// markPattern finds the marks in a text.
var markPattern = regexp.MustCompile(`zq\d\d\dqz`)

// markedTargets are several targets of several tenants: they scale on a queue, lack the metric of
// their queue, or scale on the cpu of their pods.
func markedTargets(tb testing.TB, tenants, each int) (all []marked) {
	tb.Helper()
	for i := range tenants * each {
		m := marked{mark: fmt.Sprintf("zq%03dqz", i), want: int32(10 + i), unexplained: true}
		m.name = fmt.Sprintf("clusters/tenant-%d/namespaces/%s/targets/%s", i%tenants, m.mark, m.mark)
		m.request = queue(m.name, 3, 10*m.want)
		m.request.Spec.Metrics[0].External.Metric.Name = m.mark
		m.request.ExternalMetrics[0].Metric.Name = m.mark
		// Changes are recorded again and again, and limit no count.
		m.request.Spec.Behavior.ScaleUp.Policies[0].Value = 1 << 30
		switch i / tenants % 3 {
		case 1:
			m.request.ExternalMetrics, m.want = nil, 3
		case 2:
			behavior := m.request.Spec.Behavior
			m.request = webRequest(tb, withTarget(m.name))
			m.request.Spec.Behavior, m.request.Spec.MaxReplicas, m.unexplained = behavior, m.want, false
			m.request.Spec.Metrics[0].Resource.Target.AverageUtilization = new(int32(1))
			for at, pod := range m.request.GetPods() {
				pod.Name = fmt.Sprint(m.mark, "-", at)
				m.request.PodMetrics[at].Pod = pod.Name
			}
		}
		all = append(all, m)
	}
	return all
}

// marks are those in a text, each once.
func marks(text string) []string {
	found := markPattern.FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// owns fails the test if a text has a mark of another target.
func (m *marked) owns(t *testing.T, what, text string) {
	t.Helper()
	for _, mark := range marks(text) {
		if mark != m.mark {
			t.Errorf("%s of %s has %s:\n%s", what, m.mark, mark, text)
			return
		}
	}
}

// ask is a new request for the target.
func (m *marked) ask(id string) *setpointv1.RecommendRequest {
	return with(m.request, func(r *setpointv1.RecommendRequest) {
		r.Explain, r.DryRun = rand.IntN(2) == 0, rand.IntN(8) == 0
		if rand.IntN(3) > 0 {
			r.RequestId = m.mark + id
		}
	})
}

// answered checks an answer to a request.
func (m *marked) answered(t *testing.T, req *setpointv1.RecommendRequest, resp *setpointv1.RecommendResponse) {
	t.Helper()
	text := prototext.Format(resp)
	m.owns(t, "the answer", text)
	full := m.unexplained || resp.GetExplanation() != nil
	if resp.GetDesiredReplicas() != m.want || resp.GetRequestId() != req.GetRequestId() || full && !strings.Contains(text, m.mark) ||
		!req.GetExplain() && resp.GetExplanation() != nil || len(resp.GetStatus().GetConditions()) < 2 {
		t.Errorf("the answer to\n%s\nis\n%s", prototext.Format(req), text)
	}
}

// mayFail are the codes of calls that are cut off, that lose each race, that find no store, or that
// panic.
var mayFail = []codes.Code{codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted, codes.Internal}

// failed checks the error of a call.
func (m *marked) failed(t *testing.T, err error) {
	t.Helper()
	m.owns(t, "the error", err.Error())
	if !slices.Contains(mayFail, grpcstatus.Code(err)) {
		t.Errorf("the error of %s: %v", m.mark, err)
	}
}

// failedItem is failed for an item of a batch or a stream.
func (m *marked) failedItem(t *testing.T, err *status.Status) {
	t.Helper()
	m.failed(t, grpcstatus.ErrorProto(err))
}

// decided checks a decision of the log or of the feed.
func (m *marked) decided(t *testing.T, d *setpointv1.Decision) {
	t.Helper()
	text := prototext.Format(d)
	m.owns(t, "a decision", text)
	if d.GetDesiredReplicas() != m.want || d.GetCurrentReplicas() != 3 || len(d.GetConditions()) < 2 || m.unexplained && !strings.Contains(text, m.mark) {
		t.Errorf("a decision of %s is\n%s", m.mark, text)
	}
}

// markedCaller makes calls for all targets.
type markedCaller struct {
	*service
	targets []marked
	name    int
}

// any is a random target, and a request with an id that is new.
func (c *markedCaller) any(call int) (*marked, *setpointv1.RecommendRequest) {
	m := &c.targets[rand.IntN(len(c.targets))]
	return m, m.ask(fmt.Sprint("-", c.name, "-", call))
}

// hasty is a context that may end at any time.
func hasty(ctx context.Context) (context.Context, context.CancelFunc) {
	if rand.IntN(4) == 0 {
		return context.WithTimeout(ctx, rand.N(2*time.Millisecond))
	}
	return context.WithCancel(ctx)
}

func (c *markedCaller) unary(t *testing.T, call int) {
	m, req := c.any(call)
	for range 1 + rand.IntN(2) { // the same answer again, if it has an id
		ctx, cancel := hasty(t.Context())
		resp, err := c.recommendations.Recommend(ctx, req)
		cancel()
		if err != nil {
			m.failed(t, err)
			continue
		}
		m.answered(t, req, resp)
		if resp.GetRecommendationId() != "" && rand.IntN(2) == 0 {
			c.settle(t, m, resp.GetRecommendationId())
		}
	}
}

// settle reports a change, if there is one that nobody has settled yet.
func (c *markedCaller) settle(t *testing.T, m *marked, id string) {
	req := &setpointv1.ReportScaleRequest{Target: m.name, RecommendationId: id, Outcome: "APPLIED"}
	if rand.IntN(2) == 0 {
		req.Outcome, req.Message = "FAILED", m.mark
	}
	ctx, cancel := hasty(t.Context())
	defer cancel()
	resp, err := c.recommendations.ReportScale(ctx, req)
	switch {
	case err == nil:
		m.owns(t, "a settlement", prototext.Format(resp))
	case grpcstatus.Code(err) == codes.NotFound: // settled by sight meanwhile, and forgotten
	default:
		m.failed(t, err)
	}
}

func (c *markedCaller) batch(t *testing.T, call int) {
	all := make([]*marked, 1+rand.IntN(12)) // some of them twice
	req := &setpointv1.BatchRecommendRequest{}
	for i := range all {
		var one *setpointv1.RecommendRequest
		all[i], one = c.any(100*call + i)
		req.Requests = append(req.Requests, one)
	}
	ctx, cancel := hasty(t.Context())
	defer cancel()
	resp, err := c.recommendations.BatchRecommend(ctx, req)
	if err != nil {
		if !slices.Contains(mayFail, grpcstatus.Code(err)) || len(marks(err.Error())) > 0 {
			t.Errorf("a batch: %v", err)
		}
		return
	}
	for i, result := range resp.GetResults() {
		if result.GetError() != nil {
			all[i].failedItem(t, result.GetError())
			continue
		}
		all[i].answered(t, req.GetRequests()[i], result.GetResponse())
	}
}

func (c *markedCaller) streams(t *testing.T, call int) {
	ctx, cancel := hasty(t.Context())
	defer cancel()
	stream, err := c.recommendations.StreamRecommend(ctx)
	if err != nil {
		return
	}
	n := 1 + rand.IntN(16)
	all, requests := map[string]*marked{}, map[string]*setpointv1.RecommendRequest{}
	for i := range n {
		m, req := c.any(100*call + i)
		id := fmt.Sprint(m.mark, "-", i)
		all[id], requests[id] = m, req
		if stream.Send(&setpointv1.StreamRecommendRequest{Id: id, Request: req}) != nil {
			return
		}
	}
	_ = stream.CloseSend()
	for i := range n {
		if rand.IntN(100) == 0 && i > 0 {
			return // while the rest is being answered
		}
		resp, err := stream.Recv()
		if err != nil {
			if !slices.Contains(mayFail, grpcstatus.Code(err)) {
				t.Errorf("a stream: %v", err)
			}
			return
		}
		m := all[resp.GetId()]
		switch {
		case m == nil:
			t.Errorf("an answer to %q, which was not asked", resp.GetId())
		case resp.GetError() != nil:
			m.failedItem(t, resp.GetError())
		default:
			m.answered(t, requests[resp.GetId()], resp.GetResponse())
		}
	}
}

func (c *markedCaller) rest(t *testing.T, call int) {
	m, req := c.any(call)
	ctx, cancel := hasty(t.Context())
	defer cancel()
	body := proto.CloneOf(req)
	if body.Target = ""; rand.IntN(8) == 0 {
		body.Target = m.name // which takes the gateway's way
	}
	text, err := marshalJSON(body)
	if err != nil {
		t.Error(err)
		return
	}
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+recommendPath(m.name), bytes.NewReader(text))
	if err != nil {
		t.Error(err)
		return
	}
	a, err := c.send(asked)
	if err != nil {
		return // cut off
	}
	m.owns(t, "an answer over REST", string(a.raw))
	if a.code != http.StatusOK {
		return
	}
	resp := &setpointv1.RecommendResponse{}
	if err := jsonInto(string(a.raw), resp); err != nil {
		t.Error(err)
		return
	}
	m.answered(t, req, resp)
}

// watches checks what a watcher of a tenant, or of all, gets until the service stops.
func (c *markedCaller) watches(t *testing.T, stream grpc.ServerStreamingClient[setpointv1.WatchDecisionsResponse], tenant string, got *atomic.Int64) {
	for {
		resp, err := stream.Recv()
		if err != nil {
			return
		}
		decisions := resp.GetDecisions()
		if resp.GetDecision() != nil {
			decisions = append(decisions, &setpointv1.WatchedDecision{Target: resp.GetTarget(), Decision: resp.GetDecision()})
		}
		for _, d := range decisions {
			got.Add(1)
			i := slices.IndexFunc(c.targets, func(m marked) bool { return m.name == d.GetTarget() })
			if i < 0 || !strings.Contains(d.GetTarget(), tenant) {
				t.Errorf("the watcher of %q gets a decision of %q", tenant, d.GetTarget())
				continue
			}
			c.targets[i].decided(t, d.GetDecision())
		}
	}
}

// troubled makes swaps late, lost, failed although they happened, or a panic; and has the store be
// away from time to time.
func troubled(su *setup) {
	var swaps, all atomic.Int64 // all: loads and swaps, so that the store comes back even if none is swapped
	away := func(n int64) bool { return n%400 > 300 }
	su.store.load = func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
		if away(all.Add(1)) {
			return store.Record{}, store.ErrUnavailable
		}
		return load(ctx, key)
	}
	spurious := spuriously(4)
	su.store.swap = func(ctx context.Context, swap store.Swap, compareAndSwap swapFunc) (store.SwapResult, error) {
		n := swaps.Add(1)
		switch {
		case away(all.Add(1)):
			return store.SwapResult{}, store.ErrUnavailable
		case n%97 == 0 && servercalls.Of(ctx) != nil: // outside of a call it would end the process
			panic("injected")
		case n%53 == 0:
			_, _ = compareAndSwap(ctx, swap)
			return store.SwapResult{}, store.ErrUnavailable
		case n%11 == 0:
			select {
			case <-ctx.Done():
				return store.SwapResult{}, fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
			case <-time.After(rand.N(2 * time.Millisecond)):
			}
		}
		return spurious(ctx, swap, compareAndSwap)
	}
}

// The memory of calls is used again by the next ones, of whatever tenant. However calls end,
// nothing of one is in the answer, the error, the history, the log, the feed, the log lines or the
// trace of another.
func TestNothingOfACallReachesAnother(t *testing.T) {
	t.Parallel()
	const tenants, each, callers = 3, 9, 24
	callsOfEach := 40
	if testlength.Full() {
		callsOfEach = 400
	}
	targets := markedTargets(t, tenants, each)
	core, logs := observer.New(zap.DebugLevel)
	s, traces := traced(t, 1, holdingDown, troubled, func(su *setup) {
		su.options.Log, su.options.LogCalls = zap.New(core), server.LogAllCalls
		su.options.MaxAttempts = 20
		su.options.LoggedRepeats = 1 << 20
	})
	var watching, calling sync.WaitGroup
	var watched atomic.Int64
	for i := range tenants + 1 {
		req, tenant := &setpointv1.WatchDecisionsRequest{Parent: everything}, ""
		if i < tenants {
			tenant = fmt.Sprint("tenant-", i)
			req.Parent = "clusters/" + tenant + "/namespaces/-/targets/-"
			req.MaxDecisions = int32(20 * i)
		}
		w := s.watch(t, req)
		c := &markedCaller{service: s, targets: targets}
		watching.Go(func() { c.watches(t, w.stream, tenant, &watched) })
	}
	var made atomic.Int64
	for i := range callers {
		c := &markedCaller{service: s, targets: targets, name: i}
		way := []func(*testing.T, int){c.unary, c.batch, c.streams, c.rest}[i%4]
		calling.Go(func() {
			for call := range callsOfEach {
				way(t, call)
				s.clock.Advance(time.Millisecond)
				if made.Add(1) == int64(callers*callsOfEach*9/10) {
					s.stop() // the rest is refused, or finished by the drain
				}
			}
		})
	}
	calling.Wait()
	spans := traces.received(t, s)
	watching.Wait()

	if watched.Load() == 0 {
		t.Error("the watchers got no decisions")
	}
	for _, m := range targets {
		record, err := s.memory.Load(t.Context(), keyOf(m.name))
		if err != nil {
			t.Fatal(err)
		}
		h, err := encoding.DecodeHistory(record.Value)
		if err != nil {
			t.Errorf("the history of %s: %v", m.name, err)
			continue
		}
		m.owns(t, "the history", string(record.Value))
		for _, r := range h.Recommendations {
			if r.Replicas != m.want && r.Replicas != 3 && m.unexplained || r.At == 0 {
				t.Errorf("the history of %s has %+v", m.name, r)
			}
		}
		values, _, err := s.memory.ReadLog(t.Context(), keyOf(m.name), "", 1000)
		if err != nil || len(values) == 0 {
			t.Errorf("the log of %s has %d decisions: %v", m.name, len(values), err)
		}
		for _, value := range values {
			m.decided(t, decisionlog.Entry{Value: value}.Decision())
		}
	}
	for _, line := range logs.All() {
		if text := fmt.Sprint(line.ContextMap()); len(marks(text)) > 1 {
			t.Errorf("the line %q names several targets: %s", line.Message, text)
		}
	}
	for _, span := range spans {
		if text := prototext.Format(span); len(marks(text)) > 1 {
			t.Errorf("a span names several targets: %s", text)
		}
	}
	if testing.Verbose() {
		ended := map[string]int{}
		for _, line := range logs.All() {
			ended[line.Message]++
		}
		t.Logf("%d decisions watched, %d spans, lines of the log %v", watched.Load(), len(spans), ended)
	}
}
