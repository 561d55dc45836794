package generate

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// random is the source of all choices of one scenario.
type random struct{ *rand.Rand }

// newRandom returns the random source of a seed for a version. Versions use different
// sources for the same seed, so that together they cover more.
func newRandom(seed uint64, version string) random {
	h := fnv.New64a()
	_, _ = h.Write([]byte(version))
	return random{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// chance is true with a probability of [0, 1].
func (r random) chance(probability float64) bool { return r.Float64() < probability }

// between returns a number of [low, high].
func (r random) between(low, high int) int { return low + r.IntN(high-low+1) }

// real returns a number of [low, high).
func (r random) real(low, high float64) float64 { return low + r.Float64()*(high-low) }

// seconds returns whole seconds of [low, high].
func (r random) seconds(low, high int) time.Duration {
	return time.Duration(r.between(low, high)) * time.Second
}

// oneOf returns one of values, each as likely as the others.
func oneOf[T any](r random, values ...T) T { return values[r.IntN(len(values))] }

// weighted is a choice with its relative frequency.
type weighted[T any] struct {
	weight float64
	value  T
}

func pick[T any](r random, choices []weighted[T]) T {
	var total float64
	for _, c := range choices {
		total += c.weight
	}
	at := r.Float64() * total
	for _, c := range choices {
		if at -= c.weight; at < 0 {
			return c.value
		}
	}
	return choices[len(choices)-1].value
}

// some returns a few of values, at least one, in their order.
func some[T any](r random, values []T) []T {
	var out []T
	for _, v := range values {
		if r.chance(0.5) {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		out = append(out, oneOf(r, values...))
	}
	return out
}
