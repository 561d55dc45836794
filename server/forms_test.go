package server_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// curl calls a body a form unless it is told otherwise. It is JSON all the same: nothing in its texts is a
// parameter, or a mistake in one.
func TestBodiesAreNoForms(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	reason := "CPU at 90%; 50% of load&overrideId=evil&filter=x"
	body, err := protojson.Marshal(&setpointv1.Override{Hold: true, Reason: reason, ExpireTime: timestamppb.New(servertest.T0.Add(time.Hour))})
	fatal.If(t, err)
	create := func(query, kind string) *servertest.Answer {
		req := s.Request(t, http.MethodPost, "/v1/"+servertest.Web+"/overrides"+query, bytes.NewReader(body))
		req.Header.Set("Content-Type", kind)
		a := s.MustSend(t, req)
		return a
	}
	const form = "application/x-www-form-urlencoded"
	for id, kind := range map[string]string{"form": form, "json": "application/json", "parts": "multipart/form-data; boundary=x"} {
		a, created := create("?overrideId="+id, kind), &setpointv1.Override{}
		a.Expect(t, http.StatusOK)
		if a.Into(t, created); created.GetName() != servertest.Web+"/overrides/"+id || created.GetReason() != reason {
			t.Errorf("%s: %v", kind, created)
		}
	}
	if a := create("", form); a.Code != http.StatusOK || a.Body["name"] == servertest.Web+"/overrides/evil" {
		t.Errorf("without an id: %s", a.Raw)
	}
}
