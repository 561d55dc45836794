package storetest

import (
	"testing"

	"github.com/setpoint-dev/setpoint/store"
)

var expiryTests = []test{
	{"RecordIsGone", testExpired},
	{"VersionLosesAfterwards", testExpiredLoses},
	{"VersionLosesToARecreatedKey", testExpiredRecreated},
	{"SwapProlongs", testSwapProlongs},
	{"LoadDoesNotProlong", testLoadDoesNotProlong},
	{"LostRaceDoesNotProlong", testLostRaceDoesNotProlong},
	{"ListOmitsExpired", testListExpired},
	{"BatchSwapProlongs", testBatchProlongs},
	{"LogExpires", testLogExpires},
	{"AppendProlongsEntriesOfItsKind", testAppendProlongs},
	{"LogDoesNotProlongTheRecord", testLogDoesNotProlong},
}

func testExpired(t *testing.T, s suite) {
	f := s.openExpiring(t)
	k := key("target")
	v := f.create(k, "value")
	f.pass(3)
	f.wantRecord(k, v, "value")
	f.pass(2)
	f.wantMissing(k)
	if f.delete(k) {
		t.Error("Delete reports an expired record")
	}
}

func testExpiredLoses(t *testing.T, s suite) {
	f := s.openExpiring(t)
	k := key("target")
	v := f.create(k, "value")
	f.pass(5)
	f.checkMissing("a lost race", k, f.lose(k, v, "second"))
	f.wantMissing(k)
}

func testExpiredRecreated(t *testing.T, s suite) {
	f := s.openExpiring(t)
	k := key("target")
	old := f.create(k, "value")
	f.pass(5)
	v := f.create(k, "value")
	f.checkRecord("a lost race", k, f.lose(k, old, "second"), v, "value")
	f.pass(3)
	f.wantRecord(k, v, "value")
}

func testSwapProlongs(t *testing.T, s suite) {
	f := s.openExpiring(t)
	k := key("target")
	v := f.create(k, "first")
	f.pass(3)
	v = f.replace(k, v, "second")
	f.pass(3)
	v = f.replace(k, v, "second") // an equal value, too
	f.pass(3)
	f.wantRecord(k, v, "second")
	f.pass(2)
	f.wantMissing(k)
}

func testLoadDoesNotProlong(t *testing.T, s suite) {
	f := s.openExpiring(t)
	k := key("target")
	v := f.create(k, "value")
	f.pass(3)
	f.checkRecord("Load", k, f.load(k), v, "value")
	f.checkRecord("LoadBatch", k, f.loadBatch(k)[0], v, "value")
	f.wantKeys("all", f.list(store.Filter{}, store.Key{}, 10), []store.Key{k})
	f.pass(2)
	f.wantMissing(k)
}

func testLostRaceDoesNotProlong(t *testing.T, s suite) {
	f := s.openExpiring(t)
	k := key("target")
	first := f.create(k, "first")
	v := f.replace(k, first, "second")
	f.pass(3)
	f.checkRecord("a lost race", k, f.lose(k, first, "third"), v, "second")
	f.checkRecord("a lost race", k, f.lose(k, "", "third"), v, "second")
	f.pass(2)
	f.wantMissing(k)
}

func testListExpired(t *testing.T, s suite) {
	f := s.openExpiring(t)
	keys := numbered(9)
	f.createAll(keys)
	f.pass(3)
	var alive []store.Key
	for i := 2; i < len(keys); i += 3 {
		f.replace(keys[i], f.load(keys[i]).Version, "second")
		alive = append(alive, keys[i])
	}
	f.pass(2)
	// A page is full although expired keys lie between. This comes first: listing
	// expired keys may remove them.
	f.wantKeys("two", f.list(store.Filter{}, store.Key{}, 2), alive[:2])
	f.wantKeys("filtered", f.list(store.Filter{Cluster: "cluster", Namespace: "namespace"}, keys[0], 2), alive[:2])
	f.wantKeys("rest", f.list(store.Filter{}, alive[1], 2), alive[2:])
	f.wantKeys("all", f.list(store.Filter{}, store.Key{}, 100), alive)

	f.create(keys[0], "again")
	f.wantKeys("all and the recreated", f.list(store.Filter{}, store.Key{}, 100), append(keys[:1:1], alive...))
}

func testBatchProlongs(t *testing.T, s suite) {
	f := s.openExpiring(t)
	prolonged, lost := key("prolonged"), key("lost")
	created := f.swapBatch(store.Swap{Key: prolonged}, store.Swap{Key: lost})
	f.pass(3)
	results := f.swapBatch(
		store.Swap{Key: prolonged, Old: created[0].Record.Version, Value: []byte("second")},
		store.Swap{Key: lost, Old: created[0].Record.Version, Value: []byte("second")})
	f.pass(2)
	recs := f.loadBatch(prolonged, lost)
	f.checkRecord("LoadBatch", prolonged, recs[0], results[0].Record.Version, "second")
	f.checkMissing("LoadBatch", lost, recs[1])
	f.pass(3)
	f.wantMissing(prolonged)
}

func testLogExpires(t *testing.T, s suite) {
	f := s.openExpiring(t)
	k := key("target")
	f.appendLog(k, "1", "2")
	f.pass(3)
	f.wantLog(k, "2", "1")
	f.pass(2)
	f.wantLog(k)
	f.appendLog(k, "3")
	f.wantLog(k, "3")
}

func testAppendProlongs(t *testing.T, s suite) {
	f := s.openExpiring(t)
	k := key("target")
	f.appendLog(k, "1")
	f.pass(3)
	f.appendLog(k, "2")
	f.pass(3)
	f.wantLog(k, "2", "1")
	f.appendEntries(store.LogEntry{Key: k, Value: []byte("3"), Kept: true})
	f.wantLog(k, "3", "2", "1")
	f.pass(2)
	f.wantLog(k, "3")
	f.appendLog(k, "4")
	f.wantLog(k, "4", "3")
	f.pass(4)
	f.wantLog(k)
}

func testLogDoesNotProlong(t *testing.T, s suite) {
	f := s.openExpiring(t)
	k := key("target")
	f.create(k, "value")
	f.pass(3)
	f.appendLog(k, "entry")
	f.pass(2)
	f.wantMissing(k)
	f.wantLog(k, "entry")
}
