package redis

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

var swapped = store.Key{Cluster: "c", Namespace: "n", Target: "t"}

func openOn(t *testing.T, url, prefix string, change func(*Options)) *Store {
	t.Helper()
	o, err := ParseURL(url)
	fatal.If(t, err)
	o.KeyPrefix, o.Timeout = prefix, time.Minute // however busy the machine is
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	fatal.If(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A swap that is sent again happens once: the scripts know the version that it chose.
func TestASwapThatIsSentAgainHappensOnce(t *testing.T) {
	t.Parallel()
	s := openOn(t, redistest.Shared(t).URL(), redistest.Prefix(t), nil)
	var to texts
	var old store.Version
	for _, step := range []string{"create", "swap"} {
		p := new(pendingSwap)
		p.begin(s.layout, &store.Swap{Key: swapped, Old: old, Value: []byte(step)}, &to)
		for sent := range 3 {
			p.result.Swapped = false
			if s.performSwaps(t.Context(), []*pendingSwap{p}); p.err != nil || !p.result.Swapped {
				t.Fatalf("%s, sent %d times: %+v, %v", step, sent+1, p.result, p.err)
			}
		}
		record, err := s.Load(t.Context(), swapped)
		if err != nil || string(record.Value) != step || record.Version != p.result.Record.Version {
			t.Fatalf("%s: %+v, %v", step, record, err)
		}
		old = record.Version
		if step == "swap" {
			continue
		}
		// Another's swap in between, and it is lost.
		if r, err := s.CompareAndSwap(t.Context(), store.Swap{Key: swapped, Old: old, Value: []byte("other")}); err != nil || !r.Swapped {
			t.Fatal(r, err)
		}
		p.result.Swapped = false
		if s.performSwaps(t.Context(), []*pendingSwap{p}); p.err != nil || p.result.Swapped {
			t.Fatalf("%s after another's swap: %+v, %v", step, p.result, p.err)
		}
		old = p.result.Record.Version
	}
}

// lossy forwards connections to an address, and loses replies when it is told to.
type lossy struct {
	// lose is the script whose next reply is to be lost, and its connection with it; nil: none.
	lose     atomic.Pointer[script]
	lost     atomic.Int32
	listener net.Listener
	// meanwhile is done when a reply is lost, before anybody knows.
	meanwhile func()
}

func newLossy(t *testing.T, address string) *lossy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	l := &lossy{listener: listener}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { l.serve(client, address) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); running.Wait() })
	return l
}

func (l *lossy) serve(client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	var sending sync.WaitGroup
	var asked atomic.Bool // the reply that comes next is that
	sending.Go(func() {
		_, _ = io.Copy(server, io.TeeReader(client, asking{l, &asked}))
		_ = server.Close()
	})
	defer sending.Wait()
	defer func() { _ = client.Close(); _ = server.Close() }()
	reply := make([]byte, 64<<10)
	for {
		n, err := server.Read(reply)
		if err != nil {
			return
		}
		if asked.Load() && l.lose.Swap(nil) != nil {
			l.lost.Add(1)
			if l.meanwhile != nil {
				l.meanwhile()
			}
			return
		}
		if _, err := client.Write(reply[:n]); err != nil {
			return
		}
	}
}

// asking notes that a client asks for the script whose reply is to be lost. Others' commands,
// such as a check of the connection, keep theirs.
type asking struct {
	l     *lossy
	asked *atomic.Bool
}

func (a asking) Write(b []byte) (int, error) {
	if s := a.l.lose.Load(); s != nil && bytes.Contains(b, []byte(s.hash.(string))) {
		a.asked.Store(true)
	}
	return len(b), nil
}

// known makes the record, and has the server know all scripts: that it does not know one is
// a reply, too.
func known(t *testing.T, s *Store) store.Record {
	t.Helper()
	var record store.Record
	for range 2 { // it is created, and swapped
		r, err := s.CompareAndSwap(t.Context(), store.Swap{Key: swapped, Old: record.Version, Value: []byte("a")})
		if err != nil || !r.Swapped {
			t.Fatal(r, err)
		}
		record = r.Record
	}
	if existed, err := s.Delete(t.Context(), swapped); err != nil || !existed {
		t.Fatal(existed, err)
	}
	r, err := s.CompareAndSwap(t.Context(), store.Swap{Key: swapped, Value: []byte("a")})
	if err != nil || !r.Swapped {
		t.Fatal(r, err)
	}
	return r.Record
}

// What was done although the reply was lost is done once: a swap is acknowledged, an
// entry of a log is not sent again, and of a delete nobody can tell: it is not sent a third time,
// which would delete what others have created since.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	at, err := ParseURL(server.URL())
	fatal.If(t, err)
	proxy := newLossy(t, at.Addresses[0])
	s := openOn(t, server.URL(), redistest.Prefix(t), func(o *Options) {
		o.Addresses, o.PoolSize = []string{proxy.listener.Addr().String()}, 1
	})
	warm := func() {
		t.Helper()
		if _, err := s.Load(t.Context(), swapped); err != nil {
			t.Fatal(err)
		}
	}
	lose := func(operation string, of *script, again uint64, do func()) {
		t.Helper()
		warm() // the connection is greeted
		before, sent := proxy.lost.Load(), s.Stats().Retries
		proxy.lose.Store(of)
		if do(); proxy.lost.Load() != before+1 {
			t.Errorf("%s: %d replies were lost", operation, proxy.lost.Load()-before)
		}
		if retries := s.Stats().Retries - sent; retries != again {
			t.Errorf("%s: sent again %d times, want %d", operation, retries, again)
		}
	}
	first := known(t, s)
	lose("swap", swapScript, 1, func() {
		r, err := s.CompareAndSwap(t.Context(), store.Swap{Key: swapped, Old: first.Version, Value: []byte("b")})
		if err != nil || !r.Swapped {
			t.Errorf("the swap: %+v, %v", r, err)
		}
	})
	entry := []store.LogEntry{{Key: swapped, Value: []byte("entry")}}
	fatal.If(t, s.AppendLog(t.Context(), entry))
	lose("append log", appendScript, 0, func() {
		if err := s.AppendLog(t.Context(), entry); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("the log: %v", err)
		}
	})
	if values, _, err := s.ReadLog(t.Context(), swapped, "", 10); err != nil || len(values) != 2 {
		t.Errorf("the log has %d entries, %v", len(values), err)
	}
	lose("delete", deleteScript, 1, func() {
		if _, err := s.Delete(t.Context(), swapped); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("the delete: %v", err)
		}
	})
	if record, err := s.Load(t.Context(), swapped); err != nil || record.Exists() {
		t.Errorf("after the delete: %v, %v", record, err)
	}
}

// Of a swap whose reply was lost and that another change has followed nobody can tell whether
// it happened: it is no race that was lost.
func TestASwapThatWasOvertakenIsInDoubt(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	at, err := ParseURL(server.URL())
	fatal.If(t, err)
	prefix := redistest.Prefix(t)
	proxy, other := newLossy(t, at.Addresses[0]), openOn(t, server.URL(), prefix, nil)
	proxy.meanwhile = func() {
		record, err := other.Load(context.Background(), swapped)
		if err != nil {
			t.Error(err)
		}
		if r, err := other.CompareAndSwap(context.Background(), store.Swap{Key: swapped, Old: record.Version, Value: []byte("theirs")}); err != nil || !r.Swapped {
			t.Errorf("the other's swap: %+v, %v", r, err)
		}
	}
	s := openOn(t, server.URL(), prefix, func(o *Options) {
		o.Addresses, o.PoolSize = []string{proxy.listener.Addr().String()}, 1
	})
	first := known(t, s)
	proxy.lose.Store(swapScript)
	sent := s.Stats().Retries
	r, err := s.CompareAndSwap(t.Context(), store.Swap{Key: swapped, Old: first.Version, Value: []byte("b")})
	if !errors.Is(err, store.ErrUnavailable) || r.Swapped || proxy.lost.Load() != 1 {
		t.Errorf("%+v, %v with %d replies lost, want an unknown outcome", r, err, proxy.lost.Load())
	}
	if retries := s.Stats().Retries - sent; retries != 1 {
		t.Errorf("sent again %d times, want 1", retries)
	}
}

// A full server takes a delete, which frees memory, and with it its instant.
func TestDeletionsOnAFullServerAreKnown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s := openOn(t, server.URL(), redistest.Prefix(t), nil)
	if _, err := s.CompareAndSwap(t.Context(), store.Swap{Key: swapped, Value: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, server.Client(t).ConfigSet(t.Context(), "maxmemory", "1").Err())
	if _, err := s.CompareAndSwap(t.Context(), store.Swap{Key: store.Key{Cluster: "c", Namespace: "n", Target: "other"}, Value: []byte("b")}); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("the server is not full: %v", err)
	}
	before := time.Now()
	if existed, err := s.Delete(t.Context(), swapped); err != nil || !existed {
		t.Fatalf("deleted: %t, %v", existed, err)
	}
	if at, err := s.DeletedAt(t.Context(), []store.Key{swapped}); err != nil || at[0].Before(before.Truncate(0)) || at[0].After(time.Now()) {
		t.Errorf("deleted at %v, %v", at, err)
	}
	if existed, err := s.Delete(t.Context(), swapped); err != nil || existed {
		t.Errorf("once more: %t, %v", existed, err)
	}
}

// A delete leaves its instant, also when the key is there again, and only if there was
// something to delete.
func TestDeletionsAreKnown(t *testing.T) {
	t.Parallel()
	s := openOn(t, redistest.Shared(t).URL(), redistest.Prefix(t), nil)
	other := store.Key{Cluster: "c", Namespace: "n", Target: "other"}
	for range 2 {
		if _, err := s.CompareAndSwap(t.Context(), store.Swap{Key: swapped, Value: []byte("a")}); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		for _, key := range []store.Key{swapped, other} {
			if _, err := s.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		at, err := s.DeletedAt(t.Context(), []store.Key{swapped, other})
		if err != nil || at[0].Before(before.Truncate(0)) || at[0].After(time.Now()) || !at[1].IsZero() {
			t.Errorf("deleted at %v, %v", at, err)
		}
	}
	if left, err := s.client.PTTL(t.Context(), s.layout.place(swapped).deletion()).Result(); err != nil || left <= 0 || left > endlessDeletionTTL {
		t.Errorf("it is known for %s, %v", left, err)
	}
	now, err := s.Time(t.Context())
	if d := time.Since(now).Abs(); err != nil || d > time.Minute {
		t.Errorf("the server's clock is %s off, %v", d, err)
	}
}

// The clock of the machine that deletes may be wrong: others compare the instant with when histories began.
func TestADeletionIsTimedByTheServersClock(t *testing.T) {
	t.Parallel()
	url, prefix := redistest.Shared(t).URL(), redistest.Prefix(t)
	known(t, openOn(t, url, prefix, nil))
	synctest.Test(t, func(t *testing.T) { // whose clock begins in the year 2000
		s := openOn(t, url, prefix, nil)
		if _, err := s.Delete(t.Context(), swapped); err != nil {
			t.Fatal(err)
		}
		at, err := s.DeletedAt(t.Context(), []store.Key{swapped})
		now, timeErr := s.Time(t.Context())
		if err != nil || timeErr != nil || now.Sub(at[0]).Abs() > time.Minute {
			t.Errorf("deleted at %v, where it is %v, %v, %v", at, now, err, timeErr)
		}
	})
}

// answers is a hook of a client whose commands are answered with an error.
type answers struct{ with error }

func (answers) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (answers) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (a answers) ProcessHook(goredis.ProcessHook) goredis.ProcessHook {
	return func(_ context.Context, cmd goredis.Cmder) error {
		cmd.SetErr(a.with)
		return a.with
	}
}

// Redis 6 puts words before what a command of a script failed with; it is told from others nevertheless.
func TestErrorsOfCommandsInScripts(t *testing.T) {
	t.Parallel()
	for text, kind := range map[string]error{
		"NOREPLICAS Not enough good replicas to write.":                                                       store.ErrUnavailable,
		"MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk.": store.ErrUnavailable,
		"READONLY You can't write against a read only replica.":                                               store.ErrUnavailable,
		"OOM command not allowed when used memory > 'maxmemory'.":                                             store.ErrUnavailable,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                   store.ErrUnreadable,
	} {
		for _, words := range []string{
			"", "@user_script: 3: -",
			"ERR Error running script (call to f_191b): @user_script:14: @user_script: 14: -", "ERR Error running script (call to f_191b): @user_script:14: ",
		} {
			s := openOn(t, "redis://127.0.0.1:1", "a:", func(o *Options) { o.MaxAttempts = 1 })
			s.client.AddHook(answers{reply(words + text)})
			_, err := s.CompareAndSwap(t.Context(), store.Swap{Key: swapped, Old: "old"})
			var answer goredis.Error
			if !errors.Is(err, kind) || !errors.As(err, &answer) || answer.Error() != text {
				t.Errorf("%s%s: %v", words, text, err)
			}
		}
	}
}
