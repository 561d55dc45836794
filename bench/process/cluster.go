package process

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

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
	if err := c.join(); err != nil {
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
func (c *Cluster) join() error {
	var nodes []redistest.Node
	for _, n := range c.Nodes() {
		nodes = append(nodes, redistest.Node{Client: n.Client, Port: n.ports.Number(0), BusPort: n.ports.Number(1)})
	}
	return redistest.Join(nodes, len(c.Masters), len(c.Replicas)/len(c.Masters))
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
