package agent

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
)

// refused reports whether the service refused the request itself, so that a retry will not
// help. All other errors may be transient.
func refused(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.NotFound:
		return true
	case codes.ResourceExhausted:
		// Waiting helps only if the service says how long.
		_, told := setpoint.RetryDelay(err)
		return !told
	}
	return false
}

// Refusal is why the service refused a request itself, in the words of the hold that follows; empty: it did not.
func Refusal(err error) string {
	if !refused(err) {
		return ""
	}
	return plainReason(err)
}

// isOtherCluster reports whether the service refused because another cluster of the same name
// has the target.
func isOtherCluster(err error) bool {
	return setpoint.Reason(err) == strings.TrimPrefix(setpointv1.ErrorReason_ERROR_REASON_OTHER_CLUSTER.String(), "ERROR_REASON_")
}

// maxReason bounds a reason in a condition, bytes.
const maxReason = 1024

// transportError matches the text that gRPC puts around the error of a connection; only the
// innermost text is useful to people.
var transportError = regexp.MustCompile(`desc = ("(?:[^"\\]|\\.)*")`)

// plainReason words an error of the service or of the connection for people.
func plainReason(err error) string {
	if violations := setpoint.Violations(err); len(violations) > 0 {
		texts := make([]string, 0, len(violations))
		for _, v := range violations {
			texts = append(texts, v.Field+": "+v.Description)
		}
		return Shorten(strings.Join(texts, "; "))
	}
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Message()
	}
	for range 4 {
		inner := transportError.FindStringSubmatch(text)
		if inner == nil {
			break
		}
		unquoted, err := strconv.Unquote(inner[1])
		if err != nil {
			break
		}
		text = unquoted
	}
	text = strings.TrimPrefix(text, "transport: ")
	if text == "" {
		text = status.Code(err).String()
	}
	return Shorten(text)
}

// Shorten bounds a text for people, in bytes, and adds how much it leaves out.
func Shorten(text string) string {
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") + fmt.Sprintf("… (%d bytes more)", len(text)-maxReason)
}

// cut bounds a text, bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}
