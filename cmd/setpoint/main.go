// Command setpoint recommends replica counts as the Kubernetes
// HorizontalPodAutoscaler controller would: as a service (serve), once
// (recommend), in words (explain) and from recordings (replay).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Exit codes.
const (
	exitFailed = 1 // it went wrong, or the answer is no
	exitUsage  = 2 // the command line or the input is not right
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := calledAs(newRoot(), os.Args[0]).ExecuteContext(ctx)
	stop()
	if message := failure(err); message != "" {
		fmt.Fprintln(os.Stderr, message)
	}
	os.Exit(exitCode(err))
}

// inputError is an error of what the user gave.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

// badInput marks an error as the user's to mend; nil stays nil.
func badInput(err error) error {
	if err == nil {
		return nil
	}
	return inputError{err}
}

// errQuiet ends with an exit code and no message, for the output has said it all.
var errQuiet = errors.New("")

func exitCode(err error) int {
	var input inputError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &input), status.Code(err) == codes.InvalidArgument:
		return exitUsage
	}
	return exitFailed
}

// failure is what is to be said of an error; empty for none.
func failure(err error) string {
	if err == nil || errors.Is(err, errQuiet) {
		return ""
	}
	return "setpoint: " + describe(err)
}

// describe prints an error for a person: of a status all violations, a line each.
func describe(err error) string {
	s, ok := status.FromError(err)
	if !ok {
		return err.Error()
	}
	for _, detail := range s.Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok && len(bad.GetFieldViolations()) > 0 {
			text := "invalid request:"
			for _, v := range bad.GetFieldViolations() {
				text += "\n  " + v.GetField() + ": " + v.GetDescription()
			}
			return text
		}
	}
	return s.Message() + " (" + s.Code().String() + ")"
}
