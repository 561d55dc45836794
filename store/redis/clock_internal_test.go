package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/store"
)

// clocked is a hook of a node that answers TIME alone, without a connection.
type clocked struct {
	ahead time.Duration
	away  bool
}

func (clocked) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (clocked) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (c clocked) ProcessHook(goredis.ProcessHook) goredis.ProcessHook {
	return func(_ context.Context, cmd goredis.Cmder) error {
		of, is := cmd.(*goredis.TimeCmd)
		if !is || c.away {
			cmd.SetErr(errors.New("away"))
			return cmd.Err()
		}
		of.SetVal(time.Now().Add(c.ahead))
		return nil
	}
}

// The clock of a Cluster is that of most of its masters: with a wrong one among them an instance would be right now and wrong
// then. Those that are away don't count.
func TestTheClockOfACluster(t *testing.T) {
	t.Parallel()
	away, wrong := clocked{away: true}, clocked{ahead: time.Hour}
	for _, test := range []struct {
		name    string
		masters []clocked
		err     error
	}{
		{"one is wrong", []clocked{{}, wrong, {}}, nil},
		{"one is away", []clocked{{}, {}, away}, nil},
		{"all but one are away", []clocked{away, {}, away}, nil},
		{"all are away", []clocked{away, away, away}, store.ErrUnavailable},
	} {
		addresses := []string{"a:1", "b:1", "c:1"}
		client := goredis.NewClusterClient(&goredis.ClusterOptions{ClusterSlots: func(context.Context) (slots []goredis.ClusterSlot, err error) {
			for i, address := range addresses {
				slots = append(slots, goredis.ClusterSlot{Start: i * slotCount / 3, End: (i+1)*slotCount/3 - 1, Nodes: []goredis.ClusterNode{{Addr: address}}})
			}
			return slots, nil
		}})
		client.OnNewNode(func(node *goredis.Client) {
			for i, address := range addresses {
				if node.Options().Addr == address {
					node.AddHook(test.masters[i])
				}
			}
		})
		s := newStore(Options{Cluster: true}.withDefaults(), newLayout("a:"), new(counters), make(chan struct{}))
		s.client = client
		for range 20 {
			now, err := s.Time(t.Context())
			if !errors.Is(err, test.err) || err == nil && time.Until(now).Abs() > time.Minute {
				t.Fatalf("%s: %v, %v", test.name, now, err)
			}
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}
