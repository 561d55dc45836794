package decision

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/setpoint-dev/setpoint/internal/printable"
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

// lastError returns the error for which an engine does not ask its server at all for a
// while, or err.
func lastError(err error) error {
	var skipped interface {
		error
		Last() error
	}
	if errors.As(err, &skipped) {
		return skipped.Last()
	}
	return err
}

// publicCause names an error of the store for anybody: what kind of error it is, but no address, name
// or text that somebody chose. "" if nothing is known of it.
func publicCause(err error) string {
	err = lastError(err)
	var reply interface {
		error
		RedisError()
	}
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var lookup *net.DNSError
	var number syscall.Errno
	var slow net.Error
	switch {
	case errors.As(err, &reply):
		if word, _, _ := strings.Cut(reply.Error(), " "); replyWords[word] {
			return word
		}
		return "it answers with an error"
	case errors.As(err, &authority):
		return "its certificate is signed by an unknown authority"
	case errors.As(err, &name):
		return "its certificate is for another name"
	case errors.As(err, &invalid):
		return "its certificate is not valid"
	case err != nil && strings.Contains(err.Error(), "tls: "):
		return "no TLS connection"
	case errors.As(err, &lookup):
		return "its name is unknown"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return "it does not answer in time"
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, io.EOF):
		return "it closes connections"
	}
	return ""
}

// replyWords are the first words of Redis' errors for which an operator has to act.
var replyWords = map[string]bool{
	"LOADING": true, "BUSY": true, "READONLY": true, "MASTERDOWN": true, "CLUSTERDOWN": true, "NOREPLICAS": true,
	"OOM": true, "MISCONF": true, "NOAUTH": true, "WRONGPASS": true, "NOPERM": true, "DENIED": true,
}
