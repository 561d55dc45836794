package services

import (
	"slices"
	"unicode/utf8"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/protofields"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// readStreamed reads an encoded StreamRecommendRequest: its id and the request, still encoded.
func readStreamed(data []byte) (id string, request []byte, err error) {
	if id, request, ok := wire.StreamRequest(data); ok {
		return id, request, nil
	}
	const idField, requestField = 1, 2
	parts := 0
	var invalid error
	for f := range protofields.Of(data, &invalid) {
		switch {
		case f.Value == nil:
		case f.Number == idField:
			if id = string(f.Value); !utf8.ValidString(id) {
				return "", nil, apierror.Undecodable()
			}
		case f.Number == requestField:
			// If a field is repeated, the values are merged, as in any message.
			if parts++; parts == 1 {
				request = f.Value
			} else {
				request = append(request, f.Value...)
			}
		}
	}
	if invalid != nil {
		return "", nil, apierror.Undecodable()
	}
	// Only the rules of its own fields: the request is checked later.
	broken := validation.Structure(&setpointv1.StreamRecommendRequest{Id: id})
	broken = slices.DeleteFunc(broken, func(v validation.Violation) bool { return v.Field == "request" && parts > 0 })
	return id, request, apierror.Invalid(broken)
}

// findRequests splits an encoded BatchRecommendRequest into its encoded requests. It returns at
// most one more than most.
func findRequests(data []byte, most int) ([][]byte, bool) {
	if requests, ok := wire.BatchRequests(data, most); ok {
		return requests, true
	}
	var requests [][]byte
	var invalid error
	for f := range protofields.Of(data, &invalid) {
		if f.Number == 1 && f.Value != nil && len(requests) <= most {
			requests = append(requests, f.Value)
		}
	}
	return requests, invalid == nil
}
