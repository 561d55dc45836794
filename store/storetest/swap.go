package storetest

import (
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/store"
)

var swapTests = []test{
	{"KeyThatNeverExistedIsMissing", testNeverExisted},
	{"EmptyOldCreates", testCreate},
	{"EmptyOldDoesNotReplace", testCreateExisting},
	{"CurrentVersionReplaces", testReplace},
	{"StaleVersionLoses", testStale},
	{"LoserCanDecideAgain", testDecideAgain},
	{"SameValueIsANewVersion", testSameValue},
	{"EarlierValueIsANewVersion", testEarlierValue},
	{"VersionsDoNotRepeat", testVersionsUnique},
}

var deleteTests = []test{
	{"ReportsWhetherThereWasARecord", testDeleteReports},
	{"LeavesOtherKeysAlone", testDeleteOthers},
	{"VersionLosesAfterwards", testDeletedLoses},
	{"VersionLosesToARecreatedKey", testRecreatedLoses},
}

func testNeverExisted(t *testing.T, s suite) {
	f := s.open(t)
	other := f.create(key("other"), "value")
	k := key("target")
	f.wantMissing(k)
	f.checkMissing("a lost race", k, f.lose(k, other, "value"))
	if f.delete(k) {
		t.Error("Delete reports a record")
	}
	f.wantMissing(k)
}

func testCreate(t *testing.T, s suite) {
	f := s.open(t)
	k := key("target")
	v := f.create(k, "value")
	f.wantRecord(k, v, "value")
	f.wantMissing(key("other"))
}

func testCreateExisting(t *testing.T, s suite) {
	f := s.open(t)
	k := key("target")
	v := f.create(k, "first")
	f.checkRecord("a lost race", k, f.lose(k, "", "second"), v, "first")
	f.wantRecord(k, v, "first")
}

func testReplace(t *testing.T, s suite) {
	f := s.open(t)
	k, v := key("target"), store.Version("")
	for i := range 5 {
		value := fmt.Sprint("value ", i)
		v = f.replace(k, v, value)
		f.wantRecord(k, v, value)
	}
}

func testStale(t *testing.T, s suite) {
	f := s.open(t)
	k := key("target")
	first := f.create(k, "first")
	second := f.replace(k, first, "second")
	f.checkRecord("a lost race", k, f.lose(k, first, "third"), second, "second")
	third := f.replace(k, second, "third")
	for _, stale := range []store.Version{first, second} {
		f.checkRecord("a lost race", k, f.lose(k, stale, "fourth"), third, "third")
	}
	f.wantRecord(k, third, "third")
}

func testDecideAgain(t *testing.T, s suite) {
	f := s.open(t)
	k := key("target")
	first := f.create(k, "1")
	f.replace(k, first, "2")
	rec := f.lose(k, first, "must not be written")
	v := f.replace(k, rec.Version, string(rec.Value)+"3")
	f.wantRecord(k, v, "23")
}

func testSameValue(t *testing.T, s suite) {
	f := s.open(t)
	k := key("target")
	first := f.create(k, "value")
	second := f.replace(k, first, "value")
	f.checkRecord("a lost race", k, f.lose(k, first, "other"), second, "value")
}

func testEarlierValue(t *testing.T, s suite) {
	f := s.open(t)
	k := key("target")
	first := f.create(k, "A")
	second := f.replace(k, first, "B")
	third := f.replace(k, second, "A")
	f.checkRecord("a lost race", k, f.lose(k, first, "C"), third, "A")
	f.wantRecord(k, third, "A")
}

func testVersionsUnique(t *testing.T, s suite) {
	f := s.open(t)
	k, v := key("target"), store.Version("")
	seen := make(map[store.Version]bool)
	for i := range 200 {
		if i%10 == 9 {
			f.mustDelete(k)
			v = ""
		}
		v = f.replace(k, v, "value")
		if seen[v] {
			t.Fatalf("version %q came back", v)
		}
		seen[v] = true
	}
}

func testDeleteReports(t *testing.T, s suite) {
	f := s.open(t)
	k := key("target")
	f.create(k, "value")
	f.mustDelete(k)
	f.wantMissing(k)
	if f.delete(k) {
		t.Error("a second Delete reports a record")
	}
	v := f.create(k, "again")
	f.wantRecord(k, v, "again")
	f.mustDelete(k)
	f.wantMissing(k)
}

func testDeleteOthers(t *testing.T, s suite) {
	f := s.open(t)
	deleted := store.Key{Cluster: "a", Namespace: "a", Target: "a"}
	others := []store.Key{
		{Cluster: "a", Namespace: "a", Target: "b"},
		{Cluster: "a", Namespace: "b", Target: "a"},
		{Cluster: "b", Namespace: "a", Target: "a"},
		{Cluster: "a", Namespace: "a", Target: "aa"},
	}
	f.create(deleted, "deleted")
	f.createAll(others)
	f.mustDelete(deleted)
	f.wantMissing(deleted)
	for i, rec := range f.loadBatch(others...) {
		if string(rec.Value) != others[i].String() {
			t.Errorf("%v: %s", others[i], show(rec))
		}
	}
}

func testDeletedLoses(t *testing.T, s suite) {
	f := s.open(t)
	k := key("target")
	v := f.create(k, "value")
	f.mustDelete(k)
	f.checkMissing("a lost race", k, f.lose(k, v, "other"))
	f.wantMissing(k)
}

func testRecreatedLoses(t *testing.T, s suite) {
	f := s.open(t)
	k := key("target")
	remembered := f.create(k, "value")
	for range 5 {
		f.mustDelete(k)
		v := f.create(k, "value")
		f.checkRecord("a lost race", k, f.lose(k, remembered, "other"), v, "value")
	}
}
