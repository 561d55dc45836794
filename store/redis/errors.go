package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/setpoint-dev/setpoint/store"
)

// fault classifies an error of a command.
type fault struct {
	// again reports whether a retry may succeed; now, whether it may do so without a
	// pause.
	again, now bool
	// doubtful reports whether the server may have performed the command nevertheless.
	doubtful bool
	// refused reports that a retry may succeed with another password.
	refused bool
	// waits reports that a retry may find a connection that others use now.
	waits bool
	// kind is the sentinel to wrap, nil for none.
	kind error
}

// replyFaults classifies error replies, by their first word, that the command did not
// cause.
var replyFaults = map[string]fault{
	"NOSCRIPT": {again: true, now: true, kind: store.ErrUnavailable},
	// The server starts, fails over, runs another client's script or moves slots.
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
	"NOAUTH":    {refused: true, kind: store.ErrUnavailable},
	"WRONGPASS": {refused: true, kind: store.ErrUnavailable},
	"NOPERM":    {kind: store.ErrUnavailable},
	"DENIED":    {kind: store.ErrUnavailable},
	"WRONGTYPE": {kind: store.ErrUnreadable},
}

// fewReplicasError means that too few replicas acknowledged a write: got of want.
type fewReplicasError struct{ got, want int }

// Error implements error.
func (e *fewReplicasError) Error() string {
	return "not acknowledged by enough replicas in time: " + e.Acknowledged()
}

// Acknowledged is how many replicas did, of how many.
func (e *fewReplicasError) Acknowledged() string { return fmt.Sprintf("%d of %d", e.got, e.want) }

// faultOf classifies an error that is neither nil nor goredis.Nil.
func faultOf(err error) fault {
	var reply goredis.Error
	var dial *net.OpError
	var further *noFurtherError
	switch {
	case errors.Is(err, goredis.ErrClosed):
		return fault{kind: store.ErrClosed}
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return fault{kind: store.ErrUnavailable}
	case errors.Is(err, store.ErrUnreadable):
		return fault{kind: store.ErrUnreadable}
	case errors.Is(err, errOvertaken):
		// Sent again it would act on what another has made of the key since.
		return fault{kind: store.ErrUnavailable}
	case errors.As(err, &further):
		f := faultOf(further.error)
		f.waits = true
		return f
	case errors.Is(err, goredis.Nil): // of sentinels
		return fault{again: true, kind: store.ErrUnavailable}
	case errors.As(err, &reply):
		return replyFault(reply.Error())
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
		return fault{refused: true, kind: store.ErrUnavailable}
	case lacksRight(text), strings.HasPrefix(text, "ERR unknown command"), strings.Contains(text, "nknown") && strings.Contains(text, " command called from"):
		return fault{kind: store.ErrUnavailable} // an operator has to act: rights, rename-command
	}
	return fault{}
}

// isFull reports whether the server refused a command for want of memory.
func isFull(err error) bool {
	var reply goredis.Error
	return errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "OOM ")
}

type replyError string

// Error implements error, RedisError goredis.Error.
func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

// inScript finds what Redis 6 puts before the error of a command in a script.
var inScript = regexp.MustCompile(`@user_script: ?\d+: -?([A-Z]+ .*)`)

// ofCommand returns the error of a script's command as newer versions reply it, with its word first.
func ofCommand(err error) error {
	var reply goredis.Error
	if errors.As(err, &reply) {
		if found := inScript.FindStringSubmatch(reply.Error()); found != nil {
			return replyError(found[1])
		}
	}
	return err
}

// quoted is what a server says of a command that it does not know: its arguments. Those of AUTH, which an operator may have
// renamed, are the password.
var quoted = regexp.MustCompile(`,? with args beginning with:.*`)

// WithoutArguments leaves out of the text of an error what a server quotes of a command.
func WithoutArguments(text string) string { return quoted.ReplaceAllString(text, "") }

// discreetError is an error whose text lacks what a server quotes.
type discreetError struct {
	error
	text string
}

// Error implements error.
func (e *discreetError) Error() string { return e.text }

func (e *discreetError) Unwrap() error { return e.error }

// operationError wraps a command's error.
func (s *Store) operationError(ctx context.Context, operation string, err error) error {
	if text := WithoutArguments(err.Error()); text != err.Error() {
		err = &discreetError{err, text}
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("%s: %w: %w (%w)", operation, store.ErrUnavailable, ctxErr, err)
	}
	if errors.Is(err, goredis.Nil) {
		// go-redis calls sentinels unreachable that answer that there is no such master.
		err = fmt.Errorf("a sentinel does not know the master of the URL: %w", err)
	}
	if operation == "ping" && errors.Is(err, io.EOF) && s.options.TLS == nil && s.options.Secrets.TLS == nil {
		err = fmt.Errorf("the server ended the connection, as one does at a port with TLS, whose URL is rediss://: %w", err)
	}
	err = s.explained(err)
	kind := faultOf(err).kind
	if kind == nil || errors.Is(err, kind) {
		return fmt.Errorf("%s: %w", operation, err)
	}
	return fmt.Errorf("%s: %w: %w", operation, kind, err)
}

// isTransport reports whether the error shows that the node is failing.
func isTransport(err error) bool {
	if err == nil || errors.Is(err, goredis.Nil) || errors.Is(err, context.Canceled) || errors.Is(err, goredis.ErrClosed) {
		return false
	}
	var reply goredis.Error
	if !errors.As(err, &reply) {
		return true
	}
	word, _, _ := strings.Cut(reply.Error(), " ")
	return word == "BUSY" || word == "LOADING"
}
