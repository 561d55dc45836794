package report

import "math"

// Exponent returns b of y = a·x^b, fitted to the points by least squares of logarithms:
// 1 is linear. All values must be positive and there must be two different x.
func Exponent(x, y []float64) float64 {
	var sumX, sumY, sumXX, sumXY float64
	for i := range x {
		lx, ly := math.Log(x[i]), math.Log(y[i])
		sumX, sumY, sumXX, sumXY = sumX+lx, sumY+ly, sumXX+lx*lx, sumXY+lx*ly
	}
	n := float64(len(x))
	return (n*sumXY - sumX*sumY) / (n*sumXX - sumX*sumX)
}
