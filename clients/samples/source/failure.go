package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
)

// Outcome is the outcome of a query or a request, for metrics.
type Outcome string

// The outcomes.
const (
	// OK: the source answered.
	OK Outcome = "ok"
	// Timeout: the source did not answer in time.
	Timeout Outcome = "timeout"
	// Busy: other requests to the source took so long that it was not this one's turn.
	Busy Outcome = "busy"
	// Unreachable: no connection, no TLS, or one that broke.
	Unreachable Outcome = "unreachable"
	// Refused: the source answered with an error.
	Refused Outcome = "refused"
	// Unusable: the answer is too large or malformed.
	Unusable Outcome = "unusable"
	// Unprepared: a file with a credential or a certificate can't be read.
	Unprepared Outcome = "unprepared"
	// Empty: the answer holds no value.
	Empty Outcome = "empty"
	// Invalid: the answer holds invalid values, or the query does not fit the metric.
	Invalid Outcome = "invalid"
	// Cancelled: no caller waits any longer.
	Cancelled Outcome = "cancelled"
)

// Outcomes are all of them.
var Outcomes = []Outcome{OK, Timeout, Busy, Unreachable, Refused, Unusable, Unprepared, Empty, Invalid, Cancelled}

// Failure is an error of a source, without its name.
type Failure struct {
	Outcome Outcome
	Message string
	// File is the one that can't be read, for the operator's log; empty: none.
	File string
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// Failed returns a Failure.
func Failed(outcome Outcome, format string, args ...any) error {
	return &Failure{Outcome: outcome, Message: fmt.Sprintf(format, args...)}
}

// Classify returns the failure for an error of a client or a connection. Where the text could
// quote a URL, the server's data or the operator's configuration, it words the error itself:
// users who see the status of a workload may not see those.
func Classify(err error) *Failure {
	var (
		own       *Failure
		netErr    net.Error
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		alert     tls.AlertError
		lookup    *net.DNSError
		number    syscall.Errno
	)
	if errors.As(err, &own) {
		return own
	}
	unreachable := func(reason string) *Failure {
		return &Failure{Outcome: Unreachable, Message: "the connection failed: " + reason}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{Outcome: Timeout, Message: "no answer in time"}
	case errors.Is(err, context.Canceled):
		return &Failure{Outcome: Cancelled, Message: "the query was cancelled"}
	case errors.As(err, &authority):
		return &Failure{Outcome: Unreachable, Message: "its certificate is not trusted: it is not signed by a trusted authority (tls.caFile)"}
	case errors.As(err, &host):
		return &Failure{Outcome: Unreachable, Message: "its certificate is not trusted: it is not valid for the requested name (tls.serverName)"}
	case errors.As(err, &invalid):
		return &Failure{Outcome: Unreachable, Message: "its certificate is not trusted: it is expired, not valid yet, or not for servers"}
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return &Failure{Outcome: Unreachable, Message: "it does not speak TLS: should url begin with http://?"}
	case errors.As(err, &netErr) && netErr.Timeout():
		return &Failure{Outcome: Timeout, Message: "no answer in time"}
	case errors.As(err, &lookup):
		return unreachable("its name is not known (DNS)")
	case errors.As(err, &alert):
		return unreachable("it ends TLS: " + alert.Error())
	case errors.As(err, &number):
		return unreachable(number.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return unreachable("it closed the connection within the answer")
	}
	return unreachable("the answer is malformed")
}
