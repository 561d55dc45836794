package apierror

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/store"
)

// Domain is the domain of the service's ErrorInfo.
const Domain = "setpoint.dev"

// New returns a status error with an ErrorInfo. Metadata are alternating names and
// values.
func New(code codes.Code, reason setpointv1.ErrorReason, message string, metadata ...string) error {
	return withDetails(status.New(code, message), errorInfo(reason, metadata...))
}

func errorInfo(reason setpointv1.ErrorReason, metadata ...string) *errdetails.ErrorInfo {
	info := &errdetails.ErrorInfo{Domain: Domain, Reason: strings.TrimPrefix(reason.String(), "ERROR_REASON_")}
	for i := 0; i+1 < len(metadata); i += 2 {
		if info.Metadata == nil {
			info.Metadata = make(map[string]string)
		}
		info.Metadata[metadata[i]] = metadata[i+1]
	}
	return info
}

func withDetails(s *status.Status, details ...protoadapt.MessageV1) error {
	detailed, err := s.WithDetails(details...)
	if err != nil {
		return s.Err()
	}
	return detailed.Err()
}

// Bounds of the details of an error. Over gRPC they are sent in trailers, and many clients
// accept at most 8 KiB of trailers, base64 included; over REST they are sent in a body.
const (
	maxTrailerDetails = 4 << 10
	// MaxBodyDetails is for InvalidWithin.
	MaxBodyDetails   = 64 << 10
	maxViolationText = 512
)

// Invalid returns INVALID_ARGUMENT with every violation; nil for none. If they do not
// fit, it returns the first ones and their number in the message.
func Invalid(violations []validation.Violation) error {
	return InvalidWithin(violations, maxTrailerDetails)
}

// OfStructure is Invalid with every violation of a message's structure.
func OfStructure(message proto.Message) error { return Invalid(validation.Structure(message)) }

// InvalidWithin is Invalid with another limit of the violations' bytes.
func InvalidWithin(violations []validation.Violation, maxBytes int) error {
	violations = validation.Distinct(violations)
	if len(violations) == 0 {
		return nil
	}
	atLeast := ""
	if i := slices.Index(violations, validation.More); i >= 0 {
		// Keep the note that there are more, wherever it was.
		violations, atLeast = append(violations[:i], violations[i+1:]...), "at least "
	}
	message := invalidRequest + Clip(violations[0].String())
	if more := len(violations) - 1; more > 0 {
		message += fmt.Sprintf(" (and %s%d more)", atLeast, more)
	}
	bad := &errdetails.BadRequest{}
	for _, v := range violations {
		field, description := Clip(v.Field), Clip(v.Description)
		if maxBytes -= len(field) + len(description) + 8; maxBytes < 0 {
			break
		}
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: field, Description: description})
	}
	return withDetails(status.New(codes.InvalidArgument, message), bad,
		errorInfo(setpointv1.ErrorReason_ERROR_REASON_INVALID_REQUEST))
}

// invalidRequest begins the message of Invalid.
const invalidRequest = "invalid request: "

// Within returns an error of Invalid with the paths as they are in one field of the request, for a caller who sent that
// field alone. Other errors, and paths outside of the field, stay as they are.
func Within(err error, field string) error {
	s, ok := status.FromError(err)
	if field == "" || !ok || s.Code() != codes.InvalidArgument {
		return err
	}
	within := func(path string) string {
		if path == field {
			return ""
		}
		return strings.TrimPrefix(path, field+".")
	}
	text, details := s.Message(), []protoadapt.MessageV1{}
	for _, detail := range s.Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				v.Field = within(v.GetField())
			}
			if path, problem, ok := strings.Cut(strings.TrimPrefix(text, invalidRequest), ": "); ok {
				text = invalidRequest + validation.Violation{Field: within(path), Description: problem}.String()
			}
		}
		if message, ok := detail.(protoadapt.MessageV1); ok {
			details = append(details, message)
		}
	}
	return withDetails(status.New(s.Code(), text), details...)
}

// Clip shortens a text to the limit of error texts, between characters.
func Clip(s string) string {
	if len(s) <= maxViolationText {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(s[:maxViolationText], "") + "..."
}

// ClipMarked is Clip for logs: it adds how much is missing.
func ClipMarked(s string) string {
	if len(s) <= maxViolationText {
		return s
	}
	clipped := Clip(s)
	return clipped + " (" + strconv.Itoa(len(s)-len(clipped)+len("...")) + " bytes more)"
}

// InvalidField is Invalid for one field.
func InvalidField(field, description string) error {
	return Invalid([]validation.Violation{{Field: field, Description: description}})
}

// OverLimit is RESOURCE_EXHAUSTED for a value beyond a setting, with the setting's name in
// the API.
func OverLimit(limit string, maximum int, message string) error {
	return New(codes.ResourceExhausted, setpointv1.ErrorReason_ERROR_REASON_LIMIT_EXCEEDED, message,
		"limit", limit, "value", strconv.Itoa(maximum))
}

// OverLimitNow is OverLimit for what other calls hold for the time being: callers are told to come back, and not all at
// once.
func OverLimitNow(limit string, maximum int, message string) error {
	s := status.Convert(OverLimit(limit, maximum, message))
	return withDetails(s, &errdetails.RetryInfo{RetryDelay: durationpb.New(heldFor/2 + rand.N(heldFor))})
}

// heldFor is about how long callers of OverLimitNow are told to wait.
const heldFor = 5 * time.Second

// UnknownTarget is NOT_FOUND for a target without a history.
func UnknownTarget(target string) error {
	return New(codes.NotFound, setpointv1.ErrorReason_ERROR_REASON_TARGET_NOT_FOUND,
		"no history for "+target+": it was never requested, was deleted, or has expired", "target", target)
}

// OtherIncarnation is NOT_FOUND for a target whose history is that of another one of its name.
func OtherIncarnation(target string) error {
	return New(codes.NotFound, setpointv1.ErrorReason_ERROR_REASON_TARGET_NOT_FOUND,
		"the history of "+target+" is that of another targetUid, and is kept: the one given was never requested, was deleted, or has expired", "target", target)
}

// IsFleet is FAILED_PRECONDITION for what is asked of a fleet's own name.
func IsFleet(target string) error {
	return New(codes.FailedPrecondition, setpointv1.ErrorReason_ERROR_REASON_IS_FLEET,
		target+" is a fleet: of its own name nothing is decided, polled or reported: its members call Recommend with fleet set to its name; GetFleet (GET /v1/"+target+"/fleet) shows its state", "target", target)
}

// UnknownRecommendation is NOT_FOUND for an id that the target does not have.
func UnknownRecommendation(target, id string) error {
	return New(codes.NotFound, setpointv1.ErrorReason_ERROR_REASON_RECOMMENDATION_NOT_FOUND,
		target+" has no recommendation "+id+": unknown or expired", "target", target, "recommendationId", id)
}

// Contended is ABORTED for a decision that lost every race.
func Contended(target string, attempts int) error {
	return New(codes.Aborted, setpointv1.ErrorReason_ERROR_REASON_TARGET_CONTENDED,
		fmt.Sprintf("%s was changed by other callers %d times in a row while this one decided; retry with the same requestId", target, attempts),
		"target", target, "attempts", strconv.Itoa(attempts))
}

// EvaluationTimePast is FAILED_PRECONDITION for an instant before the newest record.
func EvaluationTimePast(target string, asked, newest time.Time) error {
	return New(codes.FailedPrecondition, setpointv1.ErrorReason_ERROR_REASON_EVALUATION_TIME_PAST,
		fmt.Sprintf("evaluationTime %s is before %s, the newest record of %s", asked.Format(time.RFC3339Nano), newest.Format(time.RFC3339Nano), target),
		"target", target, "newestRecord", newest.Format(time.RFC3339Nano))
}

// OtherCluster is FAILED_PRECONDITION for a target of another cluster of the same name.
func OtherCluster(target string) error {
	return New(codes.FailedPrecondition, setpointv1.ErrorReason_ERROR_REASON_OTHER_CLUSTER,
		target+" belongs to another cluster with the same cluster name (its clusterUid differs); give one of the two another cluster name, or, if the other cluster is gone, delete the target to hand it over",
		"target", target)
}

// OfStore maps an error of the store. The store's text is for the log, not for the
// caller.
func OfStore(ctx context.Context, target string, err error) error {
	return ofStore(ctx, target, err, "try again")
}

// OfDecisionsStore is OfStore for a decision, which may be stored all the same.
func OfDecisionsStore(ctx context.Context, target string, err error) error {
	return ofStore(ctx, target, err, "hold the count and retry with the same requestId")
}

func ofStore(ctx context.Context, target string, err error, remedy string) error {
	switch {
	case CallerGone(ctx) != nil:
		return status.FromContextError(CallerGone(ctx)).Err()
	case errors.Is(err, store.ErrUnreadable):
		return OfHistory(target, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrClosed):
		return New(codes.Unavailable, setpointv1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE,
			StoreAway(err)+"; "+remedy)
	}
	if _, answered := status.FromError(err); answered {
		return err
	}
	return New(codes.Internal, setpointv1.ErrorReason_ERROR_REASON_UNSPECIFIED, "the history store failed")
}

// OfHistory maps an error of reading a stored history.
func OfHistory(target string, err error) error {
	message := "the stored history of " + target + " can't be read: it is damaged; delete the target to start over"
	switch {
	case errors.Is(err, encoding.ErrFormat) && !errors.Is(err, encoding.ErrCorrupt):
		message = "the stored history of " + target + " was written by a newer version; upgrade this instance"
	case errors.Is(err, encoding.ErrFormat), errors.Is(err, store.ErrUnreadable):
		message = "the stored history of " + target + " can't be read: a newer version wrote it, or it is damaged; upgrade this instance, or delete the target to start over"
	}
	return New(codes.Internal, setpointv1.ErrorReason_ERROR_REASON_HISTORY_UNREADABLE, message, "target", target)
}

// ShuttingDown is the error for calls that a stopping server can't finish.
func ShuttingDown() error {
	return New(codes.Unavailable, setpointv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "the server is shutting down; retry elsewhere")
}

// Undecodable is the error for bytes that are not a message.
func Undecodable() error {
	return Invalid([]validation.Violation{{Description: "the message is not a valid protobuf encoding of its type, or it is compressed: send it without compression"}})
}

// CodeOf is the code that gRPC sends for an error.
func CodeOf(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	return s.Code()
}
