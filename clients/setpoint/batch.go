package setpoint

import (
	"context"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Result is the outcome of one request: an answer or an error.
type Result struct {
	Response *setpointv1.RecommendResponse
	Err      error
}

// resultOf reads one outcome of a batch or a stream.
func resultOf(one interface {
	GetResponse() *setpointv1.RecommendResponse
	GetError() *spb.Status
}) Result {
	switch {
	case one.GetError() != nil:
		return Result{Err: status.ErrorProto(one.GetError())}
	case one.GetResponse() == nil:
		return Result{Err: status.Error(codes.Internal, "the server gave neither an answer nor an error")}
	}
	return Result{Response: one.GetResponse()}
}

// BatchRecommend recommends for many targets. It returns one result per request, in their
// order; a bad request fails alone. Requests get ids as those of Recommend do.
//
// More requests than WithMaxBatch go in several calls, one after the other, so that
// requests for one target are decided in their order. Each call has a default timeout of
// its own. Requests that failed transiently are retried together, unless a later one for
// their target was answered meanwhile.
func (c *Client) BatchRecommend(ctx context.Context, requests []*setpointv1.RecommendRequest) []Result {
	results := make([]Result, len(requests))
	requests = identifiedAll(requests)
	for first := 0; first < len(requests); {
		n := c.fitting(requests[first:])
		c.recommendAll(ctx, requests[first:first+n], results[first:first+n])
		first += n
	}
	return results
}

// fitting returns how many of the requests fit into one call, at least one.
func (c *Client) fitting(requests []*setpointv1.RecommendRequest) int {
	const tag = 6 // of a request in a batch, plus its length
	size := 0
	for i, req := range requests {
		size += proto.Size(req) + tag
		if i == c.config.maxBatch || i > 0 && size > c.config.maxSendBytes {
			return i
		}
	}
	return len(requests)
}

// recommendAll fills in the results of requests that fit into one call.
func (c *Client) recommendAll(ctx context.Context, requests []*setpointv1.RecommendRequest, results []Result) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	all := make([]told, len(requests))
	left := make([]int, len(requests)) // requests to send, in order
	for i := range left {
		left[i] = i
	}
	for attempt := 1; ; attempt++ {
		answered := c.recommendOnce(ctx, requests, results, left)
		for _, i := range left {
			results[i].Err = all[i].by(results[i].Err)
		}
		if !answered {
			return
		}
		var least time.Duration
		if left, least = c.unsettled(ctx, attempt, requests, results); len(left) == 0 || !c.retries.wait(ctx, attempt, least) {
			return
		}
	}
}

// recommendOnce sends the requests in one call, and reports whether they were answered. If not,
// the call itself has been retried, and its error applies to all of them.
func (c *Client) recommendOnce(ctx context.Context, requests []*setpointv1.RecommendRequest, results []Result, send []int) bool {
	batch := &setpointv1.BatchRecommendRequest{}
	for _, i := range send {
		batch.Requests = append(batch.Requests, requests[i])
	}
	response, err := c.recommendations.BatchRecommend(ctx, batch)
	if err == nil && len(response.GetResults()) != len(send) {
		err = status.Errorf(codes.Internal, "%d results came for %d requests", len(response.GetResults()), len(send))
	}
	for n, i := range send {
		if err != nil {
			results[i] = Result{Err: err}
			continue
		}
		results[i] = resultOf(response.GetResults()[n])
	}
	if err == nil {
		refuseShared(requests, results, send)
		refuseOthers(requests, results, send)
	}
	return err == nil
}

// refuseShared refuses a recommendation that several targets got: it can belong to one of them
// only, and the client can't tell which.
func refuseShared(requests []*setpointv1.RecommendRequest, results []Result, sent []int) {
	first := make(map[string]int, len(sent)) // where an id occurred first
	shared := make(map[string]bool)
	for _, i := range sent {
		id := results[i].Response.GetRecommendationId()
		if id == "" {
			continue
		}
		if before, ok := first[id]; !ok {
			first[id] = i
		} else if requests[before].GetTarget() != requests[i].GetTarget() {
			shared[id] = true
		}
	}
	for _, i := range sent {
		if id := results[i].Response.GetRecommendationId(); shared[id] {
			results[i] = Result{Err: status.Errorf(codes.Internal, "recommendation %.64q came for several targets", id)}
		}
	}
}

// refuseOthers refuses answers with the id of another request.
func refuseOthers(requests []*setpointv1.RecommendRequest, results []Result, sent []int) {
	for _, i := range sent {
		if got, want := results[i].Response.GetRequestId(), requests[i].GetRequestId(); got != "" && got != want {
			results[i] = Result{Err: status.Errorf(codes.Internal, "the answer to request %.64q came for request %.64q", got, want)}
		}
	}
}

// unsettled returns the requests to retry, in order, and the minimum wait before that.
func (c *Client) unsettled(ctx context.Context, attempt int, requests []*setpointv1.RecommendRequest, results []Result) (again []int, least time.Duration) {
	answered := make(map[string]int) // the last answer of each target
	for i, r := range results {
		if r.Err == nil {
			answered[requests[i].GetTarget()] = i
		}
	}
	for i, r := range results {
		if last, ok := answered[requests[i].GetTarget()]; r.Err == nil || ok && last > i {
			continue
		}
		if wait, ok := c.retries.mayRepeat(ctx, attempt, r.Err); ok {
			again, least = append(again, i), max(least, wait)
		}
	}
	return again, least
}
