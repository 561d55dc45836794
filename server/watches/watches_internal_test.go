package watches

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/feed"
	"github.com/setpoint-dev/setpoint/server/pagetoken"
	"github.com/setpoint-dev/setpoint/store"
)

// secrets is a store that has a secret, or is not reachable.
type secrets struct {
	store.Store
	secret string
	err    error
	reads  int
}

func (s *secrets) Secret(context.Context, string, []byte) ([]byte, error) {
	s.reads++
	return []byte(s.secret), s.err
}

// sent is a stream that keeps the token of the last response.
type sent struct {
	grpc.ServerStream
	ctx   context.Context
	token string
}

func (s *sent) Context() context.Context { return s.ctx }

func (s *sent) SendMsg(message any) error {
	var got setpointv1.WatchDecisionsResponse
	err := proto.Unmarshal(message.(*encoded.Message).Data, &got)
	s.token = got.GetResumeToken()
	return err
}

// A watch that always has something to send has the tokens of a new key, too: other instances don't take those of the old one.
func TestABusyWatchTakesANewKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := &secrets{secret: "one"}
		all := New(Options{Heartbeat: time.Hour}, pagetoken.New(engine))
		list := pagetoken.List{Method: "watch"}
		stream := &sent{ctx: t.Context()}
		w, other := &watch{Watches: all, stream: stream, list: list}, &watch{Watches: all, stream: stream, list: list}
		send := func(w *watch, secret string, reads int) {
			t.Helper()
			fatal.If(t, w.send(feed.Event{}))
			key, _ := pagetoken.New(&secrets{secret: secret}).Key(t.Context())
			if _, ok := pagetoken.Open(key, list, stream.token); !ok || engine.reads != reads {
				t.Errorf("after %d reads, want %d; the token is of %s: %v", engine.reads, reads, secret, ok)
			}
		}
		send(w, "one", 1)
		engine.secret, engine.err = "two", store.ErrUnavailable
		time.Sleep(keyAge - 1)
		send(w, "one", 1)
		time.Sleep(time.Nanosecond)
		send(w, "one", 2)
		send(other, "one", 2) // one of them has asked in vain
		engine.err = nil
		time.Sleep(keyAge)
		send(w, "two", 3)
		send(other, "two", 3)
	})
}
