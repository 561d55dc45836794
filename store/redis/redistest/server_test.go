//go:build unix

package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func set(t *testing.T, client redis.Cmdable, key, value string) {
	t.Helper()
	if err := client.Set(t.Context(), key, value, 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func wantValue(t *testing.T, client redis.Cmdable, key, want string) {
	t.Helper()
	if got, err := client.Get(t.Context(), key).Result(); err != nil || got != want {
		t.Fatalf("%s is %q, %v, want %q", key, got, err, want)
	}
}

func TestServerComesBackWithItsData(t *testing.T) {
	t.Parallel()
	s := Start(t, Config{Directives: []string{"appendonly yes", "appendfsync always"}})
	addr, dir, pid, client := s.Addr(), s.Dir(), s.Pid(), s.Client(t)
	set(t, client, "killed", "1")
	s.Kill()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("it answers after Kill")
	}
	if s.Pid() != 0 {
		t.Errorf("process %d after Kill", s.Pid())
	}
	s.Kill()
	s.Restart()
	wantValue(t, client, "killed", "1")
	if s.Addr() != addr || s.Dir() != dir || s.Pid() == pid || s.Pid() == 0 {
		t.Errorf("at %s in %s as %d, was at %s in %s as %d", s.Addr(), s.Dir(), s.Pid(), addr, dir, pid)
	}

	set(t, client, "stopped", "2")
	s.Stop()
	s.Stop()
	s.Restart()
	wantValue(t, client, "stopped", "2")

	set(t, client, "restarted", "3")
	s.Restart()
	wantValue(t, client, "restarted", "3")
}

func TestServerForgetsWithoutDirectives(t *testing.T) {
	t.Parallel()
	s := Start(t, Config{})
	client := s.Client(t)
	set(t, client, "key", "value")
	s.Stop()
	s.Restart()
	if got, err := client.Get(t.Context(), "key").Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("key is %q, %v", got, err)
	}
}

func TestPausedServerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := Start(t, Config{})
	client := s.Client(t)
	hasty := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: 50 * time.Millisecond, MaxRetries: -1})
	defer hasty.Close()
	for range 3 {
		set(t, client, "key", "value")
		s.Pause()
		var timeout net.Error
		if err := hasty.Get(t.Context(), "key").Err(); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Fatalf("Get of a paused server: %v, want a timeout", err)
		}
		s.Resume()
		wantValue(t, client, "key", "value")
	}
	s.Pause()
	s.Stop()
	s.Restart()
	s.Pause()
	s.Kill()
	s.Restart()
	s.Pause()
	s.Restart()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestPasswordAndUsers(t *testing.T) {
	t.Parallel()
	s := Start(t, Config{Password: `p "w" /`, Directives: []string{"user app on >secret ~app:* +@all"}})
	login := func(username, password string) *redis.Client {
		client := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: username, Password: password})
		t.Cleanup(func() { client.Close() })
		return client
	}
	if err := login("", "").Ping(t.Context()).Err(); err == nil {
		t.Error("it needs no password")
	}
	options, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	set(t, login(options.Username, options.Password), "key", "value")
	set(t, login("app", "secret"), "app:key", "value")
	if err := login("app", "secret").Set(t.Context(), "key", "value", 0).Err(); err == nil {
		t.Error("the user may set any key")
	}
	wantValue(t, s.Client(t), "key", "value")
}

func TestStartTakesAnotherPort(t *testing.T) {
	t.Parallel()
	Require(t)
	in, err := newInstance(spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.remove()
	second := &instance{spec: spec{}, dir: t.TempDir(), port: in.port}
	config := strings.Join(second.config(), "\n")
	if err := os.WriteFile(filepath.Join(second.dir, configName), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := second.start(); !errors.Is(err, errPortTaken) {
		t.Errorf("a second server on port %d: %v, want %v, upon which newInstance takes another", in.port, err, errPortTaken)
	}
	if second.pid() != 0 {
		t.Errorf("process %d stays", second.pid())
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	Require(t)
	in, err := newInstance(spec{Config: Config{Directives: []string{"no-such-directive yes"}}})
	if err == nil {
		in.remove()
		t.Fatal("it started")
	}
	if !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("%v does not show Redis's own words", err)
	}
}

// logger is a test whose failure and log are known.
type logger struct {
	testing.TB
	failed   bool
	log      strings.Builder
	cleanups []func()
}

func (l *logger) Helper()                      {}
func (l *logger) Failed() bool                 { return l.failed }
func (l *logger) Cleanup(f func())             { l.cleanups = append(l.cleanups, f) }
func (l *logger) Logf(format string, a ...any) { fmt.Fprintf(&l.log, format, a...) }

func TestServerEndsWithItsTest(t *testing.T) {
	t.Parallel()
	for _, failed := range []bool{false, true} {
		l := &logger{TB: t, failed: failed}
		s := Start(l, Config{})
		addr, dir := s.Addr(), s.Dir()
		for i := len(l.cleanups) - 1; i >= 0; i-- {
			l.cleanups[i]()
		}
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			t.Errorf("%s still listens", addr)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, want it removed", dir, err)
		}
		if logged := strings.Contains(l.log.String(), "Ready to accept connections"); logged != failed {
			t.Errorf("failed %v: the server's log is shown: %v", failed, logged)
		}
	}
}
