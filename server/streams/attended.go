// Package streams is for calls whose responses come for as long as the caller reads: one that reads nothing loses
// its place, and each caller has so many.
package streams

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/server/apierror"
)

const (
	// UnreadTimeout is how long a response may wait for a caller that reads nothing.
	UnreadTimeout = time.Minute
	// DrainPatience is how long a stream may take to end after the server begins to stop.
	DrainPatience = time.Second
)

// attended is a stream whose sender is attended: a send blocks while the caller does not read.
type attended struct {
	grpc.ServerStream
	patience time.Duration
	unread   *time.Timer // runs while a message is being sent
}

// SendMsg implements grpc.ServerStream.
func (a *attended) SendMsg(m any) error {
	a.unread.Reset(a.patience)
	defer a.unread.Stop()
	return a.ServerStream.SendMsg(m)
}

// Attend runs the sender of a stream, in a goroutine of its own. It returns before the sender if a
// send takes longer than patience, or if the sender does not end soon after the server begins to
// stop. When the handler returns, gRPC ends the stream, and the blocked send fails. After a failed
// send the sender must not use what the handler releases.
func Attend(stream grpc.ServerStream, patience time.Duration, draining <-chan struct{}, sender func(grpc.ServerStream) error) error {
	patience = cmp.Or(patience, UnreadTimeout)
	unread := make(chan struct{}, 1)
	a := &attended{stream, patience, time.AfterFunc(patience, func() {
		select {
		case unread <- struct{}{}:
		default:
		}
	})}
	a.unread.Stop()
	type result struct {
		err      error
		panicked any
	}
	ended := make(chan result, 1)
	go func() {
		r := result{panicked: "the sender of a stream ended without a result"}
		defer func() {
			if p := recover(); p != nil {
				r.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			ended <- r
		}()
		r = result{err: sender(a)}
	}()
	var late <-chan time.Time
	for {
		select {
		case r := <-ended:
			if r.panicked != nil {
				panic(r.panicked) // which is the interceptors' to handle
			}
			return r.err
		case <-unread:
			return status.Errorf(codes.Aborted, "the caller read nothing for %s; read responses as they come, and continue a watch with its last resume token", patience)
		case <-draining:
			draining = nil
			timer := time.NewTimer(DrainPatience)
			defer timer.Stop()
			late = timer.C
		case <-late:
			return apierror.ShuttingDown()
		}
	}
}
