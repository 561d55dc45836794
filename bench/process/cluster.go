package process

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// slots is the number of slots of a Redis Cluster.
const slots = 16384

// Cluster is a Redis Cluster, whose nodes have their files in folders of their own.
type Cluster struct {
	// Masters have equal shares of the slots, in order. Replicas are theirs, one each, or none.
	Masters, Replicas []*Redis
}

// StartCluster starts a cluster in which each master has a replica or none, and waits until
// all nodes serve.
func StartCluster(ctx context.Context, folder func() (string, error), masters int, replicated bool) (*Cluster, error) {
	c := &Cluster{}
	nodes := masters
	if replicated {
		nodes *= 2
	}
	for i := range nodes {
		node, err := startNode(ctx, folder)
		if err != nil {
			return nil, errors.Join(err, c.Stop())
		}
		if i < masters {
			c.Masters = append(c.Masters, node)
		} else {
			c.Replicas = append(c.Replicas, node)
		}
	}
	if err := c.join(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("form a cluster: %w", err), c.Stop())
	}
	return c, nil
}

func startNode(ctx context.Context, folder func() (string, error)) (*Redis, error) {
	own, err := folder()
	if err != nil {
		return nil, err
	}
	ports, err := process.Reserve(2)
	if err != nil {
		return nil, err
	}
	return startRedis(ctx, own, ports, "--cluster-enabled", "yes", "--cluster-port", ports.Number(1), "--cluster-node-timeout", "1000",
		"--cluster-require-full-coverage", "no")
}

// join makes a cluster of nodes that do not know each other.
func (c *Cluster) join(ctx context.Context) error {
	nodes := c.Nodes()
	for i, n := range nodes {
		if err := n.Client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
		for _, other := range nodes[:i] {
			if err := n.Client.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", other.ports.Number(0), other.ports.Number(1)).Err(); err != nil {
				return err
			}
		}
	}
	for i, n := range c.Masters {
		if err := n.Client.ClusterAddSlotsRange(ctx, slots*i/len(c.Masters), slots*(i+1)/len(c.Masters)-1).Err(); err != nil {
			return err
		}
	}
	for i, n := range c.Replicas {
		id, err := c.Masters[i].Client.ClusterMyID(ctx).Result()
		if err != nil {
			return err
		}
		if err := n.Await("a replica", process.Patience, func() error { return n.Client.ClusterReplicate(ctx, id).Err() }); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		if err := n.Await("in the cluster", process.Patience, func() error { return n.joined(ctx, len(nodes)) }); err != nil {
			return err
		}
	}
	return nil
}

// joined returns nil if the node serves and knows all of that many.
func (r *Redis) joined(ctx context.Context, nodes int) error {
	state, err := r.Client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for _, want := range []string{"cluster_state:ok\r\n", fmt.Sprintf("cluster_known_nodes:%d\r\n", nodes), fmt.Sprintf("cluster_slots_ok:%d\r\n", slots)} {
		if !strings.Contains(state, want) {
			return fmt.Errorf("%s lacks %q:\n%s", r.Address, want, state)
		}
	}
	if info, err := r.Client.InfoMap(ctx, "replication").Result(); err != nil || info["Replication"]["role"] == "slave" && info["Replication"]["master_link_status"] != "up" {
		return fmt.Errorf("%s has no link to its master: %v", r.Address, err)
	}
	return nil
}

// Nodes are all, masters first.
func (c *Cluster) Nodes() []*Redis { return append(append([]*Redis(nil), c.Masters...), c.Replicas...) }

// URL is for the service's flag.
func (c *Cluster) URL() string {
	var addresses []string
	for _, n := range c.Nodes() {
		addresses = append(addresses, n.Address)
	}
	return "redis://" + strings.Join(addresses, ",") + "?cluster=true"
}

// Stop stops all nodes.
func (c *Cluster) Stop() (err error) {
	for _, n := range c.Nodes() {
		err = errors.Join(err, n.Stop())
	}
	return err
}
