package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/store/redis"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// put replaces a file, as Kubernetes and editors do.
func put(t *testing.T, path, text string) {
	t.Helper()
	fatal.If(t, os.WriteFile(path+".new", []byte(text), 0o600))
	fatal.If(t, os.Rename(path+".new", path))
}

// loaded is a store under load, with the files that it follows.
type loaded struct {
	redisStore
	logged *observer.ObservedLogs
}

// What fails with a certificate that has expired does not name it: the log does.
func TestAnExpiredCertificateIsAnError(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		after time.Duration
		level zapcore.Level
		text  string
	}{{time.Hour, zapcore.WarnLevel, "expires soon"}, {-time.Second, zapcore.ErrorLevel, "has expired"}} {
		core, logged := observer.New(zapcore.InfoLevel)
		logExpiry(zap.New(core), "the certificate")(time.Now().Add(of.after))
		if got := logged.All(); len(got) != 1 || got[0].Level != of.level || !strings.Contains(got[0].Message, of.text) {
			t.Errorf("%s: %+v", of.after, got)
		}
	}
}

func openLoaded(t *testing.T, change func(*redisSettings)) *loaded {
	t.Helper()
	s := redisSettings{Options: redis.DefaultOptions()}
	s.KeyPrefix, s.Timeout = redistest.Prefix(t), time.Minute
	change(&s)
	s.validate(func(flag, format string, args ...any) { t.Fatalf("--%s: %s", flag, fmt.Sprintf(format, args...)) })
	core, logged := observer.New(zapcore.InfoLevel)
	opened, err := s.open(memory.Options{TTL: time.Hour, LogLength: 10, FeedLength: -1}, zap.New(core))
	fatal.If(t, err)
	l := &loaded{opened, logged}
	ctx, cancel := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_ = l.swap(ctx, fmt.Sprintf("load-%d-%d", i, n)) // it may fail while the secret is another
				time.Sleep(time.Millisecond)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		callers.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func (l *loaded) swap(ctx context.Context, target string) error {
	_, err := l.CompareAndSwap(ctx, store.Swap{Key: store.Key{Cluster: "c", Namespace: "n", Target: target}, Value: []byte("value")})
	return err
}

// mustSwap fails the test unless the next call succeeds: nobody has to wait for the next
// look at the files.
func (l *loaded) mustSwap(t *testing.T, target string) {
	t.Helper()
	if err := l.swap(t.Context(), target); err != nil {
		t.Errorf("%s: %v", target, err)
	}
}

// leaksNot fails the test if the log has one of the secrets.
func (l *loaded) leaksNot(t *testing.T, secrets ...string) {
	t.Helper()
	for _, line := range l.logged.All() {
		for _, secret := range secrets {
			if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, secret) {
				t.Errorf("logged: %s", text)
			}
		}
	}
}

// disconnect closes the connections of all users but the administrator.
func disconnect(t *testing.T, c *goredis.Client) {
	t.Helper()
	fatal.If(t, c.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
}

// A password that was rotated, in the file and in Redis, is used by the next call.
func TestRedisPasswordIsFollowed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{Directives: []string{"user default off", "user setpoint on >first-secret ~* +@all"}})
	admin := server.Client(t)
	file := filepath.Join(t.TempDir(), "password")
	put(t, file, "first-secret\n")
	l := openLoaded(t, func(s *redisSettings) {
		s.URLs, s.PasswordFile = []string{"redis://setpoint@" + server.Addr()}, file
	})
	l.mustSwap(t, "before")
	for _, password := range []string{"second-secret", "third-secret"} {
		put(t, file, password)
		fatal.If(t, admin.Do(t.Context(), "acl", "setuser", "setpoint", "resetpass", ">"+password).Err())
		disconnect(t, admin)
		l.mustSwap(t, password)
	}
	put(t, file, "") // in the middle of a write
	disconnect(t, admin)
	l.mustSwap(t, "the last password stays")
	l.leaksNot(t, "first-secret", "second-secret", "third-secret")
}

// A new authority, with which Redis was started again, is trusted, and its client
// certificate shown, by the next call.
func TestRedisCertificatesAreFollowed(t *testing.T) {
	t.Parallel()
	certificates := redistest.NewTLS(t)
	server := redistest.Start(t, redistest.Config{TLS: certificates})
	l := openLoaded(t, func(s *redisSettings) {
		s.URLs, s.TLSFiles.CAFile = []string{server.URL()}, certificates.CAFile
		s.TLSFiles.CertFile, s.TLSFiles.KeyFile = certificates.ClientCertFile, certificates.ClientKeyFile
	})
	l.mustSwap(t, "before")
	was := l.files.status().certs.NotAfter
	for range 2 {
		server.Stop()
		certificates.Renew(t)
		server.Restart()
		eventuallySwaps(t, l)
	}
	s := l.files.status()
	if s.certs.Reloads != 2 || s.certs.Err != nil || s.certs.CAsNotAfter.IsZero() || was.IsZero() {
		t.Errorf("%+v", s.certs)
	}
	got := gathered(t, edgeCollector{redis: l.files.status})
	for _, name := range []string{"redis_client", "redis_ca"} {
		if at := got["setpoint_certificate_expiry_timestamp_seconds{certificate="+name+"}"]; at < float64(time.Now().Unix()) {
			t.Errorf("%s expires at %v", name, at)
		}
	}
	if got["setpoint_file_reloads_total{file=redis_certificates,outcome=success}"] != 2 {
		t.Errorf("%v", got)
	}
}

// eventuallySwaps is mustSwap for a server that was away: the breaker lets it be for a second.
func eventuallySwaps(t *testing.T, l *loaded) {
	t.Helper()
	began := time.Now()
	for {
		err := l.swap(t.Context(), fmt.Sprint("after ", began.UnixNano()))
		if err == nil {
			t.Logf("again after %v", time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// So are the passwords for Redis and for its sentinels behind these.
func TestSentinelPasswordIsFollowed(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 1, 1, redistest.Config{Calm: true, SentinelPassword: "first-secret"})
	file := filepath.Join(t.TempDir(), "password")
	put(t, file, "first-secret")
	url, _, _ := strings.Cut(sentinel.URL(), "&sentinelPassword")
	l := openLoaded(t, func(s *redisSettings) { s.URLs, s.SentinelPasswordFile = []string{url}, file })
	l.mustSwap(t, "before")
	put(t, file, "second-secret")
	for _, each := range sentinel.Sentinels() {
		admin := each.Client(t)
		fatal.If(t, admin.Do(t.Context(), "acl", "setuser", "default", "resetpass", ">second-secret").Err())
		disconnect(t, admin)
		fatal.If(t, admin.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
	}
	disconnect(t, sentinel.Master().Client(t))
	eventuallySwaps(t, l)
	l.leaksNot(t, "first-secret", "second-secret")
}

func TestRedisFilesThatCantBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	put(t, empty, "\n")
	for name, tt := range map[string]struct {
		change func(*redisSettings)
		want   string
	}{
		"no password":                 {func(s *redisSettings) { s.PasswordFile = empty }, "--redis-password-file: the file is empty"},
		"no file of it":               {func(s *redisSettings) { s.PasswordFile = dir + "/none" }, "--redis-password-file: stat " + dir + "/none: no such file or directory"},
		"none of the sentinels'":      {func(s *redisSettings) { s.SentinelPasswordFile = dir + "/none" }, "--redis-sentinel-password-file: stat " + dir + "/none: no such file or directory"},
		"authorities without any":     {func(s *redisSettings) { s.TLSFiles.CAFile = empty }, "--redis-tls-ca-file: " + empty},
		"a certificate that is empty": {func(s *redisSettings) { s.TLSFiles.CertFile, s.TLSFiles.KeyFile = empty, empty }, "--redis-tls-cert-file: " + empty},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redisSettings{Options: redis.DefaultOptions()}
			s.URLs = []string{"rediss://127.0.0.1:1"}
			tt.change(&s)
			if _, err := s.open(memory.Options{TTL: time.Hour, LogLength: 10, FeedLength: 10}, zap.NewNop()); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// Of many that Redis refuses at once, all hear of a new password: those, too, that ask after
// another one has found it.
func TestAllThatAreRefusedHearOfANewPassword(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	put(t, file, "first-secret")
	s := redisSettings{Options: redis.DefaultOptions()}
	s.PasswordFile = file
	f, err := s.openFiles(zap.NewNop())
	fatal.If(t, err)
	defer f.close()
	if f.renew(t.Context()) {
		t.Error("there is no other password yet")
	}
	put(t, file, "second-secret")
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for range 2 {
				if !f.renew(t.Context()) || f.password.Load() != "second-secret" {
					t.Error("did not hear of the new password")
				}
			}
		})
	}
	asking.Wait()
	if at := f.changed.Load().String(); !strings.Contains(at, "m=") {
		t.Errorf("changed at %s, by a clock that may be set back", at)
	}
}
