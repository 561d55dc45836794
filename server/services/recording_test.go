package services_test

import (
	"math"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/recordings"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// A recording begins with any instant that a message may have, and with nothing else.
func TestWhereARecordingBegins(t *testing.T) {
	t.Parallel()
	engine := memory.New(memory.Options{})
	start := func() *servertest.Service {
		return servertest.Start(t, func(su *servertest.Setup) {
			su.Store.Store, su.Log = engine, engine
			su.Options.Recordings.Bytes = recordings.DayBytes
		})
	}
	before := start()
	before.Recommend(t, servertest.WebRequest(t))
	before.StopAndWait(t) // which writes what was kept
	s := start()
	for name, tt := range map[string]struct {
		from   *timestamppb.Timestamp
		code   codes.Code
		chunks int
	}{
		"all":                             {nil, codes.OK, 1},
		"the first year":                  {timestamppb.New(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)), codes.OK, 1},
		"the instant of the first":        {timestamppb.New(servertest.T0), codes.OK, 1},
		"a day later":                     {timestamppb.New(servertest.T0.AddDate(0, 0, 1)), codes.OK, 0},
		"beyond a time in an int64":       {timestamppb.New(time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)), codes.OK, 0},
		"the last year":                   {timestamppb.New(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)), codes.OK, 0},
		"an instant that is none":         {&timestamppb.Timestamp{Seconds: math.MaxInt64}, codes.InvalidArgument, 0},
		"a part of a second that is none": {&timestamppb.Timestamp{Nanos: -1}, codes.InvalidArgument, 0},
	} {
		page, err := s.Targets.GetRecording(t.Context(), &setpointv1.GetRecordingRequest{Name: servertest.Web, StartTime: tt.from})
		if status.Code(err) != tt.code || len(page.GetChunks()) != tt.chunks {
			t.Errorf("%s: %d chunks, %v", name, len(page.GetChunks()), err)
		}
	}
}
