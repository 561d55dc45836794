package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/setpoint-dev/setpoint/store"
)

// fault is what an error means for the command that got it.
type fault struct {
	// again reports whether it may go well if it is sent again, at once where now.
	again, now bool
	// doubtful reports whether the command may have been performed all the same.
	doubtful bool
	// kind is the sentinel to wrap, nil for none.
	kind error
}

// replyFaults are the error replies that are not the command's own fault, by their
// first word.
var replyFaults = map[string]fault{
	"NOSCRIPT": {again: true, now: true, kind: store.ErrUnavailable},
	// The server starts, fails over, runs a script of somebody else or moves slots.
	"LOADING":     {again: true, kind: store.ErrUnavailable},
	"BUSY":        {again: true, kind: store.ErrUnavailable},
	"READONLY":    {again: true, kind: store.ErrUnavailable},
	"MASTERDOWN":  {again: true, kind: store.ErrUnavailable},
	"CLUSTERDOWN": {again: true, kind: store.ErrUnavailable},
	"TRYAGAIN":    {again: true, kind: store.ErrUnavailable},
	"MOVED":       {again: true, kind: store.ErrUnavailable},
	"ASK":         {again: true, kind: store.ErrUnavailable},
	"NOREPLICAS":  {again: true, kind: store.ErrUnavailable},
	// An operator has to act: memory, disk, credentials.
	"OOM":       {kind: store.ErrUnavailable},
	"MISCONF":   {kind: store.ErrUnavailable},
	"NOAUTH":    {kind: store.ErrUnavailable},
	"WRONGPASS": {kind: store.ErrUnavailable},
	"NOPERM":    {kind: store.ErrUnavailable},
	"DENIED":    {kind: store.ErrUnavailable},
	"WRONGTYPE": {kind: store.ErrUnreadable},
}

// errFewReplicas means that a write is not on as many replicas as it should be.
var errFewReplicas = errors.New("not acknowledged by enough replicas in time")

// faultOf classifies an error that is neither nil nor goredis.Nil.
func faultOf(err error) fault {
	var reply goredis.Error
	var dial *net.OpError
	switch {
	case errors.Is(err, goredis.ErrClosed):
		return fault{kind: store.ErrClosed}
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return fault{kind: store.ErrUnavailable}
	case errors.Is(err, store.ErrUnreadable):
		return fault{kind: store.ErrUnreadable}
	case errors.As(err, &reply):
		return replyFault(err.Error())
	case errors.Is(err, goredis.ErrPoolTimeout), errors.As(err, &dial) && dial.Op == "dial":
		return fault{again: true, kind: store.ErrUnavailable}
	}
	return fault{again: true, doubtful: true, kind: store.ErrUnavailable}
}

func replyFault(text string) fault {
	word, _, _ := strings.Cut(text, " ")
	if f, known := replyFaults[word]; known {
		return f
	}
	switch {
	case strings.HasPrefix(text, "ERR max number of clients"):
		return fault{again: true, kind: store.ErrUnavailable}
	case strings.HasPrefix(text, "ERR AUTH"), strings.HasPrefix(text, "ERR invalid password"):
		return fault{kind: store.ErrUnavailable}
	case strings.HasPrefix(text, "ERR The user executing the script"), strings.HasPrefix(text, "ERR ACL failure in script"), strings.Contains(text, "-NOPERM "):
		// Redis 7.0, 7.2 and 6 word like this what a script's user may not do.
		return fault{kind: store.ErrUnavailable}
	case strings.Contains(text, "-OOM "):
		// Redis 6 words the errors of a script's commands like this.
		return fault{kind: store.ErrUnavailable}
	case strings.Contains(text, "-READONLY "):
		return fault{again: true, kind: store.ErrUnavailable}
	}
	return fault{}
}

// operationError wraps what a command failed with.
func operationError(ctx context.Context, operation string, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("%s: %w: %w (%w)", operation, store.ErrUnavailable, ctxErr, err)
	}
	kind := faultOf(err).kind
	if kind == nil || errors.Is(err, kind) {
		return fmt.Errorf("%s: %w", operation, err)
	}
	return fmt.Errorf("%s: %w: %w", operation, kind, err)
}

// isTransport reports whether a node did not answer as a node that is well would.
func isTransport(err error) bool {
	if err == nil || errors.Is(err, goredis.Nil) || errors.Is(err, context.Canceled) || errors.Is(err, goredis.ErrClosed) {
		return false
	}
	var reply goredis.Error
	if !errors.As(err, &reply) {
		return true
	}
	word, _, _ := strings.Cut(err.Error(), " ")
	return word == "BUSY" || word == "LOADING"
}
