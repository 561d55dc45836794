package redis

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// worker has a store whose server tells what it does.
type worker struct {
	t     *testing.T
	s     *Store
	admin *goredis.Client
	large []byte
}

// work is what a script may make the server do: for a call of an operation, how many commands, and
// how many bytes these may read beyond what the caller gets.
type work struct {
	// does prepares the worst that a tenant can, and returns the operation, and how many bytes the
	// operation's caller gets.
	does     func(w *worker) (operation func() (got int))
	commands int
	beyond   int
}

// largest is the size of a record in the test, entry that of an entry of a log; workFeed is the
// length of the feed.
const largest, entry, workFeed = 512 << 10, 8 << 10, 800

func (w *worker) create(target string) store.Record {
	w.t.Helper()
	r, err := w.s.CompareAndSwap(w.t.Context(), store.Swap{Key: w.key(target), Value: w.large})
	if err != nil || !r.Swapped {
		w.t.Fatal(r, err)
	}
	return r.Record
}

func (w *worker) key(target string) store.Key {
	return store.Key{Cluster: "c", Namespace: "n", Target: target}
}

// logs fills the log of a target, with entries in turn that are kept longer and others.
func (w *worker) logs(target string) {
	for i := range 2 * (DefaultKeptLength + 1) {
		w.check(w.append(target, i%2 == 0))
	}
}

func (w *worker) append(target string, kept bool) error {
	return w.s.AppendLog(w.t.Context(), []store.LogEntry{{Key: w.key(target), Value: w.large[:entry], Kept: kept}})
}

// feeds fills the feed with the largest entries.
func (w *worker) feeds() []store.FeedEntry {
	var entries []store.FeedEntry
	for i := range 2 * w.s.options.FeedLength {
		e := store.FeedEntry{Key: store.Key{Cluster: fmt.Sprint("c", i%3), Namespace: fmt.Sprint("n", i%20), Target: fmt.Sprint("t", i)}}
		e.Value = w.large[:store.MaxFeedEntryBytes-e.Bytes()]
		entries = append(entries, e)
	}
	fatal.If(w.t, w.s.AppendFeed(w.t.Context(), entries))
	return entries
}

// announce makes so many announcements, the first of which have expired.
func (w *worker) announce(n, expired int) {
	for i := range n {
		at := float64(time.Now().Add(time.Hour).UnixMilli())
		if i < expired {
			at = 1
		}
		fatal.If(w.t, w.admin.ZAdd(w.t.Context(), w.s.options.KeyPrefix+store.InstancesList, goredis.Z{Score: at, Member: fmt.Sprint(i, string(w.large[:100]))}).Err())
	}
}

// worked are all scripts. A new one has to be entered.
var worked = map[string]work{
	"createScript": {func(w *worker) func() int {
		w.create("t")
		return func() int { // somebody else's is there
			r, err := w.s.CompareAndSwap(w.t.Context(), store.Swap{Key: w.key("t"), Value: w.large})
			w.check(err)
			return len(r.Record.Value)
		}
	}, 4, versionLength},
	"swapScript": {func(w *worker) func() int {
		old := w.create("t")
		w.check(w.swap(old))
		return func() int {
			r, err := w.s.CompareAndSwap(w.t.Context(), store.Swap{Key: w.key("t"), Old: old.Version, Value: w.large})
			w.check(err)
			return len(r.Record.Value)
		}
	}, 4, 2 * versionLength},
	"deleteVersionScript": {func(w *worker) func() int {
		part, err := w.s.Part(store.Specs, 0)
		w.check(err)
		r, err := part.CompareAndSwap(w.t.Context(), store.Swap{Key: w.key("t"), Value: w.large})
		w.check(err)
		return func() int {
			_, err := part.DeleteVersion(w.t.Context(), w.key("t"), r.Record.Version)
			w.check(err)
			return 0
		}
	}, 4, versionLength},
	"deleteScript": {func(w *worker) func() int {
		w.create("t")
		w.logs("t")
		return func() int {
			_, err := w.s.Delete(w.t.Context(), w.key("t"))
			w.check(err)
			return 0
		}
	}, 7, 0},
	"markDeletionScript": {func(w *worker) func() int {
		w.create("t")
		return func() int {
			_, err := w.s.Delete(w.t.Context(), w.key("t"))
			w.check(err)
			return 0
		}
	}, 7, 0}, // of three scripts, as deleteScript's operation
	"appendScript": {func(w *worker) func() int {
		w.logs("t")
		return func() int { w.check(w.append("t", false)); return 0 }
	}, 4, entry + logHeader},
	"keepScript": {func(w *worker) func() int {
		w.logs("t")
		return func() int { w.check(w.append("t", true)); return 0 }
	}, 5, 2 * (entry + keptHeader)},
	"readScript": {func(w *worker) func() int {
		w.logs("t")
		_, next, err := w.s.ReadLog(w.t.Context(), w.key("t"), "", 5)
		w.check(err)
		return func() (got int) {
			values, _, err := w.s.ReadLog(w.t.Context(), w.key("t"), next, 5)
			w.check(err)
			for _, v := range values {
				got += len(v)
			}
			return got
		}
	}, 2*2 + 2*5, 3*(entry+keptHeader) + 5*keptHeader}, // two tell where, and one how many come before it
	// As many entries as settle some once, see feedScript.
	"feedScript": {func(w *worker) func() int {
		length := w.s.options.FeedLength / feedParts
		some := slices.Repeat(w.feeds()[:1], feedStep(length))
		return func() int {
			w.check(w.s.AppendFeed(w.t.Context(), some))
			return 0
		}
	}, 2*feedStep(workFeed/feedParts) + 16, (2*feedStep(workFeed/feedParts) + 4) * (store.MaxFeedEntryBytes + 64)}, // and the first names of some tenants
	"readFeedScript": {func(w *worker) func() int {
		w.feeds()
		return func() (got int) {
			pages, err := w.s.ReadFeed(w.t.Context(), []store.FeedRead{{Part: 1}}, 500)
			w.check(err)
			for _, item := range pages[0].Items {
				got += item.Bytes()
			}
			if got < store.MaxFeedPageBytes/2 {
				w.t.Errorf("a page has %d bytes", got)
			}
			return got
		}
	}, 10, store.MaxFeedEntryBytes + 64 + 64*store.MaxFeedPageBytes/store.MaxFeedEntryBytes},
	"pingScript": {func(w *worker) func() int {
		return func() int { w.check(w.s.Ping(w.t.Context())); return 0 }
	}, 12, 0}, // all that records need
	"purgeScript": {func(w *worker) func() int {
		w.create("t")
		w.check(w.admin.Del(w.t.Context(), w.s.layout.place(w.key("t")).record()).Err())
		return func() int {
			_, err := w.s.List(w.t.Context(), store.Filter{}, store.Key{}, 10)
			w.check(err)
			return 0
		}
	}, 2, 0},
	"announceScript": {func(w *worker) func() int {
		w.announce(5000, 5000)
		return func() int {
			w.check(w.s.Announce(w.t.Context(), store.InstancesList, nil, []byte("now"), time.Hour))
			return 0
		}
	}, 6, 100 * 110},
	"announcedScript": {func(w *worker) func() int {
		w.announce(5000, 1000)
		return func() (got int) {
			values, err := w.s.Announced(w.t.Context(), store.InstancesList, 10)
			w.check(err)
			for _, v := range values {
				got += len(v)
			}
			return got
		}
	}, 2, 0},
}

func (w *worker) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

func (w *worker) swap(old store.Record) error {
	r, err := w.s.CompareAndSwap(w.t.Context(), store.Swap{Key: w.key("t"), Old: old.Version, Value: w.large})
	if err == nil && !r.Swapped {
		err = fmt.Errorf("not swapped")
	}
	return err
}

// What a script reads is what its caller gets, and little more, whatever tenants have stored.
func TestWorkOfScripts(t *testing.T) {
	t.Parallel()
	if declared := declaredScripts(t); !slices.Equal(declared, slices.Sorted(maps.Keys(worked))) {
		t.Fatalf("the scripts are %v, the table has %v", declared, slices.Sorted(maps.Keys(worked)))
	}
	server := redistest.Start(t, redistest.Config{})
	seen := monitor(t, server.Addr())
	admin := server.Client(t)
	for _, name := range slices.Sorted(maps.Keys(worked)) {
		t.Run(name, func(t *testing.T) {
			w := &worker{t: t, admin: admin, large: bytes.Repeat([]byte("x"), largest)}
			w.s = openOn(t, server.URL(), redistest.Prefix(t), func(o *Options) { o.FeedLength = workFeed })
			row := worked[name]
			operation := row.does(w)
			w.check(admin.Echo(t.Context(), "begin "+name).Err())
			got := operation()
			w.check(admin.Echo(t.Context(), "end "+name).Err())
			for line := range seen {
				if strings.Contains(line, "begin "+name) {
					break
				}
			}
			commands, read := 0, 0
			for line := range seen {
				if strings.Contains(line, "end "+name) {
					break
				}
				head, text, _ := strings.Cut(line, "] ")
				if !strings.HasSuffix(head, " lua") {
					continue
				}
				commands++
				read += w.reads(words(t, text))
			}
			t.Logf("%d commands read %d bytes, the caller gets %d", commands, read, got)
			if commands == 0 || commands > row.commands {
				t.Errorf("it takes %d commands, want %d at most", commands, row.commands)
			}
			if read > got+row.beyond {
				t.Errorf("it reads %d bytes, and its caller gets %d: %d beyond are expected", read, got, row.beyond)
			}
		})
	}
}

// reads returns how many bytes a command reads, by asking again.
func (w *worker) reads(args []any) int {
	switch strings.ToUpper(args[0].(string)) {
	case "GET", "GETRANGE", "LINDEX", "LRANGE", "XRANGE", "XREVRANGE", "ZRANGE":
	default:
		return 0
	}
	reply, err := w.admin.Do(w.t.Context(), args...).Result()
	if err != nil && err != goredis.Nil {
		w.t.Errorf("%q: %v", args, err)
	}
	return sizeOf(reply)
}

func sizeOf(reply any) (n int) {
	switch reply := reply.(type) {
	case string:
		return len(reply)
	case []any:
		for _, one := range reply {
			n += sizeOf(one)
		}
	}
	return n
}

// monitor returns what the server does from now on, line by line.
func monitor(t *testing.T, address string) <-chan string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	fatal.If(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReaderSize(conn, 1<<20)
	if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "+OK") {
		t.Fatalf("%q, %v", line, err)
	}
	seen := make(chan string, 1<<20)
	go func() {
		defer close(seen)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			// Large values are of no interest, and would fill the memory.
			if len(line) > 2<<10 && !strings.Contains(line[:200], " lua]") {
				continue
			}
			seen <- line
		}
	}()
	return seen
}

// words returns the words of a line of MONITOR.
func words(t *testing.T, line string) (args []any) {
	t.Helper()
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		word, err := strconv.QuotedPrefix(line)
		if err != nil {
			t.Fatalf("%.100q: %v", line, err)
		}
		line = line[len(word):]
		text, err := strconv.Unquote(word)
		fatal.If(t, err)
		args = append(args, text)
	}
	return args
}

// declaredScripts returns the names of the scripts in the package's source.
func declaredScripts(t *testing.T) (names []string) {
	t.Helper()
	//nolint:staticcheck // a package of one directory without build tags
	packages, err := parser.ParseDir(token.NewFileSet(), ".", func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, 0)
	fatal.If(t, err)
	for _, p := range packages {
		ast.Inspect(p, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, value := range spec.Values {
				if call, ok := value.(*ast.CallExpr); ok {
					if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "newScript" {
						names = append(names, spec.Names[i].Name)
					}
				}
			}
			return true
		})
	}
	slices.Sort(names)
	return names
}
