package bounded_test

import (
	"sync"
	"testing"

	"github.com/setpoint-dev/setpoint/server/bounded"
)

func TestMapIsBounded(t *testing.T) {
	for _, bound := range []int{0, 1, 2, 3, 10, 100} {
		m := bounded.New[int, int](bound)
		for n := range 1000 {
			m.Put(n, n)
			if got, ok := m.Get(n); !ok || got != n {
				t.Fatalf("bound %d: %d was forgotten at once", bound, n)
			}
			if m.Len() > max(bound, 2) {
				t.Fatalf("bound %d: %d entries", bound, m.Len())
			}
		}
	}
}

func TestWhatIsUsedStays(t *testing.T) {
	m := bounded.New[int, string](10)
	m.Put(-1, "used")
	m.Put(-2, "unused")
	for n := range 100 {
		m.Put(n, "")
		if got, ok := m.Get(-1); !ok || got != "used" {
			t.Fatalf("forgotten after %d others", n)
		}
	}
	if _, ok := m.Get(-2); ok {
		t.Error("an unused entry is still there")
	}
}

func TestPutAndDelete(t *testing.T) {
	m := bounded.New[string, int](4)
	for _, key := range []string{"a", "b", "c"} { // a and b are of the older generation
		m.Put(key, 1)
	}
	m.Put("a", 2)
	if got, _ := m.Get("a"); got != 2 {
		t.Errorf("a is %d, want 2", got)
	}
	m.Delete("a")
	m.Delete("b")
	if _, ok := m.Get("a"); ok || m.Len() != 1 {
		t.Errorf("%d entries, want c alone", m.Len())
	}
}

func TestConcurrentUse(t *testing.T) {
	m := bounded.New[int, int](16)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for n := range 2000 {
				key := (n * (g + 1)) % 40
				m.Put(key, key)
				if got, ok := m.Get(key + 1); ok && got != key+1 {
					t.Errorf("%d holds %d", key+1, got)
				}
				if n%7 == 0 {
					m.Delete(key)
				}
			}
		})
	}
	all.Wait()
}

func TestEntriesWeighAtMostTheBound(t *testing.T) {
	const bound = 1000
	m := bounded.NewWeighted[int](bound, func(n int) int { return n })
	weigh := func() (all int) {
		m.Each(func(n int) { all += n })
		return all
	}
	for n := range 2000 {
		m.Put(n%70, n%41) // some are replaced by lighter and by heavier ones
		if n%7 == 0 {
			m.Delete((n + 35) % 70)
		}
		if got, ok := m.Get(n % 70); !ok || got != n%41 {
			t.Fatalf("%d was forgotten at once", n)
		}
		if all := weigh(); all > bound {
			t.Fatalf("after %d the entries weigh %d", n, all)
		}
	}
	if m.Len() < 20 {
		t.Errorf("only %d entries are left", m.Len())
	}
	m.Put(-1, 10*bound)
	if _, ok := m.Get(-1); !ok {
		t.Error("one that is too heavy is not kept alone")
	}
}
