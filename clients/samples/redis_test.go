//go:build unix

package samples

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// quiet drops the driver's log about connections.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() { goredis.SetLogger(quiet{}) }

// redisSource is a set with the source redis.
func redisSource(t testing.TB, r Redis, change ...func(*Source)) *Set {
	t.Helper()
	s := Source{Redis: &r, Timeout: Duration(maxTimeout), Reuse: new(Duration)}
	for _, f := range change {
		f(&s)
	}
	return newSet(t, Config{Sources: map[string]Source{"redis": s}})
}

func TestLengthsOfARealRedis(t *testing.T) {
	server := redistest.Shared(t)
	client, prefix, ctx := server.Client(t), redistest.Prefix(t), t.Context()
	list, set, stream, trimmed := prefix+"list", prefix+"set", prefix+"stream", prefix+"trimmed"
	fatal.If(t,
		client.RPush(ctx, list, "a", "b", "c").Err(),
		client.ZAdd(ctx, set, goredis.Z{Score: 1, Member: "a"}, goredis.Z{Score: 5, Member: "b"}, goredis.Z{Score: 9, Member: "c"}).Err(),
	)
	add := func(key string, n int) (last string) {
		for range n {
			id, err := client.XAdd(ctx, &goredis.XAddArgs{Stream: key, Values: []string{"k", "v"}}).Result()
			fatal.If(t, err)
			last = id
		}
		return last
	}
	read := func(key, group string, n int64) {
		fatal.If(t, client.XReadGroup(ctx, &goredis.XReadGroupArgs{Group: group, Consumer: "c", Streams: []string{key, ">"}, Count: n}).Err())
	}
	add(stream, 3)
	fatal.If(t, client.XGroupCreate(ctx, stream, "workers", "0").Err(), client.XGroupCreate(ctx, stream, "idle", "0").Err())
	read(stream, "workers", 2)
	add(stream, 2)
	// An undelivered entry is deleted: Redis no longer knows the group's lag.
	add(trimmed, 2)
	fatal.If(t, client.XGroupCreate(ctx, trimmed, "workers", "0").Err())
	read(trimmed, "workers", 1)
	deleted := add(trimmed, 1)
	add(trimmed, 1)
	fatal.If(t, client.XDel(ctx, trimmed, deleted).Err())

	sources := redisSource(t, Redis{Addresses: []string{server.Addr()}})
	for _, c := range []struct {
		name    string
		query   Query
		want    []string
		outcome Outcome
		text    string
	}{
		{name: "a list", query: Query{List: list}, want: []string{"3"}},
		{name: "a list that is not there is empty, as Redis drops empty ones", query: Query{List: prefix + "none"}, want: []string{"0"}},
		{name: "a sorted set", query: Query{SortedSet: set}, want: []string{"3"}},
		{name: "from a score", query: Query{SortedSet: set, MinScore: "5"}, want: []string{"2"}},
		{name: "to below a score", query: Query{SortedSet: set, MaxScore: "(5"}, want: []string{"1"}},
		{name: "between scores", query: Query{SortedSet: set, MinScore: "(1", MaxScore: "+inf"}, want: []string{"2"}},
		{name: "the lag of a group", query: Query{Stream: stream, Group: "workers"}, want: []string{"3"}},
		{name: "with what is pending", query: Query{Stream: stream, Group: "workers", Pending: true}, want: []string{"5"}},
		{name: "the lag of another group", query: Query{Stream: stream, Group: "idle"}, want: []string{"5"}},
		{name: "a lag that Redis does not know is no zero", query: Query{Stream: trimmed, Group: "workers"}, outcome: Invalid, text: "does not know the group's lag"},
		{name: "a group that is not there", query: Query{Stream: stream, Group: "others"}, outcome: Invalid, text: "no consumer group of that name"},
		{name: "a stream that is not there", query: Query{Stream: prefix + "none", Group: "workers"}, outcome: Refused, text: "it answered ERR: there is no stream at the key"},
		{name: "a key of another type", query: Query{List: set}, outcome: Refused, text: "it answered WRONGTYPE: the key has another type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.query.Source = "redis"
			before := time.Now()
			got, err := sources.Samples(t.Context(), c.query)
			if c.outcome != "" {
				wantFailure(t, err, c.outcome, c.text)
				return
			}
			if err != nil || !reflect.DeepEqual(values(got), c.want) {
				t.Fatalf("got %v and error %v, want %v", values(got), err, c.want)
			}
			if at := got[0].Timestamp; at.Before(before) || at.After(time.Now()) {
				t.Errorf("the timestamp is %s", at)
			}
		})
	}
}

func TestPasswordsAndTLSOfARealRedis(t *testing.T) {
	redistest.Require(t)
	files := redistest.NewTLS(t)
	server := redistest.Start(t, redistest.Config{TLS: files, Directives: []string{"user reader on >geheim %R~* -@all +llen"}})
	password := write(t, "falsch")
	sources := redisSource(t, Redis{
		Addresses: []string{server.Addr()}, Username: "reader", PasswordFile: password,
		TLS: &TLS{CAFile: files.CAFile, CertFile: files.ClientCertFile, KeyFile: files.ClientKeyFile},
	})
	list := Query{Source: "redis", List: "q"}
	_, err := sources.Samples(t.Context(), list)
	wantFailure(t, err, Refused, "it answered WRONGPASS: check username and passwordFile")
	rewrite(t, password, "geheim\n")
	for range 2 {
		if got, err := sources.Samples(t.Context(), list); err != nil || !reflect.DeepEqual(values(got), []string{"0"}) {
			t.Fatalf("with the right password: %v, %v", values(got), err)
		}
		closeAll(t, server)
	}
	_, err = sources.Samples(t.Context(), Query{Source: "redis", SortedSet: "q"})
	wantFailure(t, err, Refused, "it answered NOPERM")

	bare := redisSource(t, Redis{Addresses: []string{server.Addr()}, TLS: &TLS{CAFile: files.CAFile}})
	_, err = bare.Samples(t.Context(), list)
	wantFailure(t, err, Unreachable, "")
	clear := redisSource(t, Redis{Addresses: []string{server.Addr()}})
	_, err = clear.Samples(t.Context(), list)
	wantFailure(t, err, Unreachable, "")
	unread := redisSource(t, Redis{Addresses: []string{server.Addr()}, PasswordFile: "/nowhere/password", TLS: &TLS{
		CAFile: files.CAFile, CertFile: files.ClientCertFile, KeyFile: files.ClientKeyFile,
	}})
	_, err = unread.Samples(t.Context(), list)
	wantFailure(t, err, Unprepared, "passwordFile can't be read")
}

// closeAll has a Redis close the connections of others, as one does that starts anew: they cost no query.
func closeAll(t *testing.T, server *redistest.Server) {
	t.Helper()
	fatal.If(t, server.Client(t).Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
}

func TestWhatARealRedisRefusesIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		directive string
		server    func(*Redis)
		want      string
	}{
		"a database that is not there": {"databases 2", func(r *Redis) { r.Database = 2 }, "it answered ERR: it has no such database"},
		"a renamed command":            {`rename-command LLEN ""`, func(*Redis) {}, "it answered ERR: it does not know a command"},
		"a node of a Cluster":          {"cluster-enabled yes", func(*Redis) {}, "it answered CLUSTERDOWN: its Cluster has too few nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := Redis{Addresses: []string{redistest.Start(t, redistest.Config{Directives: []string{c.directive}}).Addr()}}
			c.server(&settings)
			_, err := redisSource(t, settings).Samples(t.Context(), Query{Source: "redis", List: "q"})
			wantFailure(t, err, Refused, c.want)
		})
	}
}

func TestARealClusterFindsTheKeysNode(t *testing.T) {
	cluster := redistest.SharedCluster(t)
	client, ctx := cluster.Client(t), t.Context()
	sources := redisSource(t, Redis{Addresses: cluster.Addrs(), Cluster: true})
	one, moved := redisSource(t, Redis{Addresses: cluster.Addrs()[:1]}), false
	prefix := redistest.Prefix(t)
	for _, slot := range []string{"a", "b", "c", "d", "e", "f"} { // on several nodes
		key := prefix + slot
		fatal.If(t, client.XAdd(ctx, &goredis.XAddArgs{Stream: key, Values: []string{"k", "v"}}).Err(), client.XGroupCreate(ctx, key, "g", "0").Err())
		got, err := sources.Samples(ctx, Query{Source: "redis", Stream: key, Group: "g"})
		if err != nil || !reflect.DeepEqual(values(got), []string{"1"}) {
			t.Fatalf("stream %s: %v, %v", slot, values(got), err)
		}
		if _, err := one.Samples(ctx, Query{Source: "redis", List: key}); err != nil && !strings.Contains(err.Error(), "WRONGTYPE") {
			wantFailure(t, err, Refused, "it answered MOVED: it is a node of a Cluster")
			moved = true
		}
		if got, err := sources.Samples(ctx, Query{Source: "redis", List: key + "-list"}); err != nil || !reflect.DeepEqual(values(got), []string{"0"}) {
			t.Fatalf("list %s: %v, %v", slot, values(got), err)
		}
	}
	if !moved {
		t.Error("no key of six is on another node than the first")
	}
	fatal.If(t, client.ForEachShard(ctx, func(ctx context.Context, node *goredis.Client) error {
		return node.Do(ctx, "acl", "setuser", "reader", "on", ">geheim", "~*", "+llen").Err()
	}))
	reader := redisSource(t, Redis{Addresses: cluster.Addrs(), Cluster: true, Username: "reader", PasswordFile: write(t, "geheim"), InsecureCredentials: true})
	_, err := reader.Samples(ctx, Query{Source: "redis", List: "q"})
	wantFailure(t, err, Refused, "and CLUSTER SLOTS of a Cluster")
}

func TestARealRedisThatComesAndGoes(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	sources := redisSource(t, Redis{Addresses: []string{server.Addr()}})
	list := Query{Source: "redis", List: "q"}
	ask := func() error { _, err := sources.Samples(t.Context(), list); return err }
	fatal.If(t, ask())
	closeAll(t, server)
	fatal.If(t, ask())
	server.Kill()
	var e *Error
	if err := ask(); !errors.As(err, &e) || e.Outcome != Unreachable {
		t.Fatalf("while it is away: %v", err)
	}
	server.Restart()
	eventually(t, "it answers again", func() bool { return ask() == nil })
	server.Pause()
	defer server.Resume()
	hung := redisSource(t, Redis{Addresses: []string{server.Addr()}}, func(s *Source) { s.Timeout = Duration(brief) })
	_, err := hung.Samples(t.Context(), list)
	wantFailure(t, err, Timeout, "within its timeout of 50ms")
	asked, leave := context.WithTimeout(t.Context(), brief)
	defer leave()
	_, err = sources.Samples(asked, list)
	wantFailure(t, err, Timeout, "")
	began := time.Now()
	sources.Close()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it takes %s to give up a query with a timeout of %s", took, maxTimeout)
	}
}

func TestARedisThatQuotesThePasswordIsNotQuoted(t *testing.T) {
	address := raw(t, func(c net.Conn) {
		buffer := make([]byte, 4096)
		for {
			if _, err := c.Read(buffer); err != nil {
				return
			}
			if _, err := io.WriteString(c, "-ERR unknown command 'AUTH', with args beginning with: 'geheim'\r\n"); err != nil {
				return
			}
		}
	})
	sources := redisSource(t, Redis{Addresses: []string{address}, PasswordFile: write(t, "geheim"), InsecureCredentials: true})
	_, err := sources.Samples(t.Context(), Query{Source: "redis", List: "q"})
	if err == nil || strings.Contains(err.Error(), "geheim") {
		t.Fatalf("got %v", err)
	}
}

func TestQueriesToRedisThatCanNotBe(t *testing.T) {
	set := redisSource(t, Redis{Addresses: []string{"localhost:6379"}})
	for _, c := range []struct {
		name  string
		query Query
		want  string
	}{
		{"nothing", Query{}, "must have exactly one of list, sortedSet and stream"},
		{"two", Query{List: "a", SortedSet: "b"}, "must have exactly one of"},
		{"a long key", Query{List: strings.Repeat("x", 1025)}, "list: is longer than 1024"},
		{"no group", Query{Stream: "s"}, "group: is required"},
		{"a group of no stream", Query{List: "l", Group: "g"}, "stream: is required with group"},
		{"pending of no stream", Query{List: "l", Pending: true}, "stream: is required with group and pending"},
		{"scores of a list", Query{List: "l", MinScore: "1"}, "minScore: applies to a sortedSet only"},
		{"a score that is none", Query{SortedSet: "s", MaxScore: "now"}, "maxScore: must be a number"},
		{"a score that is NaN", Query{SortedSet: "s", MinScore: "NaN"}, "minScore: must be a number"},
		{"zero", Query{List: "l", EmptyIsZero: true}, "emptyIsZero: does not apply here"},
		{"a field of others", Query{List: "l", Query: "up"}, "query: is for a source of prometheus, and redis is one of redis"},
	} {
		c.query.Source = "redis"
		if err := set.CheckQuery(c.query); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	err := set.Check([]Metric{{Spec: podsMetric("m"), Query: Query{Source: "redis", List: "l"}}})
	if err == nil || !strings.Contains(err.Error(), "Pods:m.source: is a Redis, which has no values of pods") {
		t.Errorf("a Pods metric: %v", err)
	}
	if q, err := parseQuery(map[string]any{"source": "redis", "sortedSet": "s", "minScore": 5.0, "maxScore": "(7.5"}); err != nil || q.MinScore != "5" || q.MaxScore != "(7.5" {
		t.Errorf("scores of a policy block: %+v, %v", q, err)
	}
}

func TestRedisThatCanNotBe(t *testing.T) {
	for _, c := range []struct {
		name  string
		redis Redis
		want  string
	}{
		{"no address", Redis{}, "addresses: is required"},
		{"no port", Redis{Addresses: []string{"redis"}}, "addresses[0]: must be host:port"},
		{"a URL", Redis{Addresses: []string{"redis://u:geheim@h:1"}}, "addresses[0]: must be host:port"},
		{"a password", Redis{Addresses: []string{"geheim@h:1"}}, "addresses[0]: must be host:port"},
		{"a port that is none", Redis{Addresses: []string{"h:70000"}}, "addresses[0]: must be host:port"},
		{"several servers", Redis{Addresses: []string{"a:1", "b:1"}}, "addresses: are several"},
		{"cluster and sentinels", Redis{Addresses: []string{"a:1"}, Cluster: true, Master: "m"}, "master: and cluster exclude"},
		{"a database of a cluster", Redis{Addresses: []string{"a:1"}, Cluster: true, Database: 1}, "database: must be 0"},
		{"a user without password", Redis{Addresses: []string{"a:1"}, Username: "u"}, "passwordFile: is required with username"},
		{"a password in the clear", Redis{Addresses: []string{"a:1"}, PasswordFile: "/p"}, "tls: is not set, and the password would travel"},
		{"half a certificate", Redis{Addresses: []string{"a:1"}, TLS: &TLS{KeyFile: "/k"}}, "tls.certFile: and keyFile"},
	} {
		err := Config{Sources: map[string]Source{"r": {Redis: &c.redis}}}.Validate()
		if err == nil || !strings.Contains(err.Error(), "sources.r.redis."+c.want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}
