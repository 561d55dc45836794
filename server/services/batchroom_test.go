package services_test

import (
	"strconv"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/server/services"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// The answer of a batch whose first request is explained at length, and no other, takes no more memory than it is long:
// the others are not taken to be as long.
func TestALongFirstAnswerOfABatchIsNotTakenForThatOfAll(t *testing.T) {
	t.Parallel()
	engine := memory.New(memory.Options{})
	defer func() { _ = engine.Close() }()
	s, err := server.New(engine, engine, server.DefaultOptions())
	fatal.If(t, err)
	defer s.Close()
	long := servertest.With(servertest.PodsRequest(5000), servertest.Explained)
	batch := &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{long}}
	for i := range 200 {
		batch.Requests = append(batch.Requests, servertest.Queue(servertest.Web+strconv.Itoa(i), 3, 30))
	}
	req := &encoded.Message{Data: servertest.Encoded(t, batch)}
	defer req.Free()
	answer, err := s.Recommendations().(*services.Recommendations).BatchEncoded(t.Context(), req)
	fatal.If(t, err)
	if room, most := cap(answer.Data), 2*len(answer.Data)+1<<20; room > most {
		t.Errorf("an answer of %d bytes to %d takes %d, want at most %d", len(answer.Data), len(req.Data), room, most)
	}
}
