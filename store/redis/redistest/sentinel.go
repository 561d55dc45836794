//go:build unix

package redistest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// MasterName is what sentinels call their master.
const MasterName = "setpoint-test"

// Sentinel is a master with replicas and the sentinels that monitor them.
type Sentinel struct {
	t         testing.TB
	servers   []*Server
	sentinels []*Server
}

// StartSentinel starts a master, replicas and sentinels that all know each other. The
// sentinels promote a replica when the master is down for about a second, unless cfg is
// Calm.
func StartSentinel(t testing.TB, replicas, sentinels int, cfg Config) *Sentinel {
	t.Helper()
	Require(t)
	replicated, err := startReplicated(replicas, cfg)
	fatal.If(t, err)
	servers := each(t, replicated, own)
	watchers, err := startSentinels(replicated[0], replicas, sentinels, cfg)
	fatal.If(t, err)
	return &Sentinel{t: t, servers: servers, sentinels: each(t, watchers, own)}
}

// URL returns the URL of the master by its sentinels, with the Password of the
// servers.
func (s *Sentinel) URL() string {
	return clientURL(s.servers[0].in.Config, s.sentinels...) + "?master=" + MasterName
}

// Servers returns the servers that hold data, the first master first.
func (s *Sentinel) Servers() []*Server { return slices.Clone(s.servers) }

// Sentinels returns the sentinels.
func (s *Sentinel) Sentinels() []*Server { return slices.Clone(s.sentinels) }

// Master returns the current master. It waits while the running sentinels disagree in
// the course of a failover.
func (s *Sentinel) Master() *Server {
	s.t.Helper()
	var addr string
	err := eventually(func(ctx context.Context) error {
		addr = ""
		for _, sentinel := range s.sentinels {
			if !sentinel.in.answers() {
				continue
			}
			named, err := masterBy(ctx, sentinel.in)
			if err != nil {
				return err
			}
			if addr != "" && named != addr {
				return fmt.Errorf("sentinels name %s and %s", addr, named)
			}
			addr = named
		}
		return nil
	})
	fatal.If(s.t, err)
	i := slices.Index(addrs(s.servers), addr)
	if i < 0 {
		s.t.Fatalf("the sentinels' master is %q, which is not one of %v", addr, addrs(s.servers))
	}
	return s.servers[i]
}

// masterBy returns the address of the master that a sentinel names.
func masterBy(ctx context.Context, sentinel *instance) (string, error) {
	client := redis.NewClient(sentinel.options())
	defer client.Close()
	answer, err := client.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).StringSlice()
	if err == nil && len(answer) != 2 {
		err = fmt.Errorf("answer %q", answer)
	}
	if err != nil {
		return "", fmt.Errorf("the master by sentinel %s: %w", sentinel.addr(), err)
	}
	return net.JoinHostPort(answer[0], answer[1]), nil
}

// KillMaster kills the master and returns it. It does not wait for a failover.
func (s *Sentinel) KillMaster() *Server {
	s.t.Helper()
	master := s.Master()
	master.Kill()
	return master
}

// startReplicated starts a master and its replicas, which are in step.
func startReplicated(replicas int, cfg Config) ([]*instance, error) {
	master, err := newInstance(spec{Config: cfg})
	if err != nil {
		return nil, err
	}
	specs := make([]spec, replicas)
	for i := range specs {
		specs[i] = spec{Config: cfg, lines: []string{"replicaof " + host + " " + master.port()}}
	}
	others, err := startAll(specs)
	if err != nil {
		master.remove()
		return nil, err
	}
	instances := append([]*instance{master}, others...)
	for _, in := range others {
		if err := awaitLink(in); err != nil {
			removeAll(instances)
			return nil, err
		}
	}
	return instances, nil
}

// awaitLink waits until a replica has its master's data.
func awaitLink(in *instance) error {
	client := redis.NewClient(in.options())
	defer client.Close()
	return eventually(func(ctx context.Context) error { return linked(ctx, client) })
}

// startSentinels starts sentinels that know each other and the replicas.
func startSentinels(master *instance, replicas, sentinels int, cfg Config) ([]*instance, error) {
	away := hastyDownAfter
	if cfg.Calm {
		away = func(int) time.Duration { return calmAfter }
	}
	specs := make([]spec, sentinels)
	for i := range specs {
		specs[i] = spec{Config: cfg, sentinel: true, lines: []string{
			fmt.Sprintf("sentinel monitor %s %s %s %d", MasterName, host, master.port(), sentinels/2+1),
			"sentinel auth-user " + MasterName + " " + adminUser,
			"sentinel auth-pass " + MasterName + " " + adminPassword,
			fmt.Sprintf("sentinel down-after-milliseconds %s %d", MasterName, away(i).Milliseconds()),
			"sentinel failover-timeout " + MasterName + " 1000",
		}}
	}
	instances, err := startAll(specs)
	if err != nil {
		return nil, err
	}
	for _, in := range instances {
		if err := speedUp(in); err != nil {
			removeAll(instances)
			return nil, err
		}
	}
	for _, in := range instances {
		if err := awaitSentinel(in, replicas, sentinels-1); err != nil {
			err = fmt.Errorf("%w\n%s", err, in.log(0))
			removeAll(instances)
			return nil, err
		}
	}
	return instances, nil
}

// hastyDownAfter is after how long sentinel i regards the master as down, without a calm
// Config.
//
// The sentinels notice the failure one after the other, and the one that completes the
// quorum is the only candidate: several at a time split the votes, which costs seconds.
func hastyDownAfter(i int) time.Duration { return time.Duration(700+300*i) * time.Millisecond }

// Hasten makes the sentinels regard a master as down after about a second, from now on,
// whatever the Config said.
func (s *Sentinel) Hasten() {
	s.t.Helper()
	for i, sentinel := range s.sentinels {
		client := redis.NewClient(sentinel.in.options())
		err := client.Do(s.t.Context(), "SENTINEL", "SET", MasterName, "down-after-milliseconds", hastyDownAfter(i).Milliseconds()).Err()
		_ = client.Close()
		fatal.If(s.t, err)
	}
}

// speedUp makes a sentinel ping and gossip more often than every few seconds. The
// sentinel loses the setting when it restarts.
//
// The ping period, in milliseconds, must be well below the time after which a master is
// down, as a new master is pinged first after one period. Five periods must be well
// below the second between INFOs of a replica while its master is down: with older
// INFOs a replica is not promoted.
func speedUp(sentinel *instance) error {
	client := redis.NewClient(sentinel.options())
	defer client.Close()
	return client.Do(context.Background(), "SENTINEL", "DEBUG",
		"INFO-PERIOD", 200, "PUBLISH-PERIOD", 200, "PING-PERIOD", 300).Err()
}

// awaitSentinel waits until a sentinel knows that many replicas and other sentinels,
// and could promote each of the replicas.
func awaitSentinel(in *instance, replicas, others int) error {
	client := redis.NewClient(in.options())
	defer client.Close()
	return eventually(func(ctx context.Context) error {
		for _, list := range []struct {
			name, flags string
			want        int
		}{{"REPLICAS", "slave", replicas}, {"SENTINELS", "sentinel", others}} {
			entries, err := client.Do(ctx, "SENTINEL", list.name, MasterName).Slice()
			if err != nil {
				return fmt.Errorf("SENTINEL %s on %s: %w", list.name, in.addr(), err)
			}
			reached := 0
			for _, entry := range entries {
				if fields, ok := entry.(map[any]any); ok && fields["flags"] == list.flags && fields["master-link-status"] != "err" {
					reached++
				}
			}
			if reached != list.want {
				return fmt.Errorf("sentinel %s reaches %d of %d %s", in.addr(), reached, list.want, list.name)
			}
		}
		return nil
	})
}
