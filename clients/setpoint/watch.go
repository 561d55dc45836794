package setpoint

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/deadline"
)

// watchedTogether is how many decisions a watch asks for in a response, the maximum: together
// they are far less work for the service than one by one.
const watchedTogether = 1000

// watchSilence bounds the silence of a watch. A server sends a sign of life every 15 s: two may
// be lost.
const watchSilence = 45 * time.Second

// longestWatchDelay bounds how long a watch waits because it was told to. The caller's deadline bounds that of a call; a
// watch has none, and must not be silent for days because of one wrong answer.
const longestWatchDelay = 5 * time.Minute

// errWatchSilent is the cause when a stream ends because nothing came in time.
var errWatchSilent = status.Error(codes.Unavailable, "the server gave no sign of life in time on a watch")

// WatchDecisions returns decisions as they are made, until ctx ends: its error comes last then.
// It reads one response at a time, when the caller is ready for it.
//
// Unless the request has MaxDecisions, the service is asked for several decisions in a response,
// and each comes as a response of its own. Only the last of these has the token after all of
// them; those before it have the token before all, so that nothing is lost by who begins there.
// With a MaxDecisions of 1 each decision has its own token; above 1 responses come as they are.
//
// A response without a decision is a sign of life: its resume_token is newer. MissedDecisions
// and MissedUncounted say that decisions before the response were missed; a sign of life may
// say so, too.
//
// When the stream breaks, the server shuts down, or the server says nothing for 45 s, the watch
// goes on where it was, on another connection if there is one: nothing is lost and nothing comes
// twice, as far as servers still hold what was between. Where a server does not take the token
// of another one, because the store has lost its data, the watch starts over, and the first
// response has MissedUncounted. Delays between streams are those of [Retry]; a server that asks for longer ones gets
// at most 5 minutes. A watch that has
// never had a response ends after MaxAttempts; one that has had any comes back as long as errors are
// transient. It ends with the first error that is not, and credentials that a server accepted
// before are presented once more, as they may have been renewed.
//
// interrupted, unless nil, is called with the error of each stream that ends and is followed by
// another.
func (c *Client) WatchDecisions(ctx context.Context, req *setpointv1.WatchDecisionsRequest, interrupted func(error)) iter.Seq2[*setpointv1.WatchDecisionsResponse, error] {
	return func(yield func(*setpointv1.WatchDecisionsResponse, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.life, cancel)()
		w := &watch{client: c, request: proto.CloneOf(req), yield: yield}
		if w.apart = req.GetMaxDecisions() == 0; w.apart {
			w.request.MaxDecisions = watchedTogether
		}
		ctx = spread(ctx)
		var before told // since the last response
		failures := 0   // in a row
		for {
			began := time.Now()
			answered, err := w.stream(ctx)
			if w.left {
				return
			}
			if answered {
				before = told{}
			}
			if ctx.Err() != nil {
				yield(nil, before.by(status.FromContextError(ctx.Err()).Err()))
				return
			}
			err = before.by(err)
			// A server that answers and then fails at once must not speed up retries.
			if answered {
				usedBy(ctx).keepLast()
				if time.Since(began) > c.config.retry.MaxDelay {
					failures = 0
				}
			}
			failures++
			least, again := w.retryDelay(err, answered, failures)
			if !again {
				yield(nil, err)
				return
			}
			if interrupted != nil {
				interrupted(err)
			}
			// The budget is for calls: reconnecting watchers must not use it up. Each makes one
			// attempt per delay.
			if !deadline.Sleep(ctx, c.retries.delay(failures, min(least, longestWatchDelay))) {
				yield(nil, before.by(status.FromContextError(ctx.Err()).Err()))
				return
			}
		}
	}
}

// watch is one use of WatchDecisions' iterator.
type watch struct {
	client  *Client
	request *setpointv1.WatchDecisionsRequest
	yield   func(*setpointv1.WatchDecisionsResponse, error) bool
	// apart reports that the caller gets the decisions of a response one by one.
	apart bool
	// left reports that the caller wants no more responses.
	left bool
	// begun reports that a response arrived: the request has the token of the last one.
	begun bool
	// missed reports that the next response starts anew.
	missed bool
	// renewed reports that another stream shows another certificate than the last one.
	renewed bool
}

// stream opens a stream and yields its responses until it ends. It returns whether any arrived,
// and why the stream ended.
func (w *watch) stream(life context.Context) (answered bool, err error) {
	ctx, cancel := context.WithCancelCause(life)
	defer cancel(nil)
	// A connection may accept the request and stay silent. A healthy service answers at once.
	first := w.client.config.retry.AttemptTimeout
	if first <= 0 {
		first = watchSilence
	}
	silence := time.AfterFunc(first, func() { cancel(errWatchSilent) })
	defer silence.Stop()
	stream, err := w.client.targets.WatchDecisions(ctx, w.request)
	for err == nil {
		var response *setpointv1.WatchDecisionsResponse
		if response, err = stream.Recv(); err != nil {
			over, _ := peer.FromContext(stream.Context())
			w.renewed = w.client.encrypted.renewed(err, over)
			break
		}
		answered = true
		silence.Stop() // the caller may take its time
		// The time for it may have run out meanwhile: its token counts, so its decisions do.
		if !w.take(life, response) {
			w.left = true
			return true, nil
		}
		silence.Reset(watchSilence)
	}
	switch {
	case errors.Is(context.Cause(ctx), errWatchSilent):
		return answered, errWatchSilent
	case errors.Is(err, io.EOF):
		return answered, status.Error(codes.Unavailable, "the server ended the stream")
	}
	return answered, err
}

// take yields a response, and reports whether the caller wants more.
func (w *watch) take(ctx context.Context, response *setpointv1.WatchDecisionsResponse) bool {
	before := w.request.GetResumeToken()
	w.begun = true
	w.request.ResumeToken = response.GetResumeToken()
	if w.missed {
		response.MissedUncounted, w.missed = true, false
	}
	if !w.apart || len(response.GetDecisions()) == 0 {
		return w.yield(response, nil)
	}
	last := len(response.GetDecisions()) - 1
	for i, d := range response.GetDecisions() {
		if ctx.Err() != nil {
			return true // its error comes next
		}
		one := &setpointv1.WatchDecisionsResponse{Target: d.GetTarget(), Decision: d.GetDecision(), ResumeToken: before}
		if i == 0 {
			one.MissedDecisions, one.MissedUncounted = response.GetMissedDecisions(), response.GetMissedUncounted()
		}
		if i == last {
			one.ResumeToken = response.GetResumeToken()
		}
		if !w.yield(one, nil) {
			return false
		}
	}
	return true
}

// retryDelay reports whether to open another stream, and the minimum wait before that. failures is
// the number of consecutive failed streams.
func (w *watch) retryDelay(err error, answered bool, failures int) (least time.Duration, ok bool) {
	if w.renewed {
		w.renewed = false
		return 0, true
	}
	if !w.begun {
		least, ok = mayPass(err)
		return least, ok && failures < w.client.config.retry.MaxAttempts
	}
	switch code := status.Code(err); {
	case code == codes.InvalidArgument && refusesToken(err) && w.request.GetResumeToken() != "":
		// Decisions since the start of the watch would come twice.
		w.request.ResumeToken, w.request.StartTime, w.missed = "", nil, true
		return 0, true
	case code == codes.Unauthenticated && answered:
		return 0, true
	case code == codes.ResourceExhausted && Reason(err) == "LIMIT_EXCEEDED":
		// Instances bound their watchers, and still count those of a killed instance's.
		least, _ = RetryDelay(err)
		return max(least, w.client.config.retry.MaxDelay), true
	}
	return mayPass(err)
}

// refusesToken reports whether a server does not know a resume token.
func refusesToken(err error) bool {
	return slices.ContainsFunc(Violations(err), func(v Violation) bool { return v.Field == "resumeToken" })
}
