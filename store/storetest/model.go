package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/store"
)

var modelTests = []test{
	{"RandomOperationsAnswerAsMapsWould", testModel},
}

// model is the contract in its simplest form: maps that predict the engine's results of
// the operations, which the model runs on both.
type model struct {
	fixture
	suite    suite
	random   *rand.Rand
	keys     []store.Key // keys used by the operations, in order
	records  map[store.Key]store.Record
	versions map[store.Key][]store.Version // all versions that ever existed
	logs     map[store.Key]*logModel
	serial   int // makes each value unique
}

func testModel(t *testing.T, s suite) {
	m := &model{
		fixture:  s.open(t),
		suite:    s,
		random:   rand.New(rand.NewPCG(1, 1)),
		records:  make(map[store.Key]store.Record),
		versions: make(map[store.Key][]store.Version),
		logs:     make(map[store.Key]*logModel),
	}
	for _, cluster := range []string{"a", "a-"} {
		for _, namespace := range []string{"a", "a."} {
			for _, target := range []string{"x", "x-", "y"} {
				m.keys = append(m.keys, store.Key{Cluster: cluster, Namespace: namespace, Target: target})
			}
		}
	}
	slices.SortFunc(m.keys, store.Key.Compare)
	operations := []func(){
		m.swapOne, m.swapOne, m.swapSome, m.deleteOne, m.loadOne, m.loadAll, m.listSome, m.appendOne, m.readOne,
	}
	for range 1500 {
		operations[m.random.IntN(len(operations))]()
	}
}

func (m *model) pick() store.Key { return m.keys[m.random.IntN(len(m.keys))] }

func (m *model) value() string {
	m.serial++
	return fmt.Sprint("value ", m.serial)
}

// attempt returns a swap with the current version, an old one or none.
func (m *model) attempt() store.Swap {
	k := m.pick()
	swap := store.Swap{Key: k, Old: m.records[k].Version, Value: []byte(m.value())}
	switch old := m.versions[k]; m.random.IntN(4) {
	case 0:
		swap.Old = ""
	case 1:
		if len(old) > 0 {
			swap.Old = old[m.random.IntN(len(old))]
		}
	}
	return swap
}

// apply checks the result of a swap and applies it to the model.
func (m *model) apply(swap store.Swap, res store.SwapResult) {
	current := m.records[swap.Key]
	if res.Swapped != (current.Version == swap.Old) {
		m.t.Fatalf("swap of %v from %q: swapped is %v, current %s", swap.Key, swap.Old, res.Swapped, show(current))
	}
	if !res.Swapped {
		m.checkRecord("a lost race", swap.Key, res.Record, current.Version, string(current.Value))
		return
	}
	v := res.Record.Version
	if slices.Contains(m.versions[swap.Key], v) {
		m.t.Fatalf("version %q of %v came back", v, swap.Key)
	}
	m.versions[swap.Key] = append(m.versions[swap.Key], v)
	m.records[swap.Key] = store.Record{Version: v, Value: swap.Value}
}

func (m *model) swapOne() {
	swap := m.attempt()
	m.apply(swap, m.swap(swap))
}

func (m *model) swapSome() {
	swaps := make([]store.Swap, 1+m.random.IntN(8))
	for i := range swaps {
		swaps[i] = m.attempt()
	}
	for i, res := range m.swapBatch(swaps...) {
		m.apply(swaps[i], res)
	}
}

func (m *model) deleteOne() {
	k := m.pick()
	if got, want := m.delete(k), m.records[k].Exists(); got != want {
		m.t.Fatalf("Delete(%v) = %v, want %v", k, got, want)
	}
	delete(m.records, k)
	delete(m.logs, k)
}

func (m *model) loadOne() {
	k := m.pick()
	want := m.records[k]
	m.checkRecord("Load", k, m.load(k), want.Version, string(want.Value))
}

func (m *model) loadAll() {
	for i, rec := range m.loadBatch(m.keys...) {
		want := m.records[m.keys[i]]
		m.checkRecord("LoadBatch", m.keys[i], rec, want.Version, string(want.Value))
	}
}

func (m *model) listSome() {
	var filter store.Filter
	var after store.Key
	if m.random.IntN(2) == 0 {
		filter.Cluster = m.pick().Cluster
	}
	if m.random.IntN(2) == 0 {
		filter.Namespace = m.pick().Namespace
	}
	if m.random.IntN(2) == 0 {
		after = m.pick()
	}
	limit := 1 + m.random.IntN(len(m.keys)+1)
	alive := slices.DeleteFunc(slices.Clone(m.keys), func(k store.Key) bool { return !m.records[k].Exists() })
	m.wantKeys(fmt.Sprintf("filter %q, after %q, limit %d", filter, after, limit),
		m.list(filter, after, limit), listed(alive, filter, after, limit))
}

func (m *model) appendOne() {
	k, value := m.pick(), m.value()
	if m.logs[k] == nil {
		m.logs[k] = &logModel{suite: m.suite}
	}
	entry := store.LogEntry{Key: k, Value: []byte(value), Kept: m.random.IntN(2) == 0, First: m.random.IntN(4) == 0}
	m.logs[k].append(entry)
	m.appendEntries(entry)
}

func (m *model) readOne() {
	k := m.pick()
	m.wantLog(k, m.logs[k].values()...)
}

// logModel is what a log has to have.
type logModel struct {
	suite
	entries []store.LogEntry // newest first
}

func (l *logModel) append(e store.LogEntry) {
	if e.First && len(l.entries) > 0 {
		return
	}
	l.entries = slices.Insert(l.entries, 0, e)
	left := map[bool]int{false: l.LogLength, true: l.KeptLength}
	l.entries = slices.DeleteFunc(l.entries, func(e store.LogEntry) bool {
		left[e.Kept]--
		return left[e.Kept] < 0
	})
}

func (l *logModel) values() (values []string) {
	if l != nil {
		for _, e := range l.entries {
			values = append(values, string(e.Value))
		}
	}
	return values
}
