package simulation

import "time"

// Classes of load by the number of retries. Class 0 is fresh.
type classes [MaxRetries + 1]float64

func (c *classes) sum() float64 {
	sum := 0.0
	for _, v := range c {
		sum += v
	}
	return sum
}

// parcel is waiting load that arrived in one stretch.
type parcel struct {
	at     time.Duration
	volume classes
}

// comeback is load to be retried within one second, if there is any.
type comeback struct {
	volume classes
	any    bool
}

// maxParcels limits the waiting parcels.
const maxParcels = 1 << 17

// service is the load that waits, is retried, or was served or lost.
type service struct {
	queue Queue
	retry Retries
	// waiting parcels, oldest first, from head on; queued is their volume.
	waiting []parcel
	head    int
	queued  float64
	// grain is the stretch of time whose parcels are merged, 0: none.
	grain time.Duration
	// returning has the retries of each second, in a ring; inFlight is their total volume,
	// and comebacks the number of seconds with any.
	returning []comeback
	comebacks int
	// waited is what of each second's retries has waited in the queue before; nil without a queue.
	waited   []classes
	inFlight float64

	// offered, served and lost are volumes since the start: lost for good, and late for
	// what had to wait, once however often it is retried.
	offered, served, lost, late float64
	// queueArea and ageArea are the integrals of the queue's volume and of the age of its
	// oldest load, by trapezoids of at most a second.
	queueArea, ageArea float64
}

func newService(w *Workload) service {
	s := service{queue: w.Queue, retry: w.Retries}
	if w.Retries.Count > 0 {
		delay := w.Retries.longest()
		s.returning = make([]comeback, int(delay/time.Second)+3)
		if w.Queue.Size > 0 {
			s.waited = make([]classes, len(s.returning))
		}
	}
	return s
}

// longest is the delay of the last retry.
func (r *Retries) longest() time.Duration { return r.delay(max(0, r.Count-1)) }

// delay before load is retried that was retried that many times.
func (r *Retries) delay(times int) time.Duration {
	delay := float64(r.Delay)
	for range times {
		delay = mul(delay, max(1, r.Factor))
	}
	return time.Duration(min(delay, float64(2*MaxRetryDelay)))
}

// busy reports whether volumes depend on more than the current rates: then stretches of time
// are at most a second.
func (s *service) busy() bool { return s.queued > 0 || s.comebacks > 0 }

// backRate is the rate of retries in the second that contains or starts at an instant.
func (s *service) backRate(at time.Duration) float64 {
	if s.comebacks == 0 {
		return 0
	}
	left := (time.Second - at%time.Second).Seconds()
	return s.returning[int(at/time.Second)%len(s.returning)].volume.sum() / left
}

// age is how long the oldest load has waited, in seconds.
func (s *service) age(now time.Duration) float64 {
	if s.head == len(s.waiting) {
		return 0
	}
	return (now - s.waiting[s.head].at).Seconds()
}

// advance lets load arrive, be served, wait and be lost from one instant to another,
// while the capacity is constant and not crossed by the rate. fresh is the volume of new
// load, and room what can be served meanwhile. It returns the served volume.
func (s *service) advance(from, to time.Duration, fresh, room float64) float64 {
	s.offered += fresh
	if s.queued == 0 && s.comebacks == 0 && fresh <= room {
		s.served += fresh
		return fresh
	}
	seconds := (to - from).Seconds()
	before, ageBefore := s.queued, s.age(from)
	arriving, waited := classes{fresh}, classes{}
	if s.comebacks > 0 {
		s.arrive(&arriving, &waited, from, to, seconds)
	}
	served := s.serveWaiting(room)
	total := arriving.sum()
	direct := min(total, room-served)
	if total > 0 {
		keep := (total - direct) / total
		for k := range arriving {
			arriving[k], waited[k] = mul(arriving[k], keep), mul(waited[k], keep)
		}
		served += direct
	}
	s.served += served
	if rest := arriving.sum(); rest > 0 {
		s.wait(&arriving, &waited, rest, from, to)
	}
	s.expire(from, to)
	s.queueArea += half(mul(before+s.queued, seconds))
	s.ageArea += half(mul(ageBefore+s.age(to), seconds))
	return served
}

// arrive adds the retries within a second, which the stretch must not leave.
func (s *service) arrive(arriving, waited *classes, from, to time.Duration, seconds float64) {
	second := int(from/time.Second) % len(s.returning)
	back := &s.returning[second]
	if !back.any {
		return
	}
	slot := &back.volume
	last := to%time.Second == 0
	// The rest of the slot arrives evenly over the rest of its second.
	left := (time.Second - from%time.Second).Seconds()
	for k := range slot {
		part := slot[k]
		if !last {
			part = mul(slot[k], seconds/left)
		}
		slot[k] -= part
		s.inFlight -= part
		arriving[k] += part
		if s.waited == nil {
			continue
		}
		before := s.waited[second][k]
		if !last {
			before = mul(before, seconds/left)
		}
		s.waited[second][k] -= before
		waited[k] += before
	}
	if last {
		back.any = false
		s.comebacks--
	}
	if s.comebacks == 0 {
		s.inFlight = 0 // drop rounding errors
	}
}

// serveWaiting serves the oldest load first.
func (s *service) serveWaiting(room float64) (served float64) {
	for s.head < len(s.waiting) && served < room {
		p := &s.waiting[s.head]
		volume := p.volume.sum()
		if volume > room-served {
			part := (room - served) / volume
			for k := range p.volume {
				p.volume[k] -= mul(p.volume[k], part)
			}
			served = room
			break
		}
		served += volume
		s.head++
	}
	s.taken(served)
	return served
}

// taken removes a volume from the queue's.
func (s *service) taken(volume float64) {
	s.queued = max(0, s.queued-volume)
	if s.head == len(s.waiting) {
		s.waiting, s.head, s.queued, s.grain = s.waiting[:0], 0, 0, 0
		return
	}
	if s.head > 1024 && s.head > len(s.waiting)/2 {
		s.waiting = s.waiting[:copy(s.waiting, s.waiting[s.head:])]
		s.head = 0
	}
}

// wait queues as much as fits, and loses the rest. waited is what of the arriving load has waited before.
func (s *service) wait(arriving, waited *classes, volume float64, from, to time.Duration) {
	free := max(0, s.queue.Size-s.queued)
	if volume > free {
		part := (volume - free) / volume
		var over, overWaited classes
		for k := range arriving {
			over[k], overWaited[k] = mul(arriving[k], part), mul(waited[k], part)
			arriving[k] -= over[k]
			waited[k] -= overWaited[k]
		}
		s.lose(&over, &overWaited, from)
		volume = free
	}
	if volume > 0 {
		s.queueUp(parcel{to, *arriving})
		s.queued += volume
		s.late += max(0, volume-waited.sum())
	}
}

// queueUp appends a parcel to the queue.
func (s *service) queueUp(p parcel) {
	if last := len(s.waiting) - 1; s.grain > 0 && last >= s.head && s.grainOf(s.waiting[last].at) == s.grainOf(p.at) {
		s.waiting[last].take(p)
		return
	}
	s.waiting = append(s.waiting, p)
	if len(s.waiting)-s.head > maxParcels {
		s.coarsen()
	}
}

// coarsen halves the number of waiting parcels by merging those of one grain of time. Their
// age is then exact to a part in 65,000 of the queue's time span.
func (s *service) coarsen() {
	waiting := s.waiting[s.head:]
	s.grain = max(2*s.grain, 2*(waiting[len(waiting)-1].at-waiting[0].at)/maxParcels, 1)
	n := 1
	for _, p := range waiting[1:] {
		if s.grainOf(waiting[n-1].at) == s.grainOf(p.at) {
			waiting[n-1].take(p)
			continue
		}
		waiting[n] = p
		n++
	}
	s.waiting, s.head = s.waiting[:copy(s.waiting, waiting[:n])], 0
}

// grainOf is the grain that an instant ends or is in.
func (s *service) grainOf(at time.Duration) time.Duration { return (at - 1) / s.grain }

// take merges a later parcel, which arrived up to then.
func (p *parcel) take(later parcel) {
	p.at = later.at
	for k, v := range later.volume {
		p.volume[k] += v
	}
}

// expire loses load that has waited too long.
func (s *service) expire(from, to time.Duration) {
	if s.queue.Timeout == 0 {
		return
	}
	for s.head < len(s.waiting) && s.waiting[s.head].at+s.queue.Timeout <= to {
		p := s.waiting[s.head]
		s.head++
		s.taken(p.volume.sum())
		s.lose(&p.volume, &p.volume, from)
	}
}

// lose loses load in a stretch of at most a second, and schedules its retries in the second
// given by the stretch's beginning and the delay. waited is what of it has waited.
func (s *service) lose(volume, waited *classes, from time.Duration) {
	for k, v := range volume {
		switch {
		case v == 0:
		case k >= s.retry.Count:
			s.lost += v
		default:
			second := int((from+s.retry.delay(k))/time.Second) % len(s.returning)
			back := &s.returning[second]
			if !back.any {
				back.any = true
				s.comebacks++
			}
			back.volume[k+1] += v
			if s.waited != nil {
				s.waited[second][k+1] += waited[k]
			}
			s.inFlight += v
		}
	}
}

// totalCapacity is what the serving pods can serve together, units per second.
func (w *world) totalCapacity() float64 {
	if len(w.serving) == 0 {
		return 0
	}
	return mul(float64(len(w.serving)), w.podCapacity)
}

// share distributes a served volume to the pods: by their weights, and the excess over a
// pod's capacity to the others.
func (w *world) share(volume, seconds float64) {
	if len(w.serving) == 0 || volume == 0 {
		return
	}
	if w.scenario.Workload.Imbalance == 0 {
		each := volume / float64(len(w.serving))
		for _, p := range w.serving {
			p.served += each
		}
		return
	}
	room := mul(w.podCapacity, seconds)
	rest, weights := volume, 0.0
	w.open = append(w.open[:0], w.serving...)
	open := w.open
	for _, p := range open {
		weights += p.weight
	}
	for len(open) > 0 {
		per := rest / weights
		n := 0
		filled, filledWeights := 0.0, 0.0
		for _, p := range open {
			if mul(p.weight, per) < room {
				open[n] = p
				n++
				continue
			}
			p.served += room
			filled += room
			filledWeights += p.weight
		}
		if n == len(open) {
			for _, p := range open {
				p.served += mul(p.weight, per)
			}
			break
		}
		open, rest, weights = open[:n], max(0, rest-filled), weights-filledWeights
	}
}
