package decisionlog

import (
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// repeatsPeriod is the usual interval between calls for a target.
const repeatsPeriod = 15 * time.Second

// maxRepeating limits the namespaces that are counted apart; all others count as one.
const maxRepeating = 4096

// repeatsRoom decides whether unchanged decisions of a namespace are logged: all of them, or none
// if there are too many. A sample of them would be useless, and with many targets would fill the
// store in the course of a day. If all namespaces together have too many, those with the most are
// left out.
type repeatsRoom struct {
	// most is the maximum number in a period. In the first period of a burst there may be twice as
	// many.
	most int

	mu    sync.Mutex
	ends  time.Time               // end of the period; guarded by mu
	count int                     // in this period so far; guarded by mu
	share int                     // a namespace that had more in the previous period is left out; guarded by mu
	of    map[repeating]*repeated // guarded by mu
}

type repeating struct{ cluster, namespace string }

// repeated counts the unchanged decisions of a namespace, in this period and the one before.
type repeated struct{ now, before int }

// takes counts one more of the key's namespace and reports whether to log it.
func (r *repeatsRoom) takes(key store.Key, now time.Time) bool {
	if r.most <= 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := now.Sub(r.ends); since >= 0 {
		r.begin(now, since < repeatsPeriod)
	}
	who := repeating{key.Cluster, key.Namespace}
	counts := r.of[who]
	if counts == nil {
		if len(r.of) >= maxRepeating {
			who = repeating{}
			counts = r.of[who]
		}
		if counts == nil {
			counts = new(repeated)
			r.of[who] = counts
		}
	}
	r.count++
	counts.now++
	if counts.before > r.share {
		return false
	}
	// Beyond the room of all, as much as each may have in any case.
	return r.count <= r.most || counts.now <= r.most/len(r.of)
}

// begin begins a period, which follows the previous one or a pause.
func (r *repeatsRoom) begin(now time.Time, follows bool) {
	of := make(map[repeating]*repeated, len(r.of))
	var counts []int
	for who, c := range r.of {
		if follows && c.now > 0 {
			of[who] = &repeated{before: c.now}
			counts = append(counts, c.now)
		}
	}
	// The namespaces with the fewest have room first.
	slices.Sort(counts)
	r.share = r.most
	sum := 0
	for _, n := range counts {
		if sum += n; sum > r.most {
			r.share = n - 1
			break
		}
	}
	r.of, r.count, r.ends = of, 0, now.Add(repeatsPeriod)
}
