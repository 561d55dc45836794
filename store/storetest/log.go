package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/store"
)

var logTests = []test{
	{"MissingIsEmpty", testLogMissing},
	{"NewestFirst", testLogOrder},
	{"EntriesOfSeveralKeys", testLogKeys},
	{"DropsTheOldestPastTheBound", testLogBound},
	{"Pages", testLogPages},
	{"PositionsStayWhenEntriesAreAppended", testLogPositionStays},
	{"PositionsMayBeDropped", testLogPositionDropped},
	{"InvalidPosition", testLogInvalidPosition},
	{"FirstEntriesBeginLogsOnly", testLogFirst},
	{"KeepsWhatIsKeptLonger", testLogKept},
	{"OrderOfWhatIsKeptLonger", testLogOrderOfKept},
	{"IndependentOfTheRecord", testLogIndependent},
	{"DeletedWithTheKey", testLogDeleted},
}

// entries returns the values from last down to first.
func entries(last, first int) []string {
	var values []string
	for i := last; i >= first; i-- {
		values = append(values, fmt.Sprintf("entry %d", i))
	}
	return values
}

// appendNumbered appends entries first to last, half of them one at a time.
func (f fixture) appendNumbered(key store.Key, first, last int) {
	f.t.Helper()
	values := entries(last, first)
	slices.Reverse(values)
	half := len(values) / 2
	f.appendLog(key, values[:half]...)
	for _, value := range values[half:] {
		f.appendLog(key, value)
	}
}

func testLogMissing(t *testing.T, s suite) {
	f := s.open(t)
	f.wantLog(key("target"))
	f.create(key("target"), "value")
	f.wantLog(key("target"))
}

func testLogOrder(t *testing.T, s suite) {
	f := s.open(t)
	k := key("target")
	f.appendLog(k, "1")
	f.appendLog(k, "2", "3")
	f.appendLog(k, "3")
	f.wantLog(k, "3", "3", "2", "1")
}

func testLogKeys(t *testing.T, s suite) {
	f := s.open(t)
	a, b := key("a"), key("b")
	f.appendEntries(
		store.LogEntry{Key: a, Value: []byte("a1")},
		store.LogEntry{Key: b, Value: []byte("b1")},
		store.LogEntry{Key: a, Value: []byte("a2")},
		store.LogEntry{Key: b, Value: []byte("b2")})
	f.wantLog(a, "a2", "a1")
	f.wantLog(b, "b2", "b1")
}

func testLogBound(t *testing.T, s suite) {
	f := s.open(t)
	k, n := key("target"), s.LogLength
	f.appendNumbered(k, 1, n)
	f.wantLog(k, entries(n, 1)...)
	f.appendLog(k, fmt.Sprintf("entry %d", n+1))
	f.wantLog(k, entries(n+1, 2)...)
	f.appendNumbered(k, n+2, 3*n)
	f.wantLog(k, entries(3*n, 2*n+1)...)

	all := entries(2*n, 1)
	slices.Reverse(all)
	f.appendLog(key("at once"), all...)
	f.wantLog(key("at once"), entries(2*n, n+1)...)
}

func testLogPages(t *testing.T, s suite) {
	f := s.open(t)
	n := s.LogLength
	for _, last := range []int{n - 1, n, n + n/2} { // the last one is past the bound
		k := key(fmt.Sprint("log of ", last))
		f.appendNumbered(k, 1, last)
		for _, limit := range []int{1, 2, 3, n - 1, n, n + 1} {
			f.wantPages(k, limit, entries(last, max(1, last-n+1)))
		}
	}
}

// wantPages checks that pages of limit entries make up the log, and that there
// is no position past the last one.
func (f fixture) wantPages(k store.Key, limit int, want []string) {
	f.t.Helper()
	var got []string
	for before := ""; ; {
		page, next := f.readLog(k, before, limit)
		got = append(got, page...)
		if next == "" {
			break
		}
		if len(page) < limit || len(got) >= len(want) {
			f.t.Fatalf("%v in pages of %d: position %q after a page of %d, %d of %d entries read",
				k, limit, next, len(page), len(got), len(want))
		}
		before = next
	}
	if !slices.Equal(got, want) {
		f.t.Fatalf("%v in pages of %d: %q, want %q", k, limit, got, want)
	}
}

// mustDeleteLog deletes a key that has only a log.
func (f fixture) mustDeleteLog(key store.Key) {
	f.t.Helper()
	if f.delete(key) {
		f.t.Fatalf("Delete(%v) reports a record where there was but a log", key)
	}
	f.wantLog(key)
}

func testLogPositionStays(t *testing.T, s suite) {
	f := s.open(t)
	k := key("target")
	f.appendNumbered(k, 1, 3)
	page, next := f.readLog(k, "", 1)
	if want := entries(3, 3); !slices.Equal(page, want) {
		t.Fatalf("first page %q, want %q", page, want)
	}
	f.appendLog(k, "entry 4")
	for range 2 { // a position can be used again
		if page, last := f.readLog(k, next, 5); !slices.Equal(page, entries(2, 1)) || last != "" {
			t.Fatalf("second page %q, position %q, want %q and none", page, last, entries(2, 1))
		}
	}
}

func testLogPositionDropped(t *testing.T, s suite) {
	f := s.open(t)
	k, n := key("target"), s.LogLength
	f.appendNumbered(k, 1, n)
	_, next := f.readLog(k, "", 1) // before entry n

	f.appendNumbered(k, n+1, n+2)
	if page, last := f.readLog(k, next, n); !slices.Equal(page, entries(n-1, 3)) || last != "" {
		t.Fatalf("after two more entries: %q, position %q, want %q and none", page, last, entries(n-1, 3))
	}
	f.appendNumbered(k, n+3, 3*n)
	if page, last := f.readLog(k, next, n); len(page) != 0 || last != "" {
		t.Fatalf("after everything older was dropped: %q, position %q, want neither", page, last)
	}
	f.mustDeleteLog(k)
	if page, last := f.readLog(k, next, n); len(page) != 0 || last != "" {
		t.Fatalf("after the log was deleted: %q, position %q, want neither", page, last)
	}
}

func testLogInvalidPosition(t *testing.T, s suite) {
	f := s.open(t)
	f.appendNumbered(key("target"), 1, 3)
	for _, k := range []store.Key{key("target"), key("missing")} {
		for _, before := range []string{"no position", " ", "\x00", "-", "(", "é", "1 OR 1"} {
			if values, next, err := f.ReadLog(t.Context(), k, before, 1); !errors.Is(err, store.ErrInvalidPosition) {
				t.Errorf("ReadLog(%v) from %q returned %q, %q, %v, want ErrInvalidPosition", k, before, values, next, err)
			}
		}
	}
}

func testLogFirst(t *testing.T, s suite) {
	f := s.open(t)
	k, other := key("target"), key("other")
	first := func(k store.Key, value string) store.LogEntry {
		return store.LogEntry{Key: k, Value: []byte(value), First: true}
	}
	f.appendEntries(first(k, "1"), first(k, "not the first"), store.LogEntry{Key: k, Value: []byte("2")}, first(other, "1"))
	f.appendEntries(first(k, "nor this one"), store.LogEntry{Key: k, Value: []byte("nor one kept longer"), First: true, Kept: true})
	f.wantLog(k, "2", "1")
	f.wantLog(other, "1")
	f.mustDeleteLog(k)
	f.appendEntries(first(k, "1 again"))
	f.appendLog(k, "2 again")
	f.wantLog(k, "2 again", "1 again")
}

func testLogKept(t *testing.T, s suite) {
	f := s.open(t)
	k, n := key("target"), s.KeptLength
	kept := entries(n, 1)
	for _, value := range slices.Backward(kept) {
		f.appendEntries(store.LogEntry{Key: k, Value: []byte(value), Kept: true})
	}
	f.appendEntries(store.LogEntry{Key: k, Value: []byte("not the first"), First: true})
	f.wantLog(k, kept...)
	others := entries(n+3*s.LogLength, n+1)
	for _, value := range slices.Backward(others) {
		f.appendLog(k, value)
	}
	f.wantLog(k, slices.Concat(others[:s.LogLength], kept)...)
	last := fmt.Sprint("entry ", n+3*s.LogLength+1)
	f.appendEntries(store.LogEntry{Key: k, Value: []byte(last), Kept: true})
	f.wantLog(k, slices.Concat([]string{last}, others[:s.LogLength], kept[:n-1])...)
	for _, first := range []store.LogEntry{{First: true}, {First: true, Kept: true}} {
		first.Key = k
		f.appendEntries(first)
	}
	f.wantPages(k, s.LogLength+n, slices.Concat([]string{last}, others[:s.LogLength], kept[:n-1]))
	f.mustDeleteLog(k)
	var atOnce []store.LogEntry
	for _, value := range slices.Backward(entries(2*n, 1)) {
		atOnce = append(atOnce, store.LogEntry{Key: k, Value: []byte(value), Kept: true})
	}
	f.appendEntries(atOnce...)
	f.wantLog(k, entries(2*n, 1)[:n]...)
	f.mustDeleteLog(k)
}

// Entries keep their order, whichever are kept longer, and positions stay while more are appended.
func testLogOrderOfKept(t *testing.T, s suite) {
	f := s.open(t)
	random := rand.New(rand.NewPCG(2, 2))
	for round := range 30 {
		k := key(fmt.Sprint("target ", round))
		model := &logModel{suite: s}
		grow := func(n int) {
			for range n {
				e := store.LogEntry{Key: k, Value: fmt.Append(nil, "entry ", random.Int()), Kept: random.IntN(1+round%4) == 0}
				model.append(e)
				f.appendEntries(e)
			}
		}
		grow(random.IntN(3 * s.KeptLength))
		for limit := 1; limit <= s.LogLength+s.KeptLength; limit += 1 + random.IntN(4) {
			f.wantPages(k, limit, model.values())
		}
		was := model.values()
		page, next := f.readLog(k, "", 1+random.IntN(s.KeptLength))
		grow(random.IntN(s.LogLength))
		if next == "" {
			continue
		}
		left := slices.DeleteFunc(was[len(page):], func(v string) bool { return !slices.Contains(model.values(), v) })
		if got, last := f.readLog(k, next, len(was)+1); !slices.Equal(got, left) || last != "" {
			t.Fatalf("after more were appended: %q, position %q, want %q and none", got, last, left)
		}
	}
}

func testLogIndependent(t *testing.T, s suite) {
	f := s.open(t)
	k := key("target")
	f.appendLog(k, "before the record")
	f.wantMissing(k)
	v := f.create(k, "value")
	f.appendLog(k, "after it")
	f.wantRecord(k, v, "value")
	v = f.replace(k, v, "second")
	f.wantRecord(k, v, "second")
	f.wantLog(k, "after it", "before the record")
}

func testLogDeleted(t *testing.T, s suite) {
	f := s.open(t)
	k, other := key("target"), key("other")
	f.create(k, "value")
	f.appendLog(k, "entry")
	f.appendLog(other, "other entry")
	f.mustDelete(k)
	f.wantLog(k)
	f.wantLog(other, "other entry")
	f.appendLog(k, "new entry")
	f.wantLog(k, "new entry")
	f.mustDeleteLog(k)
}
