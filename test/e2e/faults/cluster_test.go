package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// shards is how many masters a cluster has.
const shards = 3

// clusterRig is a Redis Cluster, with direct access to each of its nodes.
type clusterRig struct {
	cluster *redistest.Cluster
	nodes   []*goredis.Client
	prefix  string
}

// newClusterRig starts a cluster that keeps its data over a crash.
func newClusterRig(t *testing.T, lines ...string) *clusterRig {
	t.Helper()
	config := redistest.Config{Directives: append([]string{"appendonly yes", "appendfsync always"}, lines...)}
	r := &clusterRig{cluster: redistest.StartCluster(t, shards, 0, config), prefix: redistest.Prefix(t)}
	for _, server := range r.cluster.Servers() {
		r.nodes = append(r.nodes, server.Client(t))
	}
	return r
}

// shard returns the number of the node that has the target, -1 if none has.
func (r *clusterRig) shard(t *testing.T, target string) int {
	t.Helper()
	return slices.IndexFunc(r.nodes, func(node *goredis.Client) bool { return recordKey(t, node, r.prefix, target) != "" })
}

func (r *clusterRig) history(t testing.TB, target string) *record.Record {
	t.Helper()
	for _, node := range r.nodes {
		if key := recordKey(t, node, r.prefix, target); key != "" {
			raw, err := node.Get(t.Context(), key).Result()
			fatal.If(t, err)
			return decodeRecord(t, raw)
		}
	}
	return &record.Record{}
}

// shardAways are ways that one shard is away, and its return.
var shardAways = []struct {
	name  string
	begin func(*redistest.Server) (end func())
}{
	{"killed", func(s *redistest.Server) func() { s.Kill(); return s.Restart }},
	{"hanging", func(s *redistest.Server) func() { s.Pause(); return s.Resume }},
}

// partial leaves the other shards of a cluster alone when one is away.
const partial = "cluster-require-full-coverage no"

func TestAShardThatIsAwayFailsItsItemsOnly(t *testing.T) {
	t.Parallel()
	for _, away := range shardAways {
		t.Run(away.name, func(t *testing.T) {
			t.Parallel()
			r := newClusterRig(t, partial)
			s := startService(t, r.cluster.URL(), r.prefix)
			s.awaitReady(t)
			b := newBook()
			var known, unknown []string
			for i := range 40 {
				known = append(known, target(fmt.Sprint("known-", i)))
				unknown = append(unknown, target(fmt.Sprint("unknown-", i)))
			}
			fatal.If(t, s.batch(t.Context(), b, b.requests(known...))...)
			fatal.If(t, s.batch(t.Context(), b, b.requests(known...))...)
			const lost = 1
			end := away.begin(r.cluster.Servers()[lost])
			shardOf := make(map[string]int)
			for round := range 2 {
				for _, a := range askings[1:] {
					targets := known
					if round == 1 {
						targets = append(slices.Clone(known), unknown...)
					}
					asked := b.requests(targets...)
					start := time.Now()
					errs := a.ask(t.Context(), s, b, asked)
					took := time.Since(start)
					failed := 0
					for i, err := range errs {
						if err == nil {
							shardOf[targets[i]] |= 1
							continue
						}
						failed++
						shardOf[targets[i]] |= 2
						if problem := refusal(err, unavailable); problem != nil {
							t.Errorf("%s of %s: %v", a.name, targets[i], problem)
						}
					}
					t.Logf("%s: %d of %d refused in %v", a.name, failed, len(errs), brief(took))
					if failed == 0 || failed > len(errs)*2/3 {
						t.Errorf("%s: %d of %d are refused", a.name, failed, len(errs))
					}
					if bound := 2 * patience; took > bound {
						t.Errorf("%s took %v", a.name, took)
					}
				}
			}
			// It is of use to the targets of the other shards, and says what it lacks.
			kit.Eventually(t, notice, "ready in part", func() error { return s.inPart(t) })
			end()
			works := kit.Eventually(t, notice, "all shards answer", func() error {
				for _, name := range known {
					if err := s.recommend(t.Context(), b, b.request(name)); err != nil {
						return err
					}
				}
				return nil
			})
			t.Logf("calls succeed after %v, ready after %v", brief(works), brief(works+s.awaitReady(t)))
			b.retryAll(t, s)
			b.check(t, r)
			for name, outcomes := range shardOf {
				if want := map[bool]int{true: 2, false: 1}[r.shard(t, name) == lost]; outcomes != want {
					t.Errorf("%s is on shard %d and its calls succeeded and failed by %b", name, r.shard(t, name), outcomes)
				}
			}
			if stats := s.store.Stats(); stats.BreakersOpen != 0 {
				t.Errorf("%+v", stats)
			}
			if t.Failed() {
				for _, line := range s.logs.FilterMessage("store failed").All() {
					t.Log(line.Time, line.ContextMap())
				}
			}
		})
	}
}
