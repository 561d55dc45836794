//go:build !race

package testlength

// RaceDetector reports whether the program is built with the race detector.
const RaceDetector = false
