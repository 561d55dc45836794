package storetest

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
)

var partTests = []test{
	{"AreApart", testPartsAreApart},
	{"LoadedTogether", testPartsLoadedTogether},
	{"OfOneStore", testPartsOfOneStore},
	{"Expiry", testPartsExpire},
	{"EndWithTheEngine", testPartsEnd},
	{"Peers", testPartsOfPeers},
	{"OfACluster", testPartOfACluster},
	{"OfFleets", testPartsOfFleets},
	{"Unknown", testUnknownPart},
	{"DeleteVersion", testDeleteVersion},
	{"LoadVersions", testLoadVersions},
	{"LoseNoUpdate", testPartsCount},
	{"OneChangeOfAVersionWins", testVersionDeletionRaces},
}

// asParts returns the engine as one that keeps parts.
func (f fixture) asParts() store.Parts {
	f.t.Helper()
	p, ok := f.Engine.(store.Parts)
	if !ok {
		f.t.Fatal("the engine does not implement store.Parts and Options.Skip does not say why")
	}
	return p
}

func (f fixture) part(part store.Part, ttl time.Duration) fixture {
	f.t.Helper()
	return fixture{Engine: partEngine{f.records(part, ttl), f.Engine}, t: f.t}
}

func (f fixture) records(part store.Part, ttl time.Duration) store.PartStore {
	f.t.Helper()
	s, err := f.asParts().Part(part, ttl)
	fatal.If(f.t, err)
	return s
}

// partEngine is the store of a part, with the log of its engine.
type partEngine struct {
	store.Store
	store.Log
}

func (f fixture) wantParts(key store.Key, parts []store.Part, want ...string) {
	f.t.Helper()
	records, err := f.asParts().LoadParts(f.t.Context(), key, 0, parts...)
	if err != nil || len(records) != len(want) {
		f.t.Fatalf("LoadParts(%v, %q) = %d records, %v, want %d", key, parts, len(records), err, len(want))
	}
	for i, r := range records {
		if r.Exists() != (want[i] != "") || string(r.Value) != want[i] {
			f.t.Errorf("the part %q of %v is %s, want %q", parts[i], key, show(r), want[i])
		}
	}
}

// A change of one part of a target changes no other part.
func testPartsAreApart(t *testing.T, s suite) {
	f := s.open(t)
	specs, observations := f.part(store.Specs, 0), f.part(store.Observations, 0)
	k := key("target")
	spec := specs.create(k, "spec")
	f.wantParts(k, []store.Part{"", store.Specs, store.Observations}, "", "spec", "")
	f.create(k, "history")
	observations.create(k, "observation")
	if got := f.lose(k, spec, "spec 2"); string(got.Value) != "history" {
		t.Errorf("a spec's version swaps the history: in the way was %s", show(got))
	}
	specs.replace(k, spec, "spec 2")
	f.appendLog(k, "entry")
	observations.mustDelete(k)
	f.wantParts(k, []store.Part{"", store.Specs, store.Observations}, "history", "spec 2", "")
	if values, _ := f.readLog(k, "", 10); len(values) != 1 {
		t.Errorf("deleting an observation left %d log entries, want 1", len(values))
	}
	f.mustDelete(k)
	f.wantParts(k, []store.Part{"", store.Specs, store.Observations}, "", "spec 2", "")
	for _, test := range []struct {
		most int
		want store.Record
	}{
		{most: 5, want: store.Record{Cut: true}},
		{most: 6, want: store.Record{Value: []byte("spec 2")}},
		{most: 0, want: store.Record{Value: []byte("spec 2")}},
	} {
		records, err := f.asParts().LoadParts(t.Context(), k, test.most, "", store.Specs)
		fatal.If(t, err)
		stored, err := specs.Load(t.Context(), k)
		fatal.If(t, err)
		if test.want.Version = stored.Version; records[0].Exists() || !reflect.DeepEqual(records[1], test.want) {
			t.Errorf("of at most %d bytes: %+v, want no history and %+v", test.most, records, test.want)
		}
	}
	f.wantKeys("histories", f.list(store.Filter{}, store.Key{}, 10), nil)
	f.wantKeys("specs", specs.list(store.Filter{}, store.Key{}, 10), []store.Key{k})
}

func testPartsLoadedTogether(t *testing.T, s suite) {
	f := s.open(t)
	specs := f.part(store.Specs, 0)
	for i, k := range numbered(20) {
		if i%2 == 0 {
			f.create(k, "history of "+k.Target)
		}
		if i%3 == 0 {
			specs.create(k, "spec of "+k.Target)
		}
	}
	for i, k := range numbered(20) {
		var history, spec string
		if i%2 == 0 {
			history = "history of " + k.Target
		}
		if i%3 == 0 {
			spec = "spec of " + k.Target
		}
		f.wantParts(k, []store.Part{store.Specs, ""}, spec, history)
		f.wantParts(k, []store.Part{"", store.Specs}, history, spec)
	}
	f.wantParts(key("nobody"), nil)
	if _, err := f.asParts().LoadParts(t.Context(), key("target"), 0, "no such part"); err == nil {
		t.Error("LoadParts accepts an unknown part")
	}
}

// A second call for the same part returns the same records.
func testPartsOfOneStore(t *testing.T, s suite) {
	f := s.open(t)
	k := key("target")
	version := f.part(store.Specs, 0).create(k, "spec")
	f.part(store.Specs, 0).replace(k, version, "spec 2")
	f.wantParts(k, []store.Part{store.Specs}, "spec 2")
}

func testPartsExpire(t *testing.T, s suite) {
	if s.Expiring == nil {
		t.Fatal("Options.Expiring is nil and Options.Skip does not say why")
	}
	t.Parallel()
	e, ttl, pass := s.Expiring(t)
	f := newFixture(t, e)
	specs, observations := f.part(store.Specs, 0), f.part(store.Observations, ttl/2)
	k := key("target")
	f.create(k, "history")
	specs.create(k, "spec")
	observations.create(k, "observation")
	pass(ttl * 3 / 4)
	f.wantParts(k, []store.Part{"", store.Specs, store.Observations}, "history", "spec", "")
	f.wantKeys("observations", observations.list(store.Filter{}, store.Key{}, 10), nil)
	pass(ttl)
	f.wantParts(k, []store.Part{"", store.Specs, store.Observations}, "", "spec", "")
}

// Overrides are kept under a key that no target has: they are listed by cluster, and are no target's.
func testPartOfACluster(t *testing.T, s suite) {
	f := s.open(t)
	overrides := f.part(store.Overrides, 0)
	of := func(cluster string) store.Key { return store.Key{Cluster: cluster, Namespace: "-", Target: "-"} }
	f.create(key("target"), "history")
	version := overrides.create(of("a"), "overrides")
	overrides.create(of("b"), "overrides")
	overrides.lose(of("a"), "", "created twice")
	overrides.replace(of("a"), version, "overrides 2")
	f.wantParts(of("a"), []store.Part{"", store.Overrides}, "", "overrides 2")
	overrides.wantKeys("overrides", overrides.list(store.Filter{}, store.Key{}, 10), []store.Key{of("a"), of("b")})
	overrides.wantKeys("after the first", overrides.list(store.Filter{}, of("a"), 10), []store.Key{of("b")})
	f.wantKeys("histories", f.list(store.Filter{}, store.Key{}, 10), []store.Key{key("target")})
}

// The record of a fleet and the name of a member's fleet are parts of their own: each is swapped alone, and ends alone.
func testPartsOfFleets(t *testing.T, s suite) {
	f := s.open(t)
	fleets, members := f.part(store.Fleets, 0), f.part(store.FleetMembers, 0)
	k := key("target")
	f.create(k, "history")
	version := fleets.create(k, "record")
	claimed := members.create(k, "its fleet")
	fleets.replace(k, version, "record 2")
	members.lose(k, "", "another fleet")
	f.wantParts(k, []store.Part{"", store.Fleets, store.FleetMembers}, "history", "record 2", "its fleet")
	if result, err := f.records(store.FleetMembers, 0).DeleteVersion(t.Context(), k, claimed); err != nil || !result.Swapped {
		t.Errorf("released: %v, %v", result, err)
	}
	f.wantParts(k, []store.Part{"", store.Fleets, store.FleetMembers}, "history", "record 2", "")
}

func testPartsEnd(t *testing.T, s suite) {
	f := s.open(t)
	specs := f.records(store.Specs, 0)
	if err := specs.Close(); err != nil {
		t.Errorf("Close() of a part = %v", err)
	}
	if _, err := specs.Load(t.Context(), key("target")); err != nil {
		t.Errorf("a part closed by itself: %v", err)
	}
	fatal.If(t, f.Close())
	if _, err := specs.Load(t.Context(), key("target")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("the part of a closed engine: %v, want ErrClosed", err)
	}
	if _, err := f.asParts().LoadParts(t.Context(), key("target"), 0, ""); !errors.Is(err, store.ErrClosed) {
		t.Errorf("LoadParts of a closed engine: %v, want ErrClosed", err)
	}
}

func testPartsOfPeers(t *testing.T, s suite) {
	s.skip(t, "Peers")
	a, b := s.openPeers(t)
	k := key("target")
	version := a.part(store.Specs, 0).create(k, "spec")
	b.part(store.Specs, 0).replace(k, version, "spec 2")
	a.wantParts(k, []store.Part{store.Specs}, "spec 2")
}

// An unknown part must not return the histories, whose keys it would have.
func testUnknownPart(t *testing.T, s suite) {
	f := s.open(t)
	for _, part := range []store.Part{"", "history", "specs", "h"} {
		if records, err := f.asParts().Part(part, 0); err == nil || records != nil {
			t.Errorf("Part(%q) = %v, %v, want an error", part, records, err)
		}
	}
}

// DeleteVersion deletes that version and no later one.
func testDeleteVersion(t *testing.T, s suite) {
	f := s.open(t)
	specs, records, k := f.part(store.Specs, 0), f.records(store.Specs, 0), key("target")
	f.create(k, "history")
	del := func(version store.Version, want bool, stands string) {
		t.Helper()
		result, err := records.DeleteVersion(t.Context(), k, version)
		if err != nil || result.Swapped != want || string(result.Record.Value) != stands || result.Record.Exists() != (stands != "") {
			t.Fatalf("DeleteVersion(%q) = %+v, %v, want %v and %q in the way", version, result, err, want, stands)
		}
	}
	del("", false, "")
	first := specs.create(k, "spec")
	del("", false, "spec")
	second := specs.replace(k, first, "spec 2")
	del(first, false, "spec 2")
	del(second, true, "")
	del(second, false, "")
	f.wantKeys("specs", specs.list(store.Filter{}, store.Key{}, 10), nil)
	third := specs.create(k, "spec 3")
	del(second, false, "spec 3")
	del(third, true, "")
	f.wantParts(k, []store.Part{"", store.Specs}, "history", "")
}

// LoadVersions tells of each key in its order whether its record is still the one that a load has seen.
func testLoadVersions(t *testing.T, s suite) {
	f := s.open(t)
	specs, records := f.part(store.Specs, 0), f.records(store.Specs, 0)
	keys := numbered(20)
	for i, k := range keys {
		f.create(k, "history") // another part's
		if i%3 > 0 {
			specs.create(k, "spec")
		}
	}
	want := func(when string) {
		t.Helper()
		versions, err := records.LoadVersions(t.Context(), keys)
		loaded, loadErr := records.LoadBatch(t.Context(), keys)
		if err != nil || loadErr != nil || len(versions) != len(keys) {
			t.Fatalf("%s: LoadVersions = %d versions, %v; LoadBatch: %v", when, len(versions), err, loadErr)
		}
		for i, r := range loaded {
			if versions[i] != r.Version {
				t.Errorf("%s: the version of %v is %q, want %q of %s", when, keys[i], versions[i], r.Version, show(r))
			}
		}
	}
	want("created")
	before, err := records.LoadVersions(t.Context(), keys)
	fatal.If(t, err)
	specs.replace(keys[1], before[1], "spec") // the same value
	specs.mustDelete(keys[2])
	specs.create(keys[3], "spec")
	want("changed")
	after, err := records.LoadVersions(t.Context(), keys)
	fatal.If(t, err)
	for i := range keys {
		if changed := i >= 1 && i <= 3; (after[i] != before[i]) != changed {
			t.Errorf("the version of %v was %q and is %q", keys[i], before[i], after[i])
		}
	}
	if versions, err := records.LoadVersions(t.Context(), nil); err != nil || len(versions) != 0 {
		t.Errorf("LoadVersions of nothing: %q, %v", versions, err)
	}
}

// Counters of the same names in parts and histories lose no update to each other.
func testPartsCount(t *testing.T, s suite) {
	f := s.open(t)
	engines := []Engine{f.Engine, f.part(store.Specs, 0).Engine, f.part(store.Observations, 0).Engine}
	together(t, len(engines), func(i int) error {
		countUp(t, engines[i])
		return nil
	})
}

// Of concurrent swaps and deletions of one version, one wins.
func testVersionDeletionRaces(t *testing.T, s suite) {
	const workers = 8
	f := s.open(t)
	specs, records := f.part(store.Specs, 0), f.records(store.Specs, 0)
	for _, k := range numbered(20) {
		version := specs.create(k, "spec")
		var results [workers]store.SwapResult
		together(t, workers, func(worker int) (err error) {
			if worker%2 == 0 {
				results[worker], err = records.DeleteVersion(t.Context(), k, version)
			} else {
				results[worker], err = records.CompareAndSwap(t.Context(), store.Swap{Key: k, Old: version, Value: []byte("spec 2")})
			}
			return err
		})
		winner := -1
		for worker, r := range results {
			if !r.Swapped {
				continue
			}
			if winner >= 0 {
				t.Fatalf("workers %d and %d both changed one version", winner, worker)
			}
			winner = worker
		}
		if winner < 0 {
			t.Fatal("nobody changed a version that nobody else did")
		}
		if exists := specs.load(k).Exists(); exists != (winner%2 == 1) {
			t.Errorf("after worker %d the record exists: %v", winner, exists)
		}
	}
}
