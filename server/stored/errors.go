package stored

import (
	"errors"
	"fmt"
	"time"
)

// Errors for errors.Is. Errors of the store are returned unchanged.
var (
	// ErrNoSpec means that the target has no stored spec.
	ErrNoSpec = errors.New("no spec is stored")
	// ErrChanged means that the stored spec's version is not the caller's etag.
	ErrChanged = errors.New("the stored spec has changed")
	// ErrGone is ErrChanged where nothing is stored.
	ErrGone = fmt.Errorf("%w: there is none", ErrChanged)
	// ErrIsFleet means that the target is a fleet, which is neither polled nor observed.
	ErrIsFleet = errors.New("the target is a fleet")
	// ErrDissolves means that a spec without members, and without an etag, would replace a fleet's.
	ErrDissolves = errors.New("the spec would dissolve a fleet")
	// ErrNoScale means that the number of replicas is unknown.
	ErrNoScale = errors.New("the scale is not known")
	// ErrSelectorTerms means that comparing the series with selectors takes more than the
	// stored bytes allow.
	ErrSelectorTerms = errors.New("too many series without a selector")
)

// BoundsError means that the caller's bounds and the spec's exclude every count.
type BoundsError struct {
	// Field is the bound of the caller that does.
	Field       string
	Least, Most int32
}

// Error implements error.
func (e *BoundsError) Error() string {
	return fmt.Sprintf("no count is within the bounds of the caller and of the stored spec: at least %d, at most %d", e.Least, e.Most)
}

// TooLargeError means that a record would be too large.
type TooLargeError struct {
	// Limit is the name of the limit, Most its value in bytes, and Bytes the size of
	// the record.
	Limit       string
	Most, Bytes int
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%d bytes are more than %s allows, %d", e.Bytes, e.Limit, e.Most)
}

// UnreadableError means that a stored record can't be decoded: it is damaged, or from a
// newer version.
type UnreadableError struct {
	// What is the kind of record: "spec" or "observation".
	What string
	Err  error
}

// Error implements error.
func (e *UnreadableError) Error() string {
	return fmt.Sprintf("the stored %s can't be read: %v", e.What, e.Err)
}

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Err }

// UndecidedError means that the count could not be computed, in the controller's words:
// ScalingActive is not true. Callers keep the count.
type UndecidedError struct {
	// Reason is the condition's, for example "FailedGetExternalMetric".
	Reason string
	// Message is the condition's.
	Message string
}

// OtherCountError means that the caller observes a count that the decision of this period does not
// explain: something else has scaled. Callers keep the count until the next decision.
type OtherCountError struct {
	// Told is the caller's count; From and To are those of the decision.
	Told, From, To int32
	// At is the instant of the decision, Next that of the next one.
	At, Next time.Time
}

// Error implements error.
func (e *OtherCountError) Error() string {
	return fmt.Sprintf("nothing was decided about %d replicas: the decision of %s, from %d to %d, counts until %s; keep the count until then, as the controller does between its decisions; "+
		"if this goes on, another caller of the target tells another count: one target is one workload",
		e.Told, e.At.UTC().Format(time.RFC3339), e.From, e.To, e.Next.UTC().Format(time.RFC3339))
}

// Error implements error.
func (e *UndecidedError) Error() string {
	return "the count can't be computed: " + e.Reason + ": " + e.Message
}
