package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/store"
)

// TestIndexAnswersAsASortedSliceWould grows and shrinks an index of several
// chunks at random.
func TestIndexAnswersAsASortedSliceWould(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	names := []string{"a", "a-", "a.", "a0", "aa", "b"}
	name := func() string { return names[random.IntN(len(names))] }
	var x index
	var model []store.Key
	for step := range 20_000 {
		k := store.Key{Cluster: name(), Namespace: name(), Target: fmt.Sprint(random.IntN(100))}
		i, found := slices.BinarySearchFunc(model, k, store.Key.Compare)
		grow := step/4000%2 == 0 || random.IntN(4) == 0
		switch {
		case grow && !found:
			model = slices.Insert(model, i, k)
			x.insert(k)
		case !grow && found:
			model = slices.Delete(model, i, i+1)
			x.remove(k)
		}
		if step%50 != 0 {
			continue
		}
		checkChunks(t, &x, model)
		filter := store.Filter{Cluster: name(), Namespace: name()}
		if random.IntN(2) == 0 {
			filter.Cluster = ""
		}
		if random.IntN(2) == 0 {
			filter.Namespace = ""
		}
		limit := 1 + random.IntN(200)
		var want []store.Key
		for _, m := range model {
			if len(want) < limit && filter.Matches(m) && m.Compare(k) > 0 {
				want = append(want, m)
			}
		}
		if got := x.page(filter, k, limit); !slices.Equal(got, want) {
			t.Fatalf("step %d: page(%+v, %v, %d) = %v, want %v", step, filter, k, limit, got, want)
		}
	}
	for _, k := range model {
		x.remove(k)
	}
	if len(x.chunks) != 0 {
		t.Errorf("%d chunks are left of nothing", len(x.chunks))
	}
}

func TestIndexOfKeysInOrderHasFullChunks(t *testing.T) {
	const chunks = 10
	var x index
	var keys []store.Key
	for i := range chunks * chunkLength {
		keys = append(keys, numbered(i))
		x.insert(keys[i])
	}
	checkChunks(t, &x, keys)
	if len(x.chunks) != chunks {
		t.Errorf("%d chunks, want %d", len(x.chunks), chunks)
	}
}

// checkChunks checks that the index holds the keys, and as its field's comment
// says.
func checkChunks(t *testing.T, x *index, keys []store.Key) {
	t.Helper()
	var held []store.Key
	for i := range x.chunks {
		c := x.chunks[i]
		if len(c) == 0 || len(c) > chunkLength || cap(c) != chunkLength {
			t.Fatalf("chunk %d has %d keys and room for %d", i, len(c), cap(c))
		}
		held = append(held, c...)
	}
	if !slices.Equal(held, keys) {
		t.Fatal("the index does not hold the keys, or not in order")
	}
}

func BenchmarkIndexInsert(b *testing.B) {
	keys := make([]store.Key, 1_000_000)
	for i := range keys {
		keys[i] = numbered(i)
	}
	for _, order := range []string{"ascending", "random"} {
		if order == "random" {
			rand.New(rand.NewPCG(1, 1)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		}
		b.Run("order="+order, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var x index
				for _, k := range keys {
					x.insert(k)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/key")
		})
	}
}
