package storetest

import (
	"testing"

	"github.com/setpoint-dev/setpoint/store"
)

var peerTests = []test{
	{"ShareRecordsAndLogs", testPeersShare},
	{"ShareVersions", testPeersVersions},
	{"CloseOnTheirOwn", testPeersClose},
	{"LoseNoUpdate", testPeersCount},
}

func testPeersShare(t *testing.T, s suite) {
	a, b := s.openPeers(t)
	k := key("target")
	v := a.create(k, "first")
	b.wantRecord(k, v, "first")
	b.wantKeys("all", b.list(store.Filter{}, store.Key{}, 10), []store.Key{k})

	second := b.replace(k, v, "second")
	a.checkRecord("a lost race", k, a.lose(k, v, "third"), second, "second")

	a.appendLog(k, "1", "2")
	b.wantLog(k, "2", "1")
	_, next := a.readLog(k, "", 1)
	if page, _ := b.readLog(k, next, 1); len(page) != 1 || page[0] != "1" {
		t.Errorf("from another engine's position: %q, want [\"1\"]", page)
	}

	b.mustDelete(k)
	a.wantMissing(k)
	a.wantLog(k)
}

func testPeersVersions(t *testing.T, s suite) {
	a, b := s.openPeers(t)
	k := key("target")
	seen := make(map[store.Version]bool)
	for range 5 {
		for _, f := range []fixture{a, b} {
			v := f.create(k, "value")
			if seen[v] {
				t.Fatalf("version %q came back", v)
			}
			seen[v] = true
			f.mustDelete(k)
		}
	}
}

// testPeersClose is what a restart is, too: one engine goes, another stays.
func testPeersClose(t *testing.T, s suite) {
	a, b := s.openPeers(t)
	k := key("target")
	v := a.create(k, "value")
	if err := a.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	b.wantRecord(k, v, "value")
	b.mustDelete(k)
	recreated := b.create(k, "value")
	b.checkRecord("a lost race", k, b.lose(k, v, "second"), recreated, "value")
}

func testPeersCount(t *testing.T, s suite) {
	a, b := s.openPeers(t)
	countUp(t, a.Engine, b.Engine)
}
