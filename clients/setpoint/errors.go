package setpoint

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// errorDomain is the domain of the service's own ErrorInfo.
const errorDomain = "setpoint.dev"

// Violation is one problem of a request.
type Violation struct {
	// Field is the path of the field as in JSON, for example "spec.maxReplicas".
	Field string
	// Description is the problem, in the words of the Kubernetes API server.
	Description string
}

// Violations returns the violations of a request that was refused with INVALID_ARGUMENT; nil
// for other errors. If there are very many it returns the first ones; the error's text has
// their number.
func Violations(err error) []Violation {
	bad := detail[*errdetails.BadRequest](err)
	var all []Violation
	for _, v := range bad.GetFieldViolations() {
		all = append(all, Violation{Field: v.GetField(), Description: v.GetDescription()})
	}
	return all
}

// RetryDelay returns how long the server asks to wait before a retry; false: it does
// not say.
func RetryDelay(err error) (time.Duration, bool) {
	info := detail[*errdetails.RetryInfo](err)
	if info.GetRetryDelay() == nil {
		return 0, false
	}
	return max(0, info.GetRetryDelay().AsDuration()), true
}

// Reason returns the ErrorReason of a service's error without the prefix ERROR_REASON_, for
// example "TARGET_CONTENDED"; empty: the error has none, or is not the service's.
func Reason(err error) string {
	if info := detail[*errdetails.ErrorInfo](err); info.GetDomain() == errorDomain {
		return info.GetReason()
	}
	return ""
}

// detail returns the first detail of that type, its zero value if there is none.
func detail[T any](err error) T {
	var none T
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return none
	}
	for _, d := range s.Details() {
		if found, ok := d.(T); ok {
			return found
		}
	}
	return none
}
