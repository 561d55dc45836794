package encoded_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// The id of a stream's message is bounded by characters, as its contract says, whichever
// way the message is read.
func TestStreamIDsAreBoundedByCharacters(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	request := servertest.Encoded(t, servertest.Queue(servertest.Web, 3, 50))
	for name, c := range map[string]struct {
		id string
		ok bool
	}{
		"letters at the bound":                {strings.Repeat("x", 128), true},
		"letters beyond it":                   {strings.Repeat("x", 129), false},
		"characters of two bytes at it":       {strings.Repeat("é", 128), true},
		"characters of two bytes beyond it":   {strings.Repeat("é", 129), false},
		"characters of four bytes at it":      {strings.Repeat("🦊", 128), true},
		"characters of four bytes beyond it":  {strings.Repeat("🦊", 129), false},
		"fewer bytes than characters allowed": {strings.Repeat("é", 64), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), c.id)
			message = protowire.AppendBytes(protowire.AppendTag(message, 2, protowire.BytesType), request)
			for way, data := range map[string][]byte{"short": message, "long": servertest.Unusual(message)} {
				answer, err := s.StreamRaw(t.Context(), data)
				if err != nil {
					t.Fatalf("%s way: %v", way, err)
				}
				resp := &setpointv1.StreamRecommendResponse{}
				fatal.If(t, proto.Unmarshal(answer, resp))
				if served := resp.GetResponse() != nil; served != c.ok || served && resp.GetId() != c.id {
					t.Errorf("%s way: served %v, want %v: %v", way, served, c.ok, resp.GetError().GetMessage())
				}
			}
		})
	}
}
