package redis_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// spared are the documented rights without which records are kept: those of the decision log and of the feed, which
// are lost alone, and those that connections need in other settings only.
var spared = strings.Fields("+rpush +ltrim +lindex +llen +lrange +xadd +xrange +xrevrange +xlen +xdel +hello +auth +select +ping +wait +readonly +command +asking")

// setUser makes a user setpoint of a node have no rights but these.
func setUser(t *testing.T, admin *goredis.Client, rights ...string) {
	t.Helper()
	args := []any{"acl", "setuser", "setpoint", "reset", "on", ">secret"}
	for _, right := range rights {
		args = append(args, right)
	}
	fatal.If(t, admin.Do(t.Context(), args...).Err())
}

// wantLack fails the test unless Ping says that a right is missing, in the words of Redis' command. It gives the user
// the right by that command, on some nodes.
func wantLack(t *testing.T, s *redis.Store, right string, nodes ...*goredis.Client) {
	t.Helper()
	err := s.Ping(t.Context())
	if err == nil {
		t.Fatalf("without %s Ping succeeds", right)
	}
	_, command, _ := strings.Cut(err.Error(), "ACL SETUSER ")
	if !errors.Is(err, store.ErrUnavailable) || command != "setpoint "+right {
		t.Fatalf("without %s: %v", right, err)
	}
	args := []any{"acl", "setuser"}
	for _, word := range strings.Fields(command) {
		args = append(args, word)
	}
	for _, node := range nodes {
		fatal.If(t, node.Do(t.Context(), args...).Err())
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("with %s again: %v", right, err)
	}
}

// keeps fails the test unless the store is up, and keeps records.
func keeps(t *testing.T, s *redis.Store) {
	t.Helper()
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	swaps := numbered(0, 20)
	create(t, s, swaps)
	if found, err := s.List(t.Context(), store.Filter{}, store.Key{}, 100); err != nil || len(found) != len(swaps) {
		t.Errorf("listed %d, %v", len(found), err)
	}
	for _, swap := range swaps {
		if existed, err := s.Delete(t.Context(), swap.Key); err != nil || !existed {
			t.Errorf("deleted: %t, %v", existed, err)
		}
	}
}

// A Redis whose user lacks a right that records need is of no use: Ping names the right, and succeeds once it is there.
func TestPingNamesTheRightThatIsMissing(t *testing.T) {
	t.Parallel()
	all, _ := documentedRights(t)
	server := redistest.Start(t, redistest.Config{})
	admin := server.Client(t)
	s := open(t, asUser(server.URL()), "a:", nil)
	setUser(t, admin, append(slices.Clone(all), "~a:*")...)
	keeps(t, s) // and the server knows the scripts
	for _, right := range all {
		t.Run(right, func(t *testing.T) {
			setUser(t, admin, append(slices.Clone(all), "~a:*", "-"+right[1:])...)
			switch {
			case right == "+client": // a new connection sends it
				wantLack(t, open(t, asUser(server.URL()), "a:", nil), "+client|setname", admin)
			case !slices.Contains(spared, right):
				wantLack(t, s, right, admin)
			default:
				keeps(t, s)
			}
		})
	}
	t.Run("several", func(t *testing.T) {
		setUser(t, admin, append(slices.Clone(all), "~a:*", "-getrange", "-zadd")...)
		wantLack(t, s, "+getrange +zadd", admin)
	})
	t.Run("+wait", func(t *testing.T) {
		setUser(t, admin, append(slices.Clone(all), "~a:*", "-wait")...)
		waiting := open(t, asUser(server.URL()), "a:", func(o *redis.Options) { o.WaitReplicas = 1 })
		if err := waiting.Ping(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "ACL SETUSER setpoint +wait") {
			t.Errorf("without +wait: %v", err)
		}
	})
}

// So where the keys are others than the user's: all, or those of one kind.
func TestPingNamesTheKeysThatAreMissing(t *testing.T) {
	t.Parallel()
	all, _ := documentedRights(t)
	server := redistest.Start(t, redistest.Config{})
	admin := server.Client(t)
	s := open(t, asUser(server.URL()), "a:", nil)
	var kinds []string
	for _, part := range []string{"", "s", "o", "v", "f", "m", "p", "r"} {
		for _, kind := range []string{"h:*", "l:*", "c:*", "d:*", "i"} {
			kinds = append(kinds, "~a:{*}"+part+kind)
		}
	}
	kinds = append(kinds, "~a:{*}p")
	setUser(t, admin, slices.Concat(all, kinds)...)
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("with all kinds of keys: %v", err)
	}
	for i := range kinds {
		setUser(t, admin, slices.Concat(all, slices.Delete(slices.Clone(kinds), i, i+1))...)
		wantLack(t, s, "~a:*", admin)
	}
	for _, other := range []string{"~setpoint:*", "%R~a:*"} {
		setUser(t, admin, slices.Concat(all, []string{other})...)
		wantLack(t, s, "~a:*", admin)
	}
}

// Behind sentinels the master's rights count.
func TestPingNamesTheRightThatAMasterOfSentinelsLacks(t *testing.T) {
	t.Parallel()
	all, _ := documentedRights(t)
	sentinel := redistest.StartSentinel(t, 1, 1, redistest.Config{Calm: true, Directives: []string{userLine(all)}})
	master := sentinel.Servers()[0].Client(t)
	setUser(t, master, append(slices.Clone(all), "~a:*", "-zadd")...)
	wantLack(t, open(t, asUser(sentinel.URL()), "a:", nil), "+zadd", master)
}

// In a Cluster, where each node has users of its own, a store is up as soon as it can use one of them.
func TestPingNamesTheRightThatAllOfAClusterLack(t *testing.T) {
	t.Parallel()
	all, further := documentedRights(t)
	cluster := redistest.StartCluster(t, 3, 0, redistest.Config{Calm: true})
	for _, right := range append([]string{"+zadd", "+eval", "+evalsha"}, further...) {
		t.Run(right, func(t *testing.T) {
			var nodes []*goredis.Client
			for _, node := range cluster.Servers() {
				nodes = append(nodes, node.Client(t))
				setUser(t, nodes[len(nodes)-1], append(slices.Concat(all, further), "~a:*", "-"+right[1:])...)
			}
			s := open(t, asUser(cluster.URL()), "a:", nil)
			switch {
			case right == "+cluster":
				wantLack(t, s, "+cluster|slots", nodes...)
			case !slices.Contains(spared, right):
				wantLack(t, s, right, nodes[1])
			default:
				keeps(t, s)
			}
		})
	}
}

// One host is a single server. A node of a Cluster serves a part of the keys only, so it isn't up, and its error says what is missing.
func TestPingTellsANodeOfAClusterFromASingleServer(t *testing.T) {
	t.Parallel()
	for _, node := range redistest.SharedCluster(t).Servers() {
		err := open(t, node.URL(), redistest.Prefix(t), nil).Ping(t.Context())
		if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "?cluster=true") {
			t.Errorf("Ping of a node alone: %v", err)
		}
	}
	keeps(t, open(t, redistest.SharedCluster(t).Servers()[0].URL()+"?cluster=true", redistest.Prefix(t), nil))
}

// So is one that lacks a command, as by rename-command: Ping names it, and a swap says that the store can't be used.
func TestPingNamesTheCommandThatIsMissing(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Start(t, redistest.Config{Directives: []string{`rename-command ZADD ""`}}).URL(), "a:", nil)
	if err := s.Ping(t.Context()); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "unknown command ZADD,") {
		t.Errorf("without zadd: %v", err)
	}
	if _, err := s.CompareAndSwap(t.Context(), store.Swap{Key: store.Key{Cluster: "c", Namespace: "n", Target: "t"}, Value: []byte("1")}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a swap: %v", err)
	}
}
