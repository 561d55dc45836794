package simulation

import "math"

// mul returns x·y, rounded separately. Go may fuse x*y+z on some processors; an
// explicit conversion forbids that. Every product of floats in this package uses mul.
func mul(x, y float64) float64 { return float64(x * y) }

// half returns x/2, which compilers turn into a product.
func half(x float64) float64 { return float64(x / 2) }

const (
	ln2High = 6.93147180369123816490e-01
	ln2Low  = 1.90821492927058770002e-10
)

// exp returns e to the power of x. It is slower than math.Exp, which is assembly on some
// processors and may differ in the last bit.
func exp(x float64) float64 {
	k := math.Floor(mul(x, 1/math.Ln2) + 0.5)
	r := x - mul(k, ln2High) - mul(k, ln2Low)
	sum, term := 1.0, 1.0
	for i := 1; i <= 18; i++ {
		term = mul(term, r) / float64(i)
		sum += term
	}
	return math.Ldexp(sum, int(k))
}

// log returns the natural logarithm of x > 0.
func log(x float64) float64 {
	fraction, exponent := math.Frexp(x)
	if fraction < math.Sqrt2/2 {
		fraction, exponent = mul(fraction, 2), exponent-1
	}
	s := (fraction - 1) / (fraction + 1)
	square := mul(s, s)
	sum, term := 0.0, s
	for i := 1; i < 48; i += 2 {
		sum += term / float64(i)
		term = mul(term, square)
	}
	return mul(2, sum) + mul(float64(exponent), math.Ln2)
}

// cosine returns the cosine of an angle in turns.
func cosine(turns float64) float64 {
	turns -= math.Floor(turns)
	if turns > 0.5 {
		turns = 1 - turns
	}
	if turns > 0.25 {
		return -cosine(0.5 - turns)
	}
	angle := mul(turns, 2*math.Pi)
	square := mul(angle, angle)
	sum, term := 1.0, 1.0
	for i := 1; i <= 12; i++ {
		term = -mul(term, square) / float64(2*i*(2*i-1))
		sum += term
	}
	return sum
}

// stream separates the random numbers of one purpose from those of another.
type stream uint64

const (
	startupStream stream = iota + 1
	weightStream
	identityStream
	noiseStream
	victimStream
	memberStream
)

// mix is a step of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// draw returns random bits for the index'th draw of a purpose. They depend on nothing
// else, so that two runs that differ in one thing draw the same for everything else.
func draw(seed uint64, s stream, index uint64) uint64 {
	return mix(mix(mix(seed)^uint64(s)) ^ index)
}

// uniform returns a number in [0, 1).
func uniform(seed uint64, s stream, index uint64) float64 {
	return mul(float64(draw(seed, s, index)>>11), 1.0/(1<<53))
}

// normal returns a number of mean 0 and variance 1: the sum of twelve uniform ones. It has
// no tail beyond 6.
func normal(seed uint64, s stream, index uint64) float64 {
	sum := -6.0
	for i := range uint64(12) {
		sum += uniform(seed, s, 12*index+i)
	}
	return sum
}

// milli returns milli-units as an API reports them: rounded to nano-units, which removes
// the noise of floating point, then up to milli-units as upstream reads quantities.
func milli(x float64) int64 {
	const most = 1 << 53
	rounded := math.Ceil(math.Round(mul(x, 1e6)) / 1e6)
	return int64(min(max(rounded, -most), most))
}
