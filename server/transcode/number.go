package transcode

import (
	"math"
	"strconv"
)

// integer parses a whole number without fraction and exponent, with or without quotes.
func (c *cursor) integer(i int) (n int64, after int) {
	if c.at(i) != '"' {
		return c.digits(i)
	}
	if n, i = c.digits(i + 1); i == no || c.at(i) != '"' {
		return 0, no
	}
	return n, i + 1
}

// digits parses a whole number.
func (c *cursor) digits(i int) (n int64, after int) {
	negative := c.at(i) == '-'
	if negative {
		i++
	}
	from := i
	var size uint64
	for ; isDigit(c.at(i)); i++ {
		if size > (math.MaxInt64-9)/10 {
			return 0, no // Nearly too large; left to the slow path.
		}
		size = 10*size + uint64(c.text[i]-'0')
	}
	if i == from || i > from+1 && c.text[from] == '0' {
		return 0, no
	}
	if negative {
		return -int64(size), i
	}
	return int64(size), i
}

func isDigit(b byte) bool { return b-'0' <= 9 }

// isNumber reports whether the first byte is that of a number.
func isNumber(b byte) bool { return isDigit(b) || b == '-' }

// number steps over a number.
func (c *cursor) number(i int) int {
	if c.at(i) == '-' {
		i++
	}
	from := i
	if i = c.run(i); i == no || i > from+1 && c.text[from] == '0' {
		return no
	}
	if c.at(i) == '.' {
		if i = c.run(i + 1); i == no {
			return no
		}
	}
	if c.at(i)|0x20 == 'e' {
		if i++; c.at(i) == '+' || c.at(i) == '-' {
			i++
		}
		return c.run(i)
	}
	return i
}

// run steps over one or more digits.
func (c *cursor) run(i int) int {
	from := i
	for isDigit(c.at(i)) {
		i++
	}
	if i == from {
		return no
	}
	return i
}

// float parses a number, or one of the strings "NaN", "Infinity", "-Infinity".
func (c *cursor) float(i int) (n float64, after int) {
	if c.at(i) == '"' {
		return c.word(i)
	}
	// Whole numbers, such as a window's seconds, are the usual ones.
	if n, end := c.digits(i); end != no && n > 0 && n <= maxExact && !continues(c.at(end)) {
		return float64(n), end
	}
	end := c.number(i)
	if end == no {
		return 0, no
	}
	n, err := strconv.ParseFloat(string(c.text[i:end]), 64)
	if err != nil {
		return 0, no
	}
	return n, end
}

// maxExact is the largest of the whole numbers that a float64 has without a gap.
const maxExact = 1 << 53

// continues reports whether a number goes on with b, after its whole part.
func continues(b byte) bool { return b == '.' || b|0x20 == 'e' }

func (c *cursor) word(i int) (n float64, after int) {
	if after = c.literal(i, `"NaN"`); after != no {
		return math.NaN(), after
	}
	if after = c.literal(i, `"Infinity"`); after != no {
		return math.Inf(1), after
	}
	return math.Inf(-1), c.literal(i, `"-Infinity"`)
}

// appendFloat appends a number as the slow path writes it.
func appendFloat(out []byte, n float64) []byte {
	size := math.Abs(n)
	switch {
	case math.IsNaN(n):
		return append(out, `"NaN"`...)
	case math.IsInf(n, 1):
		return append(out, `"Infinity"`...)
	case math.IsInf(n, -1):
		return append(out, `"-Infinity"`...)
	case size == 0 || size >= 1e-6 && size < 1e21:
		return strconv.AppendFloat(out, n, 'f', -1, 64)
	}
	out = strconv.AppendFloat(out, n, 'e', -1, 64)
	// write e-09 as e-9
	if end := len(out) - 4; string(out[end:end+3]) == "e-0" {
		out[end+2] = out[end+3]
		out = out[:end+3]
	}
	return out
}
