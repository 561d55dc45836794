package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers of requests and answers.
const (
	// HeaderKey is the name of the key.
	HeaderKey = "Setpoint-Key"
	// HeaderTimestamp is when the message was made: seconds since 1970.
	HeaderTimestamp = "Setpoint-Timestamp"
	// HeaderNonce is a random text of 32 hexadecimal digits that no other request has. The
	// answer to it is signed with the same.
	HeaderNonce = "Setpoint-Nonce"
	// HeaderSignature is the signature: "v1=" and 64 hexadecimal digits.
	HeaderSignature = "Setpoint-Signature"
)

// Window is how far the clocks of both sides may be apart. A server remembers the nonces that it
// has seen for twice as long: a request from a clock that is a Window ahead is one that it takes
// until two of them later.
const Window = time.Minute

const signaturePrefix = "v1="

// A Key signs. Both sides have it.
type Key struct {
	// Name tells it from others: letters, digits, dot, dash and underscore.
	Name string
	// Secret is what only both sides know: at least 32 bytes.
	Secret []byte
}

// SignRequest returns the signature of a request. Target is the path with the query, as on
// the request's first line.
func (k Key) SignRequest(method, target string, at time.Time, nonce string, body []byte) string {
	return k.sign("request", k.Name, method, target, strconv.FormatInt(at.Unix(), 10), nonce, digest(body))
}

// SignAnswer returns the signature of the answer to the request of that nonce. ETag is that of
// the header, unchanged; empty without one.
func (k Key) SignAnswer(status int, at time.Time, nonce, etag string, body []byte) string {
	return k.sign("answer", k.Name, strconv.Itoa(status), strconv.FormatInt(at.Unix(), 10), nonce, etag, digest(body))
}

// sign signs lines. None of them has a line's end in it: they are a method, the target of a
// request and values of headers, or made here.
func (k Key) sign(lines ...string) string {
	mac := hmac.New(sha256.New, k.Secret)
	mac.Write([]byte("setpoint-webhook-v1\n" + strings.Join(lines, "\n")))
	return signaturePrefix + hex.EncodeToString(mac.Sum(nil))
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// verifyAnswer returns why an answer is not one to a request of the nonce that was signed with
// the key.
func (k Key) verifyAnswer(status int, header http.Header, nonce string, body []byte, now time.Time) error {
	if header.Get(HeaderSignature) == "" {
		return fmt.Errorf("it answered %d %s without a signature: is it the server that answers, and does it have the key %q?", status, http.StatusText(status), k.Name)
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
	case !hmac.Equal([]byte(want), []byte(header.Get(HeaderSignature))):
		return fmt.Errorf("the signature of its answer is wrong: the secret of the key %q is another one there, or something between has changed the answer", k.Name)
	case now.Sub(at).Abs() > Window:
		return fmt.Errorf("its clock is %s off, more than %s: set the clocks", at.Sub(now).Round(time.Second), Window)
	}
	return nil
}
