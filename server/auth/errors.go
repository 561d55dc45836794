package auth

import (
	"errors"
	"slices"
)

// Reason is why a caller was not authenticated, for logs and metrics.
type Reason string

// The reasons.
const (
	// ReasonMissing: there are no credentials.
	ReasonMissing Reason = "missing_credentials"
	// ReasonMalformed: the credentials can't be parsed.
	ReasonMalformed Reason = "malformed"
	// ReasonTooLarge: the token is longer than MaxTokenBytes.
	ReasonTooLarge Reason = "too_large"
	// ReasonUnknownToken: the token is not in the file, and is not a JWT or JWTs are
	// not accepted.
	ReasonUnknownToken Reason = "unknown_token"
	// ReasonExpired and ReasonNotYetValid: the credentials are known, but not valid
	// now.
	ReasonExpired     Reason = "expired"
	ReasonNotYetValid Reason = "not_yet_valid"
	// ReasonWrongIssuer: the JWT is from an issuer that is not trusted.
	ReasonWrongIssuer Reason = "wrong_issuer"
	// ReasonWrongAlgorithm: the JWT is signed by an algorithm that is not accepted.
	ReasonWrongAlgorithm Reason = "wrong_algorithm"
	// ReasonWrongKey: none of the issuer's keys made the JWT's signature. Those that it published since they
	// were fetched are not known yet: see Unavailable.
	ReasonWrongKey Reason = "wrong_key"
	// ReasonWrongAudience: the JWT is for another audience.
	ReasonWrongAudience Reason = "wrong_audience"
	// ReasonWrongClaims: the JWT lacks a name, or has an invalid one.
	ReasonWrongClaims Reason = "wrong_claims"
	// ReasonIssuerUnreachable: the issuer's keys could not be fetched. The token may be
	// valid; retrying may help.
	ReasonIssuerUnreachable Reason = "issuer_unreachable"
	// ReasonUnverified: the client certificate was not verified.
	ReasonUnverified Reason = "unverified_certificate"
	// ReasonUnnamed: the client certificate has no name that is accepted.
	ReasonUnnamed Reason = "unnamed_certificate"
	// ReasonRevoked: the client certificate was revoked, or its CA removed, after the
	// connection was made.
	ReasonRevoked Reason = "revoked_certificate"
)

var reasons = [...]Reason{
	ReasonMissing, ReasonMalformed, ReasonTooLarge, ReasonUnknownToken, ReasonExpired, ReasonNotYetValid,
	ReasonWrongIssuer, ReasonWrongAlgorithm, ReasonWrongKey, ReasonWrongAudience, ReasonWrongClaims,
	ReasonIssuerUnreachable, ReasonUnverified, ReasonUnnamed, ReasonRevoked,
}

// Reasons returns all reasons.
func Reasons() []Reason { return slices.Clone(reasons[:]) }

// Error is why a caller was not authenticated. Neither its text nor its detail contain
// any part of a token.
type Error struct {
	Reason Reason
	// Message tells the caller what is wrong, and what to do.
	Message string
	// Detail is for logs, and may be nil. It may name the issuer's addresses.
	Detail error
	// later reports that the same credentials may be valid in a moment.
	later bool
}

// Error is the message for the caller.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the detail for logs.
func (e *Error) Unwrap() error { return e.Detail }

// Unavailable reports whether the credentials could not be verified, which may be
// temporary: gRPC sends UNAVAILABLE rather than UNAUTHENTICATED.
func (e *Error) Unavailable() bool { return e.Reason == ReasonIssuerUnreachable || e.later }

// ReasonOf returns the reason of an error of Authenticate, or "".
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// refuse returns an error. detail may be nil.
func refuse(reason Reason, message string, detail error) *Error {
	return &Error{Reason: reason, Message: message, Detail: detail}
}
