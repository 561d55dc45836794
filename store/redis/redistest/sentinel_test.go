//go:build unix

package redistest

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestSentinelPromotesAReplica(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"Plain":   {Calm: true},
		"Secured": {Password: "secret", SentinelPassword: "another", TLS: NewTLS(t), Calm: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			s := StartSentinel(t, 2, 3, cfg)
			t.Logf("master, 2 replicas, 3 sentinels: %v", time.Since(began))
			if s.Master() != s.Servers()[0] || len(s.Servers()) != 3 || len(s.Sentinels()) != 3 {
				t.Fatalf("master %s of %v, sentinels %v", s.Master().Addr(), addrs(s.Servers()), s.Addrs())
			}
			client := failoverClient(t, s, cfg)
			set(t, client, "key", "value")
			if n, err := client.Wait(t.Context(), 2, startTimeout).Result(); err != nil || n != 2 {
				t.Fatalf("%d replicas have the key, %v", n, err)
			}

			s.Hasten()
			began = time.Now()
			killed := s.KillMaster()
			for client.Set(t.Context(), "key", "second value", 0).Err() != nil {
				if time.Since(began) > startTimeout {
					t.Fatal("no replica was promoted")
				}
				time.Sleep(pollInterval)
			}
			t.Logf("promoted after %v", time.Since(began))
			if master := s.Master(); master == killed || master.role() != "master" {
				t.Errorf("master %s, role %q, killed %s", master.Addr(), master.role(), killed.Addr())
			}

			killed.Restart()
			for killed.role() != "slave" {
				if time.Since(began) > 2*startTimeout {
					t.Fatal("the former master is no replica")
				}
				time.Sleep(pollInterval)
			}
			t.Logf("the former master is a replica after %v", time.Since(began))
		})
	}
}

func failoverClient(t *testing.T, s *Sentinel, cfg Config) *redis.Client {
	options := &redis.FailoverOptions{
		MasterName: MasterName, SentinelAddrs: s.Addrs(), SentinelPassword: cfg.SentinelPassword, Password: cfg.Password,
	}
	if cfg.TLS != nil {
		options.TLSConfig = cfg.TLS.Config()
	}
	client := redis.NewFailoverClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

func TestSentinelURL(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t, 1, 1, Config{Password: "secret", Calm: true})
	if want := fmt.Sprintf("redis://:secret@%s?master=%s", s.Addrs()[0], MasterName); s.URL() != want {
		t.Errorf("URL %s, want %s", s.URL(), want)
	}
}
