package fleet

import "math"

// Seat is a member as the split sees it. Members are in the order of their names.
type Seat struct {
	// Weight is 0 to MaxWeight; a member of weight 0 gains nothing and is emptied.
	Weight int32
	// Floor and Cap bound the share; where they contradict each other, Cap counts.
	Floor, Cap int32
	// Keeps is a floor that holds at weight 0 and at a total of 0, too: the member would not go below it.
	Keeps int32
	// Last is the last share. A member that has none begins at its floor: Last 0.
	Last int32
	// Ready is how many replicas of it are ready: moves wait for those that are not.
	Ready int32
	// Frozen keeps the share as it is; no replica is moved to or from one that Waits.
	Frozen, Waits bool
}

// Shares is a total that is shared out.
type Shares struct {
	// Of are the shares, by index of the seats.
	Of []int32
	// Total is their sum, and Unplaced what no member could take.
	Total, Unplaced int64
}

// Split shares out a total by Webster's method, beginning at the last shares: what is added goes to the
// member with the largest weight/(2·share+1), what is taken comes from the one with the smallest
// weight/(2·share−1). So a total that grows or shrinks by one changes one share by one. From shares that the
// method itself made, the result is that of a split from nothing, whatever was between.
//
// Then at most moves replicas are moved towards that split, and from members of weight 0 at least one.
// Moves in excess of replicas that are not ready yet wait.
//
// Frozen members are subtracted first. Where the floors of the others add up to more than remains, they
// have these.
func Split(seats []Seat, total, moves int32) Shares { return new(split).share(seats, total, moves) }

func (s *split) share(seats []Seat, total, moves int32) Shares {
	s.begins(seats)
	s.to(total)
	s.drain(moves)
	s.rebalance(moves)
	return s.result(total)
}

// SplitSurviving shares out so many replicas, at most most, that total remain without the member that has
// the largest share. missing is how many fewer remain where most, the members' caps or the want of a second member
// are in the way. Then there are no more than bring that many, and of the largest no more than the loss of any other one
// needs: more would help nobody.
func SplitSurviving(seats []Seat, total, most, moves int32) (shares Shares, missing int32) {
	return new(split).shareSurviving(seats, total, most, moves)
}

func (s *split) shareSurviving(seats []Seat, total, most, moves int32) (shares Shares, missing int32) {
	s.begins(seats)
	missing = s.surviveOne(total, most)
	s.drain(moves)
	s.rebalance(moves)
	if s.surviving(-1) < int64(total-missing) { // the largest has gained what the others lost
		s.restart()
		s.surviveOne(total, most)
	}
	return s.result(total), int32(max(0, int64(total)-s.surviving(-1))) // a move may have brought what was missing
}

// surviveOne sets the shares of SplitSurviving before replicas move.
func (s *split) surviveOne(total, most int32) (missing int32) {
	only := s.only()
	s.survive(total, total, most, only)
	missing = int32(max(0, int64(total)-s.surviving(-1)))
	if missing > 0 && only < 0 {
		for i := range s.shares {
			if only < 0 || s.shares[i] > s.shares[only] {
				only = i
			}
		}
		s.survive(total-missing, total, most, -1)
		least := int32(s.sum())
		if s.survive(total, total, most, only); s.sum() < int64(least) {
			s.to(least)
		}
	}
	return missing
}

// restart makes the shares those at which the split begins.
func (s *split) restart() {
	s.begin = 0
	for i := range s.seats {
		if s.seats[i].Frozen {
			continue
		}
		s.start[i] = s.shares[i]
		s.begin += int64(s.shares[i])
		if s.seats[i].Weight == 0 {
			s.high[i] = s.shares[i] // it gains nothing
		}
	}
}

// survive sets the smallest shares, of total or more, of which as many as needed remain without the largest one of the
// others than the given member.
func (s *split) survive(needed, total, most int32, but int) {
	// The smallest sum that suffices: what remains grows with it, by at most as much as the sum does.
	low, high := int64(total), int64(max(total, most))
	guess, last := s.begin+s.frozen, int64(-1) // most probably again
	s.least = zeros(s.least, len(s.seats))
	least, suffices := s.least, int64(-1)
	for try := 0; low < high; try++ {
		if try >= mostGuesses { // the last ones were short by little
			guess = low + min(1<<min(try-mostGuesses, 32), (high-low)/2)
		}
		middle := min(max(guess, low), high-1)
		s.to(int32(middle))
		has := s.surviving(but)
		if has >= int64(needed) {
			if high = max(low, middle-(has-int64(needed))); high == middle {
				copy(least, s.shares)
				suffices = middle
			}
		} else {
			low = min(high, middle+(int64(needed)-has))
		}
		guess, last = middle*int64(needed)/max(1, has), middle
	}
	switch low {
	case last:
	case suffices:
		copy(s.shares, least)
	default:
		s.to(int32(low))
	}
}

// sum is that of the shares.
func (s *split) sum() (sum int64) {
	for _, share := range s.shares {
		sum += int64(share)
	}
	return sum
}

// only is the only member that takes part and is not frozen; -1: there are others, or none.
func (s *split) only() int {
	only := -1
	for i := range s.seats {
		switch {
		case s.seats[i].Frozen || s.seats[i].Weight == 0:
		case only >= 0:
			return -1
		default:
			only = i
		}
	}
	return only
}

// mostGuesses is how many guesses are made in proportion to what the last one gave; then steps double, up to half the range.
const mostGuesses = 4

// split is a split in the making.
type split struct {
	seats []Seat
	// low and high bound the shares, start is where these begin; frozen members have none of them.
	low, high, start []int32
	// shares are those of all members.
	shares []int32
	// frozen is the sum of the frozen shares, begin that of start.
	frozen, begin int64
	// bounds are low, high and start; least are the smallest shares that sufficed so far.
	bounds, least []int32
}

// begins begins with seats, in the memory of the split before.
func (s *split) begins(seats []Seat) {
	n := len(seats)
	bounds := zeros(s.bounds, 3*n)
	*s = split{seats: seats, bounds: bounds, low: bounds[:n], high: bounds[n : 2*n], start: bounds[2*n:], shares: zeros(s.shares, n), least: s.least}
	for i := range seats {
		seat := &seats[i]
		switch {
		case seat.Frozen:
			s.shares[i] = seat.Last
			s.frozen += int64(seat.Last)
			continue
		case seat.Weight == 0:
			s.high[i] = max(0, seat.Last) // it gains nothing
			s.low[i] = s.keeps(i)
		default:
			s.high[i] = max(0, seat.Cap)
			s.low[i] = max(min(seat.Floor, s.high[i]), s.keeps(i))
		}
		s.start[i] = min(max(seat.Last, s.low[i]), s.high[i])
		s.begin += int64(s.start[i])
	}
}

// bottom is the smallest sum that seats can have, of a count above 0.
func (s *split) bottom(seats []Seat) int32 {
	s.begins(seats)
	sum := s.frozen
	for _, low := range s.low { // of frozen ones 0
		sum += int64(low)
	}
	return int32(min(sum, math.MaxInt32))
}

// keeps is below what a member does not go, as far as it may have that many.
func (s *split) keeps(i int) int32 { return max(0, min(s.seats[i].Keeps, s.high[i])) }

// to sets the shares for a total.
func (s *split) to(total int32) {
	rest := max(0, int64(total)-s.frozen)
	if rest >= s.begin {
		s.apportion(s.start, s.high, rest)
		return
	}
	low := s.low
	if total == 0 { // floors are for workloads that run
		low = make([]int32, len(s.low))
		for i := range low {
			low[i] = s.keeps(i)
		}
	}
	s.apportion(low, s.start, rest)
}

// apportion sets the shares of members that aren't frozen to a sum, within bounds: those bounds' nearest
// sum, if it is not within them. Each replica of a member is a seat with the key weight/(2·index+1), and the
// seats with the largest keys are taken; of equal ones that with the lower index, then the first member's.
// So this is the result of adding one after the other, and that of taking away one after the other.
func (s *split) apportion(low, high []int32, sum int64) {
	has, most := int64(0), int64(0)
	for i := range s.seats {
		if !s.seats[i].Frozen {
			s.shares[i] = low[i]
			has, most = has+int64(low[i]), most+int64(high[i])
		}
	}
	few := int64(len(s.seats))
	switch {
	case sum-has <= few:
	case most-sum <= few:
		s.takeAway(low, high, most-sum)
		return
	default:
		has = s.jump(low, high, sum)
	}
	for ; has < sum; has++ {
		best := -1
		for i := range s.seats {
			if !s.seats[i].Frozen && s.shares[i] < high[i] && (best < 0 || s.before(i, best)) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		s.shares[best]++
	}
}

// takeAway sets the shares to their upper bounds less so many replicas.
func (s *split) takeAway(low, high []int32, n int64) {
	for i := range s.seats {
		if !s.seats[i].Frozen {
			s.shares[i] = high[i]
		}
	}
	for ; n > 0; n-- {
		last := -1
		for i := range s.seats {
			if !s.seats[i].Frozen && s.shares[i] > low[i] && (last < 0 || s.losesBefore(i, last)) {
				last = i
			}
		}
		s.shares[last]--
	}
}

// before reports whether the next seat of member i comes before that of j, which comes before i.
func (s *split) before(i, j int) bool {
	a, b := int64(s.seats[i].Weight)*(2*int64(s.shares[j])+1), int64(s.seats[j].Weight)*(2*int64(s.shares[i])+1)
	return a > b || a == b && s.shares[i] < s.shares[j]
}

// jump sets the shares to all seats whose key is at least some threshold, with which the sum is not exceeded; at most as
// many seats as there are members are missing then. It returns their sum.
func (s *split) jump(low, high []int32, sum int64) int64 {
	few, all := int64(len(s.seats)), int64(0)
	for i := range s.seats {
		if !s.seats[i].Frozen {
			all += int64(s.seats[i].Weight)
		}
	}
	// A threshold is MaxWeight/m. From m to m+1 no member gains more than one seat. With last every member that has a
	// weight has the sum or its bound; the seats of the others, whose keys are 0, follow one by one.
	last := MaxWeight * (2*min(sum, math.MaxInt32) + 3)
	take := func(m int64) (has, free int64) {
		for i := range s.seats {
			if s.seats[i].Frozen {
				continue
			}
			weight, seats := int64(s.seats[i].Weight), max(0, m-last)
			if weight > 0 {
				seats = (weight*m/MaxWeight + 1) / 2
			}
			share := min(max(seats, int64(low[i])), int64(high[i]))
			if share == seats {
				free += weight
			}
			s.shares[i] = int32(share)
			has += share
		}
		return has, free
	}
	first, most := int64(0), last+min(sum, math.MaxInt32)
	guess := (sum - few/2) * 2 * MaxWeight / max(1, all)
	for try := 0; first < most; try++ {
		middle := first + (most-first+1)/2
		if try < mostGuesses {
			middle = min(max(guess, first+1), most)
		}
		has, free := take(middle)
		switch {
		case has > sum:
			most = middle - 1
		case sum-has <= few:
			return has
		default:
			first = middle
		}
		guess = middle + (sum-few/2-has)*2*MaxWeight/max(1, free)
	}
	has, _ := take(first)
	return has
}

// surviving is what remains without the largest share of the others than the given member; -1: of all.
func (s *split) surviving(but int) int64 {
	sum, largest := int64(0), int32(0)
	for i, share := range s.shares {
		if sum += int64(share); i != but {
			largest = max(largest, share)
		}
	}
	return sum - int64(largest)
}

// inFlight is how many replicas of members that take part are not ready yet.
func (s *split) inFlight() (n int64) {
	for i := range s.seats {
		if !s.seats[i].Frozen && s.seats[i].Weight > 0 {
			n += int64(max(0, s.shares[i]-s.seats[i].Ready))
		}
	}
	return n
}

// drain moves replicas from members of weight 0.
func (s *split) drain(moves int32) {
	drained := int64(0)
	for i := range s.seats {
		if !s.seats[i].Frozen && s.seats[i].Weight == 0 {
			drained += int64(s.shares[i] - s.low[i])
		}
	}
	for n := min(int64(max(1, moves))-s.inFlight(), drained); n > 0; n-- {
		if !s.move(func(i int) bool { return s.seats[i].Weight == 0 && s.shares[i] > s.low[i] },
			func(i int) bool { return s.seats[i].Weight > 0 && s.shares[i] < s.high[i] }) {
			return
		}
	}
}

// rebalance moves replicas towards the split from nothing.
func (s *split) rebalance(moves int32) {
	n := int64(moves) - s.inFlight()
	if n <= 0 {
		return
	}
	ideal := split{seats: s.seats, shares: make([]int32, len(s.shares))}
	ideal.apportion(s.low, s.high, s.sum()-s.frozen)
	for ; n > 0; n-- {
		if !s.move(func(i int) bool { return s.shares[i] > ideal.shares[i] }, func(i int) bool { return s.shares[i] < ideal.shares[i] }) {
			return
		}
	}
}

// move moves one replica from the giver that should lose one first to the taker that should gain one
// first. It reports whether there are both.
func (s *split) move(gives, takes func(i int) bool) bool {
	giver, taker := -1, -1
	for i := range s.seats {
		switch {
		case s.seats[i].Frozen || s.seats[i].Waits:
		case gives(i):
			if giver < 0 || s.losesBefore(i, giver) {
				giver = i
			}
		case takes(i):
			if taker < 0 || s.before(i, taker) {
				taker = i
			}
		}
	}
	if giver < 0 || taker < 0 {
		return false
	}
	s.shares[giver]--
	s.shares[taker]++
	return true
}

// losesBefore reports whether the last seat of i goes before that of j, which comes before i.
func (s *split) losesBefore(i, j int) bool {
	a, b := int64(s.seats[i].Weight)*(2*int64(s.shares[j])-1), int64(s.seats[j].Weight)*(2*int64(s.shares[i])-1)
	return a < b || a == b && s.shares[i] >= s.shares[j]
}

func (s *split) result(total int32) Shares {
	sum := s.sum()
	return Shares{Of: s.shares, Total: sum, Unplaced: max(0, int64(total)-sum)}
}
