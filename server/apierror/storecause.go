package apierror

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/store"
)

// maxCauseBytes limits what callers with the verb operate read of an error of the store.
const maxCauseBytes = 300

// StoreProblem is an error of the store for operators: the driver's text, shortened.
func StoreProblem(err error) string {
	text := printable.Text(err.Error())
	if len(text) > maxCauseBytes {
		text = strings.ToValidUTF8(text[:maxCauseBytes], "") + "…"
	}
	return text
}

// LastStoreError returns the error for which an engine does not ask its server at all for a
// while, or err.
func LastStoreError(err error) error {
	var skipped interface {
		error
		Last() error
	}
	if errors.As(err, &skipped) {
		return skipped.Last()
	}
	return err
}

// StoreAway says for callers whether the store can't be reached, or what it lacks: no more of how it is run.
func StoreAway(err error) string {
	of := "the history store"
	var each store.BatchError
	if errors.As(err, &each) && slices.Contains(each, nil) {
		of = "a part of " + of
	}
	if cause, _, answers := storeCause(LastStoreError(err)); answers {
		return of + " can't be used: " + cause
	}
	return of + " can't be reached"
}

// StoreAwayBecause says for whoever asks for readiness why the store can't be used: what kind of error err is, but no
// address, name or text that somebody chose.
func StoreAwayBecause(err error) string {
	cause, word, answers := storeCause(LastStoreError(err))
	switch {
	case word != "":
		return StoreAway(err) + " (" + word + ")"
	case cause != "" && !answers:
		return StoreAway(err) + ": " + cause
	}
	return StoreAway(err)
}

// storeCause is the cause, "" if nothing is known of it, Redis' words or number for it, and whether the store has
// answered.
func storeCause(err error) (cause, word string, answers bool) {
	var reply interface {
		error
		RedisError()
	}
	var few interface {
		error
		Acknowledged() string
	}
	var lack interface {
		error
		Lacks() string
	}
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var lookup *net.DNSError
	var number syscall.Errno
	var slow net.Error
	switch {
	case errors.As(err, &lack):
		return replyWords["NOPERM"], cmp.Or(lack.Lacks(), "NOPERM"), true
	case errors.As(err, &reply):
		first, _, _ := strings.Cut(reply.Error(), " ")
		if what, known := replyWords[first]; known {
			return what, first, true
		}
		return "it answers with an error", "", true
	case errors.As(err, &few):
		return "too few replicas acknowledge what it writes", few.Acknowledged(), true
	case errors.As(err, &authority):
		return "its certificate is signed by an unknown authority", "", false
	case errors.As(err, &name):
		return "its certificate is for another name", "", false
	case errors.As(err, &invalid):
		return "its certificate is not valid", "", false
	case err != nil && strings.Contains(err.Error(), "tls: "):
		return "no TLS connection", "", false
	case errors.As(err, &lookup):
		return "its name is unknown", "", false
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return "it does not answer in time", "", false
	case errors.As(err, &number):
		return number.Error(), "", false
	case errors.Is(err, io.EOF):
		return "it closes connections", "", false
	}
	return "", "", false
}

// replyWords are the first words of Redis' errors for which an operator has to act, and what they mean.
var replyWords = map[string]string{
	"LOADING": "it is starting", "BUSY": "it is busy", "READONLY": "it is read-only",
	"MASTERDOWN": "its master is down", "CLUSTERDOWN": "its cluster is down", "NOREPLICAS": "it has too few replicas",
	"OOM": "it is full", "MISCONF": "it can't write to its disk", "NOAUTH": "it wants a password",
	"MOVED": "it is one node of a Cluster", "TRYAGAIN": "it moves keys between nodes", "WRONGPASS": "it refuses the password", "NOPERM": "its user lacks rights", "DENIED": "it is in protected mode",
}
