package wire

import (
	"fmt"
	"testing"
)

// What is asked for stays; the rest is forgotten before there is too much of it.
func TestMemoIsBoundedAndKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	m := memo[int]{limit: 20 * memoEntry}
	used := 7
	m.put([]byte("used"), &used)
	most := 0
	for i := range 1000 {
		key := fmt.Appendf(nil, "key %d", i)
		if m.get(key) != nil {
			t.Fatalf("%q was there", key)
		}
		m.put(key, &i)
		if got := m.get(key); got == nil || *got != i {
			t.Fatalf("%q is not there", key)
		}
		if i%5 == 0 {
			if got := m.get([]byte("used")); got == nil || *got != 7 {
				t.Fatalf("%d later what is used is not there", i)
			}
		}
		most = max(most, len(m.recent)+len(m.older))
	}
	if most < 20 || most > 50 {
		t.Errorf("%d were there at most", most)
	}
	if m.get([]byte("key 0")) != nil {
		t.Error("what is not used stays for ever")
	}
	long := make([]byte, 20*memoEntry)
	m.put(long, &used)
	m.put([]byte("next"), &used)
	if len(m.recent) != 1 {
		t.Errorf("what is long weighs little: %d are there beside it", len(m.recent))
	}
}
