package storetest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/store"
)

var dataTests = []test{
	{"ValuesAreKeptAsTheyAre", testValues},
	{"KeysMayHoldAnyByte", testKeys},
	{"KeysDoNotCollide", testCollidingKeys},
	{"ValuesAreCopiedOnTheirWayIn", testCopiedIn},
	{"ValuesAreCopiedOnTheirWayOut", testCopiedOut},
}

// values are edge cases for an engine.
func values() map[string]string {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	return map[string]string{
		"empty":      "",
		"NUL":        "\x00",
		"every byte": string(every),
		"not UTF-8":  "\xff\xfe\xc3\x28",
		"line ends":  "\r\n+OK\r\n$-1\r\n",
		"number":     "12",
		"one MiB":    strings.Repeat(string(every), 1<<12),
	}
}

func testValues(t *testing.T, s suite) {
	for name, value := range values() {
		t.Run(name, func(t *testing.T) {
			f := s.open(t)
			k := key("target")
			v := f.create(k, value)
			f.wantRecord(k, v, value)
			v = f.replace(k, v, "between")
			v = f.replace(k, v, value)
			f.wantRecord(k, v, value)

			res := f.swapBatch(
				store.Swap{Key: k, Old: v, Value: []byte("between")},
				store.Swap{Key: k, Old: v, Value: []byte("must not be written")},
				store.Swap{Key: key("batch"), Value: []byte(value)})
			f.checkRecord("a lost race", k, res[1].Record, res[0].Record.Version, "between")
			f.wantRecord(key("batch"), res[2].Record.Version, value)

			f.appendLog(k, value, value)
			f.wantLog(k, value, value)
		})
	}
	t.Run("nil", func(t *testing.T) {
		f := s.open(t)
		k := key("target")
		res := f.swap(store.Swap{Key: k})
		f.wantRecord(k, res.Record.Version, "")
	})
}

// oddNames are parts of keys that are edge cases for an engine. The service's
// validation refuses most of them, but the contract allows them.
var oddNames = []string{
	"a", "A", "0", "_", "-", "--", ".", "..", "...", "a-b", "a.b", "a_b", "-a", ".a", "a-", "a.",
	"*", "?", "[a]", "[^a]", "a*", "\\", "\\*", "{a}", "{", "}", "{}", "}{", ":", "a:b", "|", "#", "%", "%2F", "%00",
	" ", " a", "a ", "\t", "\n", "\r\n", "\x01", "\x7f", "\"", "'", "é", "e\u0301", "日本", "\xff", "\xff\xff",
	"clusters", "namespaces", "targets", "nil", "null",
	"ABCDEFGHIJKLMNOPQRSTUVWXYZ.abcdefghijklmnopqrstuvwxyz_0123456789-",
	strings.Repeat("x", 253), strings.Repeat("-", 253), strings.Repeat("x", 252) + "y",
}

func testKeys(t *testing.T, s suite) {
	f := s.open(t)
	var keys []store.Key
	for _, name := range oddNames {
		keys = append(keys,
			store.Key{Cluster: name, Namespace: "namespace", Target: "target"},
			store.Key{Cluster: "cluster", Namespace: name, Target: "target"},
			store.Key{Cluster: "cluster", Namespace: "namespace", Target: name},
			store.Key{Cluster: name, Namespace: name, Target: name})
	}
	f.createAll(keys)
	for i, rec := range f.loadBatch(keys...) {
		f.checkRecord("LoadBatch", keys[i], rec, rec.Version, keys[i].String())
		f.checkRecord("Load", keys[i], f.load(keys[i]), rec.Version, keys[i].String())
	}
	slices.SortFunc(keys, store.Key.Compare)
	f.wantKeys("all", f.list(store.Filter{}, store.Key{}, len(keys)+1), keys)
	for _, name := range oddNames {
		for _, filter := range []store.Filter{{Cluster: name}, {Namespace: name}, {Cluster: name, Namespace: name}} {
			f.wantKeys(filter.Cluster+"/"+filter.Namespace,
				f.list(filter, store.Key{}, len(keys)), listed(keys, filter, store.Key{}, len(keys)))
		}
		f.appendLog(key(name), name)
	}
	for _, name := range oddNames {
		f.wantLog(key(name), name)
	}
	f.mustDelete(keys[0])
	f.wantKeys("all but the deleted", f.list(store.Filter{}, store.Key{}, len(keys)), keys[1:])
}

func testCollidingKeys(t *testing.T, s suite) {
	f := s.open(t)
	var keys []store.Key
	for _, joint := range []string{"", "-", ".", ":", "_", "|", ",", " ", "{", "}", "\x01", "\xff"} {
		keys = append(keys,
			store.Key{Cluster: "a" + joint + "b", Namespace: "c", Target: "d"},
			store.Key{Cluster: "a", Namespace: "b" + joint + "c", Target: "d"},
			store.Key{Cluster: "a", Namespace: "b", Target: "c" + joint + "d"})
	}
	f.createAll(keys)
	for i, k := range keys {
		f.appendLog(k, "log of "+k.String())
		f.checkRecord("Load", k, f.load(k), f.load(k).Version, keys[i].String())
	}
	for i, k := range keys {
		f.wantLog(k, "log of "+k.String())
		f.mustDelete(k)
		f.wantLog(k)
		for j, rec := range f.loadBatch(keys...) {
			if rec.Exists() != (j > i) {
				t.Fatalf("%v after the delete of %v: %s", keys[j], k, show(rec))
			}
		}
	}
}

func testCopiedIn(t *testing.T, s suite) {
	f := s.open(t)
	shared := []byte("as it was")
	spoil := func() { copy(shared, "no longer") }
	restore := func() { copy(shared, "as it was") }

	single, batch := key("single"), key("batch")
	f.swap(store.Swap{Key: single, Value: shared})
	f.swapBatch(store.Swap{Key: batch, Value: shared}, store.Swap{Key: key("other"), Value: shared})
	f.appendEntries(store.LogEntry{Key: single, Value: shared}, store.LogEntry{Key: single, Value: shared})
	if string(shared) != "as it was" {
		t.Errorf("the engine changed the caller's value to %q", shared)
	}
	spoil()
	f.wantRecord(single, f.load(single).Version, "as it was")
	f.wantRecord(batch, f.load(batch).Version, "as it was")
	f.wantLog(single, "as it was", "as it was")

	restore()
	res := f.swap(store.Swap{Key: single, Old: f.load(single).Version, Value: shared})
	spoil()
	f.wantRecord(single, res.Record.Version, "as it was")
}

func testCopiedOut(t *testing.T, s suite) {
	f := s.open(t)
	a, b := key("a"), key("b")
	va, vb := f.create(a, "value of a"), f.create(b, "value of b")
	f.appendLog(a, "log 1", "log 2")

	// deface overwrites the value and its spare capacity, as append may.
	deface := func(value []byte) {
		for i := range value {
			value[i] = '!'
		}
		_ = append(value, bytes.Repeat([]byte("!"), 64)...)
	}
	intact := func(after string) {
		t.Helper()
		f.wantRecord(a, va, "value of a")
		f.wantRecord(b, vb, "value of b")
		f.wantLog(a, "log 2", "log 1")
		if t.Failed() {
			t.Fatalf("after writing to what %s returned", after)
		}
	}

	deface(f.load(a).Value)
	intact("Load")
	deface(f.lose(a, "", "").Value)
	intact("a lost race")

	recs := f.loadBatch(a, b, a)
	deface(recs[0].Value)
	f.checkRecord("LoadBatch", b, recs[1], vb, "value of b")
	f.checkRecord("LoadBatch", a, recs[2], va, "value of a")
	deface(recs[1].Value)
	f.checkRecord("LoadBatch", a, recs[2], va, "value of a")
	intact("LoadBatch")

	results := f.swapBatch(store.Swap{Key: a}, store.Swap{Key: b}, store.Swap{Key: a})
	deface(results[0].Record.Value)
	f.checkRecord("a lost race", b, results[1].Record, vb, "value of b")
	f.checkRecord("a lost race", a, results[2].Record, va, "value of a")
	intact("a batch of lost races")

	values, _, err := f.ReadLog(t.Context(), a, "", 2)
	if err != nil || len(values) != 2 {
		t.Fatalf("ReadLog returned %q, %v", values, err)
	}
	deface(values[0])
	if string(values[1]) != "log 1" {
		t.Errorf("writing to one log value changed another to %q", values[1])
	}
	intact("ReadLog")

	won := f.swap(store.Swap{Key: a, Old: va, Value: []byte("value of a")})
	va = won.Record.Version
	deface(won.Record.Value)
	intact("a swap that happened")
}
