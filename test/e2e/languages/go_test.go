//go:build linux

package languages

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// goClient gives the verdicts of the library for Go, which the others are held to. What else it does
// is tested in clients/setpoint.
type goClient struct{}

func checked(err error) said {
	var wrong *setpoint.AnswerError
	if errors.As(err, &wrong) {
		return said{Field: &wrong.Field}
	}
	return said{}
}

// do reads a command as the other clients do, from JSON.
func (goClient) do(t *testing.T, given map[string]any) said {
	t.Helper()
	text, err := json.Marshal(given)
	fatal.If(t, err)
	var command struct {
		Op                        string
		Request, Answer, Previous json.RawMessage
		Now                       float64
		Unrecorded                bool
	}
	fatal.If(t, json.Unmarshal(text, &command))
	read := func(text json.RawMessage, m proto.Message) {
		t.Helper()
		fatal.If(t, protojson.Unmarshal(text, m))
	}
	if command.Op != "check" {
		t.Fatalf("no such command: %s", command.Op)
	}
	var request setpointv1.RecommendRequest
	var answer setpointv1.RecommendResponse
	read(command.Request, &request)
	read(command.Answer, &answer)
	asked := setpoint.Asked{Request: &request, Unrecorded: command.Unrecorded, Now: time.UnixMilli(int64(command.Now * 1000))}
	if command.Previous != nil {
		asked.Previous = &setpointv1.RecommendResponse{}
		read(command.Previous, asked.Previous)
	}
	return checked(setpoint.CheckAnswer(asked, &answer))
}
