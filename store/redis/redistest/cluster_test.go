//go:build unix

package redistest

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"Plain":   {Calm: true},
		"Secured": {Password: "secret", TLS: NewTLS(t), Calm: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			c := StartCluster(t, 3, 1, cfg)
			t.Logf("3 masters with 1 replica each: %v", time.Since(began))
			checkSlots(t, c)
			checkFailover(t, c)
		})
	}
}

// checkSlots checks that all servers know who has which slots.
func checkSlots(t *testing.T, c *Cluster) {
	masters, replicas := c.Masters(), c.Replicas()
	if len(masters) != 3 || len(replicas) != 3 || len(c.Servers()) != 6 {
		t.Fatalf("%d masters, %d replicas, %d servers", len(masters), len(replicas), len(c.Servers()))
	}
	byRole := map[string][]string{"master": addrs(masters), "replica": addrs(replicas)}
	for _, s := range c.Servers() {
		shards, err := s.Client(t).ClusterShards(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		covered := 0
		for _, shard := range shards {
			for _, slots := range shard.Slots {
				covered += int(slots.End - slots.Start + 1)
			}
			var roles []string
			for _, node := range shard.Nodes {
				roles = append(roles, node.Role)
				addr := address(int(max(node.Port, node.TLSPort)))
				if !slices.Contains(byRole[node.Role], addr) {
					t.Errorf("%s is no %s", addr, node.Role)
				}
			}
			if slices.Sort(roles); !slices.Equal(roles, []string{"master", "replica"}) {
				t.Errorf("slots %v are on %v, want a master and a replica", shard.Slots, roles)
			}
		}
		if covered != slotCount || len(shards) != 3 {
			t.Errorf("%s: %d slots in %d shards", s.Addr(), covered, len(shards))
		}
	}
}

// checkFailover kills the master of a key and checks that another serves it, and
// that the killed one can come back.
func checkFailover(t *testing.T, c *Cluster) {
	client := c.Client(t)
	set(t, client, "key", "value")
	killed := c.MasterForKey("key")
	killed.Kill()
	if masters := c.Masters(); len(masters) != 2 || slices.Contains(masters, killed) {
		t.Errorf("masters %v with %s killed", addrs(masters), killed.Addr())
	}
	c.Hasten() // till now none was to take over
	began := time.Now()
	for client.Set(t.Context(), "key", "second value", 0).Err() != nil {
		if time.Since(began) > startTimeout {
			t.Fatal("no replica took over")
		}
		time.Sleep(pollInterval)
	}
	t.Logf("a replica took over after %v", time.Since(began))
	if masters := c.Masters(); len(masters) != 3 || c.MasterForKey("key") == killed {
		t.Errorf("masters %v, the key's is %s", addrs(masters), c.MasterForKey("key").Addr())
	}
	killed.Restart()
	for !slices.Contains(c.Replicas(), killed) {
		if time.Since(began) > 2*startTimeout {
			t.Fatal("the former master is no replica")
		}
		time.Sleep(pollInterval)
	}
}

func TestSharedCluster(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := SharedCluster(t)
	t.Logf("3 masters: %v", time.Since(began))
	if masters := c.Masters(); len(masters) != 3 || len(c.Replicas()) != 0 {
		t.Errorf("masters %v, replicas %v", addrs(masters), addrs(c.Replicas()))
	}
	a := c.Addrs()
	if want := fmt.Sprintf("redis://%s,%s,%s?cluster=true", a[0], a[1], a[2]); c.URL() != want {
		t.Errorf("URL %s, want %s", c.URL(), want)
	}
	prefix, client := Prefix(t), c.Client(t)
	before := CommandStats(t, client)["set"]
	for i := range 100 {
		set(t, client, fmt.Sprint(prefix, i), "value")
	}
	if calls := CommandStats(t, client)["set"] - before; calls != 100 {
		t.Errorf("%d calls of set in all the cluster, want 100", calls)
	}
	wantValue(t, SharedCluster(t).Client(t), prefix+"1", "value")
}
