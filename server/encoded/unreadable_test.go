package encoded_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

func TestInvalidMessagesAreRefusedOverGRPC(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	raw, err := proto.Marshal(servertest.WebRequest(t))
	fatal.If(t, err)
	bad := []byte(strings.ReplaceAll(string(raw), "web-a", "web-\xff"))
	for name, body := range map[string][]byte{"invalid UTF-8": bad, "a message that is cut off": raw[:len(raw)/2], "no message": []byte("\xff\xff\xff")} {
		_, err := s.SendRaw(t.Context(), "/setpoint.v1.RecommendationService/Recommend", body)
		if got := servertest.RPCProblem(err); got.Code != codes.InvalidArgument || !strings.Contains(got.Message, "protobuf") {
			t.Errorf("%s: got %v, want INVALID_ARGUMENT: %s", name, got.Code, got.Message)
		}
	}
	s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil).Expect(t, http.StatusNotFound)
}
