// Package watches serves WatchDecisions: it checks who may see what, for as long as a call lasts, and turns events of
// package feed into responses with a token from which the caller can resume.
package watches

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/numbers"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/feed"
	"github.com/setpoint-dev/setpoint/server/pagetoken"
	"github.com/setpoint-dev/setpoint/server/streams"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/store"
)

// Options are the settings of watches.
type Options struct {
	// Hub has the decisions; nil: they can't be watched.
	Hub *feed.Hub
	// PerCaller limits the watchers of one known caller; 0: unlimited.
	PerCaller int
	// Heartbeat is the maximum time between two responses to a watcher.
	Heartbeat time.Duration
	// UnreadTimeout is how long a response may wait for a caller that reads nothing. 0: a minute.
	UnreadTimeout time.Duration
	// Guard checks callers again, and Draining is closed when the server begins to stop.
	Guard    *admission.Guard
	Draining <-chan struct{}
}

// Watches are the open calls of WatchDecisions.
type Watches struct {
	Options
	pages   *pagetoken.Tokens
	callers streams.PerCaller

	mu    sync.Mutex
	key   pagetoken.Key // guarded by mu
	keyed time.Time     // when the key was fetched; guarded by mu
}

// New returns it, with the tokens of a store.
func New(options Options, pages *pagetoken.Tokens) *Watches {
	return &Watches{Options: options, pages: pages}
}

// keyAge is how long the key of tokens is used without reading the store.
const keyAge = 10 * time.Second

// tokenKey returns the key of resume tokens. Watchers keep their current one while it is read, and while the store is
// unreachable.
func (w *Watches) tokenKey(ctx context.Context, fresh bool) (pagetoken.Key, error) {
	w.mu.Lock()
	key, age := w.key, time.Since(w.keyed)
	if !fresh && age >= keyAge && !w.keyed.IsZero() {
		w.keyed = time.Now() // one reads it, and not all watchers of a decision
	}
	w.mu.Unlock()
	if !fresh && age < keyAge {
		return key, nil
	}
	key, err := w.pages.Key(ctx)
	if err != nil {
		return key, err
	}
	w.mu.Lock()
	w.key, w.keyed = key, time.Now()
	w.mu.Unlock()
	return key, nil
}

// watch is one call.
type watch struct {
	*Watches
	request *setpointv1.WatchDecisionsRequest
	stream  grpc.ServerStream
	filter  feed.Filter
	list    pagetoken.List
	key     pagetoken.Key
	sealer  *pagetoken.Sealer // made from key; nil: not needed yet
	token   []byte            // memory for the last token
	taken   int               // decisions sent since it last gave way
	// caller is the one of the last check, nil: everybody; scope is what it may see.
	caller *access.Caller
	scope  atomic.Pointer[policy.Scope] // nil: everything
}

// Decisions streams decisions until the caller goes, loses its last permission, or
// the server stops.
func (s *Watches) Decisions(req *setpointv1.WatchDecisionsRequest, stream grpc.ServerStreamingServer[setpointv1.WatchDecisionsResponse]) error {
	if err := apierror.Invalid(append(validation.Structure(req), validation.Instant("startTime", req.GetStartTime())...)); err != nil {
		return err
	}
	w := &watch{Watches: s, request: req, filter: watchFilter(req), taken: watchedAtOnce}
	ctx := stream.Context()
	w.caller = access.CallerOf(ctx)
	if err := w.updateScope(); err != nil {
		return err
	}
	if w.Hub == nil {
		return status.Error(codes.Unimplemented, "decisions can't be watched here: this server keeps none for watchers (--watch-buffer=0)")
	}
	closed, taken := w.callers.Take(w.caller.Name(), w.PerCaller)
	if !taken {
		return apierror.OverLimitNow("maxWatchersPerCaller", w.PerCaller, "maximum number of watches of one caller reached; close one, or watch several targets with one call (\"-\" matches all)")
	}
	defer closed()
	// A token is valid for its parent and caller, with any permissions: these are checked for
	// every decision.
	w.list = pagetoken.List{Method: setpointv1.TargetService_WatchDecisions_FullMethodName, Parent: req.GetParent(), Caller: w.caller.Name()}
	from, err := w.from(ctx)
	if err != nil {
		return err
	}
	watcher, err := w.Hub.Watch(ctx, w.filter, from, feed.Viewer{Caller: w.caller.Name(), Sees: w.sees()})
	switch {
	case errors.Is(err, feed.ErrTooMany):
		return apierror.OverLimitNow("maxWatchers", w.Hub.MaxWatchers(), "maximum number of watchers on this instance reached; retry later, or on another instance")
	case errors.Is(err, feed.ErrClosed):
		return apierror.ShuttingDown()
	case err != nil:
		return apierror.OfStore(ctx, req.GetParent(), err)
	}
	defer watcher.Close()
	return streams.Attend(stream, w.UnreadTimeout, w.Draining, func(stream grpc.ServerStream) error {
		w.stream = stream
		return w.run(ctx, watcher)
	})
}

func watchFilter(req *setpointv1.WatchDecisionsRequest) feed.Filter {
	parts := strings.Split(req.GetParent(), "/")
	named := func(i int) string {
		if parts[i] == "-" {
			return ""
		}
		return parts[i]
	}
	return feed.Filter{Cluster: named(1), Namespace: named(3), Target: named(5), ChangesOnly: req.GetChangesOnly()}
}

// updateScope updates what the caller may see, and fails if that is nothing.
func (w *watch) updateScope() error {
	scope, err := w.caller.Within(policy.Read, store.Filter{Cluster: w.filter.Cluster, Namespace: w.filter.Namespace})
	if err != nil {
		return err
	}
	w.scope.Store(scope)
	return nil
}

// sees reports which decisions the caller may see. nil: all of them, as on a server
// without authentication.
func (w *watch) sees() func(cluster, namespace string) bool {
	if w.caller == nil {
		return nil
	}
	return func(cluster, namespace string) bool {
		scope := w.scope.Load()
		return scope == nil || scope.Contains(cluster, namespace)
	}
}

// renew checks the caller again.
func (w *watch) renew(ctx context.Context) error {
	open := access.SessionOf(ctx)
	if open == nil {
		return nil
	}
	caller, err := w.Guard.Renew(ctx, open)
	if err != nil || caller == w.caller {
		return err
	}
	w.caller = caller
	return w.updateScope()
}

// run sends decisions as they arrive.
func (w *watch) run(ctx context.Context, watcher *feed.Watcher) error {
	if err := w.send(watcher.Beat()); err != nil { // so that the caller has a position from the start
		return err
	}
	beat := time.NewTimer(w.Heartbeat)
	defer beat.Stop()
	most := max(1, int(w.request.GetMaxDecisions()))
	for {
		if err := w.giveWay(ctx); err != nil {
			return err
		}
		// Before decisions are taken, because permissions may have changed while they
		// were queued.
		if err := w.renew(ctx); err != nil {
			return err
		}
		event, ok, err := watcher.Take(ctx, most)
		if err != nil {
			return apierror.OfStore(ctx, w.request.GetParent(), err)
		}
		if ok {
			w.taken += len(event.Decisions)
			if err := w.send(event); err != nil {
				return err
			}
			beat.Reset(w.Heartbeat)
			select {
			case <-w.Draining:
				return apierror.ShuttingDown()
			default:
			}
			continue
		}
		select {
		case <-watcher.Ready():
		case <-beat.C:
			if err := w.renew(ctx); err != nil {
				return err
			}
			if err := w.send(watcher.Beat()); err != nil {
				return err
			}
			beat.Reset(w.Heartbeat)
		case <-w.Draining:
			return apierror.ShuttingDown()
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

const (
	// watchedAtOnce is how many decisions are sent before other calls may go first, and watchPause
	// how long watchers wait while calls are refused for overload: decisions queue up meanwhile.
	watchedAtOnce = 64
	watchPause    = time.Second
)

// giveWay lets other calls go first while some are refused because the processors can't
// keep up.
func (w *watch) giveWay(ctx context.Context) error {
	limiter := w.Guard.Limiter
	if w.taken < watchedAtOnce {
		return nil
	}
	w.taken = 0
	if limiter == nil || !limiter.Shedding() {
		return nil
	}
	select {
	case <-time.After(watchPause):
		return nil
	case <-w.Draining:
		return apierror.ShuttingDown()
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// refreshKey reads the key of tokens, if it is old and the store is reachable: other instances take no tokens of a key that
// the store has lost.
func (w *watch) refreshKey() {
	w.mu.Lock()
	key, isOld := w.Watches.key, time.Since(w.keyed) >= keyAge
	w.mu.Unlock()
	if isOld { // only then a timer: a busy watch is here for each response
		ctx, cancel := context.WithTimeout(w.stream.Context(), w.pages.Patience)
		defer cancel()
		var err error
		if key, err = w.tokenKey(ctx, false); err != nil {
			return
		}
	}
	if key != w.key {
		w.key, w.sealer = key, nil
	}
}

// Numbers of fields of WatchDecisionsResponse on the wire.
const (
	resumeTokenField     = 3
	missedDecisionsField = 4
	missedUncountedField = 5
	decisionsField       = 6
)

// send sends a response. The part that is the same for all watchers is already encoded, and the
// rest is appended: the result is the same message, its fields in their order, as REST needs them to write them as they
// come. A single decision is in the response itself, whose first fields are those of WatchedDecision.
func (w *watch) send(event feed.Event) error {
	w.refreshKey()
	if w.sealer == nil {
		w.sealer = pagetoken.NewSealer(w.key, w.list)
	}
	w.token = w.sealer.Append(w.token[:0], feedPosition(event.Position))
	size := len(w.token) + responseRoom
	for _, decision := range event.Decisions {
		size += len(decision) + decisionRoom
	}
	m := encoded.NewAnswerOf(size)
	many := w.request.GetMaxDecisions() > 1
	if !many {
		for _, decision := range event.Decisions {
			m.Data = append(m.Data, decision...)
		}
	}
	m.Data = protowire.AppendBytes(protowire.AppendTag(m.Data, resumeTokenField, protowire.BytesType), w.token)
	if event.Missed > 0 {
		m.Data = protowire.AppendVarint(protowire.AppendTag(m.Data, missedDecisionsField, protowire.VarintType), uint64(event.Missed))
	}
	if event.Uncounted {
		m.Data = protowire.AppendVarint(protowire.AppendTag(m.Data, missedUncountedField, protowire.VarintType), 1)
	}
	if many {
		for _, decision := range event.Decisions {
			m.Data = protowire.AppendBytes(protowire.AppendTag(m.Data, decisionsField, protowire.BytesType), decision)
		}
	}
	if err := w.stream.SendMsg(m); err != nil {
		m.Free() // otherwise gRPC frees it
		return err
	}
	return nil
}

// Capacity for a response without its token and decisions, and per decision, in bytes.
const responseRoom, decisionRoom = 32, 8

// from returns the requested start, for each part of the feed; nil: now.
func (w *watch) from(ctx context.Context) ([]store.FeedPosition, error) {
	var err error
	if w.key, err = w.tokenKey(ctx, false); err != nil {
		return nil, apierror.OfStore(ctx, w.request.GetParent(), err)
	}
	token := w.request.GetResumeToken()
	if token == "" {
		start := w.request.GetStartTime()
		if start == nil {
			return nil, nil
		}
		from := make([]store.FeedPosition, w.Hub.Parts())
		for part := range from {
			from[part].Millis = uint64(max(1, start.AsTime().UnixMilli())) // 0 would mean a feed that was found empty
		}
		return from, nil
	}
	text, ok := pagetoken.Open(w.key, w.list, token)
	if !ok {
		// The store may have a new key since.
		if w.key, err = w.tokenKey(ctx, true); err != nil {
			return nil, apierror.OfStore(ctx, w.request.GetParent(), err)
		}
		text, ok = pagetoken.Open(w.key, w.list, token)
	}
	from, right := parseFeedPosition(text, w.Hub.Parts())
	if !ok || !right {
		return nil, apierror.InvalidField("resumeToken", "Invalid value: must be the resumeToken of a response to the same parent and caller; "+
			"otherwise start without a token, and treat the decisions in between as missed")
	}
	return from, nil
}

// feedPosition formats a position in the feed, and parseFeedPosition parses it.
func feedPosition(at []store.FeedPosition) string {
	var b []byte
	for _, p := range at {
		b = binary.AppendUvarint(binary.AppendUvarint(b, p.Millis), p.Number)
	}
	return string(b)
}

func parseFeedPosition(text string, parts int) (at []store.FeedPosition, ok bool) {
	r := numbers.Reader{Rest: []byte(text)}
	for range parts {
		at = append(at, store.FeedPosition{Millis: r.Uvarint(), Number: r.Uvarint()})
	}
	return at, !r.Bad && len(r.Rest) == 0
}
