package requests

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// Answer returns the job's outcome as a message.
func (j *Job) Answer() (*setpointv1.RecommendResponse, error) {
	if !j.Decided {
		return j.Earlier, j.Err
	}
	response := conversion.Response(&j.Decision)
	if j.RequestID != "" {
		response.RequestId = new(j.RequestID)
	}
	return response, nil
}

// Encode appends the job's encoded response, if it has one.
func (j *Job) Encode(b []byte) ([]byte, error) {
	if j.Decided {
		if out, ok := wire.AppendResponse(b, &j.Decision, j.RequestID); ok {
			return out, nil
		}
	}
	response, err := j.Answer()
	if err != nil {
		return b, err
	}
	return Marshal(b, response)
}

// Result appends the job's outcome as an element of an encoded BatchRecommendResponse.
func (j *Job) Result(b []byte) []byte {
	if j.Decided {
		if out, ok := wire.AppendBatchDecision(b, &j.Decision, j.RequestID); ok {
			return out
		}
	}
	response, failed := j.outcome()
	if failed != nil {
		return wire.AppendBatchError(b, failed)
	}
	return wire.AppendBatchResponse(b, response)
}

// Streamed appends the job's outcome as an encoded StreamRecommendResponse.
func (j *Job) Streamed(b []byte, id string) []byte {
	if j.Decided {
		if out, ok := wire.AppendStreamDecision(b, id, &j.Decision, j.RequestID); ok {
			return out
		}
	}
	response, failed := j.outcome()
	if failed != nil {
		return wire.AppendStreamError(b, id, failed)
	}
	return wire.AppendStreamResponse(b, id, response)
}

// outcome is the job's outcome on the slow path: an encoded response or an encoded
// status.
func (j *Job) outcome() (response, failed []byte) {
	response, err := j.Encode(nil)
	if err == nil {
		return response, nil
	}
	failed, err = proto.Marshal(status.Convert(err).Proto())
	if err != nil {
		failed, _ = proto.Marshal(status.New(codes.Internal, "internal error").Proto())
	}
	return nil, failed
}

// Marshal appends a message's encoding. If that fails, because a text is not UTF-8, the
// server is at fault.
func Marshal(b []byte, m proto.Message) ([]byte, error) {
	out, err := proto.MarshalOptions{}.MarshalAppend(b, m)
	if err != nil {
		return b, status.Error(codes.Internal, "internal error")
	}
	return out, nil
}
