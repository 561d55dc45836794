package cost

import (
	"math"
	"os"
	"strings"
	"testing"
)

func TestThePageIsUpToDate(t *testing.T) {
	t.Parallel()
	m, err := Committed()
	if err != nil {
		t.Fatal(err)
	}
	tables, err := m.Page()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/operate/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	_, written, _, err := generated(string(page))
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(written) != strings.TrimSpace(tables) {
		t.Error("the tables in docs/operate/scaling.md are not those of the committed points: cd bench && go run . cost -update ../docs/operate/scaling.md")
	}
}

func TestEveryLoadHasAPoint(t *testing.T) {
	t.Parallel()
	m, err := Committed()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range loads() {
		if _, err := m.find(l); err != nil {
			t.Error(err)
		}
	}
}

// Worked by hand: 150,000 targets every 15 s are 10,000/s; 48 µs each keep 0.48 cores busy.
func TestSizes(t *testing.T) {
	t.Parallel()
	s := sizeOf(150_000, &Point{Service: 48, Redis: 70}, &Bytes{ToService: 1000, FromService: 250, ToRedis: 300, FromRedis: 200})
	for _, test := range []struct {
		name      string
		got, want float64
	}{
		{"recommendations/s", s.rate, 10_000},
		{"cores", s.cores, .48},
		{"instances: one of 4 × 0.6 cores, and a spare one", s.instances, 2},
		{"threads of Redis", s.threads, .7},
		{"shards: 0.7 / 0.6", s.shards, 2},
		{"bits of callers", s.callersBits, 1e8},
		{"bits of Redis", s.redisBits, 4e7},
	} {
		if math.Abs(test.got-test.want) > 1e-9*test.want {
			t.Errorf("%s: got %v, want %v", test.name, test.got, test.want)
		}
	}
}
