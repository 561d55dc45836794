package wire

import (
	"sync"
	"unsafe"

	"github.com/setpoint-dev/setpoint/recommender"
)

// pools pool requests by the size of the message that they were read from: so requests
// with few pods never keep the memory of one with thousands, and requests with
// thousands find enough.
type pools [len(poolLimits)]sync.Pool

// poolLimits are the largest message sizes of the pools, bytes. Larger messages, with
// more than some 25,000 pods, are left to the garbage collector. The parts of a message
// may take poolFactor times its size: usually they take twice.
var poolLimits = [...]int{16 << 10, 256 << 10, 4 << 20}

const poolFactor = 8

// get returns a request for a message of that size.
func (p *pools) get(size int) *Request {
	for i, limit := range poolLimits {
		if size <= limit {
			if r, ok := p[i].Get().(*Request); ok {
				return r
			}
			break
		}
	}
	return new(Request)
}

// put pools a request that was read from a message of that size, unless it has much
// more memory than such messages need.
func (p *pools) put(r *Request, size int) {
	for i, limit := range poolLimits {
		if size <= limit {
			if r.held() <= poolFactor*limit {
				p[i].Put(r)
			}
			return
		}
	}
}

// held is the approximate memory that is reused, bytes.
func (r *Request) held() int {
	held := r.Memory() + room(r.names) + room(r.found.custom) + room(r.found.external)
	all := r.readings.byMetric[:cap(r.readings.byMetric)]
	for i := range all {
		held += int(unsafe.Sizeof(recommender.Readings{})) + room(all[i].Values)
	}
	return held
}

// room is the memory of a slab, bytes.
func room[T any](slab []T) int {
	var part T
	return cap(slab) * int(unsafe.Sizeof(part))
}
