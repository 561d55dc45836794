package fleet

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// weighted makes seats of those weights without bounds; all of the last shares are ready.
func weighted(weights []int32, last ...int32) []Seat {
	seats := make([]Seat, len(weights))
	for i := range seats {
		seats[i] = Seat{Weight: weights[i], Cap: math.MaxInt32}
		if last != nil {
			seats[i].Last, seats[i].Ready = last[i], last[i]
		}
	}
	return seats
}

func bounded(seats []Seat, floors, caps []int32) []Seat {
	for i := range seats {
		if floors != nil {
			seats[i].Floor = floors[i]
		}
		if caps != nil && caps[i] > 0 {
			seats[i].Cap = caps[i]
		}
	}
	return seats
}

func TestSplitWorkedExamples(t *testing.T) {
	south := []int32{170, 110, 60}
	for _, tt := range []struct {
		name     string
		seats    []Seat
		total    int32
		want     []int32
		unplaced int64
	}{
		{"M1 five", weighted(south), 5, []int32{2, 2, 1}, 0},
		{"M1 six", weighted(south, 2, 2, 1), 6, []int32{3, 2, 1}, 0},
		{"M2 three", weighted([]int32{1, 3, 3}), 3, []int32{1, 1, 1}, 0},
		{"M2 four", weighted([]int32{1, 3, 3}, 1, 1, 1), 4, []int32{1, 2, 1}, 0},
		{"M3 floors are first seats", bounded(weighted([]int32{2, 3}), []int32{2, 4}, []int32{6, 8}), 10, []int32{4, 6}, 0},
		{"M4 a cap", bounded(weighted([]int32{1, 1, 1}), nil, []int32{2, 0, 0}), 12, []int32{2, 5, 5}, 0},
		{"M5 what does not fit", bounded(weighted([]int32{1, 1}), nil, []int32{3, 4}), 12, []int32{3, 4}, 5},
		{"M6 additions heal", weighted([]int32{1, 1, 1}, 6, 3, 3), 14, []int32{6, 4, 4}, 0},
		{"M6 removals heal", weighted([]int32{1, 1, 1}, 6, 3, 3), 9, []int32{3, 3, 3}, 0},
		{"M8 the load of a lost one", []Seat{{Weight: 1, Cap: 20, Last: 4}, {Weight: 1, Cap: 20, Last: 4}, {Frozen: true}}, 15, []int32{8, 7, 0}, 0},
		{"small members get some", weighted([]int32{2, 1}), 2, []int32{1, 1}, 0},
		{"a frozen one is subtracted", []Seat{{Weight: 1, Cap: 20, Last: 4}, {Weight: 1, Cap: 20, Last: 4}, {Frozen: true, Last: 4}}, 14, []int32{5, 5, 4}, 0},
		{"floors are kept beside a frozen one", []Seat{{Weight: 1, Floor: 2, Cap: 20, Last: 4}, {Weight: 1, Floor: 2, Cap: 20, Last: 4}, {Frozen: true, Last: 6}}, 7, []int32{2, 2, 6}, 0},
		{"zero is zero", bounded(weighted([]int32{1, 1}, 3, 3), []int32{2, 2}, nil), 0, []int32{0, 0}, 0},
		{"a cap is above a floor", bounded(weighted([]int32{1, 1}), []int32{5, 0}, []int32{3, 0}), 5, []int32{3, 2}, 0},
		{"drained, one at a time", []Seat{{Weight: 1, Cap: 20, Last: 4, Ready: 4}, {Cap: 20, Last: 4, Ready: 4}}, 8, []int32{5, 3}, 0},
		{"drained, the others not ready", []Seat{{Weight: 1, Cap: 20, Last: 5, Ready: 4}, {Cap: 20, Last: 3, Ready: 3}}, 8, []int32{5, 3}, 0},
		{"drained, fewer are wanted", []Seat{{Weight: 1, Cap: 20, Last: 5, Ready: 4}, {Cap: 20, Last: 3, Ready: 3}}, 6, []int32{5, 1}, 0},
		{"drained, the others full", []Seat{{Weight: 1, Cap: 4, Last: 4, Ready: 4}, {Cap: 20, Last: 4, Ready: 4}}, 8, []int32{4, 4}, 0},
		{"drained, but keeps what it would not give", []Seat{{Weight: 1, Cap: 20, Last: 4, Ready: 4}, {Cap: 20, Last: 4, Ready: 4, Keeps: 4}}, 8, []int32{4, 4}, 0},
		{"zero, but one keeps two", []Seat{{Weight: 1, Floor: 2, Cap: 20, Last: 3}, {Weight: 1, Floor: 1, Cap: 20, Last: 3, Keeps: 2}}, 0, []int32{0, 2}, 0},
		{"who keeps more than its cap has that", []Seat{{Weight: 1, Cap: 20, Last: 4}, {Weight: 1, Cap: 3, Keeps: 5}}, 8, []int32{5, 3}, 0},
		{"drained gains nothing", []Seat{{Weight: 1, Cap: 4, Last: 4, Ready: 2}, {Cap: 20, Last: 4, Ready: 4}}, 10, []int32{4, 4}, 2},
	} {
		got := Split(tt.seats, tt.total, 0)
		if !slices.Equal(got.Of, tt.want) || got.Unplaced != tt.unplaced {
			t.Errorf("%s: %v, unplaced %d, want %v, %d", tt.name, got.Of, got.Unplaced, tt.want, tt.unplaced)
		}
	}
}

func TestRebalanceMovesWhatIsReady(t *testing.T) {
	seats := weighted([]int32{1, 1, 1}, 8, 2, 2)
	for _, want := range [][]int32{{6, 3, 3}, {4, 4, 4}, {4, 4, 4}} {
		got := Split(seats, 12, 2).Of
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		for i := range seats {
			seats[i].Last = got[i]
		}
		if waits := Split(seats, 12, 2).Of; !slices.Equal(waits, got) {
			t.Fatalf("%v before those that were moved are ready, want %v", waits, got)
		}
		for i := range seats {
			seats[i].Ready = got[i]
		}
	}
}

func TestSurviveOneWorkedExamples(t *testing.T) {
	for _, tt := range []struct {
		name        string
		seats       []Seat
		total, most int32
		want        []int32
		missing     int32
	}{
		{"M7 equal", weighted([]int32{1, 1, 1}), 12, 1000, []int32{6, 6, 6}, 0},
		{"M7 unequal", weighted([]int32{170, 110, 60}), 12, 1000, []int32{12, 8, 4}, 0},
		{"1 to 9: the small one must carry all", weighted([]int32{1, 9}), 10, 1000, []int32{10, 85}, 0},
		{"1 to 9, with a bound of the large one", bounded(weighted([]int32{1, 9}), nil, []int32{1000, 10}), 10, 1000, []int32{10, 10}, 0},
		{"M7 two", weighted([]int32{1, 1}), 3, 1000, []int32{3, 3}, 0},
		{"from what runs", weighted([]int32{1, 1, 1}, 4, 4, 4), 12, 1000, []int32{6, 6, 6}, 0},
		{"from a drift", weighted([]int32{1, 1, 1}, 12, 0, 0), 12, 1000, []int32{12, 6, 6}, 0},
		{"the fleet's maximum", weighted([]int32{1, 1, 1}), 12, 15, []int32{5, 5, 5}, 2},
		{"full", bounded(weighted([]int32{1, 1}), nil, []int32{5, 5}), 6, 1000, []int32{5, 5}, 1},
		{"one of two alone", []Seat{{Weight: 1, Cap: 20, Last: 6}, {Frozen: true}}, 6, 20, []int32{6, 0}, 6},
		{"one alone, the other is drained", []Seat{{Weight: 1, Cap: 20, Last: 6}, {Last: 6}}, 6, 20, []int32{6, 0}, 6},
		{"one alone, a drained one keeps two", []Seat{{Weight: 1, Cap: 20, Last: 6}, {Last: 6, Keeps: 2}}, 6, 20, []int32{6, 2}, 4},
		{"one alone grows", []Seat{{Weight: 1, Cap: 20, Last: 6}, {Frozen: true}, {}}, 8, 20, []int32{8, 0, 0}, 8},
		{"one beside one that is held", []Seat{{Weight: 1, Cap: 20, Last: 6}, {Frozen: true, Last: 6}}, 8, 20, []int32{8, 6}, 2},
		{"one beside one that is full", bounded(weighted([]int32{1, 1}, 4, 4), nil, []int32{20, 5}), 8, 20, []int32{8, 5}, 3},
		{"two beside one that is full suffice", bounded(weighted([]int32{1, 1, 1}), nil, []int32{20, 20, 2}), 8, 40, []int32{6, 6, 2}, 0},
		{"all frozen", []Seat{{Frozen: true, Last: 6}, {Frozen: true, Last: 2}}, 6, 20, []int32{6, 2}, 4},
	} {
		got, missing := SplitSurviving(tt.seats, tt.total, tt.most, 0)
		if !slices.Equal(got.Of, tt.want) || missing != tt.missing || got.Unplaced != 0 {
			t.Errorf("%s: %v, missing %d, unplaced %d, want %v, %d, 0", tt.name, got.Of, missing, got.Unplaced, tt.want, tt.missing)
		}
	}
}

// Replicas move towards the largest, or from a member that is drained, and still as many remain without it.
func TestMovesSurviveOneToo(t *testing.T) {
	for _, tt := range []struct {
		name    string
		seats   []Seat
		want    []int32
		missing int32
	}{
		{"rebalancing", []Seat{{Weight: 1, Cap: 40, Last: 4, Ready: 4}, {Weight: 1, Cap: 40, Last: 4, Ready: 4}, {Weight: 4, Cap: 40, Last: 4, Ready: 4}}, []int32{4, 4, 14}, 0},
		{"draining", []Seat{{Weight: 1, Cap: 40, Last: 4, Ready: 4}, {Weight: 1, Cap: 40, Last: 4, Ready: 4}, {Last: 4, Ready: 4}}, []int32{7, 7, 1}, 0},
		{"with caps in the way", []Seat{{Weight: 1, Cap: 4, Last: 4, Ready: 4}, {Weight: 1, Cap: 2, Last: 2, Ready: 2}, {Weight: 4, Cap: 9, Last: 4, Ready: 4}}, []int32{4, 2, 9}, 2},
	} {
		got, missing := SplitSurviving(tt.seats, 8, 100, 3)
		if !slices.Equal(got.Of, tt.want) || missing != tt.missing {
			t.Errorf("%s: %v, missing %d, want %v, %d", tt.name, got.Of, missing, tt.want, tt.missing)
		}
	}
	r, moved := newRandom(8), 0
	for c := range 20_000 {
		seats, total := r.seats(r.between(2, 6), 30), int32(r.between(1, 40))
		for i := range seats {
			seats[i].Ready = seats[i].Last
		}
		most := int32(r.between(int(total), 200))
		got, missing := SplitSurviving(seats, total, most, int32(r.between(1, 5)))
		if want := max(0, int64(total)-remaining(got.Of)); int64(missing) != want {
			t.Fatalf("case %d: %d missing of %v for %d, %d remain: %+v", c, missing, got.Of, total, remaining(got.Of), seats)
		}
		if still, _ := SplitSurviving(seats, total, most, 0); !slices.Equal(still.Of, got.Of) {
			moved++
		}
	}
	if moved < 1000 {
		t.Errorf("%d cases moved something: too few", moved)
	}
}

// before reports whether the next seat of a, which has some, comes before that of b for its weight.
func before(a, b *Seat, has, others int32) bool {
	x, y := int64(a.Weight)*(2*int64(others)+1), int64(b.Weight)*(2*int64(has)+1)
	return x > y
}

// oneByOne is the method as it is described: a replica is added or taken at a time.
func oneByOne(seats []Seat, total int32) (shares []int32, unplaced int64) {
	shares = make([]int32, len(seats))
	low, high := make([]int32, len(seats)), make([]int32, len(seats))
	sum := int64(0)
	for i := range seats {
		s := &seats[i]
		low[i], high[i] = min(s.Floor, s.Cap), s.Cap
		if s.Frozen {
			low[i], high[i] = s.Last, s.Last
		}
		shares[i] = min(max(s.Last, low[i]), high[i])
		sum += int64(shares[i])
	}
	for ; sum < int64(total); sum++ {
		best := -1
		for i := range seats {
			if shares[i] < high[i] && (best < 0 || before(&seats[i], &seats[best], shares[i], shares[best]) ||
				!before(&seats[best], &seats[i], shares[best], shares[i]) && shares[i] < shares[best]) {
				best = i
			}
		}
		if best < 0 {
			return shares, int64(total) - sum
		}
		shares[best]++
	}
	for ; sum > int64(total); sum-- {
		worst := -1
		for i := range seats {
			if shares[i] > low[i] && (worst < 0 || before(&seats[worst], &seats[i], shares[worst]-1, shares[i]-1) ||
				!before(&seats[i], &seats[worst], shares[i]-1, shares[worst]-1) && shares[i] >= shares[worst]) {
				worst = i
			}
		}
		if worst < 0 {
			return shares, 0
		}
		shares[worst]--
	}
	return shares, 0
}

// seats are any members; mostly bounded.
func (r random) seats(n, most int) []Seat {
	seats := make([]Seat, n)
	for i := range seats {
		seats[i] = Seat{Weight: int32(r.between(1, oneOf(r, 3, 20, MaxWeight))), Cap: math.MaxInt32}
		if r.chance(40) {
			seats[i].Cap = int32(r.IntN(most))
		}
		if r.chance(40) {
			seats[i].Floor = int32(r.IntN(most/4 + 1))
		}
		if r.chance(60) {
			seats[i].Last = int32(r.IntN(most))
		}
		seats[i].Frozen = r.chance(10)
	}
	return seats
}

func TestSplitPropertiesHold(t *testing.T) {
	cases := 100_000
	if testing.Short() {
		cases = 10_000
	}
	r := newRandom(3)
	for c := range cases {
		n := r.between(2, 8)
		most := oneOf(r, 6, 30, 300)
		seats, total := r.seats(n, most), int32(r.between(1, 2*most))
		got := Split(seats, total, 0)
		want, unplaced := oneByOne(seats, total)
		if !slices.Equal(got.Of, want) || got.Unplaced != unplaced {
			t.Fatalf("case %d: %v, unplaced %d, one by one %v, %d\nof %d: %+v", c, got.Of, got.Unplaced, want, unplaced, total, seats)
		}
		checkShares(t, seats, total, got)
		// One more is one more in one place.
		more := Split(seats, total+1, 0)
		checkOneStep(t, seats, got, more)
		// Whatever the way, the result is that of a split from nothing.
		for i := range seats {
			seats[i].Last = 0
		}
		direct := Split(seats, total, 0)
		checkWebster(t, seats, direct.Of)
		for range 3 {
			follow(seats, Split(seats, int32(r.between(1, 2*most)), 0).Of)
		}
		if around := Split(seats, total, 0); !slices.Equal(around.Of, direct.Of) {
			t.Fatalf("case %d: %v, on another way %v\nof %d: %+v", c, direct.Of, around.Of, total, seats)
		}
	}
}

func follow(seats []Seat, shares []int32) {
	for i := range seats {
		if !seats[i].Frozen {
			seats[i].Last = shares[i]
		}
	}
}

// checkShares checks sum, bounds and movement.
func checkShares(t *testing.T, seats []Seat, total int32, got Shares) {
	t.Helper()
	sum, room, floors, moved, begin := int64(0), int64(0), int64(0), int64(0), int64(0)
	for i := range seats {
		s, share := &seats[i], got.Of[i]
		low, high := min(s.Floor, s.Cap), s.Cap
		if s.Frozen {
			low, high = s.Last, s.Last
		}
		if share < low || share > high {
			t.Fatalf("%d is not in %d to %d: %v of %+v", share, low, high, got.Of, seats)
		}
		start := min(max(s.Last, low), high)
		sum, room, floors, begin = sum+int64(share), room+int64(high), floors+int64(low), begin+int64(start)
		moved += int64(max(share-start, start-share))
	}
	placed := max(min(int64(total), room), floors)
	if sum != placed || got.Total != sum || got.Unplaced != max(0, int64(total)-room) {
		t.Fatalf("sum %d, unplaced %d, want %d of %d: %+v", sum, got.Unplaced, placed, total, seats)
	}
	if least := max(sum-begin, begin-sum); moved != least {
		t.Fatalf("%d moved, want %d: %v of %+v", moved, least, got.Of, seats)
	}
}

// checkOneStep checks that one more in all is at most one more in one place.
func checkOneStep(t *testing.T, seats []Seat, a, b Shares) {
	t.Helper()
	changed := 0
	for i := range seats {
		switch b.Of[i] - a.Of[i] {
		case 0:
		case 1:
			changed++
		default:
			t.Fatalf("%v becomes %v: %+v", a.Of, b.Of, seats)
		}
	}
	if int64(changed) != b.Total-a.Total || changed > 1 {
		t.Fatalf("%v becomes %v: %+v", a.Of, b.Of, seats)
	}
}

// checkWebster checks the divisor condition: no seat that is not taken comes before one that is.
func checkWebster(t *testing.T, seats []Seat, shares []int32) {
	t.Helper()
	for i := range seats {
		for j := range seats {
			a, b := &seats[i], &seats[j]
			if a.Frozen || b.Frozen || shares[i] >= a.Cap || shares[j] <= min(b.Floor, b.Cap) {
				continue
			}
			if before(a, b, shares[i], shares[j]-1) {
				t.Fatalf("member %d should have one of %d's: %v of %+v", i, j, shares, seats)
			}
		}
	}
}

// Of all ways to share out small totals none moves less, and of those that move as little none but ties fulfils
// Webster's condition for what is added or taken.
func TestSplitIsTheBestOfAll(t *testing.T) {
	r, ways := newRandom(4), 0
	for c := range 4_000 {
		seats := r.seats(r.between(2, 4), 8)
		for i := range seats {
			seats[i].Cap = min(seats[i].Cap, 12)
		}
		total := int32(r.between(1, 12))
		got := Split(seats, total, 0)
		best, bestMoved := "", int64(math.MaxInt64)
		walk(seats, nil, func(shares []int32) {
			moved, sum := int64(0), int64(0)
			for i := range seats {
				start := min(max(seats[i].Last, min(seats[i].Floor, seats[i].Cap)), seats[i].Cap)
				if seats[i].Frozen {
					start = seats[i].Last
				}
				moved += int64(max(shares[i]-start, start-shares[i]))
				sum += int64(shares[i])
			}
			if sum != got.Total || moved > bestMoved {
				return
			}
			ways++
			if rank := rankOf(seats, shares); moved < bestMoved || rank > best {
				best, bestMoved = rank, moved
			}
		})
		if rank := rankOf(seats, got.Of); rank != best {
			t.Fatalf("case %d: %v of %d has the seats %s, the best %s: %+v", c, got.Of, total, rank, best, seats)
		}
	}
	if ways < 20_000 {
		t.Errorf("only %d ways", ways)
	}
}

// walk visits all shares within the bounds.
func walk(seats []Seat, shares []int32, visit func([]int32)) {
	i := len(shares)
	if i == len(seats) {
		visit(shares)
		return
	}
	low, high := min(seats[i].Floor, seats[i].Cap), seats[i].Cap
	if seats[i].Frozen {
		low, high = seats[i].Last, seats[i].Last
	}
	for share := low; share <= high; share++ {
		walk(seats, append(shares[:i:i], share), visit)
	}
}

// rankOf is a text that is the greater the larger the keys of the seats taken are, beginning with the smallest.
func rankOf(seats []Seat, shares []int32) string {
	var keys []float64
	for i := range seats {
		if seats[i].Frozen {
			continue
		}
		for s := min(seats[i].Floor, seats[i].Cap); s < shares[i]; s++ {
			keys = append(keys, float64(seats[i].Weight)/float64(2*s+1))
		}
	}
	slices.Sort(keys)
	return fmt.Sprintf("%016.9f", keys)
}

func TestSurviveOneIsTheSmallestThatSurvives(t *testing.T) {
	r := newRandom(5)
	for c := range 5_000 {
		seats, total := r.seats(r.between(2, 6), 30), int32(r.between(1, 40))
		got, missing := SplitSurviving(seats, total, 200, 0)
		surviving := func(shares []int32) int32 {
			sum, largest := int32(0), int32(0)
			for _, s := range shares {
				sum, largest = sum+s, max(largest, s)
			}
			return sum - largest
		}
		if missing != max(0, total-surviving(got.Of)) {
			t.Fatalf("case %d: %d missing of %v for %d", c, missing, got.Of, total)
		}
		for sum := total; sum <= 200; sum++ {
			shares, _ := oneByOne(seats, sum)
			if surviving(shares) >= total {
				if !slices.Equal(shares, got.Of) {
					t.Fatalf("case %d: %v for %d, the first that survives is %v: %+v", c, got.Of, total, shares, seats)
				}
				break
			} else if missing == 0 && slices.Equal(shares, got.Of) {
				t.Fatalf("case %d: %v does not survive: %+v", c, got.Of, seats)
			}
		}
	}
}

// remaining is how many remain without the largest share.
func remaining(shares []int32) (sum int64) {
	for _, share := range shares {
		sum += int64(share)
	}
	return sum - int64(slices.Max(shares))
}

// Where the loss of the largest can't be survived, and the others are full, it has no more than that of another one
// needs; alone it has the plain share.
func TestNobodyGrowsToSurviveItself(t *testing.T) {
	r := newRandom(7)
	alone, short := 0, 0
	for c := range 5_000 {
		const most = 200
		seats, total := r.seats(r.between(2, 6), 30), int32(r.between(1, 40))
		if only := r.IntN(2 * len(seats)); only < len(seats) { // the others are drained or away
			for i := range seats {
				if i == only {
					seats[i].Weight, seats[i].Frozen, seats[i].Cap = max(1, seats[i].Weight), false, most
				} else if seats[i].Last = 0; r.chance(50) {
					seats[i].Weight, seats[i].Keeps = 0, 0
				} else {
					seats[i].Frozen = true
				}
			}
		}
		got, missing := SplitSurviving(seats, total, most, 0)
		if missing == 0 {
			continue
		}
		if missing == total {
			alone++
			if plain := Split(seats, total, 0); !slices.Equal(plain.Of, got.Of) {
				t.Fatalf("case %d: %v for %d, plainly %v: %+v", c, got.Of, total, plain.Of, seats)
			}
			continue
		}
		short++
		largest := slices.Index(got.Of, slices.Max(got.Of))
		if seats[largest].Frozen || int64(got.Of[largest]) <= int64(max(seats[largest].Floor, seats[largest].Keeps)) || got.Total <= int64(total) {
			continue
		}
		rest, second := got.Total, int32(0)
		for i, share := range got.Of {
			if i != largest {
				second = max(second, share)
			}
		}
		if less := Split(seats, int32(got.Total-1), 0); remaining(less.Of) < remaining(got.Of) {
			continue // what the last one brought remains without the largest
		}
		if rest -= int64(second); rest > int64(total) {
			t.Fatalf("case %d: %v, of which %d remain without the second, for %d: %+v", c, got.Of, rest, total, seats)
		}
	}
	if alone < 500 || short < 100 {
		t.Errorf("%d cases of one alone, %d of others: too few", alone, short)
	}
}

func TestSplitIsBounded(t *testing.T) {
	seats := newRandom(6).seats(MaxMembers, 300)
	for i := range seats {
		seats[i].Cap, seats[i].Last, seats[i].Frozen = math.MaxInt32, 0, false
	}
	got := Split(seats, math.MaxInt32, 0)
	if got.Total != math.MaxInt32 {
		t.Errorf("%d of %d", got.Total, math.MaxInt32)
	}
	checkWebster(t, seats, got.Of)
	follow(seats, got.Of)
	less := Split(seats, 10_000, 0)
	for i := range seats {
		seats[i].Last = 0
	}
	if direct := Split(seats, 10_000, 0); !slices.Equal(direct.Of, less.Of) {
		t.Errorf("%v, from above %v", direct.Of, less.Of)
	}
	if want, _ := oneByOne(seats, 10_000); !slices.Equal(want, less.Of) {
		t.Errorf("%v, one by one %v", less.Of, want)
	}
	// Nor does it cost more where drained members have them: one by one this takes minutes.
	for i := range seats {
		if seats[i].Last = 1_000; i > 0 {
			seats[i].Weight, seats[i].Last = 0, math.MaxInt32/MaxMembers
		}
	}
	drained := Split(seats, math.MaxInt32/2, 0)
	if least, most := slices.Min(drained.Of[1:]), slices.Max(drained.Of); drained.Unplaced != 0 || most-least > 1 || drained.Of[0] != 1_000 {
		t.Errorf("%d to %d each, %d unplaced", least, most, drained.Unplaced)
	}
}
