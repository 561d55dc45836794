//go:build unix

package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

const slotCount = 16384

// Cluster is a Redis Cluster.
type Cluster struct {
	t       testing.TB
	servers []*Server
}

// StartCluster starts a cluster in which the masters have equal shares of the slots and
// replicas that are in step. It takes the 2 s that Redis makes a new master wait. A
// master that is down for a second is failed over if enough masters are left, unless
// cfg is Calm.
func StartCluster(t testing.TB, masters, replicasPerMaster int, cfg Config) *Cluster {
	t.Helper()
	Require(t)
	instances, err := formCluster(masters, replicasPerMaster, cfg)
	fatal.If(t, err)
	return &Cluster{t: t, servers: each(t, instances, own)}
}

// hastyNodeTimeout is how long a master may be down, without a calm Config.
const hastyNodeTimeout = time.Second

// Hasten makes the running servers fail over a master that is down for a second, from now
// on, whatever the Config said.
func (c *Cluster) Hasten() {
	c.t.Helper()
	for _, s := range c.servers {
		if !s.in.answers() {
			continue
		}
		client := redis.NewClient(s.in.options())
		err := client.ConfigSet(c.t.Context(), "cluster-node-timeout", fmt.Sprint(hastyNodeTimeout.Milliseconds())).Err()
		_ = client.Close()
		fatal.If(c.t, err)
	}
}

// Addrs returns the addresses of all servers, host and port each.
func (c *Cluster) Addrs() []string { return addrs(c.servers) }

// URL returns the URL of the cluster with all its servers.
func (c *Cluster) URL() string {
	return clientURL(c.servers[0].in.Config, c.servers...) + "?cluster=true"
}

// Servers returns all servers, first the original masters, in the order of their slots.
func (c *Cluster) Servers() []*Server { return slices.Clone(c.servers) }

// Masters returns the masters now, in the order of Servers: the running servers that
// report this role. A former master that comes back says so until it hears of the
// other.
func (c *Cluster) Masters() []*Server {
	c.t.Helper()
	return withRole(c.servers, "master")
}

// Replicas returns the replicas now, on the terms of Masters.
func (c *Cluster) Replicas() []*Server {
	c.t.Helper()
	return withRole(c.servers, "slave")
}

// Client returns a client of the whole cluster with all rights, whatever users and
// passwords the Config sets. It is closed when t ends.
func (c *Cluster) Client(t testing.TB) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(c.options())
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("Close of the client of the cluster: %v", err)
		}
	})
	return client
}

func (c *Cluster) options() *redis.ClusterOptions {
	node := c.servers[0].in.options()
	return &redis.ClusterOptions{
		Addrs:         c.Addrs(),
		Username:      node.Username,
		Password:      node.Password,
		TLSConfig:     node.TLSConfig,
		DialerRetries: node.DialerRetries,
		DialTimeout:   node.DialTimeout,
		ReadTimeout:   node.ReadTimeout,
		WriteTimeout:  node.WriteTimeout,
		// By default a client keeps using a master that is gone for a minute.
		ClusterStateReloadInterval: 100 * time.Millisecond,
		ContextTimeoutEnabled:      true,
		DisableIdentity:            true,
		MaintNotificationsConfig:   node.MaintNotificationsConfig,
	}
}

// Node is a server on loopback that becomes part of a cluster.
type Node struct {
	Client        *redis.Client
	Port, BusPort string
}

// formCluster starts the masters, then the replicas of the first, of the second and so
// on.
func formCluster(masters, replicasPerMaster int, cfg Config) ([]*instance, error) {
	away := hastyNodeTimeout
	if cfg.Calm {
		away = calmAfter
	}
	specs := make([]spec, masters*(1+replicasPerMaster))
	for i := range specs {
		specs[i] = spec{Config: cfg, cluster: true, lines: []string{fmt.Sprint("cluster-node-timeout ", away.Milliseconds())}}
	}
	instances, err := startAll(specs)
	if err != nil {
		return nil, err
	}
	nodes := make([]Node, len(instances))
	for i, in := range instances {
		nodes[i] = Node{Client: redis.NewClient(in.options()), Port: in.port(), BusPort: in.ports.Number(1)}
		defer nodes[i].Client.Close()
	}
	if err := Join(nodes, masters, replicasPerMaster); err != nil {
		err = fmt.Errorf("forming a cluster of %d: %w\n%s", len(nodes), err, instances[0].log(0))
		removeAll(instances)
		return nil, err
	}
	return instances, nil
}

// Join makes a cluster of nodes that do not know each other: masters, then the replicas of the first, of the
// second and so on. It waits until all serve.
func Join(nodes []Node, masters, replicasPerMaster int) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for i, n := range nodes {
		// Different epochs from the start leave nothing to agree on.
		if err := n.cluster(ctx, "SET-CONFIG-EPOCH", i+1); err != nil {
			return err
		}
		if i < masters {
			if err := n.cluster(ctx, "ADDSLOTSRANGE", slotCount*i/masters, slotCount*(i+1)/masters-1); err != nil {
				return err
			}
		}
	}
	for i, n := range nodes {
		// Gossip would take a second or two to spread this.
		for _, other := range nodes[:i] {
			if err := n.cluster(ctx, "MEET", host, other.Port, other.BusPort); err != nil {
				return err
			}
		}
	}
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes[masters:] {
		master := nodes[i/replicasPerMaster]
		wg.Go(func() { errs[i] = n.replicate(ctx, master) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	for _, n := range nodes {
		err := eventually(func(ctx context.Context) error { return n.settled(ctx, len(nodes), masters) })
		if err != nil {
			return err
		}
	}
	return nil
}

// cluster sends a CLUSTER command.
func (n Node) cluster(ctx context.Context, args ...any) error {
	if err := n.Client.Do(ctx, append([]any{"CLUSTER"}, args...)...).Err(); err != nil {
		return fmt.Errorf("CLUSTER %v on %s: %w", args, n.Client.Options().Addr, err)
	}
	return nil
}

// replicate makes the node a replica once it knows the master.
func (n Node) replicate(ctx context.Context, master Node) error {
	id, err := master.Client.ClusterMyID(ctx).Result()
	if err != nil {
		return err
	}
	return eventually(func(ctx context.Context) error { return n.cluster(ctx, "REPLICATE", id) })
}

// settled returns nil if the node serves, its peers are reachable and have their roles,
// and, for a replica, it has its master's data.
func (n Node) settled(ctx context.Context, size, masters int) error {
	state, err := n.Client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	if !strings.Contains(state, "cluster_state:ok\r\n") {
		return fmt.Errorf("%s:\n%s", n.Client.Options().Addr, state)
	}
	shards, err := n.Client.ClusterShards(ctx).Result()
	if err != nil {
		return err
	}
	online := make(map[string]int) // nodes by role
	for _, shard := range shards {
		for _, member := range shard.Nodes {
			if member.Health == "online" {
				online[member.Role]++
			}
		}
	}
	if online["master"] != masters || online["replica"] != size-masters {
		return fmt.Errorf("%s reaches %v, not all %d: %+v", n.Client.Options().Addr, online, size, shards)
	}
	return linked(ctx, n.Client)
}

// linked returns nil if the server has its master's data, or is one.
func linked(ctx context.Context, client *redis.Client) error {
	fields, err := info(ctx, client, "replication")
	if err != nil {
		return err
	}
	if fields["role"] == "slave" && fields["master_link_status"] != "up" {
		return fmt.Errorf("%s has no link to its master", client.Options().Addr)
	}
	return nil
}
