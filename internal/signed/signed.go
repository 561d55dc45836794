// Package signed signs messages between two sides that share a secret: those of the webhook, and the
// reports of Swarm's nodes.
//
//	signature := signed.Sign(secret, "setpoint-webhook-v1", method, target, signed.Digest(body))
package signed

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const prefix = "v1="

// Sign returns the signature of lines: "v1=" and the HMAC-SHA256, in hexadecimal digits, of the name
// of the protocol and of the lines, which no line break is in.
func Sign(secret []byte, protocol string, lines ...string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(protocol + "\n" + strings.Join(lines, "\n")))
	return prefix + hex.EncodeToString(mac.Sum(nil))
}

// Equal compares signatures, or digests, in constant time.
func Equal(a, b string) bool { return hmac.Equal([]byte(a), []byte(b)) }

// Digest stands for a body in what is signed.
func Digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
