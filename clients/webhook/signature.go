package webhook

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/internal/signed"
)

// Headers of requests and answers.
const (
	// HeaderKey is the name of the signing key.
	HeaderKey = "Setpoint-Key"
	// HeaderTimestamp is the time of the message: seconds since 1970.
	HeaderTimestamp = "Setpoint-Timestamp"
	// HeaderNonce is a random text of 32 hexadecimal digits, unique to the request. The answer
	// is signed with the same nonce.
	HeaderNonce = "Setpoint-Nonce"
	// HeaderSignature is the signature: "v1=" and 64 hexadecimal digits.
	HeaderSignature = "Setpoint-Signature"
)

// Window bounds the difference of both clocks. A server must remember nonces for twice as long:
// it accepts a request from a clock that is a Window ahead until two Windows later.
const Window = time.Minute

// A Key signs messages. Both sides have it.
type Key struct {
	// Name identifies the key: letters, digits, dot, dash and underscore.
	Name string
	// Secret is the shared secret: at least 32 bytes.
	Secret []byte
}

// SignRequest returns the signature of a request. target is the path with the query, as in the
// request line.
func (k Key) SignRequest(method, target string, at time.Time, nonce string, body []byte) string {
	return k.sign("request", k.Name, method, target, strconv.FormatInt(at.Unix(), 10), nonce, signed.Digest(body))
}

// SignAnswer returns the signature of the answer to the request with that nonce. etag is the
// ETag header, unchanged; empty without one.
func (k Key) SignAnswer(status int, at time.Time, nonce, etag string, body []byte) string {
	return k.sign("answer", k.Name, strconv.Itoa(status), strconv.FormatInt(at.Unix(), 10), nonce, etag, signed.Digest(body))
}

// sign signs lines. None contains a line break: they are a method, a request target, header
// values, or generated here.
func (k Key) sign(lines ...string) string {
	return signed.Sign(k.Secret, "setpoint-webhook-v1", lines...)
}

// verifyAnswer returns why an answer is not a valid answer, signed with the key, to the request
// with the nonce.
func (k Key) verifyAnswer(status int, header http.Header, nonce string, body []byte, now time.Time) error {
	if header.Get(HeaderSignature) == "" {
		return fmt.Errorf("it answered %d %s without a signature: does the URL lead to the webhook server, and does it have the key %q?", status, http.StatusText(status), k.Name)
	}
	seconds, err := strconv.ParseInt(header.Get(HeaderTimestamp), 10, 64)
	if err != nil {
		return fmt.Errorf("its answer has no %s of seconds since 1970", HeaderTimestamp)
	}
	at := time.Unix(seconds, 0)
	want := k.SignAnswer(status, at, nonce, header.Get("ETag"), body)
	switch {
	case header.Get(HeaderKey) != k.Name:
		return fmt.Errorf("its answer is signed with another key than the request, which is %q", k.Name)
	case !signed.Equal(want, header.Get(HeaderSignature)):
		return fmt.Errorf("the signature of its answer is wrong: the server has another secret for the key %q, or a proxy changed the answer", k.Name)
	case now.Sub(at).Abs() > Window:
		return fmt.Errorf("its clock is %s off, more than %s: set the clocks", at.Sub(now).Round(time.Second), Window)
	}
	return nil
}
