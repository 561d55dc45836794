package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// overrides calls the service of overrides.
func (s *service) overrides() setpointv1.OverrideServiceClient {
	return setpointv1.NewOverrideServiceClient(s.conn)
}

func (s *service) hold(ctx context.Context, parent, id string, expires time.Time) error {
	_, err := s.overrides().CreateOverride(ctx, &setpointv1.CreateOverrideRequest{Parent: parent, OverrideId: id, Override: &setpointv1.Override{
		Hold: true, Reason: "migration", ExpireTime: timestamppb.New(expires),
	}})
	return err
}

func (s *service) release(ctx context.Context, parent, id string) error {
	_, err := s.overrides().DeleteOverride(ctx, &setpointv1.DeleteOverrideRequest{Name: parent + "/overrides/" + id})
	return err
}

// heldBy makes a decision that wants more replicas, and returns the id of the override that holds it, "" for none.
func (s *service) heldBy(ctx context.Context, target string) (id string, err error) {
	answer, err := s.recommendations.Recommend(ctx, with(wants(target, "", current+5), func(r *setpointv1.RecommendRequest) { r.RequestId = "" }))
	if err != nil {
		return "", err
	}
	for _, a := range answer.GetAdjustments() {
		if _, after, ok := strings.Cut(a.GetMessage(), "(override "); ok && a.GetRule() == "hold" {
			id, _, _ = strings.Cut(after, " ")
			id, _, _ = strings.Cut(id, ")")
		}
	}
	if held := answer.GetDesiredReplicas() == current; held != (id != "") {
		return id, fmt.Errorf("%d replicas although %q holds: %v", answer.GetDesiredReplicas(), id, answer.GetAdjustments())
	}
	return id, nil
}

// deed is a call about overrides, with its outcome.
type deed struct {
	// what is create, delete, list or decide; id the override's, of a decision the one that held it.
	what, id string
	target   string
	from, to time.Time
	expires  time.Time
	// code of the answer; listed are the ids of a list.
	code   codes.Code
	listed []string
}

// certain reports whether it is known whether the call has changed something.
func (d *deed) certain() bool {
	return d.code == codes.OK || d.code == codes.NotFound || d.code == codes.AlreadyExists
}

type deeds struct {
	mu  sync.Mutex
	all []*deed // guarded by mu
	// outages are from when to when Redis was away, for one service at least.
	outages []outage
}

type outage struct{ from, to time.Time }

// follows reports whether instances know of a change that was acknowledged then: grace has passed since, or since the
// end of an outage in which they could not read it.
func (l *deeds) follows(acknowledged, at time.Time) bool {
	for _, o := range l.outages {
		if acknowledged.Before(o.to) && at.After(o.from) && at.Before(o.to.Add(grace)) {
			return false
		}
	}
	return at.After(acknowledged.Add(grace))
}

func (l *deeds) do(d *deed, call func() error) error {
	d.from = time.Now()
	err := call()
	d.to, d.code = time.Now(), status.Code(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, d)
	return err
}

// existence is the model of one override: whether there is one.
var existence = porcupine.Model{
	Init: func() any { return false },
	Step: func(state, input, output any) (bool, any) {
		there, d := state.(bool), input.(*deed)
		switch {
		case d.what == "list":
			return there == output.(bool), there
		case d.what == "create" && d.code == codes.AlreadyExists:
			return there, there
		case d.what == "create":
			return true, true
		case d.code == codes.NotFound:
			return !there, there
		case d.code == codes.OK:
			return there, false
		}
		return true, false // a deletion of unknown outcome
	},
	Equal: func(a, b any) bool { return a == b },
}

// checkExistence fails the test unless creations, deletions and lists of each override that did not expire have an
// order that explains them.
func (l *deeds) checkExistence(t *testing.T) (checked int) {
	t.Helper()
	byID := map[string][]porcupine.Operation{}
	last := time.Now().Add(time.Hour).UnixNano()
	ids := map[string]bool{}
	for _, d := range l.all {
		if d.what == "create" && strings.HasPrefix(d.id, "long-") {
			ids[d.target+" "+d.id] = true
		}
	}
	for _, d := range l.all {
		switch {
		case d.what == "list" && d.code == codes.OK:
			for id := range ids {
				if target, name, _ := strings.Cut(id, " "); target == d.target {
					byID[id] = append(byID[id], porcupine.Operation{Input: d, Output: slices.Contains(d.listed, name), Call: d.from.UnixNano(), Return: d.to.UnixNano()})
				}
			}
		case (d.what == "create" || d.what == "delete") && ids[d.target+" "+d.id]:
			to := d.to.UnixNano()
			if !d.certain() {
				to = last
			}
			byID[d.target+" "+d.id] = append(byID[d.target+" "+d.id], porcupine.Operation{Input: d, Call: d.from.UnixNano(), Return: to})
		}
	}
	for id, operations := range byID {
		operations = nearChanges(operations)
		if result := porcupine.CheckOperationsTimeout(existence, operations, 20*time.Second); result == porcupine.Unknown {
			t.Errorf("whether an order explains the %d calls about %s could not be found out", len(operations), id)
		} else if result == porcupine.Illegal {
			var lines []string
			for _, o := range operations {
				d := o.Input.(*deed)
				lines = append(lines, fmt.Sprintf("%s %v–%v %s %v", d.what, d.from.Format("05.000"), d.to.Format("05.000"), d.code, o.Output))
			}
			t.Errorf("no order explains the calls about %s:\n%s", id, strings.Join(lines, "\n"))
		}
	}
	return len(byID)
}

// nearChanges leaves out the lists before the first change and those long after the last one that ended, but for some.
func nearChanges(operations []porcupine.Operation) []porcupine.Operation {
	var first, last int64
	for _, o := range operations {
		if d := o.Input.(*deed); d.what != "list" {
			if first == 0 || o.Call < first {
				first = o.Call
			}
			last = max(last, d.to.UnixNano())
		}
	}
	const near = int64(2 * time.Second)
	return slices.DeleteFunc(operations, func(o porcupine.Operation) bool {
		return o.Input.(*deed).what == "list" && (o.Return < first-near || o.Call > last+near && o.Call/1e6%10 > 0)
	})
}

// grace is how long after an acknowledged change an instance may decide without it: a read a second, one that takes
// a second, and a busy machine.
const grace = 3 * time.Second

// clocks is how far an instance's idea of Redis' time may be off: half of a round trip on a busy machine.
const clocks = 300 * time.Millisecond

// checkDecisions fails the test for a decision that an override held that was not there or had expired, or none did
// although there was one.
func (l *deeds) checkDecisions(t *testing.T) (held, free int, latest time.Duration) {
	t.Helper()
	type life struct {
		*deed
		created, deleting, deleted time.Time // zero: not, or nobody knows
	}
	lives := map[string]*life{}
	for _, d := range l.all {
		key := d.target + " " + d.id
		switch d.what {
		case "create":
			one := lives[key]
			if one == nil {
				one = &life{deed: d}
				lives[key] = one
			}
			if d.code == codes.OK && one.created.IsZero() {
				one.created = d.to
			}
		}
	}
	for _, d := range l.all {
		one := lives[d.target+" "+d.id]
		if d.what != "delete" || one == nil || d.code == codes.NotFound && one.deleting.IsZero() {
			continue
		}
		if one.deleting.IsZero() || d.from.Before(one.deleting) {
			one.deleting = d.from
		}
		if (d.code == codes.OK || d.code == codes.NotFound) && one.deleted.IsZero() {
			one.deleted = d.to
		}
	}
	for _, d := range l.all {
		if d.what != "decide" || d.code != codes.OK {
			continue
		}
		if d.id != "" {
			held++
			one := lives[d.target+" "+d.id]
			switch {
			case one == nil || d.to.Before(one.from):
				t.Errorf("a decision on %s is held by %s, which nobody has created", d.target, d.id)
			case d.from.After(one.expires.Add(clocks)):
				t.Errorf("a decision on %s is held by %s, which had expired %s before", d.target, d.id, d.from.Sub(one.expires))
			case !one.deleted.IsZero() && l.follows(one.deleted, d.from):
				t.Errorf("a decision on %s is held by %s, which was deleted %s before", d.target, d.id, d.from.Sub(one.deleted))
			case !one.deleted.IsZero() && d.from.After(one.deleted):
				latest = max(latest, d.from.Sub(one.deleted))
			}
			continue
		}
		free++
		for _, one := range lives {
			if one.target != d.target || one.created.IsZero() || !d.from.After(one.created) || !d.to.Before(one.expires) || !one.deleting.IsZero() && one.deleting.Before(d.to) {
				continue
			}
			if late := d.from.Sub(one.created); l.follows(one.created, d.from) {
				t.Errorf("a decision on %s is not held by %s, which was created %s before", d.target, one.id, late)
			} else {
				latest = max(latest, late)
			}
		}
	}
	return held, free, latest
}

// Two instances, one of which has a clock that is 20 seconds behind, or ahead, on a Redis that is killed time and
// again: callers of both create, delete and list overrides, and have decisions made below them. Creations, deletions
// and lists are linearizable, so none that was acknowledged is lost and none comes back; decisions follow within a
// second and a period; and none is held after the end of an override by the clock of Redis, which is this
// machine's.
func TestOverridesAreLinearizableWhileRedisIsKilled(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"behind": -20 * time.Second, "ahead": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			linearizable(t, skew)
		})
	}
}

// between is the pause before a call is tried again: one of unknown outcome may take effect at any time later, and many
// such calls have many orders.
const between = 250 * time.Millisecond

func linearizable(t *testing.T, skew time.Duration) {
	r := newRig(t, redistest.Config{Directives: []string{"appendonly yes", "appendfsync always"}})
	services := []*service{r.startBeside(t), r.startBeside(t, func(su *setup) {
		su.options.Clock = func() time.Time { return time.Now().Add(skew) }
	})}
	var l deeds
	working, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var done atomic.Int64
	for w := range 3 {
		name := target(fmt.Sprint("held-", w))
		any := func() *service { return services[rand.IntN(len(services))] }
		call := func(d *deed, f func(ctx context.Context) error) error {
			ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
			defer cancel()
			d.target = name
			defer done.Add(1)
			return l.do(d, func() error { return f(ctx) })
		}
		var latest atomic.Value // the id that may be deleted
		latest.Store("long-none")
		workers.Go(func() { // creates, and ends most
			for n := 0; working.Err() == nil; n++ {
				id, expires := fmt.Sprint("long-", n), time.Now().Add(time.Hour).Truncate(time.Millisecond)
				if n%3 == 2 { // and one that ends by itself
					id, expires = fmt.Sprint("short-", n), time.Now().Add(2500*time.Millisecond).Truncate(time.Millisecond)
				}
				for working.Err() == nil {
					if call(&deed{what: "create", id: id, expires: expires}, func(ctx context.Context) error { return any().hold(ctx, name, id, expires) }) == nil {
						break
					}
					if !time.Now().Before(expires) {
						break
					}
					<-time.After(between)
				}
				latest.Store(id)
				<-time.After(time.Duration(rand.IntN(1500)) * time.Millisecond)
				if n%3 == 2 {
					<-time.After(time.Until(expires) + time.Second)
					continue
				}
				<-time.After(grace + time.Duration(rand.IntN(1000))*time.Millisecond)
				for working.Err() == nil {
					err := call(&deed{what: "delete", id: id}, func(ctx context.Context) error { return any().release(ctx, name, id) })
					if err == nil || status.Code(err) == codes.NotFound {
						break
					}
					<-time.After(between)
				}
				<-time.After(time.Duration(rand.IntN(2000)) * time.Millisecond)
			}
		})
		workers.Go(func() { // lists, deletes what another one has created, and creates it twice
			for n := 0; working.Err() == nil; n++ {
				d := &deed{what: "list"}
				_ = call(d, func(ctx context.Context) error {
					page, err := any().overrides().ListOverrides(ctx, &setpointv1.ListOverridesRequest{Parent: "clusters/demo", PageSize: 1000})
					for _, o := range page.GetOverrides() {
						if id, ok := strings.CutPrefix(o.GetName(), name+"/overrides/"); ok {
							d.listed = append(d.listed, id)
						}
					}
					return err
				})
				if id := latest.Load().(string); n%40 == 39 && strings.HasPrefix(id, "long-") {
					_ = call(&deed{what: "delete", id: id}, func(ctx context.Context) error { return any().release(ctx, name, id) })
				}
				<-time.After(20 * time.Millisecond)
			}
		})
		for _, s := range services {
			workers.Go(func() {
				for working.Err() == nil {
					d := &deed{what: "decide"}
					err := call(d, func(ctx context.Context) (err error) {
						d.id, err = s.heldBy(ctx, name)
						return err
					})
					if err != nil && status.Code(err) == codes.Unknown {
						t.Error(err)
					}
					<-time.After(30 * time.Millisecond)
				}
			})
		}
	}
	calls := func(n int64) {
		want := done.Load() + n
		kit.Eventually(t, notice, "calls go on", func() error {
			if got := done.Load(); got < want {
				return fmt.Errorf("%d calls are left", want-got)
			}
			return nil
		})
	}
	const kills = 4
	for range kills {
		<-time.After(3 * time.Second)
		calls(100)
		killed := time.Now()
		r.redis.Kill()
		<-time.After(time.Duration(200+rand.IntN(1000)) * time.Millisecond)
		r.redis.Restart()
		for _, s := range services {
			s.awaitReady(t)
		}
		l.outages = append(l.outages, outage{killed, time.Now()})
	}
	<-time.After(3 * time.Second)
	calls(100)
	stop()
	workers.Wait()
	checked := l.checkExistence(t)
	held, free, latest := l.checkDecisions(t)
	t.Logf("%d calls about %d overrides, %d kills; %d decisions held and %d free, an instance followed after %v at most", len(l.all), checked, kills, held, free, brief(latest))
	if checked < 3 || held < 50 || free < 50 {
		t.Error("too few to have shown anything")
	}
}

// Of a Redis Cluster the master with the list of a cluster is killed, and a replica takes its place: what was
// acknowledged holds on each instance, also on a new one, and changes act again.
func TestOverridesFollowAFailover(t *testing.T) {
	t.Parallel()
	config := redistest.Config{Directives: []string{"appendonly yes", "appendfsync always", partial}}
	cluster, prefix := redistest.StartCluster(t, shards, 1, config), redistest.Prefix(t)
	start := func() *service {
		s := startService(t, cluster.URL(), prefix)
		s.awaitReady(t)
		return s
	}
	services := []*service{start(), start()}
	shop := "clusters/demo/namespaces/shop"
	acts := func(when, want string) (slowest time.Duration) {
		t.Helper()
		for i, s := range services {
			slowest = max(slowest, kit.Eventually(t, notice, fmt.Sprintf("%s, instance %d", when, i), func() error {
				id, err := s.heldBy(t.Context(), target("web"))
				if err == nil && id != want {
					err = fmt.Errorf("held by %q, want %q", id, want)
				}
				return err
			}))
		}
		return slowest
	}
	eventually := func(what string, f func() error) {
		t.Helper()
		kit.Eventually(t, notice, what, f)
	}
	eventually("created", func() error {
		return services[0].hold(t.Context(), shop, "first", time.Now().Truncate(time.Hour).Add(2*time.Hour))
	})
	acts("created", "first")
	cluster.Hasten()
	withList := func(of []*redistest.Server) *redistest.Server {
		for _, node := range of {
			keys, err := node.Client(t).Keys(t.Context(), prefix+"*}v*:demo/-/-").Result()
			fatal.If(t, err)
			if len(keys) > 0 {
				return node
			}
		}
		return nil
	}
	lost := withList(cluster.Masters())
	if lost == nil {
		t.Fatal("no master has the list")
	}
	// Replication in a Cluster waits for nobody.
	eventually("a replica has the list", func() error {
		if withList(cluster.Replicas()) == nil {
			return errors.New("none has it")
		}
		return nil
	})
	began := time.Now()
	lost.Kill()
	eventually("a change after the failover", func() error {
		err := services[1].hold(t.Context(), target("web"), "second", time.Now().Truncate(time.Hour).Add(2*time.Hour))
		if err != nil && refusal(err, unavailable) != nil {
			t.Fatal(err)
		}
		return err
	})
	t.Logf("changed %v after the master was killed", brief(time.Since(began)))
	lost.Restart()
	services = append(services, start())
	for _, s := range services {
		eventually("the list after the failover", func() error {
			page, err := s.overrides().ListOverrides(t.Context(), &setpointv1.ListOverridesRequest{Parent: "clusters/demo"})
			if err == nil && len(page.GetOverrides()) != 2 {
				t.Fatalf("listed are %v", page.GetOverrides())
			}
			return err
		})
	}
	eventually("a deletion after the failover", func() error {
		err := services[0].release(t.Context(), shop, "first")
		if status.Code(err) == codes.NotFound {
			return nil
		}
		return err
	})
	t.Logf("a deletion acts everywhere after %v", brief(acts("deleted", "second")))
}

// The model tells histories in which something was lost, or came back, from those that are in order.
func TestTheModelOfOverridesCanFail(t *testing.T) {
	create, remove := &deed{what: "create"}, &deed{what: "delete"}
	gone, unknown, list := &deed{what: "delete", code: codes.NotFound}, &deed{what: "delete", code: codes.Unavailable}, &deed{what: "list"}
	type step struct {
		d    *deed
		seen bool
	}
	for name, c := range map[string]struct {
		steps []step
		want  bool
	}{
		"in order":                            {[]step{{list, false}, {create, false}, {list, true}, {remove, false}, {list, false}, {gone, false}}, true},
		"acknowledged and lost":               {[]step{{create, false}, {list, false}}, false},
		"lost, and a delete says so":          {[]step{{create, false}, {gone, false}}, false},
		"deleted and back":                    {[]step{{create, false}, {remove, false}, {list, true}}, false},
		"never created":                       {[]step{{list, true}}, false},
		"deleted by a call without an answer": {[]step{{create, false}, {unknown, false}, {list, true}, {list, false}}, true},
		"back after that":                     {[]step{{create, false}, {unknown, false}, {list, false}, {list, true}}, false},
	} {
		var operations []porcupine.Operation
		for i, s := range c.steps {
			to := int64(10*i + 5)
			if !s.d.certain() {
				to = 1000
			}
			operations = append(operations, porcupine.Operation{Input: s.d, Output: s.seen, Call: int64(10 * i), Return: to})
		}
		if got := porcupine.CheckOperations(existence, operations); got != c.want {
			t.Errorf("%s: explained %v, want %v", name, got, c.want)
		}
	}
}
