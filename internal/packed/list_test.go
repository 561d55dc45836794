package packed

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestNumbersAreVarints(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		v := int64(random.Uint64()) >> random.IntN(64)
		b := binary.AppendVarint(nil, v)
		want := len(b)
		if string(appendVarint(nil, v)) != string(b) {
			t.Fatalf("%d is written in other bytes", v)
		}
		for range random.IntN(9) {
			b = append(b, byte(random.Uint32()))
		}
		if got, n := number(b); got != v || n != want {
			t.Fatalf("%x is %d of %d bytes, want %d of %d", b, got, n, v, want)
		}
	}
	for name, b := range map[string][]byte{"nothing": nil, "no end": {0x80, 0x80}, "no end in a word": slices.Repeat([]byte{0x80}, 8), "too long": slices.Repeat([]byte{0xff}, 11)} {
		if _, n := number(b); n > 0 {
			t.Errorf("%s is a number of %d bytes", name, n)
		}
	}
}

func randomList(random *rand.Rand, n int) (all []Slot) {
	at := int64(1 << 60)
	for range n {
		at += random.Int64N(1e10) - 1e9
		all = append(all, Slot{int32(random.Uint32() >> random.IntN(32)), at})
	}
	return all
}

// What Pack writes is what Append writes, and the list, its blocks and their numbers come back; changed in any slot,
// or longer, it is what Pack makes of the changed list.
func TestAListIsWhatWasPacked(t *testing.T) {
	random, room := rand.New(rand.NewPCG(2, 2)), new(Room)
	for range 400 {
		n := []int{Least, Least + 1, 3 * PerBlock, Least + random.IntN(3*PerBlock)}[random.IntN(4)]
		list, base := randomList(random, n), random.Int64()
		b, index := Pack(nil, base, list)
		if string(b) != string(Append(nil, base, list)) {
			t.Fatal("the numbers are others")
		}
		indexed := AppendIndex(nil, base, index)
		if bytes, ok := LengthIn(append(slices.Clone(b), indexed...)); !ok || bytes != len(b) {
			t.Fatalf("the numbers take %d bytes, want %d", bytes, len(b))
		}
		p := room.Open(b, base, n, indexed)
		if p == nil || p.Len() != n || !slices.Equal(All[Slot](p), list) || !slices.Equal(p.Blocks(), index) {
			t.Fatalf("%d slots do not come back", n)
		}
		for i := range index {
			of := list[i*PerBlock : min(n, (i+1)*PerBlock)]
			if !slices.Equal(p.Read(i), of) || p.LenOf(i) != len(of) {
				t.Fatalf("block %d is\n%v, want\n%v", i, p.Read(i), of)
			}
		}
		slot := random.IntN(n)
		if edge := random.IntN(5); edge < 2 {
			slot = min(n-1, PerBlock*random.IntN(4)+random.IntN(7)-3+3*edge)
			slot = max(slot, 0)
		}
		if random.IntN(4) == 0 {
			slot = -1
		}
		to := Slot{int32(random.Uint32() >> random.IntN(32)), base}
		with, want := p.With(slot, to), slices.Clone(list)
		if slot < 0 {
			want = append(want, to)
		} else {
			want[slot] = to
		}
		next := base + random.Int64N(2)*1e9
		got, gotIndex := with.Append(nil, next, room)
		wantBytes, wantIndex := Pack(nil, next, want)
		if string(got) != string(wantBytes) || !slices.Equal(gotIndex, wantIndex) || !slices.Equal(All[Slot](with), want) || with.Len() != len(want) {
			t.Fatalf("with slot %d of %d changed:\n%x\n%v, want\n%x\n%v", slot, n, got, gotIndex, wantBytes, wantIndex)
		}
	}
}

// An index that does not fit is refused, and numbers that are none are zeros: bytes of another writer stop nothing.
func TestWhatDoesNotFitIsNoList(t *testing.T) {
	random, room := rand.New(rand.NewPCG(3, 3)), new(Room)
	list := randomList(random, Least+9)
	b, index := Pack(nil, 0, list)
	good := AppendIndex(nil, 0, index)
	other := slices.Clone(index)
	other[1].from = other[0].from
	for name, tt := range map[string]struct {
		numbers []byte
		n       int
		index   []byte
	}{
		"no index":                 {b, len(list), nil},
		"half an index":            {b, len(list), good[len(good)/2:]},
		"a byte more":              {b, len(list), append([]byte{2}, good...)},
		"blocks for fewer":         {b, 2*PerBlock + 9 + PerBlock, good},
		"blocks for more":          {b, 2 * PerBlock, good},
		"a list that needs none":   {b, 3, good},
		"more than there are":      {b, math.MaxInt, good},
		"fewer numbers":            {b[:len(b)-1], len(list), good},
		"more numbers":             {append(slices.Clone(b), 0), len(list), good},
		"numbers of a block twice": {b, len(list), AppendIndex(nil, 0, append(other[:1:1], append([]Block{other[1]}, index[2:]...)...))},
	} {
		if p := room.Open(tt.numbers, 0, tt.n, tt.index); p != nil {
			t.Errorf("%s: opened", name)
		}
	}
	for range 20_000 {
		damaged, numbers := slices.Clone(good), slices.Clone(b)
		for range 1 + random.IntN(3) {
			damaged[random.IntN(len(damaged))] = byte(random.Uint32())
			numbers[random.IntN(len(numbers))] = byte(random.Uint32())
		}
		p := room.Open(numbers, 0, len(list), damaged)
		if p == nil {
			continue
		}
		for i := range p.Blocks() {
			p.Read(i)
		}
		All[Slot](p)
		p.With(random.IntN(len(list)+1)-1, Slot{}).Append(nil, 5, room)
	}
}
