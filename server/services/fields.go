package services

import (
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
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
	ok := eachField(data, func(number protowire.Number, value []byte) bool {
		switch number {
		case idField:
			id = string(value)
		case requestField:
			// If a field is repeated, the values are merged, as in any message.
			if parts++; parts == 1 {
				request = value // limits the capacity, so that an append cannot overwrite what follows
			} else {
				request = append(request, value...)
			}
		}
		return number != idField || utf8.Valid(value)
	})
	if !ok {
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
	ok := eachField(data, func(number protowire.Number, value []byte) bool {
		if number == 1 && len(requests) <= most {
			requests = append(requests, value)
		}
		return true
	})
	return requests, ok
}

// eachField visits the length-delimited fields of an encoded message. False: the message is
// invalid, or visit stopped it.
func eachField(data []byte, visit func(protowire.Number, []byte) bool) bool {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return false
		}
		length := protowire.ConsumeFieldValue(number, kind, data[n:])
		if length < 0 {
			return false
		}
		if value := data[n : n+length]; kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
			if !visit(number, value[:len(value):len(value)]) {
				return false
			}
		}
		data = data[n+length:]
	}
	return true
}
