package cluster

import (
	"sync"
	"time"
)

const (
	// narrowFor is how long lists of a whole namespace are not tried again after
	// they were of no use.
	narrowFor = 10 * time.Minute
	// crowdAge is how long a crowd is remembered that nobody belongs to any more:
	// longer than any autoscaler pauses.
	crowdAge = 2 * time.Hour
)

// crowds tell which readings so many autoscalers ask for at the same moment that
// one list of the whole namespace is less than one list for each.
type crowds struct {
	mu sync.Mutex
	// maxAge is how long a moment is: as long as answers are shared. Guarded by mu.
	maxAge time.Duration
	// crowds by reading. Guarded by mu.
	byKey map[string]*crowd
	// swept is when crowds were last forgotten. Guarded by mu.
	swept time.Time
}

// crowd is who asked for one reading.
type crowd struct {
	// began is when the present moment did.
	began time.Time
	// pods of each autoscaler that asked in it, and their sum.
	pods map[autoscalerKey]int
	sum  int
	// before is what the moment before came to: autoscalers wake together round
	// after round, so the first to ask need not wait for the second.
	before gathering
	// narrow until then.
	narrow time.Time
}

// gathering is the size of a crowd.
type gathering struct{ autoscalers, pods int }

func newCrowds(maxAge time.Duration) *crowds {
	return &crowds{maxAge: maxAge, byKey: map[string]*crowd{}, swept: time.Now()}
}

// joins notes that an autoscaler asks for a reading of its pods, and tells whether
// a list of all pods of the namespace, of which there are total, should serve it:
// if two or more ask and their pods are not a small part of all.
func (c *crowds) joins(key string, autoscaler autoscalerKey, pods int, total func() int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.sweep(now)
	crowd := c.byKey[key]
	if crowd == nil {
		crowd = newCrowd(now)
		c.byKey[key] = crowd
	}
	if now.Sub(crowd.began) >= c.maxAge {
		crowd.before = crowd.gathered()
		crowd.began, crowd.pods, crowd.sum = now, map[autoscalerKey]int{}, 0
	}
	crowd.sum += pods - crowd.pods[autoscaler]
	crowd.pods[autoscaler] = pods
	size := crowd.gathered()
	size.autoscalers = max(size.autoscalers, crowd.before.autoscalers)
	size.pods = max(size.pods, crowd.before.pods)
	return size.autoscalers >= 2 && now.After(crowd.narrow) && 4*size.pods >= total()
}

func newCrowd(now time.Time) *crowd {
	return &crowd{began: now, pods: map[autoscalerKey]int{}}
}

// gathered returns the size of the present moment's crowd.
func (c *crowd) gathered() gathering {
	return gathering{autoscalers: len(c.pods), pods: c.sum}
}

// useless notes that a list of the whole namespace does not serve a reading.
func (c *crowds) useless(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if crowd := c.byKey[key]; crowd != nil {
		crowd.narrow = time.Now().Add(narrowFor)
	}
}

// sweep forgets crowds that nobody belongs to any more. c.mu is held.
func (c *crowds) sweep(now time.Time) {
	if now.Sub(c.swept) < crowdAge {
		return
	}
	c.swept = now
	for key, crowd := range c.byKey {
		if now.Sub(crowd.began) >= crowdAge {
			delete(c.byKey, key)
		}
	}
}

// setMaxAge changes how long a moment is.
func (c *crowds) setMaxAge(age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxAge = age
}
