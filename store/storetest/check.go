package storetest

import (
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/store"
)

// key returns a key for tests that need only distinct names.
func key(target string) store.Key {
	return store.Key{Cluster: "cluster", Namespace: "namespace", Target: target}
}

// numbered returns n keys in ascending order.
func numbered(n int) []store.Key {
	keys := make([]store.Key, n)
	for i := range keys {
		keys[i] = key(fmt.Sprintf("target-%05d", i))
	}
	return keys
}

// wantRecord checks the key's version and value by Load, LoadBatch and a losing swap.
func (f fixture) wantRecord(key store.Key, version store.Version, value string) {
	f.t.Helper()
	f.checkRecord("Load", key, f.load(key), version, value)
	f.checkRecord("LoadBatch", key, f.loadBatch(key)[0], version, value)
	f.checkRecord("a lost race", key, f.lose(key, "", "must not be written"), version, value)
}

func (f fixture) checkRecord(by string, key store.Key, got store.Record, version store.Version, value string) {
	f.t.Helper()
	if got.Version != version || string(got.Value) != value {
		f.t.Fatalf("%v by %s: %s, want %s", key, by, show(got), show(store.Record{Version: version, Value: []byte(value)}))
	}
}

// wantMissing checks that the key has no record, by every operation but creation.
func (f fixture) wantMissing(key store.Key) {
	f.t.Helper()
	f.checkMissing("Load", key, f.load(key))
	f.checkMissing("LoadBatch", key, f.loadBatch(key)[0])
	if keys := f.list(store.Filter{}, store.Key{}, 1000); slices.Contains(keys, key) {
		f.t.Fatalf("%v is listed", key)
	}
}

func (f fixture) checkMissing(by string, key store.Key, got store.Record) {
	f.t.Helper()
	if got.Version != "" || got.Value != nil || got.Exists() {
		f.t.Fatalf("%v by %s: %s, want the zero Record", key, by, show(got))
	}
}

// wantLog checks the key's log, newest first.
func (f fixture) wantLog(key store.Key, want ...string) {
	f.t.Helper()
	got, next := f.readLog(key, "", len(want)+1)
	if !slices.Equal(got, want) {
		f.t.Fatalf("log of %v: %q, want %q", key, got, want)
	}
	if next != "" {
		f.t.Fatalf("log of %v: position %q after all %d entries", key, next, len(got))
	}
}

// wantKeys compares keys and reports the first difference.
func (f fixture) wantKeys(what string, got, want []store.Key) {
	f.t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			f.t.Fatalf("%s: key %d is %v, want %v", what, i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		f.t.Fatalf("%s: %d keys, want %d", what, len(got), len(want))
	}
}

// listed returns what List must return, where keys are all existing keys in order.
func listed(keys []store.Key, filter store.Filter, after store.Key, limit int) []store.Key {
	var page []store.Key
	for _, k := range keys {
		if len(page) < limit && k.Compare(after) > 0 && filter.Matches(k) {
			page = append(page, k)
		}
	}
	return page
}

// show formats a record.
func show(rec store.Record) string {
	if !rec.Exists() && rec.Value == nil {
		return "no record"
	}
	return fmt.Sprintf("version %q of %s", rec.Version, brief(rec.Value))
}

// brief quotes a value, only the beginning of a long one.
func brief(value []byte) string {
	const most = 40
	if len(value) <= most {
		return fmt.Sprintf("%q", value)
	}
	return fmt.Sprintf("%q… (%d bytes)", value[:most], len(value))
}
