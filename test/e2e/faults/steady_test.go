package faults

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// Without any calls readiness still follows Redis.
func TestAnIdleServiceNoticesByItself(t *testing.T) {
	t.Parallel()
	for _, f := range aways {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := f.rig(t)
			s := r.start(t)
			end := f.begin(t, r)
			noticed := kit.Eventually(t, notice, "not ready", func() error { return s.readiness(t, false) })
			end()
			t.Logf("not ready after %v, ready after %v", brief(noticed), brief(s.awaitReady(t)))
			s.awaitLogged(t, "store away: not ready")
			s.awaitLogged(t, "store answers: ready")
		})
	}
}

// A stream lives through an outage: its items are refused, then answered again.
func TestAStreamOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	for _, f := range aways {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := f.rig(t)
			s := r.start(t)
			b := newBook()
			stream, err := s.recommendations.StreamRecommend(t.Context())
			must(t, err)
			n := 0
			ask := func() error {
				n++
				e := b.request(probe)
				must(t, stream.Send(&setpointv1.StreamRecommendRequest{Id: fmt.Sprint(n), Request: e.request}))
				answer, err := stream.Recv()
				must(t, err)
				if answer.GetError() != nil {
					return status.ErrorProto(answer.GetError())
				}
				return b.told(e, answer.GetResponse())
			}
			must(t, ask())
			end := f.begin(t, r)
			for range 3 {
				refused(t, unavailable, ask())
			}
			end()
			t.Logf("answered again after %v", brief(kit.Eventually(t, notice, "answered again", ask)))
			must(t, stream.CloseSend())
			s.awaitReady(t)
			b.retryAll(t, s)
			b.check(t, r)
		})
	}
}

// A Redis that accepts no more clients serves existing ones.
func TestOpenConnectionsAreServedByAFullRedis(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.Config{})
	// A connection that is given up because the machine stands still can't be replaced.
	s := r.start(t, generous, func(su *setup) { su.redis.PoolSize = 1 })
	b := newBook()
	must(t, s.recommend(t.Context(), b, b.request(probe)))
	r.do(t, "CONFIG", "SET", "maxclients", 1)
	kit.Eventually(t, notice, "Redis takes nobody", func() error { return refusesClients(r.redis.Addr()) })
	for range 5 {
		must(t, s.recommend(t.Context(), b, b.request(probe)))
	}
	s.awaitReady(t)
	b.check(t, r)
}

// Writes must reach a replica, and it hangs. They happen, and count once the replica has them.
func TestAWriteThatNoReplicaHasIsRefusedAndFoundLater(t *testing.T) {
	t.Parallel()
	for _, a := range askings {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			r, replica := newRig(t, redistest.Config{}), newRig(t, redistest.Config{})
			replica.prefix = r.prefix
			host, port, err := net.SplitHostPort(r.redis.Addr())
			must(t, err)
			replica.do(t, "REPLICAOF", host, port)
			kit.Eventually(t, notice, "the replica follows", func() error {
				if state := replica.info(t, "replication", "master_link_status"); state != "up" {
					return errors.New(state)
				}
				return nil
			})
			s := r.start(t, generous, func(su *setup) { su.redis.WaitReplicas, su.redis.WaitTimeout = 1, 2*time.Second })
			b := newBook()
			names := []string{target("one"), target("two")}
			must(t, a.ask(t.Context(), s, b, b.requests(names...))...)
			replica.redis.Pause()
			start := time.Now()
			refused(t, unavailable, a.ask(t.Context(), s, b, b.requests(names...))...)
			took := time.Since(start)
			replica.redis.Resume()
			works := kit.Eventually(t, notice, "calls succeed again", func() error { return s.recommend(t.Context(), b, b.request(names[0])) })
			t.Logf("refused after %v, calls succeed after %v", brief(took), brief(works))
			b.retryAll(t, s)
			b.check(t, r)
			b.check(t, replica)
		})
	}
}
